"""When a receiver that is slower than planned is worth a new plan, and when it is not."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from datacast.master.pace import CURIOUS_S, HASTY_S
from datacast.master.paces import (
    AGREE_S,
    BEHIND_S,
    CHAIN,
    FAILED_MAX,
    HOLD_S,
    PLAN_EVERY_S,
    PROBE_S,
    REST_S,
    TRIAL_MAX_S,
    Pace,
    Paces,
    Seen,
)
from datacast.master.plan import PATIENCE_MS

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


def closed(
    seconds: float,
    names: str,
    planned: float,
    rates: Callable[[dict[str, int]], dict[str, float]],
    left_s=1e9,
    unsent=True,
):
    """Plans (time, caps) of a group whose receivers get `rates` under given caps; those that get least without a cap
    are a little behind the others of their trees."""
    paces, held, plans = Paces(NEAR), dict.fromkeys(names, 0.0), []
    for i in range(1, int(seconds / POLL_S)):
        now, caps = i * POLL_S, paces.caps
        got = rates(caps)
        held = {n: held[n] + got[n] * POLL_S / 8 for n in names}
        least = min((got[n] for n in names if n not in caps), default=0.0)
        seen = [
            Seen(
                n,
                max(0, int(held[n] - (3 * NEAR if n not in caps and got[n] == least else 0))),
                got[n],
                float(caps.get(n, planned)),
                planned,
                left=int(left_s * got[n] / 8),
            )
            for n in names
        ]
        if paces.look(seen, now, unsent=unsent):
            plans.append((now, paces.caps))
    return plans


def test_the_last_of_many_that_are_late_alike_is_not_the_cause():
    """Trees of its own do not help the others: that is tried once, taken back, and tried ever more seldom."""

    def rates(caps):
        return {n: min(30e6 + (n == "c") * -1.0, caps.get(n, 1e9)) for n in "abcde"}

    plans = closed(300.0, "abcde", 100e6, rates)
    begun = [b[0] for a, b in itertools.pairwise([(0.0, {}), *plans]) if b[1] and not a[1]]
    back = [at for at, caps in plans if not caps]
    assert begun and len(back) == len(begun), "each is taken back"
    assert all(b - a <= CHAIN * TRIAL_MAX_S for a, b in zip(begun, back, strict=True))
    assert len(begun) == FAILED_MAX == 2 and begun[1] - back[0] >= HOLD_S


@pytest.mark.parametrize(
    "left_s, unsent, planned", [(0.9 * REST_S, True, False), (1.5 * REST_S, True, True), (1.5 * REST_S, False, False)]
)
def test_one_that_will_be_done_soon_gets_no_trees_of_its_own(left_s: float, unsent: bool, planned: bool):
    """A host that was stopped for a moment: what a plan costs it takes longer than what it has left. And what has been
    sent goes over no new trees."""

    def rates(caps):
        return {n: min(10e6 if n == "c" else 30e6, caps.get(n, 1e9)) for n in "abc"}

    assert bool(closed(4.0, "abc", 100e6, rates, left_s, unsent)) == planned


@pytest.mark.parametrize("who, planned", [("a", False), ("c", True), ("relay", False)])
def test_no_trial_begins_while_links_of_others_come_and_go(who: str, planned: bool):
    able, held, paces, plans = {"a": 50e6, "b": 50e6, "c": 10e6}, dict.fromkeys("abc", 0.0), Paces(NEAR), []
    for i in range(1, 16):
        now = i * POLL_S
        if i % 4 == 0:
            paces.flapped(who, "s0.1", now)
        held = {n: held[n] + 10e6 * POLL_S / 8 for n in held}
        seen = [Seen(n, int(held[n]) - (3 * NEAR if n == "c" else 0), 10e6, 100e6, 100e6, left=1 << 28) for n in able]
        plans.append(paces.look([one._replace(held=max(0, one.held)) for one in seen], now))
    assert any(plans) == planned


def test_where_there_is_no_room_for_more_trees_a_plan_is_only_taken_back():
    paces, held, plans = Paces(NEAR), dict.fromkeys("abc", 0.0), []
    for i in range(1, 41):
        now, room = i * POLL_S, not plans
        held = {n: held[n] + 10e6 * POLL_S / 8 for n in held}
        seen = [
            Seen(n, max(0, int(held[n]) - (3 * NEAR if n == "c" else 0)), 10e6, 100e6, 100e6, left=1 << 28)
            for n in held
        ]
        if paces.look(seen, now, room=room):
            plans.append(paces.caps)
    assert len(plans) == 2 and set(plans[0]) == {"c"} and plans[1] == {}


def test_a_lab_with_busy_processors_is_left_alone():
    """As recorded: all get a tenth of the plan, and now this one is last, now that one."""
    head, *rows = [
        line.split() for line in (Path(__file__).parent / "late_alike.txt").read_text().splitlines() if line[0] != "#"
    ]
    paces, before = Paces(NEAR), None
    for row in rows:
        now, held = float(row[0]), [int(kib) << 10 for kib in row[1:]]
        rate = [8 * (b - a) / (now - before[0]) for a, b in zip(before[1], held, strict=True)] if before else held
        before = now, held
        seen = [Seen(n, h, r, 929e6, 929e6, left=1 << 28) for n, h, r in zip(head[1:], held, rate, strict=True)]
        assert not paces.look(seen, now), f"planned after {now} s: {paces.caps}"


@pytest.mark.parametrize("able", [100e6, 40e6])
def test_trees_of_its_own_stay_where_the_others_gain(able):
    """Even where what was planned is more than anybody can take."""

    def rates(caps):
        free = [10e6 if n == "c" else able for n in "abcde" if n not in caps]
        return {n: min(caps[n], 10e6) if n in caps else min(free) - (n == "c") for n in "abcde"}

    plans = closed(30.0, "abcde", 300e6, rates)
    assert plans[0][0] <= 2.0 and all("c" in caps for _, caps in plans)


@pytest.mark.parametrize("second", [10e6, 14e6])
def test_of_two_slow_ones_each_is_found(second: float):
    able = {"a": 100e6, "b": 100e6, "c": 10e6, "d": second, "e": 100e6}

    def rates(caps):
        free = min(able[n] for n in able if n not in caps)
        return {n: min(caps[n], able[n]) if n in caps else free - (able[n] == free) for n in able}

    plans = closed(30.0, "abcde", 100e6, rates)
    assert {"c", "d"} <= set(plans[-1][1]) and plans[1][0] <= 5.0


def test_a_cap_is_spread_over_the_links_as_the_data_came():
    paces, held = Paces(NEAR), dict.fromkeys("abc", 0)
    for i in range(1, 12):
        # From x ten times what comes from y, where c is; nothing is known of the others.
        held = {n: held[n] + int(11e6 * POLL_S / 8) for n in "abc"}
        seen = [
            Seen(
                n,
                max(0, held[n] - (3 * NEAR if n == "c" else 0)),
                11e6,
                100e6,
                100e6,
                arrived=[held[n] * 10 // 11, held[n] // 11] if n == "c" else (),
            )
            for n in "abc"
        ]
        if paces.look(seen, i * POLL_S, trees=([("x", "c")], [("y", "c")])):
            break
    cap = paces.caps["c"]
    assert paces.narrow.keys() == {("x", "c"), ("y", "c")}
    assert 0.99 * cap <= sum(paces.narrow.values()) <= cap
    assert paces.narrow["x", "c"] > 8 * paces.narrow["y", "c"]


def test_nothing_is_tried_for_the_last_moment():
    def rates(caps):
        return {n: 10e6 - (n == "c") for n in "abc"}

    assert closed(20.0, "abc", 100e6, rates, left_s=0.4) == []
    assert closed(20.0, "abc", 100e6, rates, left_s=4.0)


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


def test_one_that_nearly_stopped_for_a_moment_has_its_rate_back_within_seconds():
    """What it took in that moment says little beside what it took before."""
    world = World(100e6)
    world.run(3.0, lambda name, now: 100e6)
    world.run(2.0, lambda name, now: 2e6 if name == "c" else 100e6)
    assert world.paces.caps["c"] < 3e6
    world.run(10.0, lambda name, now: 100e6)
    assert world.paces.caps.get("c", 100e6) >= 50e6


def test_one_that_stays_slow_is_offered_what_it_took_before_ever_less():
    world = World(100e6)
    world.run(3.0, lambda name, now: 100e6)
    world.run(120.0, lambda name, now: 5e6 if name == "c" else 100e6)
    offered = [max(caps["c"], 1) for _, caps in world.plans if "c" in caps and caps["c"] > 5.5e6]
    assert 15e6 < offered[0] < 30e6 and offered[-1] < 10e6


def test_all_that_keep_up_with_their_caps_get_more_in_one_plan():
    world = World(100e6, "abcde")
    world.run(8.0, lambda name, now: 20e6 if name in "cd" else 100e6)
    assert set(world.paces.caps) == {"c", "d"}
    plans = len(world.plans)
    while len(world.plans) == plans:
        world.run(POLL_S, lambda name, now: 100e6)
    assert all(world.paces.caps.get(name, 100e6) > 25e6 for name in "cd")


def test_the_last_one_is_dealt_with_first():
    paces = Paces(NEAR)
    a, b, c = (Seen(n, 1000, 0.0, 100e6, 100e6) for n in "abc")
    assert not paces.look([a, b, c], 0.0)
    now = PLAN_EVERY_S + BEHIND_S + AGREE_S
    late = [
        Seen("a", 4 << 20, 20e6, 100e6, 100e6),
        Seen("b", 3 << 20, 15e6, 100e6, 100e6),
        Seen("c", 1 << 20, 10e6, 100e6, 100e6),
    ]
    assert not any(paces.look(late, at) for at in (now - AGREE_S, now - POLL_S))
    assert paces.look(late, now)
    assert set(paces.caps) == {"c"} and paces.caps["c"] <= 10_000_000


@pytest.mark.parametrize("rate, behind_s, planned", [(60e6, 0.45, False), (60e6, 1.0, True), (10e6, 0.45, True)])
def test_one_of_equals_that_was_stopped_for_a_moment_is_not_slow(rate: float, behind_s: float, planned: bool):
    """It is last at look after look until it has caught up, and all get on; where hardly anybody does, it is slow."""
    paces, plans = Paces(NEAR), []
    for i in range(40):
        now = i / 10
        late = 3 * NEAR if 2.0 <= now <= 2.0 + behind_s else 0
        held = int(rate / 8 * now)
        seen = [Seen(n, max(0, held - late * (n == "c")), rate, 100e6, 100e6) for n in "abc"]
        if paces.look(seen, now):
            plans.append(now)
    assert bool(plans) == planned


@pytest.mark.parametrize(
    "told, rate, behind, planned",
    [
        (True, 10e6, 8, True),
        (False, 10e6, 8, False),
        (True, 0.0, 8, False),
        (True, 10e6, 2, False),
        (True, 95e6, 8, False),
    ],
)
def test_a_sudden_fall_is_found_while_the_source_has_patience(told: bool, rate: float, behind: int, planned: bool):
    """When the source has told of it, for one that is out of the caches and neither stands still nor catches up."""
    paces, held = Paces(NEAR), dict.fromkeys("abc", 0)
    now, left = 0.0, 100 << 20
    for _ in range(8):
        now += POLL_S
        held = {n: held[n] + int(100e6 * POLL_S / 8) for n in held}
        assert not paces.look([Seen(n, h, 100e6, 100e6, 100e6, left=left) for n, h in held.items()], now)
    held |= {n: held[n] + behind * NEAR for n in "ab"}
    if told:
        paces.slowed(now)
    plans = []
    fell = now
    while now < fell + PATIENCE_MS / 1000 - HASTY_S:
        now += HASTY_S
        held = {n: held[n] + int(rate * HASTY_S / 8) for n in held}
        plans.append(paces.look([Seen(n, h, 30e6, 100e6, 100e6, left=left) for n, h in held.items()], now))
        if plans[-1]:
            break
    assert any(plans) == planned and len(plans) > 2, "two looks may be chance: processes wait so long for their turn"
    assert not planned or (set(paces.caps) == {"c"} and 9e6 < paces.caps["c"] < 11e6)


def test_a_sudden_fall_is_planned_for_while_the_source_has_patience():
    """The others lose nothing yet; they would, as soon as its patience is over. That they go on as before is what
    was promised."""
    paces, held, fast, slow = Paces(NEAR), dict.fromkeys("abc", 0), 97e6, 10e6

    def look(now: float, step: float, c: float) -> bool:
        for name in held:
            held[name] += int((c if name == "c" else fast) * step / 8)
        caps = paces.caps
        seen = [
            Seen(n, h, c if n == "c" else fast, float(caps.get(n, 100e6)), 100e6, left=60 << 20)
            for n, h in held.items()
        ]
        return paces.look(seen, now)

    now = 0.0
    for _ in range(8):
        now += POLL_S
        assert not look(now, POLL_S, fast)
    paces.slowed(now)
    plans = [look(now + 0.06 * i, 0.06, slow) for i in (1, 2, 3)]
    assert any(plans) and set(paces.caps) == {"c"}
    later = [look(now + 0.18 + POLL_S * i, POLL_S, slow) for i in range(1, 8)]
    assert not any(later), "it is not taken back"


def test_what_a_link_was_not_seen_to_bring_is_forgotten_when_it_is_all_there_is():
    """Nothing came over it for a moment, so it got a small part of the cap; now the other link is down."""
    paces = Paces(NEAR)
    paces._pace["c"] = Pace(10e6, {"x": 0.95, "y": 0.05}, since=0.0, wait_s=64.0)
    assert paces.narrow == {("x", "c"): 9_500_000, ("y", "c"): 500_000}
    held, now, begun = 0, 0.0, None
    while begun is None and now < 10.0:
        now += POLL_S
        held += int(500_000 * POLL_S / 8)
        if paces.look([Seen("c", held, 500_000, 500_000.0, 100e6, left=1 << 28)], now):
            begun = now
    assert begun is not None and begun <= 3.0 and not paces.narrow and paces.caps == {"c": 10e6}


@pytest.mark.parametrize("disk, planned", [(10e6, True), (80e6, False)])
def test_a_disk_that_is_behind_is_found_before_its_buffers_are_full(disk: float, planned: bool):
    """It writes in bursts; nobody waits for it yet."""
    paces, came, plans, now = Paces(NEAR), 0.0, [], 0.0
    while now < 2.0:
        step = CURIOUS_S if paces.curious(now) else POLL_S
        now += step
        came += 100e6 * step / 8
        wrote = came if now <= 1.0 else 12.5e6 + disk / 8 * (now - 1.0) // 262144 * 262144
        late = int(came - wrote)
        assert late < 8 << 20, "its buffers are full"
        seen = [Seen(n, int(came), 100e6, 100e6, 100e6, left=100 << 20) for n in "ab"]
        seen.append(Seen("c", int(came) - late, 100e6, 100e6, 100e6, left=100 << 20, unwritten=late))
        if paces.look(seen, now):
            plans.append(now)
            break
    assert bool(plans) == planned and (not planned or (plans[0] <= 1.75 and paces.caps["c"] < 15e6))


def full_machine(seed: int, slow_disk: float | None = None, seconds: float = 12.0):
    """Plans (time, caps) of a group on a host with too much to do: what writes for a receiver gets its turn for some
    tenths of a second and then waits for as long, each by itself; the source is held up, too, and says so. `slow_disk`:
    bit/s that the last one writes at most."""
    rng, paces, plans = random.Random(seed), Paces(NEAR), []
    names, now, source = "abcdef", 0.0, 200e6
    came, wrote = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0.0)
    until, runs = dict.fromkeys(names, 0.0), dict.fromkeys(names, True)
    while now < seconds:
        step = HASTY_S if paces.hasty(now) else CURIOUS_S if paces.curious(now) else POLL_S
        for _ in range(round(step / 0.01)):
            now += 0.01
            if rng.random() < 0.03:
                source = rng.choice([60e6, 120e6, 200e6])
                paces.slowed(now)
            for n in names:
                if now >= until[n]:
                    runs[n] = not runs[n]
                    until[n] = now + rng.uniform(0.05, 0.2) * (1.5 if runs[n] else 1.0)
                came[n] = min(came[n] + source / 800, wrote[n] + (8 << 20))
                takes = slow_disk if slow_disk is not None and n == names[-1] else 400e6 * runs[n]
                wrote[n] = min(came[n], wrote[n] + takes / 800)
        caps = paces.caps
        seen = [Seen(n, int(wrote[n]), source, float(caps.get(n, 200e6)), 200e6, left=1 << 28) for n in names]
        seen = [one._replace(unwritten=int(came[one.name]) - one.held) for one in seen]
        if paces.look(seen, now):
            plans.append((now, paces.caps))
    return plans


def test_who_waits_for_its_turn_on_a_full_machine_has_no_slow_disk():
    """What came to any of them waits for those who hash and write it, of one more than of another for a moment. In two
    and a half minutes one may seem slow for long enough; it was 36 plans."""
    plans = [full_machine(seed) for seed in range(12)]
    assert sum(bool(made) for made in plans) <= 2


@pytest.mark.parametrize("seed", range(4))
def test_a_slow_disk_is_found_on_a_full_machine_as_well(seed: int):
    plans = full_machine(seed, slow_disk=15e6)
    assert plans and plans[0][0] <= 3.0 and set(plans[0][1]) == {"f"} and plans[0][1]["f"] <= 30e6


def test_one_that_does_as_well_with_its_cap_as_the_others_with_their_plans_gets_more():
    """On a full machine nobody gets all that was planned for it."""
    paces, now, held = Paces(NEAR), 0.0, dict.fromkeys("abc", 0.0)
    paces._pace["c"] = Pace(50e6)
    while now < 2 * PROBE_S and "c" in paces.caps and paces.caps["c"] == 50e6:
        now += POLL_S
        planned = {n: float(paces.caps.get(n, 100e6)) for n in held}
        held = {n: held[n] + 0.7 * planned[n] * POLL_S / 8 for n in held}
        seen = [Seen(n, int(held[n]), 0.7 * planned[n], planned[n], 100e6, left=1 << 28) for n in held]
        paces.look(seen, now)
    assert paces.caps.get("c", 100e6) > 50e6


def test_the_last_receiver_soon_has_no_cap():
    """It holds nobody up. One that does not take what it has is left as it is."""
    for takes, rises in ((1.0, True), (0.7, False)):
        world = World(100e6)
        world.run(5.0, lambda name, now: 20e6 if name == "c" else 100e6)
        paces, held, now = world.paces, world.held["c"], world.now
        assert set(paces.caps) == {"c"}
        for _ in range(80):
            now += POLL_S
            rate = takes * paces.caps.get("c", 100e6)
            held += rate * POLL_S / 8
            paces.look([Seen("c", int(held), rate, paces.caps.get("c", 100e6), 100e6)], now)
        assert (paces.caps == {}) == rises


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


def test_who_is_left_alone_may_take_more_than_its_links_were_believed_to_once():
    """Its cap was divided a little wrongly between two links: one is full, the other idle, it never keeps up with its
    plan, and is never slow enough for another."""
    world = World(100e6)
    world.run(3.0, lambda name, now: 10e6 if name == "c" else 100e6)
    cap = world.paces.caps["c"]
    held, plans = world.held["c"], []
    for i in range(80):
        now, planned = world.now + i * POLL_S, world.paces.caps.get("c", world.bound)
        held += 0.85 * cap * POLL_S / 8
        if world.paces.look([Seen("c", int(held), 0.85 * cap, planned, world.bound)], now):
            plans.append((now - world.now, world.paces.caps["c"]))
    assert len(plans) == 1
    at, more = plans[0]
    assert at <= 2.5 and more >= 1.9 * cap


def test_who_is_alone_and_keeps_up_has_all_it_can_take_within_seconds():
    """It was believed to take a fiftieth of that, when it was held up for a moment."""
    paces, held, now = Paces(NEAR), 0.0, 0.0
    paces._pace["c"] = Pace(2e6)
    while paces.caps and now < 60.0:
        now += POLL_S
        takes = float(paces.caps["c"])
        held += 0.8 * takes * POLL_S / 8
        paces.look([Seen("c", int(held), 0.8 * takes, takes, 100e6, left=1 << 28)], now)
    assert now <= 5.0 and not paces.caps


def test_who_is_alone_and_gets_next_to_nothing_gets_new_trees_ever_more_rarely():
    world = World(100e6)
    world.run(3.0, lambda name, now: 2e6 if name == "c" else 100e6)
    held, plans = world.held["c"], []
    for i in range(240):
        now, planned = world.now + i * POLL_S, world.paces.caps.get("c", world.bound)
        held += 1e4 * POLL_S / 8
        if world.paces.look([Seen("c", int(held), 1e4, planned, world.bound)], now):
            plans.append(now - world.now)
    between = [b - a for a, b in itertools.pairwise(plans)]
    assert 3 <= len(plans) <= 6 and plans[0] <= 2.5
    assert all(b > a for a, b in itertools.pairwise(between)) and between[-1] >= 8.0


def left_behind(takes: dict[str, float], seconds: float, room: bool = True) -> tuple[Paces, list[tuple[float, dict]]]:
    """Those of a group that it takes for slow are all that is left of it; each gets this part of its plan."""
    paces, held, plans = Paces(NEAR), dict.fromkeys(takes, 0.0), []
    for name in takes:
        paces._pace[name] = Pace(2e6)
    for i in range(1, int(seconds / POLL_S)):
        seen = []
        for name, part in takes.items():
            planned = float(paces.caps.get(name, 100e6))
            held[name] += part * planned * POLL_S / 8
            seen.append(Seen(name, int(held[name]), part * planned, planned, 100e6, left=1 << 20))
        if paces.look(seen, i * POLL_S, room=room):
            plans.append((i * POLL_S, dict(paces.caps)))
    return paces, plans


def test_those_who_are_left_and_get_a_tenth_of_their_plan_are_not_taken_for_slow_any_more():
    """Their trees have nearly come to a stop, the others are done: nobody is held up by them."""
    paces, plans = left_behind({"c": 0.1, "d": 0.1}, 20.0)
    assert plans and plans[0][0] <= 3.0
    assert all(cap >= 8e6 for cap in plans[0][1].values()), "much more than what they were believed to take"
    assert paces.caps == {}, "after some of these nothing is believed of them"


def test_one_that_crawls_beside_one_that_does_not_is_left_as_it_is():
    """It would hold that one up; when that one is done it is its turn."""
    _, plans = left_behind({"c": 0.1, "d": 0.8}, 10.0)
    assert all(caps["c"] <= 2e6 for _, caps in plans)


def test_where_there_is_no_room_for_more_trees_those_who_crawl_have_the_first_ones_again():
    paces, plans = left_behind({"c": 0.1, "d": 0.2}, 4.0, room=False)
    assert plans and plans[0][1] == {} == paces.caps


def test_who_crawls_waits_for_those_who_are_not_done():
    """Without a cap it would hold them up."""
    paces, held = Paces(NEAR), {"a": 0.0, "c": 0.0}
    paces._pace["c"] = Pace(2e6)
    for i in range(1, 60):
        held = {"a": held["a"] + 98e6 * POLL_S / 8, "c": held["c"] + 2e5 * POLL_S / 8}
        seen = [
            Seen("a", int(held["a"]), 98e6, 98e6, 100e6, left=1 << 28),
            Seen("c", int(held["c"]), 2e5, 2e6, 100e6, left=1 << 20),
        ]
        paces.look(seen, i * POLL_S)
        assert paces.caps["c"] <= 2e6


def test_after_a_plan_the_next_looks_come_soon():
    """Measured by what all got before it there would be much time: the first that stood still was set aside after ten
    seconds."""
    world = World(100e6)
    assert not world.paces.settling(0.0)
    world.run(5.0, lambda name, now: 10e6 if name == "c" else 100e6)
    at = world.plans[-1][0]
    assert world.paces.settling(at + TRIAL_MAX_S / 2) and not world.paces.settling(at + TRIAL_MAX_S)


def test_looks_are_hasty_just_after_somebody_has_become_slow_and_only_then():
    paces = Paces(NEAR)
    assert not paces.hasty(5.0)
    paces.slowed(5.0)
    assert paces.hasty(5.1) and not paces.hasty(6.0)
