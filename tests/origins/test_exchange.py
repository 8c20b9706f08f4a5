"""One site fetches every piece once from origins that hold parts, whatever fails; first what few have."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datacast.origins.dealing import Dealing, DealingError
from datacast.origins.exchange import Exchange, packed, runs_of, unpacked
from datacast.origins.ranges import Range, added, common, pieces, without


@given(st.integers(0, 1500), st.integers(1, 5), st.integers(0, 1 << 30))
def test_every_piece_comes_once_though_connections_fail_and_go(total, origins, seed):
    rng = random.Random(seed)
    exchange = Exchange(total, run=rng.choice([1, 5]), seed=seed)
    names = {f"{o}:{k}": f"{o}" for o in range(origins) for k in range(2)}
    for name, origin in names.items():
        exchange.connects(name, origin)
    seen, busy = [0] * total, {}
    unknown = {f"{o}": list(range(0, total, 7)) for o in range(origins)}
    for _ in range(30_000):
        for origin, firsts in unknown.items():
            if firsts and rng.random() < 0.5:
                first = firsts.pop()
                exchange.holds(origin, Range(first, min(7, total - first)))
        for name in names:
            if name not in busy and (one := exchange.take(name)) is not None:
                busy[name] = one
        if not busy:
            if not any(unknown.values()):
                break
            continue
        name = rng.choice(list(busy))
        one, fate = busy.pop(name), rng.random()
        if fate < 0.1:
            exchange.gone(name)
            exchange.connects(name, names[name])
            continue
        got = rng.randrange(one.count + 1) if fate < 0.2 else one.count
        for piece in range(one.first, one.first + got):
            seen[piece] += 1
        if got < one.count:
            exchange.failed(name, one, got)
        else:
            exchange.fetched(name, one, one.count / rng.uniform(1, 50))
    assert seen == [1] * total
    assert exchange.left == 0


def test_what_nobody_else_has_comes_first():
    exchange = Exchange(100, run=8)
    exchange.connects("c", "first site")
    exchange.holds("first site", Range(0, 100))
    exchange.begun_elsewhere(Range(0, 90))
    exchange.begun_elsewhere(Range(0, 40))
    taken = []
    while (one := exchange.take("c")) is not None:
        taken += range(one.first, one.end)
    assert set(taken[:10]) == set(range(90, 100))
    assert set(taken[10:60]) == set(range(40, 90))
    assert set(taken[60:]) == set(range(40))


def test_nothing_is_asked_of_an_origin_that_does_not_hold_it():
    exchange = Exchange(100, run=8)
    exchange.connects("c", "part")
    assert exchange.take("c") is None
    exchange.holds("part", Range(10, 5))
    exchange.has(Range(12, 1))
    taken = []
    while (one := exchange.take("c")) is not None:
        taken += range(one.first, one.end)
    assert sorted(taken) == [10, 11, 13, 14]
    assert exchange.left == 95


def test_a_run_begins_where_somebody_waits() -> None:
    exchange = Exchange(100, run=8)
    for name in "ab":
        exchange.connects(name, "o")
    exchange.holds("o", Range(0, 100))
    assert exchange.free(50) and exchange.first(50) and exchange.first(53)
    assert exchange.take("a") == Range(50, 3), "up to where another begins"
    assert not exchange.free(52) and not exchange.first(52)
    assert exchange.take("b") == Range(53, 8)
    with pytest.raises(DealingError):
        exchange.first(100)


def bits(*pieces: int) -> np.ndarray:
    found = np.zeros(100, bool)
    found[list(pieces)] = True
    return found


def test_a_run_follows_an_origin_into_what_it_is_receiving() -> None:
    exchange = Exchange(100, run=8)
    for name in "abc":
        exchange.connects(name, "o")
    exchange.holds("o", Range(10, 2))
    exchange.receives("o", bits(12, 13, 31, 32, 33, 34), bits(12, 31))
    assert exchange.take("a") == Range(10, 4), "on into what comes"
    exchange.measured("b", 2.0)
    assert exchange.take("b", least_s=1.0) == Range(31, 2), "nothing is held: where its run has got to"
    assert exchange.take("c") == Range(33, 2), "and then behind that"
    exchange.failed("c", Range(33, 2), 0)
    exchange.receives("o", bits(), bits())
    exchange.failed("b", Range(31, 2), 0)
    assert exchange.take("b") is None, "it is receiving that no more"


def test_what_a_lost_connection_had_begun_comes_before_what_nobody_has_begun() -> None:
    exchange = Exchange(100, run=8)
    for name in "abc":
        exchange.connects(name, "o")
    exchange.holds("o", Range(0, 100))
    exchange.in_order("o")
    begun = {name: exchange.take(name) for name in "ab"}
    exchange.gone("a")
    assert begun["a"] == Range(0, 8) and exchange.take("c") == begun["a"]


def test_what_is_there_comes_before_what_an_origin_is_receiving() -> None:
    exchange = Exchange(100, run=8)
    exchange.connects("c", "o")
    exchange.holds("o", Range(50, 1))
    exchange.receives("o", bits(3, 4), bits(3))
    exchange.begun_elsewhere(Range(50, 1))
    assert [exchange.take("c"), exchange.take("c"), exchange.take("c")] == [Range(50, 1), Range(3, 2), None]


def test_runs_follow_the_connections_rate_and_shrink_towards_the_end():
    exchange = Exchange(1000, run=4)
    exchange.connects("fast", "o")
    exchange.connects("slow", "o")
    exchange.holds("o", Range(0, 1000))
    one = exchange.take("fast")
    exchange.fetched("fast", one, one.count / 100)
    counts = []
    while (one := exchange.take("fast")) is not None:
        exchange.fetched("fast", one, one.count / 100)
        counts.append(one.count)
    assert max(counts) == 50
    assert counts[-1] == 1


@pytest.mark.parametrize(
    "wrong",
    [
        lambda e: e.take("nobody"),
        lambda e: e.connects("c", "o"),
        lambda e: e.fetched("c", Range(0, 1), 1.0),
        lambda e: e.failed("c", Range(0, 1), 0),
        lambda e: e.holds("o", Range(5, 6)),
        lambda e: e.begun_elsewhere(Range(10, 1)),
    ],
)
def test_reports_that_fit_nothing_are_refused(wrong):
    exchange = Exchange(10)
    exchange.connects("c", "o")
    with pytest.raises(DealingError):
        wrong(exchange)


@given(st.sampled_from(["steal", "robber", "mob"]), st.integers(1, 400), st.integers(1, 5), st.integers(0, 1 << 30))
def test_dealing_from_parts_gives_every_held_piece_once(policy, total, count, seed):
    rng = random.Random(seed)
    names = [f"n{i}" for i in range(count)]
    dealing = Dealing(total, names, policy, seed=seed)
    held: list[Range] = []
    order = list(range(total))
    rng.shuffle(order)
    seen = [0] * total
    while True:
        for piece in order[:20]:
            added(held, Range(piece, 1))
        del order[:20]
        idle = 0
        while idle < 3 * count:
            name = rng.choice(names)
            one = dealing.take(name, held, most=rng.choice([0, 1]))
            if one is None:
                idle += 1
                continue
            idle = 0
            assert common([one], held) == [one]
            for piece in range(one.first, one.end):
                seen[piece] += 1
            dealing.fetched(name, one, 0.1)
        if not order:
            break
    for name in names:
        while (one := dealing.take(name, held)) is not None:
            for piece in range(one.first, one.end):
                seen[piece] += 1
            dealing.fetched(name, one, 0.1)
    assert seen == [1] * total


@given(st.sets(st.integers(0, 60)), st.sets(st.integers(0, 60)), st.integers(0, 50), st.integers(1, 10))
def test_ranges_meet_and_part_as_sets_do(ours, theirs, first, count):
    def listed(numbers):
        out: list[Range] = []
        for n in sorted(numbers, key=lambda n: (n * 7919) % 61):
            added(out, Range(n, 1))
        return out

    def numbers(ranges):
        return {n for one in ranges for n in range(one.first, one.end)}

    a, b = listed(ours), listed(theirs)
    assert numbers(a) == ours and pieces(a) == len(ours)
    assert all(x.end < y.first for x, y in itertools.pairwise(a))
    assert numbers(common(a, b)) == ours & theirs
    assert numbers(without(a, Range(first, count))) == ours - set(range(first, first + count))


def test_what_was_had_and_is_lost_is_anybodys_and_an_origin_that_forgets_has_nothing():
    exchange = Exchange(20, run=4)
    exchange.connects("c", "o")
    exchange.holds("o", Range(0, 20))
    exchange.has(Range(0, 20))
    assert exchange.take("c") is None and exchange.left == 0
    exchange.lost(Range(5, 3))
    one = exchange.take("c")
    assert exchange.left + one.count == 3 and 5 <= one.first < 8
    with pytest.raises(DealingError):
        exchange.lost(one)  # begun, not had
    exchange.forgets("o")
    assert exchange.left == 3  # what it had begun as well
    exchange.connects("c", "o")
    assert exchange.take("c") is None


@given(st.lists(st.booleans(), min_size=1, max_size=100))
def test_pieces_travel_as_a_bit_each(bits):
    pieces = np.array(bits)
    assert (unpacked(packed(pieces), len(bits)) == pieces).all()
    runs = runs_of(pieces)
    assert [n for one in runs for n in range(one.first, one.end)] == [*np.flatnonzero(pieces)]
    assert all(a.end < b.first for a, b in itertools.pairwise(runs))
    for wrong in (packed(pieces) + "00", "x", packed(np.ones(8 * len(bits) + 8, bool))):
        with pytest.raises(DealingError):
            unpacked(wrong, len(bits))
