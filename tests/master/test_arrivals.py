"""How fast a fetcher is, by blocks that come one by one or many at once."""

from __future__ import annotations

import pytest

from datacast.master.arrivals import Arrivals


def test_nothing_is_said_of_a_few_blocks_nor_of_a_time_without_work() -> None:
    it = Arrivals()
    it.begin(10.0)
    for now in (10.1, 10.2, 10.3):
        it.came(now)
    assert it.rate(10.4) == 0.0
    it.came(10.4)
    assert it.rate(10.4) == pytest.approx(10.0)
    it.begin(60.0)
    assert it.rate(61.0) == 0.0 and it.silent_s(61.0) == 1.0


def test_requests_of_many_blocks_from_far_away_are_measured_as_a_whole() -> None:
    """Sixteen blocks come together every two seconds: four of them in two seconds would be a quarter of it."""
    it = Arrivals()
    it.begin(0.0)
    for now in (2.0, 4.0, 6.0, 8.0):
        for _ in range(16):
            it.came(now)
        assert it.rate(now) == pytest.approx(8.0)
    assert it.rate(10.0) == pytest.approx(4.0), "the next are late"


def test_who_falls_silent_gets_slower_and_slower() -> None:
    it = Arrivals()
    it.begin(0.0)
    for n in range(100):
        it.came(n / 100)
    assert it.rate(1.0) == pytest.approx(100.0, rel=0.1)
    assert it.rate(5.0) < 2.0 and it.silent_s(5.0) > 4.0


def test_a_block_every_five_seconds_is_a_rate_too() -> None:
    it = Arrivals()
    it.begin(0.0)
    for n in range(1, 41):
        it.came(5.0 * n)
    assert it.rate(200.0) == pytest.approx(0.2)
