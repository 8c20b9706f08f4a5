"""Whose disk is behind: what waits for it beyond what waits for the others'."""

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
