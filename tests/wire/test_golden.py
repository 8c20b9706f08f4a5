"""The golden frames, through the C core's Python binding and through scapy, which share no code."""

from __future__ import annotations

import pytest
from golden import Entry, read
from scapy.contrib.mpls import MPLS
from scapy.layers.l2 import Ether
from scapy.packet import Padding, Raw

from datacast.core import constants as c
from datacast.core import scapy_layer, wire
from datacast.core.node import Node

TYPE = {"interest": c.TYPE_INTEREST, "data": c.TYPE_DATA, "hello": c.TYPE_HELLO}


def named(kind: str) -> list[object]:
    return [pytest.param(entry, id=entry.name) for entry in read(kind)]


@pytest.mark.parametrize("entry", named("frame"))
def test_the_core_reads_and_writes_a_golden_frame(entry: Entry) -> None:
    labels, under = wire.decode_frame(entry.frame)
    header, rest = wire.decode_header(under)
    assert labels == entry.labels
    assert header.type == TYPE[entry.value["type"]]
    for key in ("flags", "tree", "seq", "lag", "cache", "more"):
        assert getattr(header, key) == entry.number(key), key
    assert header.stops == len(entry.stops)
    if entry.stops:
        assert wire.decode_route(rest) == entry.stops
        assert wire.encode_route(entry.stops) == rest
    else:
        assert rest == entry.rest
    again = wire.encode_frame(
        labels, wire.encode_header(header) + rest, entry.frame[:6], entry.frame[6:12], hello=header.type == c.TYPE_HELLO
    )
    assert again == entry.frame[: len(again)]
    assert set(entry.frame[len(again) :]) <= {0}


def test_what_is_not_said_to_be_a_hello_is_none() -> None:
    assert wire.encode_frame([], b"x")[12:] == c.ETHERTYPE_DATACAST.to_bytes(2, "big") + b"x"
    assert wire.encode_frame([], b"x", hello=True)[12:] == c.ETHERTYPE_HELLO.to_bytes(2, "big") + b"x"


@pytest.mark.parametrize("entry", named("frame"))
def test_scapy_reads_a_golden_frame(entry: Entry) -> None:
    frame = Ether(entry.frame)
    labels, layer = [], frame.payload
    while isinstance(layer, MPLS):
        labels.append(layer.label)
        layer = layer.payload
    assert labels == entry.labels
    assert isinstance(layer, scapy_layer.Datacast)
    assert layer.version == c.VERSION and layer.type == TYPE[entry.value["type"]]
    for key in ("flags", "tree", "seq", "lag", "cache", "more"):
        assert int(getattr(layer, key)) == entry.number(key), key
    assert layer.stops == len(entry.stops)
    if entry.stops:
        assert [(int(s.flags), tuple(s.ret), tuple(s.fwd)) for s in layer.path] == [
            (s.store | s.fwd.local << 1 | s.ret.local << 2, s.ret.ports, s.fwd.ports) for s in entry.stops
        ]
    else:
        assert bytes(layer[Raw].load if Raw in layer else b"") == entry.rest
    assert bytes(frame) == entry.frame
    padding = bytes(layer[Padding].load) if Padding in layer else b""
    assert len(entry.frame) == 14 + 4 * len(labels) + 16 + layer.length + len(padding)


@pytest.mark.parametrize("entry", named("frame"))
def test_scapy_writes_a_golden_frame(entry: Entry) -> None:
    mac = entry.frame[:12].hex(":")
    fields = {key: entry.number(key) for key in ("flags", "tree", "seq", "lag", "cache", "more")}
    datacast = scapy_layer.Datacast(type=entry.value["type"], **fields)
    if entry.stops:
        datacast.path = [
            scapy_layer.Stop(
                flags=s.store | s.fwd.local << 1 | s.ret.local << 2, ret=list(s.ret.ports), fwd=list(s.fwd.ports)
            )
            for s in entry.stops
        ]
    hello = entry.value["type"] == "hello"
    built = scapy_layer.stack(*entry.labels, dst=mac[:17], src=mac[18:], hello=hello) / datacast
    if not entry.stops and entry.rest:
        built = built / Raw(entry.rest)
    built = bytes(built)
    assert built == entry.frame[: len(built)]
    assert set(entry.frame[len(built) :]) <= {0}


@pytest.mark.parametrize("entry", named("pop"))
def test_a_switch_forwards_a_golden_frame(entry: Entry) -> None:
    node = Node(ports=8, trees=1)
    assert node.handle(10**9, 3, entry.frame) == [(entry.number("port"), bytes.fromhex(entry.value["out"]))]


@pytest.mark.parametrize("entry", named("refuse"))
def test_a_host_refuses_a_golden_frame(entry: Entry) -> None:
    node = Node(ports=4, endpoint=1, trees=1)
    assert node.handle(10**9, 0, entry.frame) == []
    assert node.counters()["drop"] == {entry.value["reason"]: 1}


def test_an_interest_and_its_answer_over_two_waypoints() -> None:
    """Receiver - s1 (stores) - s2 (stores) - source, every port as the routes say."""
    route = wire.encode_route(
        [
            wire.Stop(fwd=wire.Segment((0,), local=True)),
            wire.Stop(ret=wire.Segment((1,)), fwd=wire.Segment((2,), local=True), store=True),
            wire.Stop(ret=wire.Segment((3,), local=True), fwd=wire.Segment((4,)), store=True),
            wire.Stop(ret=wire.Segment((0,), local=True)),
        ]
    )
    s1, s2 = Node(ports=8), Node(ports=8)
    [(port, frame)] = s1.handle(1, 1, wire.encode_interest(route, wire.Header(c.TYPE_INTEREST, tree=5, seq=9)))
    assert port == 2
    [(port, frame)] = s2.handle(2, 3, frame)
    assert port == 4 and wire.decode_frame(frame)[0] == []
    header, rest = wire.decode_header(wire.decode_frame(frame)[1])
    [last] = wire.decode_route(rest)
    answer = wire.encode_data(last.ret, wire.Header(c.TYPE_DATA, tree=header.tree, seq=header.seq), b"payload")
    [(port, frame)] = s2.handle(3, 4, answer)
    assert port == 3 and wire.decode_frame(frame)[0] == [c.LABEL_LOCAL]
    [(port, frame)] = s1.handle(4, 2, frame)
    assert port == 1
    labels, under = wire.decode_frame(frame)
    assert labels == [] and wire.decode_header(under)[1] == b"payload"
    assert s1.tree_counters()[5]["packets"] == s2.tree_counters()[5]["packets"] == 1


@pytest.mark.parametrize("size", [4352, 100_000, 131_072, 200_000_001, 260_046_848])
def test_a_cache_s_size_fits_a_byte_rounded_down_by_at_most_a_seventeenth(size: int) -> None:
    took = wire.cache_bytes(wire.cache_code(size))
    assert size * 16 <= took * 17 and took <= size


def test_a_cache_s_size_beyond_the_byte_is_its_end_and_one_beyond_64_bits_is_refused() -> None:
    assert [wire.cache_code(size) for size in (0, 1, 1 << 28, (1 << 63) - 1)] == [0, 1, 255, 255]
    for size in (-1, 1 << 63):
        with pytest.raises(wire.WireError):
            wire.cache_code(size)
    for code in (-1, 256):
        with pytest.raises(wire.WireError):
            wire.cache_bytes(code)
