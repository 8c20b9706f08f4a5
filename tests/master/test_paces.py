"""When a receiver that is slower than planned is worth a new plan, and when it is not."""

from __future__ import annotations

import itertools
import random

from datacast.master.paces import BEHIND_S, PLAN_EVERY_S, Paces, Seen

NEAR = 64 << 10
POLL_S = 0.25


class World:
    """Receivers of one tree: all go at the pace of the slowest of those without a cap; one with a cap by itself."""

    def __init__(self, bound: float, names: str = "abc") -> None:
        self.bound, self.names, self.now = bound, names, 0.0
        self.held = dict.fromkeys(names, 0.0)
        self.paces = Paces(NEAR)
        self.plans: list[tuple[float, dict[str, int]]] = []

    def run(self, seconds: float, able) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now += POLL_S
            caps = self.paces.caps
            together = [n for n in self.names if n not in caps]
            slowest = min((able(n, self.now) for n in together), default=self.bound)
            seen = []
            for n in self.names:
                planned = caps.get(n, self.bound)
                rate = min(planned, able(n, self.now)) if n in caps else slowest
                late = 0.0
                if n in caps and able(n, self.now) < planned:
                    rate = able(n, self.now)
                elif n not in caps and able(n, self.now) == slowest < self.bound:
                    late = 2 * NEAR  # the one that holds the others up is a cache behind them
                self.held[n] += rate * POLL_S / 8
                seen.append(Seen(n, int(max(0, self.held[n] - late)), rate, planned, self.bound))
            if self.paces.look(seen, self.now):
                self.plans.append((self.now, self.paces.caps))


def test_a_link_that_becomes_slow_makes_a_plan_within_two_seconds():
    world = World(100e6)
    world.run(3.0, lambda name, now: 100e6)
    assert world.plans == []
    world.run(5.0, lambda name, now: 10e6 if name == "c" else 100e6)
    assert len(world.plans) <= 4
    at, caps = world.plans[0]
    assert at - 3.0 <= 2.0 and set(caps) == {"c"} and caps["c"] <= 11e6


def test_all_late_alike_is_somebody_else_s_traffic():
    world = World(100e6)
    paces = world.paces
    held = 0.0
    for i in range(40):
        held += 30e6 * POLL_S / 8
        assert not paces.look([Seen(n, int(held), 30e6, 100e6, 100e6) for n in "abc"], i * POLL_S)


def test_a_rate_that_swings_makes_at_most_a_plan_a_second_and_ever_fewer():
    rng = random.Random(5)
    slow = [rng.choice([5e6, 100e6]) for _ in range(4000)]
    world = World(100e6)
    world.run(120.0, lambda name, now: slow[int(now / 0.7)] if name == "c" else 100e6)
    times = [at for at, _ in world.plans]
    assert all(b - a >= PLAN_EVERY_S - 1e-9 for a, b in itertools.pairwise(times))
    first, last = sum(at <= 60 for at in times), sum(at > 60 for at in times)
    assert first <= 25 and last <= first


def test_one_that_recovers_gets_its_rate_back():
    world = World(100e6)
    world.run(5.0, lambda name, now: 20e6 if name == "c" else 100e6)
    assert world.paces.caps
    world.run(120.0, lambda name, now: 100e6)
    assert world.paces.caps == {}


def test_the_last_one_is_dealt_with_first():
    paces = Paces(NEAR)
    a, b, c = (Seen(n, 1000, 0.0, 100e6, 100e6) for n in "abc")
    assert not paces.look([a, b, c], 0.0)
    now = PLAN_EVERY_S + BEHIND_S
    late = [
        Seen("a", 4 << 20, 20e6, 100e6, 100e6),
        Seen("b", 3 << 20, 15e6, 100e6, 100e6),
        Seen("c", 1 << 20, 10e6, 100e6, 100e6),
    ]
    assert paces.look(late, now)
    assert set(paces.caps) == {"c"} and paces.caps["c"] <= 10_000_000


def test_the_last_receiver_has_no_cap():
    world = World(100e6)
    world.run(5.0, lambda name, now: 20e6 if name == "c" else 100e6)
    assert set(world.paces.caps) == {"c"}
    c = Seen("c", int(world.held["c"]), 20e6, 20e6, 100e6)
    assert world.paces.look([c], world.now + PLAN_EVERY_S)
    assert world.paces.caps == {}


def test_a_receiver_a_little_late_is_left_alone():
    """A fifth slower than planned, for long: a busy machine."""
    world = World(100e6)
    world.run(20.0, lambda name, now: 80e6 if name == "c" else 100e6)
    assert world.plans == []


def test_a_moment_without_data_after_a_plan_is_no_reason_to_starve_a_receiver():
    """It catches up over the old trees first."""
    world = World(100e6)
    world.run(3.0, lambda name, now: 10e6 if name == "c" else 100e6)
    first = world.paces.caps["c"]
    world.run(1.5, lambda name, now: 1e3 if name == "c" else 100e6)
    assert world.paces.caps["c"] >= first // 2
