"""Messages of every type with anything in any field: each is taken or refused with a reason; the view stays whole."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
from drawing import examples
from hypothesis import example, given, settings
from small import star

from datacast.fabric_manager.api import topology
from datacast.fabric_manager.fabric import Fabric
from datacast.fabric_manager.registry import Registry
from datacast.fabric_manager.registry import _Open as Open
from datacast.fabric_manager.told import Registration
from datacast.services import framing
from datacast.services.framing import Decoder

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


def field(*good: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(good) | ANYTHING


NODE = field("h0", "h1", "s")
PORTS = st.lists(st.fixed_dictionaries({"port": field(0, 1)}, optional={"up": field(True, False)}), max_size=3)
MESSAGES = st.one_of(
    st.fixed_dictionaries(
        {"type": st.just("register"), "node": NODE, "kind": field("host", "switch"), "addr": field("10.0.0.1:7600")},
        optional={
            key: field(*good)
            for key, good in {
                "pid": (1, 2), "n": (0, 5), "msd": (3,), "cache": (True,), "proxy": (True,), "control": ("/run/s",),
                "version": ("0.1.0",), "dest_roots": (["/a"],), "source_roots": (["/"],),
            }.items()
        } | {"ports": PORTS | ANYTHING},
    ),
    st.fixed_dictionaries({"type": st.just("link")}, optional={
        "node": NODE, "port": field(0, 1), "up": field(True, False), "n": field(1, 2, 3), "t_ns": field(1)}),
    st.fixed_dictionaries({"type": st.just("away")}, optional={"for_ms": field(0, 1000, 10**9)}),
    st.fixed_dictionaries({"type": field("heartbeat", "goodbye").filter(lambda v: isinstance(v, str))}),
)  # fmt: skip

REGISTER = {"type": "register", "node": "h0", "kind": "host", "addr": "10.0.0.1:7600"}


class Writer:
    """Of asyncio's StreamWriter, what the registry uses."""

    def __init__(self) -> None:
        self.decoder, self.answers = Decoder(), []

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes) -> None:
        self.answers += self.decoder.feed(data)


@pytest.mark.slow
@settings(max_examples=examples(200))
@given(st.lists(st.tuples(st.integers(0, 2), MESSAGES), max_size=12))
@example([(0, REGISTER | {"pid": True})])
@example([(0, REGISTER), (0, {"type": "heartbeat", "t_ns": 10**400})])
def test_every_message_is_taken_or_refused_with_a_reason(script: list[tuple[int, dict[str, Any]]]) -> None:
    fabric, changes = Fabric(star(2)), []
    registry = Registry(fabric, changes.append)
    writers = [Writer() for _ in range(3)]
    registry._open = {session + 1: Open(writer) for session, writer in enumerate(writers)}
    for session, message in script:
        before = len(writers[session].answers)
        registry._handle(message, session + 1, registry._open[session + 1], None)
        answers = writers[session].answers[before:]
        kinds = {"register": {"registered", "error"}, "link": {"ok", "error"}, "heartbeat": {"heard"}}
        kinds = kinds.get(message["type"], {"error"})
        assert {a["type"] for a in answers} <= kinds
        assert answers or message["type"] in ("heartbeat", "away")
        assert all(a["code"] and a["error"] for a in answers if a["type"] == "error")
    for node in fabric.nodes.values():
        assert node.msd is None or (type(node.msd) is int and node.msd > 0)
    assert [topology.read(framing.text(change)) for change in changes] == changes
    for session in range(3):
        fabric.disconnect(session + 1, 1)
    assert fabric.members() == []


@pytest.mark.parametrize(("told", "known"), [(3, 3), (0, None), (-1, None), (True, None), ("3", None)])
def test_a_segment_depth_that_is_no_count_is_not_taken(told: Any, known: int | None) -> None:
    fabric = Fabric(star(2))
    fabric.nodes["s"].msd = None
    fabric.register(
        Registration.read({"type": "register", "node": "s", "kind": "switch", "ports": [], "msd": told}), 1, 1
    )
    assert fabric.nodes["s"].msd == known
