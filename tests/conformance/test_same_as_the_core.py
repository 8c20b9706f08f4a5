"""The node in P4 against the core's: the same seeded sequences of frames into both, every frame out compared.

Both nodes hold a repeated interest back for a minute, so nothing depends on when a frame comes. SEED and SEQUENCES
choose others (`make same-p4`: a thousand). An interest's lag is not compared: p4src/README.md says how it differs.
"""

from __future__ import annotations

import itertools
import os
import random
import time
import zlib
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest
from conformance_kit import gather
from planes import PORTS, P4Plane, running
from scenarios import CACHE_BYTES, SOURCE, adj, data, some, stack

from datacast.core import constants as c
from datacast.core.node import Node
from datacast.core.scapy_layer import Datacast, Stop

pytestmark = [pytest.mark.root, pytest.mark.timeout(900)]
SEQUENCES = int(os.environ.get("SEQUENCES", "40"))
SEED = int(os.environ.get("SEED", "1"))
FRAMES = 24
PATIENCE_MS = 60_000
PASSES = 5
"""Numbers of a range, and one: so often a frame goes around at most."""
THREADS = (4, 0, 1, 2, 3)
"""Ports in each of bmv2's egress threads, first one in that of P4_INNER_PORT."""
MARK = bytes(stack() / data())[12:]
MARKS = {port: bytes(stack(adj(port)) / data()) for port in THREADS}
SETS, PLACES, IDLE_S = 16, 8, 10.0
"""Of trees in the node (p4src/shared/sizes.p4), and how long one must be unused to give way."""
ended: deque[float] = deque(maxlen=SETS * PLACES)
turns = itertools.count()


def new_tree(number: int) -> int:
    """An id whose set has a place: the sets take turns, and not faster than places become free. By the node's own
    count: of tests that run side by side a node sees some numbers only."""
    turn = next(turns)
    if len(ended) == ended.maxlen:
        time.sleep(max(0.0, ended[0] + IDLE_S + 0.1 - time.monotonic()))
    ids = itertools.count(1_000_000 + 10_000 * SEED + 100 * number)
    return next(i for i in ids if zlib.crc32(i.to_bytes(4, "big")) % SETS == turn % SETS)


def frames(rng: random.Random, tree: int) -> list[tuple[int, bytes]]:
    """Interests of three children for a few numbers, singles and ranges, and data: asked for, unasked, repeated."""
    found = []
    for _ in range(FRAMES):
        seq = rng.randrange(6)
        if rng.random() < 0.6:
            port = rng.randrange(1, 4)
            flags = rng.choice(["", "", "", "LAST", "NOCACHE", "RETX+NOCACHE", "path2"])
            more = rng.choice([0, 0, 0, 1, 3])
            behind = rng.choice([[], [5]])
            onward = rng.choice([SOURCE] * 15 + [port % 3 + 1])  # that is another child's link, or the way back
            back = rng.choice([port] * 3 + [onward])
            path = [Stop(flags="store", ret=[back, *behind], fwd=[onward]), Stop(flags="ret_local", ret=[3])]
            packet = Datacast(type="interest", tree=tree, seq=seq, flags=flags, more=more, path=path)
            found.append((port, bytes(stack(c.LABEL_LOCAL) / packet)))
        else:
            payload = some(rng.choice([1, 7, 255, 256, 257, 511, 700, 1400]), seed=rng.randrange(9))
            flags = rng.choice(["", "", "path1+path8", "DUP", "LAST", "LAST+path2"])
            found.append((SOURCE, bytes(stack(c.LABEL_LOCAL) / data(tree, seq, payload, flags))))
    return found


def singles(frame: bytes) -> list[bytes]:
    """An interest for a range as interests for one number each: a node may split it (docs/wire.md). No lag."""
    frame = b"\0" * 12 + frame[12:]
    at = 14 if frame[12:14] == b"\x88\xb5" else 14 + 4 * (1 + next(i for i in range(50) if frame[16 + 4 * i] & 1))
    if frame[at] & 15 != c.TYPE_INTEREST:
        return [frame]
    first, more = int.from_bytes(frame[at + 8 : at + 12], "big"), frame[at + 15]
    return [
        frame[: at + 8]
        + (first + i).to_bytes(4, "big")
        + frame[at + 12 : at + 13]
        + b"\0"
        + frame[at + 14 : at + 15]
        + b"\0"
        + frame[at + 16 :]
        for i in range(more + 1)
    ]


def settle(patient: Patient) -> dict[int, list[bytes]]:
    """All that comes of what was sent: whatever goes around passes P4_INNER_PORT, and comes out in order per thread."""
    found: dict[int, list[bytes]] = {}
    for ports in (*[THREADS[:1]] * PASSES, THREADS[1:]):
        for port in ports:
            patient.wires[PORTS - 1].send(MARKS[port])
        left, end = set(ports), time.monotonic() + 60
        while left:
            came = gather(patient.wires, 1, 0.0, 1.0)
            left -= {port for port, some_frames in came.items() if any(f[12:] == MARK for f in some_frames)}
            for out, some_frames in came.items():
                found.setdefault(out, []).extend(f for f in some_frames if f[12:] != MARK)
            assert time.monotonic() < end, "nothing comes through"
    return found


class Patient(P4Plane):
    """Its node sends nothing on again within a test."""

    def cache(self) -> dict[str, Any]:
        return {"cache": "p4", "node": {"bytes_per_tree": CACHE_BYTES, "retx_ms": PATIENCE_MS}}


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Patient]:
    with running(Patient, tmp_path_factory) as plane:
        yield plane


@pytest.mark.parametrize("number", range(SEQUENCES))
def test_a_sequence_of_frames_has_the_same_answers(patient: Patient, number: int) -> None:
    rng = random.Random(SEED * 100_000 + number)
    core = Node(ports=PORTS, retx_min=PATIENCE_MS * 10**6, cache_bytes=CACHE_BYTES)
    for step, (port, frame) in enumerate(frames(rng, new_tree(number))):
        wanted = sorted((p, one) for p, out in core.handle(1 + step, port, frame) for one in singles(out))
        patient.wires[port].send(frame)
        late = gather(patient.wires, len(wanted), 0.0)  # an answer from the store goes by a cable
        came = settle(patient)
        got = sorted((p, one) for out in (late, came) for p, fs in out.items() for f in fs for one in singles(f))
        assert got == wanted, f"SEED={SEED}, sequence {number}, step {step}: port {port}, {frame.hex()}"
    ended.append(time.monotonic())
