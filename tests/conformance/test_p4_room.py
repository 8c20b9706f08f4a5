"""More trees, children and waiting interests than the node in P4 has room for, and the longest way it can send over."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from conformance_kit import gather
from planes import CACHE, P4Plane, running
from scenarios import LEFT, SOURCE, adj, arriving, data, interest, onward, some, stack
from waiting import wait_for

from datacast.core import constants as c
from datacast.core.scapy_layer import Datacast, Stop

pytestmark = [pytest.mark.root, pytest.mark.timeout(240)]
TREES, SETS, WAYS = 128, 128, 4
"""p4src/shared/sizes.p4."""
GIVES_WAY_S = 8 * CACHE["retx_ms"] / 1000
"""An interest that has waited for so long gives its place to another."""
IDLE_S = 10.0
"""And a tree of which nobody asked."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[P4Plane]:
    with running(P4Plane, tmp_path_factory) as plane:
        yield plane


def drops(node: P4Plane) -> dict[str, int]:
    return dict(node.switch()["drops"])


def child(tree: int, seq: int, ret: list[int], flags: str = "store") -> bytes:
    """An interest from behind these ports."""
    path = [Stop(flags=flags, ret=ret, fwd=[SOURCE]), Stop(flags="ret_local", ret=[3])]
    return bytes(stack(c.LABEL_LOCAL) / Datacast(type="interest", tree=tree, seq=seq, path=path))


def test_an_answer_from_the_store_leaves_over_the_longest_way_it_can(node: P4Plane) -> None:
    """Labels and payload together are more than what bmv2 lets a frame grow by: it aborted."""
    ways = [LEFT, *range(10, 9 + c.P4_SEGMENT_MAX)]
    for size in (255, 256, 512, 700, 1024, 1400, 8900):
        payload, labels = some(size), [adj(p) for p in ways[1:]] + [c.LABEL_LOCAL]
        out = bytes(stack(*labels) / data(1, size, payload))[12:]
        for sent, port in (
            (child(1, size, ways, "store+ret_local"), LEFT),
            (arriving(1, size, payload), SOURCE),
            (child(1, size, ways, "store+ret_local"), LEFT),
        ):
            node.wires[port].send(sent)
            came = gather(node.wires, 1, 0.0)
            assert node.bmv2.alive() and [len(frames) for frames in came.values()] == [1]
            if list(came) == [LEFT]:
                assert came[LEFT][0][12:] == out
        assert list(came) == [LEFT], f"{size} bytes from the store"


def test_children_beyond_its_room_are_refused_and_counted(node: P4Plane) -> None:
    for tree in range(10, 30):  # a busy machine may look away for so long that what waits is sent on again, or gone
        before = drops(node).get("children", 0)
        for i in range(c.P4_CHILDREN_MAX + 8):
            node.wires[LEFT].send(child(tree, 7, [LEFT, 100 + i]))
        node.wires[LEFT].send(interest(tree + 100, 7, LEFT))  # behind all of them
        onwards = gather(node.wires, 2, 0.02)
        refused = drops(node).get("children", 0) - before
        went = {port: len(frames) for port, frames in onwards.items()}
        if (refused, went) == (8, {SOURCE: 2}):
            break
        gather(node.wires, 0, GIVES_WAY_S)
    assert (refused, went) == (8, {SOURCE: 2})
    node.wires[SOURCE].send(arriving(tree, 7, some(300)))
    came = gather(node.wires, c.P4_CHILDREN_MAX, 0.1)
    labels = sorted(int.from_bytes(frame[14:17], "big") >> 4 for frame in came[LEFT])
    assert labels == [adj(100 + i) for i in range(c.P4_CHILDREN_MAX)]
    assert all(len(frame) < 300 for frame in came.get(SOURCE, [])), "only interests that waited for too long"


def test_interests_beyond_the_room_of_a_set_are_refused_and_counted(node: P4Plane) -> None:
    one_set = [SETS * i for i in range(WAYS + 2)]
    for tree in range(100, 150):  # a machine that is busy may have looked away for so long that the oldest gave way
        before, began = drops(node).get("waiting", 0), time.monotonic()
        for seq in one_set:
            node.wires[LEFT].send(interest(tree, seq, LEFT))
        came = gather(node.wires, WAYS, 0.0)[SOURCE]

        def all_judged(before: int = before, came: list[bytes] = came) -> bool:
            came += gather(node.wires, 0, 0.005).get(SOURCE, ())
            return drops(node).get("waiting", 0) - before + len(came) >= len(one_set)

        wait_for("each to be sent on or refused", all_judged)
        if time.monotonic() - began < GIVES_WAY_S:
            break
        gather(node.wires, 0, GIVES_WAY_S)
    assert (len(came), drops(node)["waiting"] - before) == (WAYS, 2)
    time.sleep(1.5 * GIVES_WAY_S)
    node.wires[LEFT].send(interest(tree, one_set[-1], LEFT))
    assert list(gather(node.wires, 1, 0.05)) == [SOURCE]
    node.wires[SOURCE].send(arriving(tree, one_set[-1], some(300)))
    assert list(gather(node.wires, 1, 0.05)) == [LEFT], "one that waits is served"


def ask(node: P4Plane, trees: range) -> int:
    """For number 0 of each; returns how many of these interests were sent on."""
    came = 0
    for tree in trees:
        node.wires[LEFT].send(interest(tree, 0, LEFT))
        if tree % 32 == 31:
            came += len(gather(node.wires, 32, 0.02, 0.2).get(SOURCE, ()))
    return came + len(gather(node.wires, 0, 0.1).get(SOURCE, ()))


def test_trees_that_data_came_for_stay_and_more_are_refused_and_counted(node: P4Plane) -> None:
    for first in range(1000, 9000, 1000):  # as above
        before, began, proven, served = drops(node).get("trees", 0), time.monotonic(), [], 0
        for tree in range(first, first + 2 * TREES):
            node.wires[LEFT].send(interest(tree, 0, LEFT))
            if gather(node.wires, 1, 0.0, 0.05):
                node.wires[SOURCE].send(arriving(tree, 0, some(300)))
                served += list(gather(node.wires, 1, 0.0)) == [LEFT]
                proven.append(tree)
        refused = drops(node).get("trees", 0) - before
        if time.monotonic() - began < IDLE_S and served == len(proven) and served + refused == 2 * TREES:
            break
        gather(node.wires, 0, IDLE_S)
    else:
        raise AssertionError(f"{served} of {len(proven)} trees were served, {refused} refused")
    assert TREES * 3 // 4 <= served <= TREES
    node.wires[LEFT].send(interest(proven[0], 1, LEFT))
    assert gather(node.wires, 1, 0.05)[SOURCE][0][12:] == onward(proven[0], 1)[12:], "a tree that is there is served"
    time.sleep(IDLE_S)  # that nobody asks for them is what makes them go


def test_invented_trees_keep_nobody_out(node: P4Plane) -> None:
    """Twice as many as there are places, of which none brings data: a group that comes then is served at once."""
    own, invented = 20_000, range(21_000, 21_000 + 2 * TREES)
    node.wires[LEFT].send(interest(own, 0, LEFT))
    assert list(gather(node.wires, 1, 0.0)) == [SOURCE]
    node.wires[SOURCE].send(arriving(own, 0, some(300)))
    assert list(gather(node.wires, 1, 0.0)) == [LEFT]
    refused = drops(node).get("trees", 0)
    wait_for("the invented ones to be sent on", lambda: ask(node, invented) == len(invented))
    for tree in (own, 20_001):
        node.wires[LEFT].send(interest(tree, 1, LEFT))
        assert gather(node.wires, 1, 0.0)[SOURCE][0][12:] == onward(tree, 1)[12:]
        node.wires[SOURCE].send(arriving(tree, 1, some(300)))
        assert list(gather(node.wires, 1, 0.0)) == [LEFT], f"{tree} is served"
    node.wires[LEFT].send(interest(own, 0, LEFT))
    assert list(gather(node.wires, 1, 0.0)) == [LEFT], "what it has stored is there"
    assert drops(node).get("trees", 0) == refused
