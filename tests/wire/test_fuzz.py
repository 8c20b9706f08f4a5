"""Properties of the codec and the node over frames that hypothesis makes: what is written is read back, what is random
is refused or passes, and nothing else happens. (The C tests and the fuzzers do the same under sanitizers.)"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
from drawing import examples
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from datacast.core import constants as c
from datacast.core import wire
from datacast.core._core import lib
from datacast.core.node import HOST, Node

PORT = st.integers(0, lib.DC_PORT_MAX)
HEADERS = st.builds(
    wire.Header,
    type=st.just(c.TYPE_INTEREST),
    tree=st.integers(0, 2**32 - 1),
    seq=st.integers(0, 2**32 - 1),
    flags=st.integers(0, c.FLAG_MASK),
    stops=st.integers(0, 255),
    lag=st.integers(0, 255),
    cache=st.integers(0, 255),
)


HEADER = wire.Header(type=c.TYPE_INTEREST, tree=1, seq=1)


@st.composite
def routes(draw: st.DrawFn) -> list[wire.Stop]:
    """Whole routes: a receiver, waypoints, the source."""
    ports = st.lists(PORT, min_size=1, max_size=5).map(tuple)
    waypoints = draw(st.integers(0, 10))
    here = waypoints > 0 and draw(st.booleans())  # the receiver's own host is the first waypoint
    stops = [wire.Stop(fwd=wire.Segment(() if here else draw(ports), waypoints > 0))]
    for i in range(waypoints):
        ret = wire.Segment(() if here and i == 0 else draw(ports), i > 0)
        on = draw(ports)
        if not ret.ports:
            on = (draw(st.integers(0, lib.DC_NODE_PORTS_MAX - 1)), *on[1:])  # a host's own port
        stops.append(wire.Stop(wire.Segment(on, i + 1 < waypoints), ret, draw(st.booleans())))
    stops.append(wire.Stop(ret=wire.Segment(draw(ports), waypoints > 0)))
    return stops


@given(HEADERS, st.binary(max_size=50))
def test_a_header_is_read_as_it_was_written(header: wire.Header, behind: bytes) -> None:
    assert wire.decode_header(wire.encode_header(header) + behind) == (header, b"")


@given(routes())
def test_a_route_is_read_as_it_was_written(stops: list[wire.Stop]) -> None:
    blob = wire.encode_route(stops)
    wire.check_path(blob)
    assert wire.decode_route(blob) == stops


@given(routes(), st.data())
def test_a_route_cut_short_is_never_whole(stops: list[wire.Stop], data: st.DataObject) -> None:
    blob = wire.encode_route(stops)
    cut = blob[: data.draw(st.integers(0, len(blob) - 1))]
    try:
        wire.check_path(cut)
    except wire.WireError:
        return
    raise AssertionError("a route without its source was taken")


@given(st.binary(max_size=200))
def test_bytes_are_a_header_or_are_refused_with_a_reason(data: bytes) -> None:
    try:
        header, rest = wire.decode_header(data)
    except wire.WireError as refused:
        assert refused.reason in {"truncated", "version", "type", "reserved", "oversized", "range"}
        return
    assert len(rest) == header.length
    assert wire.encode_header(header) == data[: c.HEADER_LEN]


@given(st.binary(max_size=300))
def test_bytes_are_a_route_or_are_refused(data: bytes) -> None:
    try:
        stops = wire.decode_route(data)
    except wire.WireError:
        return
    assert wire.encode_route(stops) == data


def stack_of(segment: wire.Segment, appliance: bool) -> list[int]:
    """Labels of a frame that leaves over this segment; an appliance's switch needs one for the first port too."""
    first = [c.LABEL_ADJ + segment.ports[0]] if appliance else []
    return first + segment.labels()


@given(routes())
def test_an_interest_reaches_the_source_over_every_waypoint(stops: list[wire.Stop]) -> None:
    """Every waypoint takes its own record off and uses its own segment; the source finds its return segment."""
    frame = wire.encode_interest(wire.encode_route(stops), wire.Header(c.TYPE_INTEREST, tree=1, seq=2))
    appliance = False  # the one that sent the frame at hand
    for below, stop in pairwise(stops[:-1]):
        if below.fwd.ports:
            labels, under = wire.decode_frame(frame)
            assert labels == stack_of(below.fwd, appliance)
            arrives, frame = 0, wire.encode_frame([c.LABEL_LOCAL], under)
        else:
            arrives = HOST
        # No U-turns.
        assume(stop.fwd.ports[:1] != stop.ret.ports[:1] and (arrives == HOST or stop.fwd.ports[0] != arrives))
        appliance = bool(stop.ret.ports)
        node = Node(ports=1, lone_port=1) if appliance else Node(ports=lib.DC_NODE_PORTS_MAX, endpoint=1)
        [(port, frame)] = node.handle(1, arrives, frame)
        assert port == (0 if appliance else stop.fwd.ports[0])
    labels, under = wire.decode_frame(frame)
    assert labels == stack_of(stops[-2].fwd, appliance)
    header, rest = wire.decode_header(under)
    assert header.stops == 1 and wire.decode_route(rest) == stops[-1:]


@settings(max_examples=examples(300))
@given(st.lists(st.tuples(st.integers(0, 5), st.binary(max_size=120), st.booleans()), max_size=20))
def test_random_frames_are_counted_and_give_no_more_than_they_should(frames: list[tuple[int, bytes, bool]]) -> None:
    node = Node(ports=4, endpoint=1, trees=2)
    before = lib.pybuf_count()
    passed = 0
    for now, (port, data, under_local) in enumerate(frames):
        frame = wire.encode_frame([c.LABEL_LOCAL], data) if under_local else data
        for out, sent in node.handle(now, HOST if port == 5 else port, frame):
            assert out < 4 or out == HOST
            assert len(sent) <= len(frame) + lib.DC_PREFIX_MAX
            passed += 1
    counters = node.counters()
    assert sum(counters["drop"].values()) + passed + sum(
        tree["aggregated"] + tree["data"] for tree in node.tree_counters().values()
    ) >= len(frames)
    assert lib.pybuf_count() == before + sum(tree["packets"] for tree in node.tree_counters().values())


@pytest.mark.parametrize(("most", "made"), [
    ((1 << 20) - 1, lambda n: wire.encode_frame([n], b"")),
    (255, lambda n: wire.encode_header(replace(HEADER, cache=n))),
    ((1 << 32) - 1, lambda n: wire.encode_header(replace(HEADER, tree=n))),
    ((1 << 32) - 1, lambda n: wire.encode_header(replace(HEADER, seq=n))),
])  # fmt: skip
def test_a_number_that_its_field_has_no_room_for_is_refused(most: int, made: Callable[[int], object]) -> None:
    made(0), made(most)
    for wrong in (-1, most + 1):
        with pytest.raises(wire.WireError, match=rf"{wrong} is not within 0\.\.{most}"):
            made(wrong)
