"""Several workers: each has a part of the trees, and together they are one switch."""

from __future__ import annotations

import contextlib
import signal
from pathlib import Path

import pytest
from switch_rig import Process, Rig
from test_switch_running import FabricManager

from datacast.core import constants as c
from datacast.core.wire import Header, Segment, Stop, decode_frame, decode_header, encode_data, encode_interest
from datacast.core.wire import encode_route as route

pytestmark = pytest.mark.root
SOURCE, RECEIVER = 0, 1
TREES = range(100, 140)


def ask(rig: Rig, tree: int, seq: int) -> None:
    blob = route(
        [
            Stop(fwd=Segment((0,), local=True)),
            Stop(ret=Segment((RECEIVER,)), fwd=Segment((SOURCE,)), store=True),
            Stop(ret=Segment((0,), local=True)),
        ]
    )
    rig.wires[RECEIVER].send(encode_interest(blob, Header(type=c.TYPE_INTEREST, tree=tree, seq=seq)))


def arrived(rig: Rig, port: int) -> tuple[Header, bytes]:
    frame = rig.wires[port].receive()
    assert frame is not None, "no frame came"
    return decode_header(decode_frame(frame)[1])


def bring(rig: Rig, tree: int, seq: int, payload: bytes) -> None:
    ask(rig, tree, seq)
    assert arrived(rig, SOURCE)[0].tree == tree
    header = Header(type=c.TYPE_DATA, tree=tree, seq=seq)
    rig.wires[SOURCE].send(encode_data(Segment((0,), local=True), header, payload))
    assert arrived(rig, RECEIVER)[1] == payload


def trees_of(process: Process) -> dict[int, dict[str, int]]:
    return {t["tree"]: t for t in process.ask("trees")["nodes"]["s0.0"]}


@pytest.mark.parametrize("workers", [2, 3])
def test_workers_share_the_trees_and_are_one_switch(rig3: Rig, asan_binary: Path, workers: int) -> None:
    process = rig3.start(rig3.config(workers=workers), asan_binary).ready(60)
    for tree in TREES:
        payload = tree.to_bytes(2, "big") * 1000
        bring(rig3, tree, 5, payload)
        ask(rig3, tree, 5)
        assert arrived(rig3, RECEIVER)[1] == payload
    assert rig3.wires[SOURCE].silent(), "answered from the content stores"

    trees = trees_of(process)
    assert sorted(trees) == list(TREES) and all(t["hits"] == 1 and t["packets"] == 1 for t in trees.values())
    counters = process.counters()
    assert counters["trees"] == len(TREES) and counters["hits"] == len(TREES)
    assert counters["ports"]["1"]["tx_data"] == 2 * len(TREES) and counters["ports"]["1"]["mtu"] == 9000
    loop = process.ask("counters")["loop"]
    assert loop["handed_over"] == 0, "the kernel gives every frame to the worker that has its tree"
    assert loop["frames"] == 3 * len(TREES), "and once"

    process.ask("wipe")
    assert all(t["packets"] == 0 for t in trees_of(process).values())
    process.ask("fault", node="s0.0", port=RECEIVER, blackhole="rx")
    for tree in TREES:
        ask(rig3, tree, 6)
    assert rig3.wires[SOURCE].silent(), "the fault holds at every worker"
    assert process.stop(signal.SIGTERM) == 0


def test_a_heartbeat_tells_what_all_workers_counted(rig3: Rig) -> None:
    with contextlib.closing(FabricManager(rig3.ns)) as manager:
        rig3.start(rig3.config(workers=2, fabric_manager=manager.address)).ready()
        manager.accept()
        manager.register_all(1)
        for tree in TREES:
            bring(rig3, tree, 5, b"x" * 100)
        for _ in range(100):
            node = manager.receive("heartbeat")["nodes"]["s0.0"]
            if node["data"] == len(TREES):
                break
        assert node["trees"] == node["interests"] == node["data"] == len(TREES) and node["drop"] == {}


def test_frames_under_other_labels_pass(rig3: Rig) -> None:
    """What only passes belongs to no tree here: any worker sends it on."""
    rig3.start(rig3.config(workers=2)).ready()
    header = Header(type=c.TYPE_DATA, tree=1, seq=1)
    for port in (1, 2):
        rig3.wires[SOURCE].send(encode_data(Segment((SOURCE, port), local=True), header, b"x" * 500))
        frame = rig3.wires[port].receive()
        assert frame is not None and decode_frame(frame)[0] == [c.LABEL_LOCAL]
