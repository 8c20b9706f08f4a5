"""Digests go together, and the last ones at once: a receiver that has all pieces waits for nothing else."""

from __future__ import annotations

from typing import Any

from datacast.master.digests import TOLD_MAX, Digests


def rows(first: int, end: int) -> list[list[Any]]:
    return [[block, "0" * 64] for block in range(first, end)]


def test_they_wait_for_each_other() -> None:
    digests = Digests()
    digests.put(rows(0, 3), 10.0)
    digests.put(rows(3, 5), 10.04)
    assert not digests.due(10.049, 0.05, 9)
    assert digests.due(10.05, 0.05, 9)
    assert [block for block, _ in digests.take()] == [0, 1, 2, 3, 4]
    assert not digests.due(99.0, 0.05, 9), "there are none"


def test_the_last_ones_wait_for_nobody() -> None:
    digests = Digests()
    digests.put(rows(0, 6), 10.0)
    digests.take()
    digests.put(rows(6, 8), 11.0)
    assert not digests.due(11.0, 0.05, 9)
    digests.put(rows(8, 9), 11.0)
    assert digests.due(11.0, 0.05, 9)


def test_no_more_than_an_order_takes_wait() -> None:
    digests = Digests()
    digests.put(rows(0, TOLD_MAX + 1), 10.0)
    assert digests.due(10.0, 0.05, 3 * TOLD_MAX)
    assert len(digests.take()) == TOLD_MAX
    assert len(digests) == 1
