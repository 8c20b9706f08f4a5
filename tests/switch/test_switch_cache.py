"""The content store and the waiting interests behind real ports, and what each copy costs."""

from __future__ import annotations

import pytest
from switch_rig import Process, Rig
from waiting import wait_for

from datacast.core import constants as c
from datacast.core.wire import (
    Header,
    Segment,
    Stop,
    decode_frame,
    decode_header,
    encode_data,
    encode_interest,
    encode_route,
)

pytestmark = pytest.mark.root
TREE = 9
SOURCE = 0  # the port towards the source
PATIENT = {"retx_ms": 60_000}
"""A node sends on what is repeated after eight times this: on a busy machine the second interest comes late."""


def route(receiver: int, store: bool = True) -> bytes:
    """Receiver on port `receiver` of the switch, the source on port 0; the switch is the one waypoint."""
    return encode_route([
        Stop(fwd=Segment((0,), local=True)),
        Stop(ret=Segment((receiver,)), fwd=Segment((SOURCE,)), store=store),
        Stop(ret=Segment((0,), local=True)),
    ])


def interest_frame(blob: bytes, seq: int, flags: int = 0) -> bytes:
    frame = encode_interest(blob, Header(type=c.TYPE_INTEREST, tree=TREE, seq=seq, flags=flags))
    return frame


def data_frame(seq: int, payload: bytes, flags: int = 0) -> bytes:
    header = Header(type=c.TYPE_DATA, tree=TREE, seq=seq, flags=flags)
    return encode_data(Segment((0,), local=True), header, payload)


def payload_of(frame: bytes | None) -> bytes:
    assert frame is not None, "no frame came"
    labels, under = decode_frame(frame)
    assert labels == []
    return decode_header(under)[1]


def ask_for(rig: Rig, receiver: int, seq: int, flags: int = 0) -> None:
    rig.wires[receiver].send(interest_frame(route(receiver), seq, flags))


def tree_counters(process: Process) -> dict[str, int]:
    return process.ask("trees")["nodes"]["s0.0"][0]


def test_miss_aggregation_copies_and_hit(rig3: Rig) -> None:
    process = rig3.start(rig3.config(cache=PATIENT)).ready()
    payload = bytes(i % 253 for i in range(8800))
    ask_for(rig3, 1, 7)
    onwards = rig3.wires[SOURCE].receive()
    assert onwards is not None
    _, under = decode_frame(onwards)
    header, rest = decode_header(under)
    assert (header.type, header.tree, header.seq, header.stops) == (c.TYPE_INTEREST, TREE, 7, 1) and len(rest) > 0

    ask_for(rig3, 2, 7)
    wait_for("the second interest", lambda: tree_counters(process)["aggregated"] == 1)
    assert rig3.wires[SOURCE].silent(), "somebody waits already: nothing is sent on"

    rig3.wires[SOURCE].send(data_frame(7, payload))
    assert payload_of(rig3.wires[1].receive()) == payload
    assert payload_of(rig3.wires[2].receive()) == payload

    for _ in range(3):
        ask_for(rig3, 1, 7)
        assert payload_of(rig3.wires[1].receive()) == payload
    assert rig3.wires[SOURCE].silent(), "answered from the content store"

    tree = tree_counters(process)
    assert (tree["interests"], tree["misses"], tree["hits"], tree["stored"]) == (5, 1, 3, 1)
    assert tree["bytes"] == len(payload) and tree["children"] == 2 and tree["waiting"] == 0


def test_copies_share_the_stored_packet(rig3: Rig) -> None:
    """All payload bytes leave by reference: the switch copies nothing, and one mbuf stays taken per stored packet."""
    process = rig3.start(rig3.config(cache=PATIENT)).ready()
    n = 10
    for seq in range(n):
        ask_for(rig3, 1, seq)
        ask_for(rig3, 2, seq)
    wait_for("all interests", lambda: tree_counters(process)["interests"] == 2 * n)
    for seq in range(n):
        rig3.wires[SOURCE].send(data_frame(seq, bytes([seq]) * 8000))
        assert payload_of(rig3.wires[1].receive()) == bytes([seq]) * 8000
        assert payload_of(rig3.wires[2].receive()) == bytes([seq]) * 8000
    for seq in range(n):
        ask_for(rig3, 2, seq)
        assert payload_of(rig3.wires[2].receive()) == bytes([seq]) * 8000
    packets = process.ask("counters")["packets"]
    counted = {key: packets[key] for key in packets if not key.endswith(("_size", "_free"))}
    referenced = counted.pop("bytes_referenced") - 3 * n * 8000
    assert 0 < referenced < n * 100, "the interests that went on"
    nothing = dict.fromkeys(("cloned", "linear", "bare", "bytes_copied", "no_mbuf"), 0)
    assert counted == {"in_place": n, "shared": 3 * n} | nothing
    assert packets["pool_size"] - packets["pool_free"] == n, "one mbuf per stored packet, none leaked"
    assert packets["headers_size"] == packets["headers_free"]


def test_the_oldest_packets_go_first_and_their_memory_comes_back(rig3: Rig) -> None:
    config = rig3.config(cache={"bytes_per_tree": "64K"})
    process = rig3.start(config).ready()
    for seq in range(40):
        ask_for(rig3, 1, seq)
        assert rig3.wires[SOURCE].receive() is not None
        rig3.wires[SOURCE].send(data_frame(seq, bytes([seq]) * 8000))
        assert payload_of(rig3.wires[1].receive()) == bytes([seq]) * 8000
    tree = tree_counters(process)
    assert tree["bytes"] <= 64 << 10 and tree["evicted"] == 40 - tree["packets"] and tree["packets"] == 8
    packets = process.ask("counters")["packets"]
    assert packets["pool_size"] - packets["pool_free"] == 8
    ask_for(rig3, 1, 39)
    assert payload_of(rig3.wires[1].receive()) == bytes([39]) * 8000
    ask_for(rig3, 1, 0)
    assert rig3.wires[SOURCE].receive() is not None, "long gone: asked of the source again"


def test_dup_data_is_passed_on_and_not_stored(rig3: Rig) -> None:
    process = rig3.start().ready()
    ask_for(rig3, 1, 3)
    assert rig3.wires[SOURCE].receive() is not None
    rig3.wires[SOURCE].send(data_frame(3, b"d" * 900, c.FLAG_DUP))
    assert payload_of(rig3.wires[1].receive()) == b"d" * 900
    assert tree_counters(process)["stored"] == 0


def test_nocache_goes_to_the_source(rig3: Rig) -> None:
    rig3.start().ready()
    ask_for(rig3, 1, 3)
    assert rig3.wires[SOURCE].receive() is not None
    rig3.wires[SOURCE].send(data_frame(3, b"bad" * 300))
    assert rig3.wires[1].receive() is not None
    ask_for(rig3, 1, 3, c.FLAG_NOCACHE)
    assert rig3.wires[SOURCE].receive() is not None
    assert rig3.wires[1].silent()


def test_wipe_and_restart_lose_no_packet_memory(rig3: Rig) -> None:
    process = rig3.start().ready()
    for seq in range(5):
        ask_for(rig3, 1, seq)
        assert rig3.wires[SOURCE].receive() is not None
        rig3.wires[SOURCE].send(data_frame(seq, b"w" * 5000))
        assert rig3.wires[1].receive() is not None
    assert process.counters()["bytes"] == 25000
    assert process.ask("wipe", node="s0.0")["ok"]
    counters = process.ask("counters")
    assert counters["nodes"]["s0.0"]["bytes"] == 0
    assert counters["packets"]["pool_size"] == counters["packets"]["pool_free"]
    ask_for(rig3, 1, 2)
    assert rig3.wires[SOURCE].receive() is not None, "wiped: a miss"
    assert process.ask("wipe", restart=True)["ok"]
    assert process.counters()["trees"] == 0


def test_small_packets_never_exhaust_the_packet_memory(rig3: Rig) -> None:
    """Every stored packet takes an mbuf, however small: the node is bounded in packets too, and frames find mbufs."""
    config = rig3.config(cache={"bytes_per_tree": "4M", "max_bytes_per_tree": "4M", "packets_per_tree": 4096})
    process = rig3.start(config).ready()
    bound = process.ask("config")["nodes"]["s0.0"]["memory_packets"]
    for seq in range(bound + 300):
        ask_for(rig3, 1, seq)
        assert rig3.wires[SOURCE].receive() is not None, f"packet {seq}, bound {bound}"
        rig3.wires[SOURCE].send(data_frame(seq, b"s" * 64))
        assert rig3.wires[1].receive() is not None, f"packet {seq}, bound {bound}"
    packets, tree = process.ask("counters")["packets"], tree_counters(process)
    assert tree["packets"] == bound == packets["pool_size"] - packets["pool_free"]
    assert tree["evicted"] == 300 and packets["no_mbuf"] == 0
