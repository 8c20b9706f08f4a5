"""Whose disk is behind: what waits for it beyond what waits for the others'. And since when one stands still."""

from __future__ import annotations

import pytest

from datacast.master.paces import Paces, Seen


def seen(unwritten: int) -> Seen:
    return Seen("c", 0, 0.0, 80e6, 100e6, unwritten=unwritten)


@pytest.mark.parametrize(
    "others, most", [([1_000_000], 2_500_000), ([0, 1_000_000, 9_000_000], 2_500_000), ([0, 500_000], 1_750_000)]
)
def test_more_than_fifteen_hundredths_of_a_second_beyond_the_others_is_a_slow_disk(others: list[int], most: int):
    beside = list(map(seen, others))
    assert [Paces._disk_waits(seen(most + more), beside) for more in (0, 1)] == [False, True]


def test_one_that_comes_back_has_not_stood_still_while_it_was_away() -> None:
    """It was set aside at the first look, for what had come to the others meanwhile."""
    paces, now = Paces(1000, aside_s=2.0), 0.0
    held = {"a": 0.0, "b": 0.0, "c": 0.0}

    def look(names: str) -> list[str]:
        nonlocal now
        now += 0.25
        for name in "ab":
            held[name] += 50e6 * 0.25 / 8
        seen = [Seen(name, int(held[name]), 50e6, 50e6, 50e6) for name in names]
        paces.note(seen, now)
        return paces.aside(seen, now, plans=True)

    held["c"] = 1e6
    assert not any(look("abc") for _ in range(2))
    for _ in range(20):
        look("ab")
    assert look("abc") == []
    while now < 7.4:
        assert look("abc") == [] or now > 7.2
    assert any(look("abc") for _ in range(4)), "from then on its time runs"
