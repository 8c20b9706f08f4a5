"""Messages between masters and members have the forms of docs/signalling.md, after which agents are written, too."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from datacast.fabric_manager.api import GroupOptions, GroupSpec, orders, topology
from datacast.fabric_manager.api.reports import Adopt
from datacast.fabric_manager.fabric import Fabric
from datacast.fabric_manager.told import Registration
from datacast.master import answers, events, requests
from datacast.services import framing
from datacast.topologies import parse

DOC = (Path(__file__).parents[2] / "docs" / "signalling.md").read_text()
OPS = [op for op in vars(requests).values() if isinstance(op, requests.Op)]
PARTS: dict[str, tuple[type[msgspec.Struct], ...]] = {
    "stat": (requests.SourceFile, requests.Destination),
    "open": (requests.Opening, requests.SourcePart, requests.ReceiverPart),
    "assign": (requests.Assign,),
    "cut": (requests.Cut,),
    "digest": (requests.Digest,),
    "reroute": (requests.Reroute, requests.Routes),
    "rates": (requests.Rates,),
    "fetch": (requests.Fetch,),
    "close": (requests.Close,),
}


def names(text: str) -> set[str]:
    return set(re.findall(r"[a-z_0-9]+", " ".join(re.findall(r"`[^`]+`", text))))


def section(title: str) -> str:
    return DOC.partition(f"\n## {title}")[2].partition("\n## ")[0]


def rows(text: str) -> dict[str, str]:
    """Of a table, by its first column."""
    return dict(re.findall(r"^\| `(\w+)` \|(.*)$", text, re.M))


def test_each_operation_is_described_with_what_it_takes() -> None:
    operations = section("Operations")
    said, beside = rows(operations), names(re.sub(r"^\|.*$", "", operations, flags=re.M))
    assert {op.name for op in OPS} == said.keys() - {"node"}, "of `node` masters ask nothing"
    for name, forms in PARTS.items():
        for form in forms:
            missing = set(form.__struct_fields__) - names(said[name]) - beside
            assert not missing, f"{name}: {missing}"


@pytest.mark.parametrize("form", [answers.TreeCounts, answers.StatusAnswer])
def test_each_count_of_a_status_is_described(form: type[msgspec.Struct]) -> None:
    assert set(form.__struct_fields__) - {"ok", "code", "error", "n"} <= names(section("Status results"))


@pytest.mark.parametrize("event", get_args(events.AnyEvent), ids=lambda event: event.__name__)
def test_each_event_is_described_with_its_fields(event: type[msgspec.Struct]) -> None:
    said = rows(section("Events"))
    assert set(event.__struct_fields__) - {"group", "n"} <= names(said[str(event.__struct_config__.tag)])
    assert said.keys() == {each.__struct_config__.tag for each in get_args(events.AnyEvent)}


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (requests.SourceFile("/f"), {"path": "/f"}),
        (requests.Routes({"7": "00"}, [3]), {"routes": {"7": "00"}, "leave": [3]}),
        (requests.SourcePart("/f", [7], wants=[]), {"role": "source", "path": "/f", "roots": [7], "wants": []}),
        (requests.ReceiverPart("/d", {}), {"role": "receiver", "dest": "/d", "routes": {}}),
        (requests.Fetch(leave=[(1, 2)]), {"leave": [[1, 2]]}),
        (requests.Close("why", keep=False, n=4), {"reason": "why", "keep": False, "n": 4}),
        (requests.Rates(4, {"7": None}), {"n": 4, "rates": {"7": None}}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_not_given_is_not_sent_and_what_must_be_there_is(form: msgspec.Struct, text: Any) -> None:
    assert msgspec.json.decode(framing.text(form)) == text


@pytest.mark.parametrize("wrong", [[], {"a": 3}, {"a": None}, {"a": {"ok": "yes"}}, {"a": {"n": -1}}])
def test_an_answer_that_is_none_is_its_member_s_alone(wrong: Any) -> None:
    told = wrong | {"b": {"ok": True, "what": "else"}} if isinstance(wrong, dict) else wrong
    read = requests.PING.answers.read(msgspec.Raw(framing.text(told)))
    assert (read.of("a").ok, read.of("a").code) == (False, "malformed" if wrong else "unreachable")
    assert read.of("b").ok is bool(wrong)


@pytest.mark.parametrize("order", get_args(orders.AnyOrder), ids=lambda order: order.__name__)
def test_each_order_of_a_worker_is_described(order: type[msgspec.Struct]) -> None:
    said, tag = names(section("Workers")), order.__struct_config__.tag
    assert tag in said | {"hello", "ping"}
    if order is not orders.StartOrder:
        assert set(order.__struct_fields__) <= said


def test_an_order_comes_out_as_it_went_in_and_what_is_none_is_refused() -> None:
    spec = GroupSpec(source="a", receivers=["b"], options=GroupOptions(trees=2), fetchers=["b"], labels={"x": "y"})
    adopt = Adopt(size=9, file={"inode": 1}, payload=3, per_block=1, rest=[(0, 3)])
    order = orders.StartOrder(
        group="g", epoch=2, spec=spec, tree_ids=[4], version=1, accepted_ns=1, own=[("a", "b", 1)], adopt=adopt
    )
    for one in (order, orders.Join(group="g", epoch=2, host="c"), orders.Load(arcs=[("a", "b", -1)], whole=True)):
        assert orders.read(framing.text(one)) == one
    for wrong in ({}, {"type": "dance"}, {"type": "join"}, {"type": "owned", "groups": {"g": "1"}}, [], "x"):
        with pytest.raises(framing.FramingError):
            orders.read(framing.text(wrong))


def test_news_of_the_topology_come_out_as_they_went_in_and_what_is_none_is_refused() -> None:
    fabric = Fabric(parse("bcube:2,1"), rate_bps=10**8)
    host = {"node": "00", "kind": "host", "addr": "10.0.0.1:7600", "ports": [{"port": 0, "up": False}]}
    changes = [
        fabric.snapshot(),
        *fabric.register(Registration.read(host), 1, 1),
        *fabric.disconnect(1, 2),
        fabric.snapshot(),
    ]
    assert len(changes) == 6 and [topology.read(framing.text(change)) for change in changes] == changes
    for wrong in ({"type": "link", "u": "a"}, {"type": "node", "version": 1}, {"type": "topology"}, {"type": "group"}):
        with pytest.raises(framing.FramingError):
            topology.read(framing.text(wrong))
