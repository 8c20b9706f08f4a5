"""Every piece is dealt out once, whatever happens; thieves take what the papers say."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datacast.origins.dealing import POLICIES, Dealing, DealingError
from datacast.origins.ranges import Range, added, head, joined, pieces

SHARED = [policy for policy in POLICIES if policy != "flat"]


@given(st.sampled_from(SHARED), st.integers(0, 3000), st.integers(1, 9), st.integers(0, 1 << 30))
def test_every_piece_is_fetched_once_though_fetchers_fail_go_and_come(policy, total, count, seed):
    rng = random.Random(seed)
    names = [f"h{i}" for i in range(count)]
    dealing = Dealing(total, names, policy, run=rng.choice([1, 7, 64]), seed=seed)
    speed = {name: rng.uniform(1, 100) for name in [*names, *(f"late{i}" for i in range(50))]}
    busy: dict[str, Range] = {}
    seen = [0] * total
    late = 0
    for _ in range(20_000):
        idle = [name for name in dealing.fetchers if name not in busy]
        begun = False
        for name in idle:
            if (one := dealing.take(name)) is not None:
                busy[name] = one
                begun = True
        if not busy and not begun:
            break
        name = rng.choice(list(busy))
        one = busy.pop(name)
        fate = rng.random()
        if fate < 0.05:
            dealing.gone(name)
            if not dealing.fetchers or rng.random() < 0.5:
                dealing.joins(f"late{late}")
                late += 1
            if late == 50:
                return
        elif fate < 0.2 and one.count > 1 and len(dealing.fetchers) > 1:
            begin = one.first + rng.randrange(one.count)
            rest = [Range(begin, rng.randint(1, one.end - begin))]
            heir = rng.choice([other for other in dealing.fetchers if other != name])
            for kept in dealing.leaves(name, one, rest, heir):
                for piece in range(kept.first, kept.end):
                    seen[piece] += 1
                dealing.fetched(name, kept, 0.0)
        elif fate < 0.3:
            got = rng.randrange(one.count + 1)
            for piece in range(one.first, one.first + got):
                seen[piece] += 1
            dealing.failed(name, one, got)
        else:
            for piece in range(one.first, one.end):
                seen[piece] += 1
            dealing.fetched(name, one, one.count / speed[name])
    assert seen == [1] * total
    assert dealing.left() == 0


def test_nobody_leaves_what_is_not_of_its_run():
    dealing = Dealing(100, ["a", "b"], run=10)
    one = dealing.take("a")
    assert one == Range(0, 10)
    for rest in ([Range(5, 10)], [Range(20, 1)]):
        with pytest.raises(DealingError):
            dealing.leaves("a", one, rest, "b")
    assert dealing.leaves("a", one, [Range(2, 1), Range(5, 5)], "b") == [Range(0, 2), Range(3, 2)]
    assert dealing.left() == 96 and dealing.left("b") == 56


def test_the_cloud_papers_example():
    """Section IV.C: nodes A, B, C with 2, 10 and 2 MB/s; after 10 s B steals from A in the ratio of their rates."""
    dealing = Dealing(9600, ["A", "B", "C"], "steal", run=320)
    rate = {"A": 2 / 10, "B": 1.0, "C": 2 / 10}
    for name in ("A", "C"):
        one = dealing.take(name)
        dealing.fetched(name, one, one.count / (320 * rate[name]))
    while dealing.left("B"):
        one = dealing.take("B")
        dealing.fetched("B", one, one.count / 320)
    before = {name: dealing.left(name) for name in "AC"}
    dealing.take("B")
    victim = next(name for name in "CA" if dealing.left(name) < before[name])
    rest = before[victim]
    assert dealing.left(victim) == rest - -(-rest * 10 // 12)


def test_robber_takes_half_and_static_policies_nothing():
    dealing = Dealing(100, ["a", "b"], "robber", run=50)
    one = dealing.take("a")
    assert one == Range(0, 25)  # guided: a fourth of what is left
    while dealing.left("a"):
        dealing.take("a")
    dealing.take("a")
    assert dealing.left("b") == 25
    for policy in ("mob", "non-steal"):
        dealing = Dealing(100, ["a", "b"], policy, run=50)
        assert dealing.take("a") == Range(0, 50)
        assert dealing.take("a") is None and dealing.left("b") == 50


def test_flat_lets_everybody_fetch_everything():
    dealing = Dealing(10, ["a", "b"], "flat", run=100)
    assert dealing.take("a") == dealing.take("b") == Range(0, 10)
    dealing.gone("a")
    assert dealing.left() == 0


def test_a_fetcher_that_dies_costs_its_unfinished_run():
    dealing = Dealing(1000, ["a", "b"], "steal", run=10)
    one = dealing.take("a")
    dealing.fetched("a", one, 1.0)
    unfinished = dealing.take("a")
    dealing.gone("a")
    again = []
    while (one := dealing.take("b")) is not None:
        again.append(one)
        dealing.fetched("b", one, 1.0)
    assert pieces(joined(again)) == 990
    assert any(one.first <= unfinished.first and unfinished.end <= one.end for one in joined(again))


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ((10, [], "steal"), "fetch"),
        ((10, ["a", "a"], "steal"), "twice"),
        ((10, ["a"], "borrow"), "there are"),
        ((-1, ["a"], "steal"), "-1"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, what):
    with pytest.raises(DealingError, match=what):
        Dealing(*arguments)


def test_reports_that_fit_nothing_are_refused():
    dealing = Dealing(10, ["a", "b"], "steal")
    one = dealing.take("a")
    for wrong in (
        lambda: dealing.fetched("b", one, 1),
        lambda: dealing.fetched("x", one, 1),
        lambda: dealing.failed("a", one, one.count + 1),
        lambda: dealing.joins("a"),
    ):
        with pytest.raises(DealingError):
            wrong()


@pytest.mark.parametrize(
    ("new", "became"),
    [
        (Range(0, 2), [Range(0, 2), Range(3, 5), Range(10, 5), Range(20, 1)]),
        (Range(0, 3), [Range(0, 8), Range(10, 5), Range(20, 1)]),
        (Range(8, 1), [Range(3, 6), Range(10, 5), Range(20, 1)]),
        (Range(8, 2), [Range(3, 12), Range(20, 1)]),
        (Range(21, 4), [Range(3, 5), Range(10, 5), Range(20, 5)]),
        (Range(7, 1), Range(3, 5)),
        (Range(2, 2), Range(3, 5)),
        (Range(8, 3), Range(10, 5)),
        (Range(20, 1), Range(20, 1)),
        (Range(14, 9), Range(10, 5)),
    ],
)
def test_a_range_is_joined_with_its_neighbours_or_told_with_the_one_that_it_overlaps(new, became):
    held = [Range(3, 5), Range(10, 5), Range(20, 1)]
    if isinstance(became, list):
        added(held, new)
        assert held == became
        return
    with pytest.raises(ValueError, match=re.escape(f"{new} overlaps {became}")):
        added(held, new)


def test_ranges():
    assert joined([Range(5, 5), Range(0, 5), Range(20, 1)]) == [Range(0, 10), Range(20, 1)]
    with pytest.raises(ValueError, match="overlaps"):
        joined([Range(0, 5), Range(4, 2)])
    assert head([Range(0, 3), Range(10, 5)], 5) == ([Range(0, 3), Range(10, 2)], [Range(12, 3)])
    with pytest.raises(ValueError, match="0 pieces"):
        Range(3, 0)


def test_what_is_lost_may_be_in_a_run_that_goes_from_hand_to_hand() -> None:
    """It was there when the run began, so that it was not fetched with it. The group ended with `internal`."""
    dealing = Dealing(8, ["a", "b"], run=8)
    run = dealing.take("a")
    assert run is not None
    dealing.lost([Range(run.first, 1)])
    dealing.gone("b")
    dealing.lost([Range(run.first, 1)])  # told twice
    dealing.gone("a")
    dealing.joins("c")
    assert dealing.left() == 8 and dealing.left("c") == 8
