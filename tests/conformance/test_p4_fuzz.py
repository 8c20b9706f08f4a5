"""The node in P4 under made-up frames: it neither stops nor leaks a packet that no interest asked for (p4_fuzz.py).

`make fuzz-p4 TIME=600` for as long as one likes; SEED chooses other frames. A failure names seed and frame.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Iterator

import pytest
from conformance_kit import gather
from conformance_table import TABLE
from p4_fuzz import LATE, Frames, Ledger
from planes import PORTS, P4Plane, running
from scenarios import LEFT, SOURCE, adj, arriving, data, interest, leaving, onward, some, stack

pytestmark = [pytest.mark.root, pytest.mark.timeout(7200)]
FUZZ_S = float(os.environ.get("FUZZ_S", "0"))
SEED = int(os.environ.get("SEED", "1"))
BURST, CHECK = 32, 640
"""Frames before one waits for the switch, and before one sees whether its node still serves: so many at the least."""
SETS, WAYS = 128, 4
"""Places where a number may wait: p4src/shared/sizes.p4."""
ALIVE_TREE = 0x70000001
"""Of no made-up frame but by chance."""
KINDS = {b"\x88\x47": "with labels", b"\x88\xb5": "without"}
AT, SEEN = 2, 5
"""Where marks come out: those of the second port at the first."""


class Fuzzed:
    """A switch, what was sent to it, and what came of it."""

    def __init__(self, plane: P4Plane) -> None:
        self.plane = plane
        self.ledger = Ledger()
        self.came: Counter[str] = Counter()
        self.sent = 0
        self._marks = 0
        self._passed: set[bytes] = set()
        """Marks that were sent more than once, as the first one was late."""

    def send(self, port: int, frame: bytes) -> None:
        self.ledger.send(port, frame)
        self.plane.wires[port].send(frame)
        self.sent += 1

    def look(self, until: bytes | None = None, port: int = SEEN, patience_s: float = 5.0) -> bool:
        """Judge all that has come out; with `until`, until this frame has come out of `port`."""
        end = time.monotonic() + patience_s
        while True:
            found = gather(self.plane.wires, 1 if until else 0, 0.0, min(patience_s, 0.2))
            for out, frames in found.items():
                for frame in frames:
                    if until is not None and out == port and frame[12 : 12 + len(until)] == until:
                        until = None
                        continue
                    if frame[12:].rstrip(b"\0") in self._passed:
                        continue
                    why = self.ledger.leak(out, frame)
                    assert not why, f"SEED={SEED}, after {self.sent} frames: port {out}: {why}: {frame.hex()}"
                    self.came[KINDS.get(frame[12:14], "ordinary")] += 1
            if until is None:
                return True
            if time.monotonic() > end:
                return False

    def forwards(self) -> bool:
        """A mark comes through from each port, so that all before it has been looked at: the switch reads its ports one
        after the other, and of one of them more may wait."""
        return all(self._passes(port, AT if port == SEEN else SEEN) for port in range(PORTS))

    def _passes(self, port: int, to: int) -> bool:
        self._marks += 1
        mark = data(ALIVE_TREE, self._marks, b"mark")
        wanted = bytes(stack() / mark)[12:]
        for _ in range(3):  # a full queue may drop one
            self.plane.wires[port].send(bytes(stack(adj(to)) / mark))
            if self.look(wanted, to):
                return True
            self._passed.add(wanted)
        return False

    def serves(self) -> bool:
        """Interest, data, and the same again out of the store."""
        payload = some(1400, self._marks)
        for _ in range(5):
            self._marks += 1
            n = self._marks
            steps = [
                (LEFT, interest(ALIVE_TREE, n, LEFT), SOURCE, onward(ALIVE_TREE, n, lag=0)[12:26]),
                (SOURCE, arriving(ALIVE_TREE, n, payload), LEFT, leaving(ALIVE_TREE, n, payload)[12:]),
                (LEFT, interest(ALIVE_TREE, n, LEFT), LEFT, leaving(ALIVE_TREE, n, payload)[12:]),
            ]
            if all((self.send(port, frame), self.look(wanted, out))[1] for port, frame, out, wanted in steps):
                return True
        return False


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[P4Plane]:
    with running(P4Plane, tmp_path_factory) as plane:
        yield plane


@pytest.mark.parametrize(("port", "between", "leak"), [(SOURCE, 0, False), (SOURCE, LATE + 1, True), (AT, 0, True)])
def test_the_ledger_lets_an_interest_overtake_data_of_its_own_port_only(port: int, between: int, leak: bool) -> None:
    ledger = Ledger()
    ledger.send(port, arriving(ALIVE_TREE, 1, b"planted"))
    for _ in range(between):
        ledger.send(AT, bytes(60))
    ledger.send(LEFT, interest(ALIVE_TREE, 1, LEFT))
    assert bool(ledger.leak(LEFT, leaving(ALIVE_TREE, 1, b"planted"))) is leak


def test_data_nobody_asked_for_gets_nowhere_where_others_have_waited_in_its_places(node: P4Plane) -> None:
    """What was answered leaves its children and its port behind in the place; nobody is to find them there."""
    fuzzed = Fuzzed(node)
    tree, *asked, unasked = ALIVE_TREE + 1, *(SETS * i for i in range(WAYS + 1))
    for n in asked:
        fuzzed.send(LEFT, interest(tree, n, LEFT))
    assert fuzzed.forwards()
    for n in asked:
        fuzzed.send(SOURCE, arriving(tree, n, some(300)))
    assert fuzzed.forwards()
    before = node.switch()["drops"].get("unwanted", 0)
    fuzzed.send(SOURCE, arriving(tree, unasked, some(300)))
    assert fuzzed.forwards()
    assert node.switch()["drops"]["unwanted"] == before + 1
    assert fuzzed.came["with labels"] + fuzzed.came["without"] == 2 * WAYS


def test_made_up_frames_neither_stop_the_node_nor_leak_a_packet(node: P4Plane) -> None:
    rng = random.Random(SEED)
    frames = Frames(rng, [sent for scenario in TABLE for step in scenario.steps for sent in step.send])
    fuzzed = Fuzzed(node)
    before = node.switch()["node"]
    assert fuzzed.serves(), "before anything was made up"
    end = time.monotonic() + FUZZ_S
    while time.monotonic() < end or fuzzed.sent < CHECK:
        checked = fuzzed.sent // CHECK
        for _ in range(BURST):
            fuzzed.send(*next(frames))
        assert node.bmv2.alive() and fuzzed.forwards(), f"SEED={SEED}: it stopped after {fuzzed.sent} frames"
        if fuzzed.sent // CHECK != checked:
            assert fuzzed.serves(), f"SEED={SEED}: it no longer serves after {fuzzed.sent} frames"
    after = node.switch()
    grown = {name: after["node"][name] - before.get(name, 0) for name in after["node"]}
    print(f"{fuzzed.sent} frames in, out {dict(fuzzed.came)}; node {grown}; dropped {after['drops']}")
    assert grown["hits"] and grown["stored"] and len(after["drops"]) > 10, "the frames reach all parts of the node"
