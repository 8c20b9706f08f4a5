"""Who fetches an object of another site of which receivers want ranges: each byte is wanted by one of them, or two."""

from __future__ import annotations

import random

import pytest

from datacast.fabric_manager import requests
from datacast.fabric_manager.api import GroupSpec
from datacast.fabric_manager.requests import END, FETCHERS_MOST, fetchers_of_ranges
from datacast.origins.ranges import Range
from datacast.services.problems import Problem
from datacast.services.ranges import spans


def test_every_byte_has_two_who_want_it_where_there_are_two() -> None:
    chance = random.Random(3)
    for _ in range(50):
        names = [f"h{n}" for n in range(chance.randrange(1, 12))]
        shards = {}
        for name in names[: chance.randrange(len(names) + 1)]:
            starts = [chance.randrange(60) for _ in range(chance.randrange(3))]
            shards[name] = [f"{at}-{at + chance.randrange(20)}" for at in starts]
        chosen = fetchers_of_ranges(shards, names)
        assert chosen and set(chosen) <= set(names) and len(set(chosen)) == len(chosen)

        def times(whose: list[str], byte: int, shards: dict[str, list[str]] = shards) -> int:
            rows = [row for name in whose for row in spans(shards.get(name, ["0-"]), END, 1)]
            return sum(first <= byte < first + count for first, count in rows)

        for byte in (*range(90), END - 1):
            assert times(chosen, byte) >= min(2, times(names, byte)), byte


def test_many_who_want_the_same_need_two_to_fetch_it() -> None:
    names = [f"h{n}" for n in range(100)]
    assert fetchers_of_ranges({"h7": ["0-9"], "h8": ["5-"]}, names) == ["h0", "h1"]
    assert len(fetchers_of_ranges({name: ["3-4"] for name in names}, names)) == 2
    assert fetchers_of_ranges({name: [] for name in names}, names) == ["h0"]  # nobody wants anything
    pairs = {f"h{n}": [f"{n // 2}-{n // 2}"] for n in range(2 * FETCHERS_MOST)}
    assert len(fetchers_of_ranges(pairs, [*pairs])) == FETCHERS_MOST  # one each: there is no room for two


def test_more_parts_than_hosts_may_fetch_are_refused() -> None:
    shards = {f"h{n}": [f"{n}-{n}"] for n in range(FETCHERS_MOST + 1)}
    with pytest.raises(Problem, match=f"need {FETCHERS_MOST + 1} hosts"):
        fetchers_of_ranges(shards, [*shards])


def test_how_many_would_be_needed_is_not_counted_further(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of thousands of hosts with ranges of their own it took minutes, in which the fabric manager heard nobody; whoever
    may look could ask for that, with a plan."""
    asked = 0
    own = requests.common

    def common(*rows: list[Range]) -> list[Range]:
        nonlocal asked
        asked += 1
        return own(*rows)

    monkeypatch.setattr(requests, "common", common)
    shards = {f"h{n}": [f"{n}-{n}"] for n in range(2000)}
    with pytest.raises(Problem, match=f"need {FETCHERS_MOST + 1} hosts or more"):
        fetchers_of_ranges(shards, [*shards])
    assert asked < 10 * FETCHERS_MOST


def test_of_thousands_of_receivers_each_range_finds_its_own_at_once() -> None:
    """For each of them all were looked through: seconds, in which the fabric manager heard nobody."""

    class Listed(list[str]):
        def __contains__(self, name: object) -> bool:
            raise AssertionError("it is looked through")

    names = [f"h{n}" for n in range(100)]
    spec = GroupSpec(source="s", source_path="/f", shards={name: ["0-9"] for name in names})
    assert requests.with_shards(spec, Listed(names)) is spec
