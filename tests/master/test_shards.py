"""Ranges per receiver: what a range means, who wants which piece, and what the scheduler deals out to whom."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from datacast.master.schedule import SWITCH_S, Scheduler
from datacast.master.shards import Shards
from datacast.master.tree_queue import Extent, TreeQueue
from datacast.services.ranges import RangeProblem, blocks, check, union, within

SIZE, BLOCK = 1000, 64


def test_a_range_of_bytes_is_as_many_blocks_as_hold_it() -> None:
    assert blocks(["0-0"], SIZE, BLOCK) == [(0, 1)]
    assert blocks(["63-64"], SIZE, BLOCK) == [(0, 2)]
    assert blocks(["64-127", "0-63"], SIZE, BLOCK) == [(0, 2)]
    assert blocks(["900-"], SIZE, BLOCK) == blocks(["900-5000"], SIZE, BLOCK) == [(14, 2)]
    assert blocks(["100-299", "200-399", "700-710"], SIZE, 1) == [(100, 300), (700, 11)]
    assert blocks([], SIZE, BLOCK) == []


def test_a_host_that_has_a_range_has_the_blocks_that_are_whole_in_it() -> None:
    assert within(["1-191"], SIZE, BLOCK) == [(1, 2)]
    assert within(["0-100", "101-127"], SIZE, BLOCK) == [(0, 2)]
    assert within(["900-"], SIZE, BLOCK) == [(15, 1)], "the last block ends with the file"
    assert within(["1-63"], SIZE, BLOCK) == within([], SIZE, BLOCK) == []


@pytest.mark.parametrize("size", [0, 1, 64, 65, 1000, 4096])
@pytest.mark.parametrize("parts", [1, 3, 7, 100])
def test_the_parts_of_a_file_are_all_of_it_and_equal_to_a_block(size: int, parts: int) -> None:
    found = [blocks([f"{k}/{parts}"], size, BLOCK) for k in range(1, parts + 1)]
    numbers = [b for rows in found for first, count in rows for b in range(first, first + count)]
    assert numbers == list(range(-(-size // BLOCK)))
    counts = [sum(count for _, count in rows) for rows in found]
    assert max(counts) - min(counts) <= 1


@pytest.mark.parametrize(
    "text", ["", "5", "-5", "9-3", "0/3", "4/3", "a-b", "1-2-3", "1/", "1/0", "1.5-2", " 1-2", "1-2\n"]
)
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(RangeProblem):
        check(text)


def test_a_range_behind_the_end_is_refused() -> None:
    with pytest.raises(RangeProblem, match="behind the end: the file has 1000 bytes"):
        blocks(["1000-"], SIZE, BLOCK)


def test_shards_count_their_bytes_and_what_anybody_wants() -> None:
    shards = Shards.of({"a": ["0-99"], "b": ["900-"], "c": []}, SIZE, BLOCK)
    assert [shards.bytes_of(name) for name in "abcd"] == [128, SIZE - 14 * BLOCK, 0, None]
    assert shards.anybodys("abc") == [(0, 2), (14, 2)] and shards.anybodys("abcd") == [(0, 16)]
    assert shards.bytes_sent("abc") == 128 + SIZE - 14 * BLOCK
    assert shards.pieces(4)["b"] == [(56, 8)]
    assert union([(4, 2), (0, 1), (1, 3), (9, 0)]) == [(0, 6)]


def deal(scheduler: Scheduler, step_s: float = 0.05) -> list[Extent]:
    """All extents, with sources that are always as far as they are thought to be."""
    found: list[Extent] = []
    now = 0.0
    while not scheduler.all_sent:
        now += step_s
        assert now < 1000, "it does not end"
        found += scheduler.assign(now)
        for tree, queue in scheduler.trees.items():
            scheduler.status(tree, int(queue.expected(now)), None, now)
    return found


def got(found: list[Extent], names: str) -> dict[str, Counter[int]]:
    return {n: Counter(p for e in found if n in e.to for p in range(e.first, e.first + e.count)) for n in names}


@pytest.mark.parametrize("seed", range(20))
def test_each_receiver_gets_what_it_wants_once_and_nobody_s_pieces_go_nowhere(seed: int) -> None:
    rng = random.Random(seed)
    print("seed", seed)
    names = "abcdef"[: rng.randint(1, 6)]
    pieces = rng.choice([1, 97, 4000])
    wants = {}
    for name in names:
        if rng.random() < 0.8:
            rows = [(rng.randrange(pieces), rng.randint(1, pieces)) for _ in range(rng.randint(0, 4))]
            wants[name] = union((first, min(count, pieces - first)) for first, count in rows)
    trees = list(range(rng.randint(1, 3)))
    reach = {tree: frozenset(names) for tree in trees}
    scheduler = Scheduler(pieces, 8, trees, 1000.0, reach=reach, wants=wants)
    came = got(deal(scheduler), names)
    for name in names:
        rows = wants.get(name, [(0, pieces)])
        assert came[name] == Counter(p for first, count in rows for p in range(first, first + count)), name
    carried = sum(queue.assigned for queue in scheduler.trees.values())
    anybodys = union(row for name in names for row in wants.get(name, [(0, pieces)]))
    assert carried == sum(count for _, count in anybodys)


def test_all_receivers_of_a_tree_are_at_one_place_of_it() -> None:
    """Nobody is given what lies far beyond an extent that it does not want: it would begin at once, and those who are
    still at that extent would seem late, or have left the caches when they come to what both want."""
    wants = {"a": [(0, 2000)], "b": [(0, 4000)], "c": [(2000, 2000)], "d": [(4000, 2000)]}
    scheduler = Scheduler(6000, 8, [0], 1000.0, reach={0: frozenset("abcd")}, wants=wants)
    queue, now, given = scheduler.trees[0], 0.0, list[Extent]()
    while not scheduler.all_sent and now < 100:
        now += 0.01
        before = queue.left_s(now)
        for extent in scheduler.assign(now):
            assert not given or extent.to <= given[-1].to or before <= SWITCH_S, (extent, given[-1], before)
            given.append(extent)
            before = queue.left_s(now)
        scheduler.status(0, int(queue.expected(now)), None, now)
    assert scheduler.all_sent and now < 6.5, "nor does the tree idle"
    assert {"".join(sorted(e.to)) for e in given} == {"ab", "bc", "d"}, "what two want goes out once"


def test_what_is_for_others_than_a_tree_s_last_extent_waits_until_that_has_nearly_been_sent() -> None:
    queue = TreeQueue(1, 100.0, end=100, next=100, extents=[Extent(1, 0, 0, 100, frozenset("ab"))])
    told = {key: Scheduler._in_step(queue, frozenset(key), 0.5) for key in ("a", "ab", "c", "abc")}
    assert told == {"a": True, "ab": True, "c": False, "abc": False}
    late = 1.0 - SWITCH_S
    assert [Scheduler._in_step(queue, frozenset("c"), late + by) for by in (-0.01, 0.01)] == [False, True]


def test_what_a_receiver_lacks_is_asked_for_again_within_its_ranges_only() -> None:
    scheduler = Scheduler(100, 10, [0], 1000.0, reach={0: frozenset("ab")}, wants={"a": [(0, 50)], "b": [(50, 50)]})
    deal(scheduler)
    assert scheduler.again(7, frozenset("b")) and [e.to for e in deal(scheduler)] == [frozenset("b")]
    scheduler.again(7, frozenset("a"))
    scheduler.come(frozenset("c"))
    scheduler.add(1, reach=frozenset("abc"))
    assert got(deal(scheduler), "abc") == {"a": Counter(), "b": Counter(), "c": Counter(range(100))}


def test_another_master_goes_on_with_the_same_ranges() -> None:
    wants = {"a": [(0, 50)], "b": [(50, 20)]}
    one = Scheduler(100, 10, [0], 1000.0, reach={0: frozenset("ab")}, wants=wants)
    other = Scheduler(100, 10, [1], 1000.0, reach={1: frozenset("ab")}, wants=wants, pool=one.rest())
    assert got(deal(other), "ab") == {"a": Counter(range(50)), "b": Counter(range(50, 70))}
