"""Stages (Takahashi and others, Algorithm 2) in simulated time: who has the whole file when."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from datacast.master.schedule import Scheduler
from datacast.master.tree_queue import PAST, Extent, links_needed

STEP_S = 0.01


@dataclass
class Stages:
    """Trees that send at their rates; a tree passes what all its receivers hold. A receiver's time is when it holds
    everything."""

    rates: dict[int, float]
    reach: dict[int, frozenset[str]]
    pieces: int
    held: dict[str, set[int]] = field(default_factory=dict)
    done: dict[str, float] = field(default_factory=dict)
    sent: int = 0
    believed: dict[int, float] = field(default_factory=dict)
    """Rates before any are measured, where they differ."""
    measured_s: float = 1.0

    def go(self, limit_s: float = 1000.0) -> dict[str, float]:
        names = frozenset().union(*self.reach.values())
        believed = self.rates | self.believed
        scheduler = Scheduler(self.pieces, 20, list(self.rates), 100.0, rates=believed, reach=self.reach)
        self.held = {name: set() for name in names}
        queues: dict[int, list[Extent]] = {tree: [] for tree in self.rates}
        at, tokens = dict.fromkeys(self.rates, 0), dict.fromkeys(self.rates, 0.0)
        now = 0.0
        while len(self.done) < len(names):
            assert now < limit_s, "the transfer does not end"
            now += STEP_S
            for tree, rate in self.rates.items():
                tokens[tree] = min(tokens[tree] + rate * STEP_S, rate * STEP_S + 4)
                while queues[tree]:
                    extent = queues[tree][0]
                    at[tree] = max(at[tree], extent.seq)  # after a cut a tree goes on above a gap
                    if at[tree] >= extent.seq + extent.count:
                        queues[tree].pop(0)
                        continue
                    at[tree] = max(at[tree], extent.seq)  # a gap that a cut left
                    piece = extent.first + at[tree] - extent.seq
                    wanting = [name for name in self.reach[tree] if piece not in self.held[name]]
                    if wanting and tokens[tree] < 1:
                        break
                    if wanting:
                        tokens[tree] -= 1
                        self.sent += 1
                    for name in wanting:
                        self.held[name].add(piece)
                        if len(self.held[name]) == self.pieces:
                            self.done[name] = now
                    at[tree] += 1
                scheduler.sent(tree, at[tree], now)
                if self.believed and now >= self.measured_s:
                    scheduler.status(tree, at[tree], rate, now)
            scheduler.gone(frozenset(self.done))
            for extent in scheduler.assign(now):
                queues[extent.tree].append(extent)
            cut = scheduler.steal(now)
            if cut:
                kept = [e for e in queues[cut.tree] if e.seq < cut.seq]
                queues[cut.tree] = [Extent(e.tree, e.seq, e.first, min(e.count, cut.seq - e.seq), e.to) for e in kept]
                scheduler.cut_done(now)
                scheduler.status(cut.tree, at[cut.tree], None, now)
        return self.done


def test_a_slow_receiver_costs_the_others_nothing_and_itself_nothing():
    all_six, five = frozenset("abcdef"), frozenset("abcde")
    run = Stages({1: 450.0, 2: 450.0, 3: 50.0, 4: 50.0}, {1: five, 2: five, 3: all_six, 4: all_six}, 4000)
    done = run.go()
    assert max(done[name] for name in five) <= 4.0 * 1.02 + 0.1
    assert done["f"] <= 40.0 * 1.02 + 0.3


def test_what_a_slow_tree_was_given_too_much_the_fast_ones_take_over():
    """It still has enough to do: what went over the others only, its slow receiver has to get yet."""
    all_six, five = frozenset("abcdef"), frozenset("abcde")
    rates, reach = {1: 450.0, 2: 450.0, 3: 50.0, 4: 50.0}, {1: five, 2: five, 3: all_six, 4: all_six}
    run = Stages(rates, reach, 4000, believed={1: 150.0, 2: 150.0, 3: 100.0, 4: 100.0})
    done = run.go()
    assert max(done[name] for name in five) <= 4.0 * 1.02 + 0.2
    assert done["f"] <= 40.0 * 1.02 + 0.3


def test_every_level_of_a_nested_plan_has_its_own_time():
    """Three levels: each receiver is done after the file over the sum of its trees' rates (section 3.3)."""
    reach = {1: frozenset("abc"), 2: frozenset("bc"), 3: frozenset("c")}
    run = Stages({1: 100.0, 2: 100.0, 3: 200.0}, reach, 4000)
    done = run.go()
    for name, rate in (("a", 100.0), ("b", 200.0), ("c", 400.0)):
        assert done[name] <= 4000 / rate * 1.02 + 0.3, name


def test_trees_that_leave_out_different_receivers_still_bring_everybody_everything():
    reach = {1: frozenset("ab"), 2: frozenset("bc"), 3: frozenset("ca")}
    run = Stages(dict.fromkeys(reach, 100.0), reach, 3000)
    done = run.go()
    # Each third waits for one receiver then, and every tree can bring it to one of them.
    assert max(done.values()) <= 10.0 + 10.0 * 1.15 + 0.3


@pytest.mark.parametrize("seed", range(20))
def test_any_trees_bring_everybody_everything(seed: int):
    rng = random.Random(seed)
    names = [f"r{i}" for i in range(rng.randint(2, 8))]
    trees = rng.randint(1, 6)
    reach = {t: frozenset(rng.sample(names, rng.randint(1, len(names)))) for t in range(trees)}
    reach[trees] = frozenset(names)
    rates = {t: rng.uniform(20, 300) for t in reach}
    run = Stages(rates, reach, rng.randint(1, 2000))
    done = run.go()
    assert set(done) == set(names)
    assert all(len(held) == run.pieces for held in run.held.values())


def dealt_out() -> Scheduler:
    """A fast tree to a and a slow one to a and b. All that a gets is given out, and the slow tree has sent its part;
    what the fast one has is on its way to a."""
    reach = {1: frozenset("a"), 2: frozenset("ab")}
    scheduler = Scheduler(100, 10, [1, 2], 10.0, rates={1: 90.0, 2: 10.0}, reach=reach)
    given: list[Extent] = []
    for step in range(20):
        given += scheduler.assign(step / 20)
        scheduler.sent(1, scheduler.trees[1].end, step / 20)
    assert sum(extent.count for extent in given if "a" in extent.to) == 100 > scheduler.pooled > 50
    scheduler.sent(2, scheduler.trees[2].end, 1.0)
    return scheduler


def test_what_a_slow_one_alone_needs_waits_until_the_fast_ones_of_its_tree_have_it_from_others():
    """They would ask for what is on its way to them over the other trees, far ahead of the slow one."""
    scheduler = dealt_out()
    assert not scheduler.assign(1.0) and not scheduler.assign(1.4)
    scheduler.gone(frozenset("a"))
    assert {(extent.tree, extent.to) for extent in scheduler.assign(1.4)} == {(2, frozenset("b"))}


def test_a_fast_one_that_never_has_it_is_waited_for_once():
    scheduler = dealt_out()
    assert not scheduler.assign(1.0) and not scheduler.assign(1.4)
    assert {extent.tree for extent in scheduler.assign(1.6)} == {2}
    now = 2.0
    while scheduler.pooled:
        now += 10.0
        scheduler.sent(2, scheduler.trees[2].end, now)
        assert scheduler.assign(now), "the rest follows at once"


def test_a_tree_waits_anew_for_whom_is_next_to_have_all():
    reach = {1: frozenset("a"), 2: frozenset("ab"), 3: frozenset("abc")}
    scheduler = Scheduler(600, 10, [1, 2, 3], 100.0, reach=reach)

    def out(of: str, now: float) -> float:
        """Deal out until nothing waits for `of`, and all of it is sent; then the time."""
        while any(of in key for key in scheduler._pools):
            scheduler.assign(now)
            now += 1.0
            for queue in scheduler.trees.values():
                scheduler.sent(queue.id, queue.end, now)
        return now

    now = out("a", 0.0)
    assert not scheduler.assign(now)
    scheduler.gone(frozenset("a"))
    now = out("b", now + 0.1)
    assert not scheduler.assign(now) and scheduler._pools.keys() == {frozenset("c")}
    scheduler.gone(frozenset("b"))
    assert {extent.tree for extent in scheduler.assign(now + 0.1)} == {3}


def test_nobody_waits_for_those_who_have_more_to_get_themselves():
    """Trees that leave out different receivers: each third waits for one, and every tree can bring it to one."""
    reach = {1: frozenset("ab"), 2: frozenset("bc"), 3: frozenset("ca")}
    scheduler, given = Scheduler(300, 10, [1, 2, 3], 100.0, reach=reach), []
    for step in range(4):
        given = scheduler.assign(float(step))
        for queue in scheduler.trees.values():
            scheduler.sent(queue.id, queue.end, float(step))
    assert {extent.tree for extent in given} == {1, 2, 3} and all(len(extent.to) == 1 for extent in given)


def test_what_waits_only_for_those_who_left_is_not_sent():
    scheduler = Scheduler(100, 10, [1, 2], 10.0, reach={1: frozenset("a"), 2: frozenset("ab")})
    extents = scheduler.assign(0.0)
    assert scheduler.pooled
    scheduler.gone(frozenset("ab"))
    assert scheduler.pooled == 0
    assert {e.to for e in extents} <= {frozenset("a"), frozenset("ab")}


def half_dealt() -> tuple[Scheduler, int, float]:
    """2,000 pieces, of which one tree to a and b has a thousand; one past its last number, and the time."""
    scheduler = Scheduler(2000, 1, [1], 100.0, reach={1: frozenset("ab")}, max_pieces=10, min_s=0.01)
    now, at = 0.0, 0
    while at < 1000:
        at = max([at, *(extent.seq + extent.count for extent in scheduler.assign(now))])
        now += 0.1
        scheduler.sent(1, at - 5, now)
    return scheduler, at, now


@pytest.mark.parametrize("forgotten", [False, True])
def test_who_leaves_a_tree_gets_what_it_lacks_of_it_over_another(forgotten: bool):
    """With all that lies behind it, or, where that was too long ago, everything; the others wait for nothing new."""
    scheduler, at, now = half_dealt()
    scheduler.add(2, 10.0, frozenset("b"))
    scheduler.leave("b", {1: (0 if forgotten else at - 25, at - 10)})
    scheduler.leave("b", {1: (0, 0)})  # once
    waiting = {key: sorted(parts) for key, parts in scheduler._pools.items()}
    own = waiting[frozenset("b")]
    assert sum(count for _, count in own) == (2000 if forgotten else 25)
    if not forgotten:
        assert {p for first, count in own for p in range(first, first + count)} == set(range(at - 25, at))
    assert sum(count for _, count in waiting[frozenset("ab")]) == 2000 - at
    assert {extent.to for extent in scheduler.trees[1].extents} == {frozenset("a")}
    assert all(extent.tree == 2 for extent in scheduler.assign(now) if "b" in extent.to)


@pytest.mark.parametrize("early", [0, 1])
def test_a_tree_is_remembered_from_its_oldest_extent_on(early: int):
    """Who lacks what begins there gets just that; one number earlier, and nobody knows any more which piece it was."""
    scheduler, at, _ = half_dealt()
    oldest = scheduler.trees[1].past[0].seq
    assert len(scheduler.trees[1].past) == PAST and oldest > 0
    scheduler.add(2, 10.0, frozenset("b"))
    scheduler.leave("b", {1: (oldest - early, at)})
    own = scheduler._pools[frozenset("b")]
    assert sum(count for _, count in own) == (2000 if early else at - oldest)


def test_what_is_on_its_way_to_who_leaves_trees_is_sent_again_last():
    """It asked for it over the old trees, and a slow link still brings it: over a new one it would come twice."""
    trees = {1: frozenset("ab"), 2: frozenset("ab")}
    scheduler = Scheduler(400, 1, [1, 2], 100.0, reach=trees, max_pieces=200)
    extents = {e.tree: e for e in scheduler.assign(0.0)}
    scheduler.leave("b", {number: (e.seq + 10, e.seq + 40) for number, e in extents.items()})
    scheduler.add(3, 10.0, frozenset("b"))
    scheduler.lose(1)
    scheduler.lose(2)
    order: list[int] = []
    while fresh := scheduler.assign(float(len(order))):
        order += [p for e in fresh if "b" in e.to for p in range(e.first, e.first + e.count)]
        scheduler.sent(3, max(e.seq + e.count for e in fresh), float(len(order)))
    coming = {e.first + k for e in extents.values() for k in range(10, 40)}
    rest = {e.first + k for e in extents.values() for k in range(40, e.count)}
    at = {piece: place for place, piece in enumerate(order)}
    assert rest and coming | rest <= at.keys()
    assert max(at[piece] for piece in rest) < min(at[piece] for piece in coming)
    assert all(count > 0 for pool in scheduler._pools.values() for _, count in pool)


def test_links_that_pieces_had_to_cross_count_for_what_was_sent_and_asked_for():
    """Not what a tree was given and did not send, nor numbers that the only one who wanted them has left."""
    arcs = [("s", "x"), ("x", "a"), ("x", "b")]
    scheduler = Scheduler(600, 1, [1], 100.0, reach={1: frozenset("ab")}, max_pieces=100)
    queue = scheduler.trees[1]
    first = scheduler.assign(0.0)[-1]
    scheduler.sent(1, first.seq + first.count, 1.0)
    scheduler.by_name(frozenset("ab"))
    scheduler.leave("a", {1: (first.seq + first.count, first.seq + first.count)})
    assert links_needed(arcs, queue) == 3
    only = scheduler.assign(2.0)[0]
    assert only.to == frozenset("b")
    assert links_needed(arcs, queue) == 3, "not sent yet"
    scheduler.sent(1, only.seq + 60, 3.0)
    count = first.seq + first.count
    assert links_needed(arcs, queue) == round((count * 3 + 60 * 2) / (count + 60), 4)
    scheduler.leave("b", {1: (only.seq + 20, only.seq + 20)})
    assert links_needed(arcs, queue) == round((count * 3 + 20 * 2) / (count + 20), 4)


def test_another_master_hears_of_every_piece_once():
    scheduler = Scheduler(1000, 10, [1, 2], 10.0, reach={1: frozenset("a"), 2: frozenset("ab")})
    scheduler.assign(0.0)
    covered = sorted(scheduler.rest())
    at = 0
    for first, count in covered:
        assert first == at
        at += count
    assert at == 1000
