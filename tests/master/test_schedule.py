"""The scheduler against simulated sources: rates that differ, change and stall; no piece lost, none twice, no idle
tree."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from datacast.master.schedule import Scheduler
from datacast.master.tree_queue import ALL, Cut, Extent, TreeQueue, links_needed, turn

STEP_S = 0.005
SIGNAL_S = 0.01
POLL_S = 0.25


@dataclass
class Run:
    """One transfer in simulated time."""

    scheduler: Scheduler
    rates: dict[int, list[tuple[float, float]]]
    """Per tree: (from time, pieces/s)."""
    sent: dict[int, float] = field(default_factory=dict)
    range_end: dict[int, int] = field(default_factory=dict)
    given: dict[int, int] = field(default_factory=dict)
    extents: dict[int, list] = field(default_factory=dict)
    names: dict[tuple[int, int], int] = field(default_factory=dict)
    ends: dict[int, float] = field(default_factory=dict)
    idle: dict[int, float] = field(default_factory=dict)
    cuts: int = 0
    wasted: int = 0
    now: float = 0.0

    def rate(self, tree: int) -> float:
        return next(rate for start, rate in reversed(self.rates[tree]) if self.now >= start)

    def advance(self, tree: int, pieces: float) -> float:
        """Where the tree's source is after so many more pieces; it steps over gaps."""
        at = self.sent[tree]
        for extent in self.extents[tree]:
            at = max(at, extent.seq) if pieces > 0 else at
            step = min(pieces, max(0.0, extent.seq + extent.count - at))
            at, pieces = at + step, pieces - step
        return at

    def go(self, limit: float = 1000.0) -> float:
        """Until everything is sent. Returns the finish time."""
        trees = list(self.scheduler.trees)
        for tree in trees:
            self.sent[tree], self.range_end[tree], self.extents[tree], self.idle[tree] = 0.0, 0, [], 0.0
            self.given[tree] = 0
        due: list[tuple[float, str, object]] = []
        next_poll, reported = 0.0, dict.fromkeys(trees, 0)
        while not (self.scheduler.all_sent and not due):
            assert self.now < limit, "the transfer does not end"
            self.now += STEP_S
            for tree in trees:
                before = int(self.sent[tree])
                self.sent[tree] = self.advance(tree, self.rate(tree) * STEP_S)
                for seq in range(before, int(self.sent[tree])):
                    extent = next((e for e in self.extents[tree] if e.seq <= seq < e.seq + e.count), None)
                    if extent is None:
                        continue  # a gap
                    piece = extent.first + seq - extent.seq
                    assert self.names.setdefault((tree, seq), piece) == piece, "a sequence number was used again"
                    self.ends[tree] = self.now
                if self.sent[tree] >= self.range_end[tree] and self.scheduler.pooled:
                    self.idle[tree] += STEP_S
                for extent in self.extents[tree]:
                    for mark in (extent.seq + (extent.count + 1) // 2, extent.seq + extent.count):
                        if reported[tree] < mark <= self.sent[tree]:
                            reported[tree] = mark
                            self.scheduler.sent(tree, mark, self.now)
            if self.now >= next_poll:
                next_poll = self.now + POLL_S
                for tree in trees:
                    self.scheduler.status(tree, int(self.sent[tree]), self.rate(tree), self.now)
            for at, what, value in [d for d in due if d[0] <= self.now]:
                due.remove((at, what, value))
                if what == "assign":
                    assert value.seq >= self.given[value.tree], "a number was given twice"
                    self.given[value.tree] = value.seq + value.count
                    self.extents[value.tree].append(value)
                    self.range_end[value.tree] = value.seq + value.count
                else:
                    # A tree that sped up just then sends some pieces that go over another tree as well.
                    for seq in range(value.seq, int(self.sent[value.tree])):
                        self.wasted += 1
                        self.names[(value.tree, seq)] = -1
                    self.range_end[value.tree] = min(self.range_end[value.tree], value.seq)
                    self.extents[value.tree] = [
                        type(e)(e.tree, e.seq, e.first, min(e.count, value.seq - e.seq))
                        for e in self.extents[value.tree]
                        if e.seq < value.seq
                    ]
                    self.scheduler.cut_done(self.now)
            for extent in self.scheduler.assign(self.now):
                due.append((self.now + SIGNAL_S, "assign", extent))
            cut = self.scheduler.steal(self.now)
            if cut:
                self.cuts += 1
                due.append((self.now + SIGNAL_S, "cut", cut))
        return self.now

    def check_whole(self, pieces: int) -> None:
        sent = sorted(piece for piece in self.names.values() if piece >= 0)
        assert sent == list(range(pieces)), "pieces are missing or were sent twice"
        assert self.wasted <= 0.01 * pieces + 50


def steady(*rates: float) -> dict[int, list[tuple[float, float]]]:
    return {tree + 1: [(0.0, rate)] for tree, rate in enumerate(rates)}


def start(pieces: int, rates: dict, per_block: int = 116, nominal: float = 1388.0) -> Run:
    return Run(Scheduler(pieces, per_block, list(rates), nominal), rates)


@pytest.mark.parametrize("trees", [1, 2, 4])
def test_equal_trees_end_together_and_never_idle(trees: int) -> None:
    pieces = 30_000
    run = start(pieces, steady(*[1388.0] * trees))
    finish = run.go()
    run.check_whole(pieces)
    assert finish == pytest.approx(pieces / (1388 * trees), rel=0.01, abs=0.06)
    assert max(run.ends.values()) - min(run.ends.values()) < 0.1
    assert all(idle <= 2 * SIGNAL_S + 2 * STEP_S for idle in run.idle.values())


@pytest.mark.parametrize("slow", [700.0, 140.0, 14.0])
def test_a_slower_tree_gets_less_and_all_end_together(slow: float) -> None:
    pieces = 20_000
    run = start(pieces, steady(1388.0, slow))
    finish = run.go()
    run.check_whole(pieces)
    assert finish <= pieces / (1388 + slow) * 1.02 + 0.3


def test_a_tree_that_slows_down_at_the_end_is_relieved_by_the_others() -> None:
    pieces = 20_000
    run = start(pieces, {1: [(0.0, 1388.0)], 2: [(0.0, 1388.0), (5.0, 50.0)]})
    finish = run.go()
    run.check_whole(pieces)
    ideal = 5.0 + (pieces - 2 * 5 * 1388) / (1388 + 50)
    assert run.cuts >= 1
    assert finish <= ideal * 1.05 + 0.5


def test_a_tree_that_stands_still_keeps_only_what_a_cut_cannot_take() -> None:
    pieces = 20_000
    rates = {1: [(0.0, 1388.0)], 2: [(0.0, 1388.0), (3.0, 0.0), (40.0, 1388.0)]}
    run = start(pieces, rates)
    finish = run.go()
    run.check_whole(pieces)
    taken = sum(1 for tree, _ in run.names if tree == 1)
    assert taken > pieces - 3.2 * 1388 - 500
    assert 40.0 <= finish < 41.0


@pytest.mark.parametrize("pieces", [0, 1, 2, 3, 115, 116, 117, 233])
@pytest.mark.parametrize("trees", [1, 2, 3])
def test_tiny_files_go_whole(pieces: int, trees: int) -> None:
    run = start(pieces, steady(*[1388.0] * trees))
    run.go(limit=10)
    run.check_whole(pieces)


def test_extents_are_whole_blocks_while_there_is_plenty() -> None:
    scheduler = Scheduler(100_000, 116, [1, 2], 1388.0)
    extents = scheduler.assign(0.0)
    assert {e.tree for e in extents} == {1, 2}
    assert all(e.first % 116 == 0 and e.count % 116 == 0 for e in extents)
    first = extents[0]
    assert not scheduler.assign(0.1), "the next extent waits until half of the present one is sent"
    scheduler.sent(first.tree, first.count // 2, first.count / 2 / 1388)
    (following,) = [e for e in scheduler.assign(first.count / 2 / 1388) if e.tree == first.tree]
    assert following.seq == first.seq + first.count and following.count < first.count


@pytest.mark.parametrize("seed", range(12))
def test_changing_rates_lose_nothing(seed: int) -> None:
    rng = random.Random(seed)
    trees = rng.randint(1, 5)
    pieces = rng.randint(1, 12_000)
    rates = {}
    for tree in range(1, trees + 1):
        times = sorted(rng.uniform(0, 6) for _ in range(5))
        rates[tree] = [
            (0.0, 1388.0),
            *((t, rng.choice([0.0, 30.0, 300.0, 1000.0, 1388.0])) for t in times),
            (30.0, 1000.0),
        ]
    run = start(pieces, rates)
    run.go(limit=200)
    run.check_whole(pieces)


def test_a_block_that_a_receiver_cannot_ask_for_any_more_gets_new_numbers() -> None:
    scheduler = Scheduler(10, 4, [1, 2], 100.0)
    now, sent = 0.0, []
    for round_ in range(2):
        while extents := scheduler.assign(now):
            sent += extents
            for extent in extents:
                scheduler.sent(extent.tree, extent.seq + extent.count, now)
            now += 1.0
        if round_ == 0:
            assert scheduler.again(2) and not scheduler.again(2) and not scheduler.again(3) and not scheduler.again(-1)
            assert scheduler.pooled == 2 and not scheduler.all_sent
    assert scheduler.all_sent
    pieces = [p for e in sent for p in range(e.first, e.first + e.count)]
    assert sorted(pieces) == sorted([*range(10), 8, 9])
    numbers = [(e.tree, s) for e in sent for s in range(e.seq, e.seq + e.count)]
    assert len(set(numbers)) == len(numbers)


def test_what_another_master_would_start_with_is_all_of_it_and_first_what_was_not_sent() -> None:
    scheduler = Scheduler(10, 4, [1], 100.0)
    assert [one.count for one in scheduler.assign(0.0)] == [10]
    scheduler.sent(1, 3, 0.0)
    assert scheduler.rest() == [(3, 7), (0, 3)]


def test_what_was_sent_beyond_a_cut_before_the_source_heard_of_it_is_sent_again() -> None:
    """A source that stood still and goes on all at once: receivers that know of the cut have asked for none of it."""
    scheduler = Scheduler(400, 4, [1, 2], 100.0, rates={1: 100.0, 2: 10.0})
    extents = [one for _ in range(20) for one in scheduler.assign(0.0)]
    quick, slow = (sum(one.count for one in extents if one.tree == tree) for tree in (1, 2))
    rounds = 0
    while scheduler.pooled or scheduler.trees[1].sent < scheduler.trees[1].end:
        scheduler.sent(1, scheduler.trees[1].end, float(rounds))
        extents += scheduler.assign(float(rounds))
        rounds += 1
        assert rounds < 100
    scheduler.slow_down(2, 1.0)
    cut = scheduler.steal(float(rounds))
    assert cut is not None and cut.tree == 2, (quick, slow)
    scheduler.sent(2, scheduler.trees[2].end, float(rounds))
    scheduler.cut_done(float(rounds))
    before = {
        p
        for e in extents
        for n, p in enumerate(range(e.first, e.first + e.count))
        if (e.tree, e.seq + n) < (2, cut.seq)
    }
    again = [piece for one in scheduler.assign(float(rounds)) for piece in range(one.first, one.first + one.count)]
    assert before | set(again) == set(range(400)) and again


def test_after_a_cut_a_tree_goes_on_above_every_number_it_was_ever_given() -> None:
    """A member that was out of touch knows the old pieces of the numbers that were cut off: they never mean others."""
    scheduler = Scheduler(4000, 100, [1, 2], 1000.0)
    now = 0.0
    while scheduler.pooled:
        for tree, queue in scheduler.trees.items():
            scheduler.sent(tree, int(queue.expected(now)) if tree == 1 else min(queue.end, 10), now)
            scheduler.status(tree, queue.sent, 1000.0 if tree == 1 else 10.0, now)
        scheduler.assign(now)
        now += 0.1
    cut = None
    while cut is None:
        now += 0.05
        scheduler.sent(1, int(scheduler.trees[1].expected(now)), now)
        scheduler.status(2, 10, 10.0, now)
        cut = scheduler.steal(now)
    assert cut.tree == 2
    given = scheduler.trees[2].end
    scheduler.cut_done(now)
    assert scheduler.trees[2].end == cut.seq < given
    scheduler.status(2, cut.seq - 1, 10.0, now + 0.1, asked=now - 0.1)
    assert scheduler.trees[2].cut_at is not None, "an answer from before the cut settles nothing"
    scheduler.status(2, cut.seq + 5, 1e6, now + 0.2)  # the cut came late, and the tree is quick all at once
    again = [e for e in scheduler.assign(now + 0.3) if e.tree == 2]
    assert again and all(e.seq >= given for e in again)
    assert scheduler.trees[2].backlog(now + 0.3) <= sum(e.count for e in again), "a gap is nothing to send"


@pytest.mark.parametrize("bad", [{"pieces": -1}, {"per_block": 0}, {"trees": []}, {"rate": 0.0}])
def test_senseless_numbers_are_refused(bad: dict) -> None:
    good = {"pieces": 10, "per_block": 2, "trees": [1], "rate": 1.0}
    with pytest.raises(ValueError):
        Scheduler(**{**good, **bad})


def test_a_tree_whose_share_falls_to_little_keeps_only_what_it_can_send() -> None:
    """Many groups over the same links: one of the trees may send a piece a second from now on."""
    scheduler = Scheduler(80, 10, [1, 2], rate=100.0)
    assert sum(extent.count for extent in scheduler.assign(0.0)) == 80
    scheduler.bound(2, 1.0, 0.2)
    cut = scheduler.steal(0.2)
    assert cut is not None and cut.tree == 2 and cut.seq <= 20 + 2, "not what it could have sent at the old rate"
    scheduler.cut_done(0.25)
    assert scheduler.trees[2].left_s(0.25) <= 2
    scheduler.status(1, 26, 100.0, 0.26)
    scheduler.status(2, 21, 100.0, 0.26, 0.26)
    assert scheduler.trees[2].rate == 1.0, "what was measured before says nothing"
    assert {extent.tree for extent in scheduler.assign(0.26)} == {1}
    scheduler.bound(2, None, 1.0)
    assert scheduler.trees[2].rate == 100.0


def test_a_change_of_rate_moves_no_tree_back() -> None:
    scheduler = Scheduler(1000, 10, [1], rate=100.0)
    scheduler.assign(0.0)
    before = scheduler.trees[1].expected(0.5)
    scheduler.bound(1, 10.0, 0.5)
    assert scheduler.trees[1].expected(0.5) == before == 50
    assert scheduler.trees[1].expected(1.5) == 60
    scheduler.sent(1, 55, 1.5)
    assert scheduler.trees[1].expected(2.5) == 65


def test_links_are_counted_as_they_were_when_pieces_went_over_them():
    long, short = [(f"n{i}", f"n{i + 1}") for i in range(7)], [(f"n{i}", f"n{i + 1}") for i in range(3)]
    queue = TreeQueue(1, 0.0, sent=300)
    assert links_needed(long, queue) == 7
    turn(long, queue, 0.0)
    assert links_needed(short, queue) == 7, "nothing has gone over the new ones"
    queue.sent = 400
    assert links_needed(short, queue) == (300 * 7 + 100 * 3) / 400


def test_a_tree_that_stands_still_costs_no_more_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks that a root has fetched come one by one, each an extent. When it was asked for each of them where the
    source is, a master took a whole core for what its trees had not sent, and nobody heard of it any more."""
    scheduler = Scheduler(29 * 8000, 29, [1, 2], 500.0)
    for queue in scheduler.trees.values():
        queue.extents.extend(Extent(queue.id, i * 29, i * 29, 29) for i in range(400))
        queue.end = queue.next = 400 * 29
    looks = 0
    expected = TreeQueue.expected

    def counted(queue: TreeQueue, now: float) -> float:
        nonlocal looks
        looks += 1
        return expected(queue, now)

    monkeypatch.setattr(TreeQueue, "expected", counted)
    scheduler.assign(9.0)
    scheduler.steal(9.0)
    assert looks <= 20


def test_the_last_pieces_of_a_tree_that_crawls_go_to_one_that_is_free() -> None:
    """A piece takes it ten seconds: one that is sent in vain is cheaper than eight that all wait for."""
    scheduler = Scheduler(24, 1, [1, 2], rate=100.0)
    assert sum(extent.count for extent in scheduler.assign(0.0) if extent.tree == 2) == 12
    now = 0.0
    while scheduler.trees[2].rate > 0.2:
        now += 0.25
        scheduler.status(1, 12, 100.0, now)
        scheduler.status(2, 0, 0.0, now)
    cut = scheduler.steal(now)
    assert cut is not None and (cut.tree, cut.seq) == (2, 0)
    scheduler.cut_done(now)
    assert {extent.tree for extent in scheduler.assign(now)} == {1} and not scheduler.pooled


@pytest.mark.parametrize(("rate", "seconds"), [(0.5, 20.0), (1.0, 10.0), (0.0, float("inf"))])
def test_how_long_a_slow_tree_still_needs_is_known_below_a_piece_a_second_too(rate: float, seconds: float) -> None:
    queue = TreeQueue(1, rate, end=10, next=10, extents=[Extent(1, 0, 0, 10)])
    assert Scheduler._left_for(queue, ALL, 0.0) == (seconds, 10)


def test_a_rate_that_is_measured_counts_for_most_of_what_a_tree_is_believed_to_have() -> None:
    scheduler = Scheduler(1000, 10, [1], rate=100.0)
    scheduler.assign(0.0)
    scheduler.status(1, 10, 50.0, 0.1)
    assert scheduler.trees[1].rate == pytest.approx(65.0)
    scheduler.status(1, 10, None, 0.2)
    assert scheduler.trees[1].rate == pytest.approx(65.0), "nothing was measured"


def test_what_the_source_of_a_lost_tree_cannot_have_sent_is_taken_back_once() -> None:
    scheduler = Scheduler(1000, 10, [1, 2], rate=100.0)
    given = {extent.tree: extent.count for extent in scheduler.assign(0.0)}
    scheduler.lose(1)
    assert scheduler.release(1, 0.5) == Cut(1, 68), "it may be at 50, and go on for a moment"
    assert scheduler.release(2, 0.5) is None, "one at a time"
    scheduler.cut_done(0.6)
    assert scheduler.pooled == 1000 - given[2] - 68
    assert scheduler.release(1, 0.7) is None, "where its source is it has not said yet"


def test_a_tree_that_was_cut_is_not_cut_again_before_its_source_has_said_where_it_is() -> None:
    scheduler = Scheduler(80, 10, [1, 2], rate=100.0)
    scheduler.assign(0.0)
    scheduler.bound(2, 1.0, 0.2)
    assert scheduler.steal(0.2) is not None
    scheduler.cut_done(0.25)
    scheduler.assign(0.26)
    scheduler.sent(1, scheduler.trees[1].end, 0.6)
    scheduler.slow_down(2, 0.0)
    assert scheduler.steal(0.6) is None
    scheduler.status(2, 20, None, 0.6)
    assert scheduler.steal(0.6) == Cut(2, 20)
