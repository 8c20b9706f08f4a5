"""BBR beside which groups are measured: each of its parts, and what Linux's has beside Cubic in the same cable
(docs/results/transport.md)."""

from __future__ import annotations

import pytest
from tcp_cable import MS, RATE, SEGMENT, Cable

from datacast.simulation.engine import SECOND, Faults
from datacast.simulation.experiments.base import jain

TRIP = 10 * MS * RATE // (8 * SEGMENT * SECOND)
"""Packets on the way in a round trip of 10 ms without a queue: 41."""


def test_one_alone_fills_a_cable_and_keeps_a_short_queue():
    """A quarter more than the path holds is tried for a round, its queue emptied in the next; bursts lie on top."""
    cable = Cable("bbr", queue=1000)
    cable.rates(1000)
    assert cable.rates(1000)[0] >= 0.99
    assert max(cable.queues(1000)) <= 0.8 * TRIP


def test_a_start_doubles_per_round_trip_fills_a_queue_once_and_empties_it():
    cable = Cable("bbr", queue=2000, delay=50 * MS)
    cable.rates(700)
    assert cable.rates(100)[0] >= 0.97
    assert 1.5 <= max(cable.queues(800)) / (10 * TRIP) <= 2.1
    cable.rates(500)
    assert max(cable.queues(20)) <= 20


def test_the_second_flight_leaves_at_the_pace_of_the_first_round_trip():
    """Not at that of a millisecond, by which twenty packets would be seven times as many as the cable takes."""
    cable = Cable("bbr", delay=50 * MS, queue=12)
    cable.rates(350)
    assert cable.dropped == 0


def test_a_recovery_begins_with_as_much_as_comes():
    """Three in a queue of half a round trip lose 650 packets a second (Linux's 490); 850 without."""
    cable = Cable("bbr", "bbr", "bbr", queue=20)
    cable.rates(2000)
    before = cable.dropped
    assert sum(cable.rates(10_000)) >= 0.98
    assert cable.dropped - before <= 7000


def test_a_dip_of_200_ms_in_ten_seconds_costs_no_more():
    cable = Cable("bbr")
    cable.rates(9900)
    rates = [cable.rates(100)[0] for _ in range(60)]
    low = [k for k, rate in enumerate(rates) if rate < 0.9]
    assert 2 <= len(low) <= 3 and low[-1] - low[0] == len(low) - 1, rates
    assert min(rates) < 0.15


def test_who_comes_later_and_sees_a_queue_learns_of_it_and_both_have_the_same():
    """The queue of the first is in the second one's shortest round trip until both dip."""
    cable = Cable("bbr", "bbr", queue=1000, apart=3000 * MS)
    cable.rates(7000)
    assert max(cable.queues(100)) > 2 * TRIP
    assert jain(cable.rates(2000)) < 0.8
    cable.rates(7000)
    assert jain(cable.rates(6000)) >= 0.97
    assert max(cable.queues(100)) <= 1.8 * TRIP


def test_what_a_cable_no_longer_carries_is_forgotten_after_ten_rounds():
    cable = Cable("bbr", queue=200)
    cable.rates(3000)
    cable.sim.rate("a", "b", RATE // 4)
    cable.rates(1400)
    assert max(cable.queues(200)) <= TRIP and cable.dropped == 0


def test_losses_that_say_nothing_of_the_path_do_not_slow_it_down():
    """One in twenty; Cubic has a twentieth of the cable then."""
    found = []
    for flavour in ("bbr", "cubic"):
        cable = Cable(flavour)
        cable.rates(2000)
        cable.sim.faults("a", "b", Faults(loss_data=1 / 20, loss_interest=1 / 20))
        found.append(cable.rates(5000)[0])
    assert found[0] >= 0.9 and found[1] <= 0.2, found


def test_a_lost_tail_costs_no_timeout():
    cable = Cable("bbr")
    cable.rates(2000)
    cable.lose(1.0, 40)
    assert cable.rates(80)[0] > 0.1
    assert cable.rates(80)[0] > 0.9


@pytest.mark.parametrize(
    ("queue", "cubic"), [(20, 0.10), (41, 0.09), (82, 0.29), (164, 0.47), (330, 0.62)], ids=lambda x: str(x)
)
def test_beside_cubic_it_has_what_linux_has(queue, cubic):
    """Most of the cable where the queue holds less than a round trip, least where it holds many."""
    cable = Cable("cubic", "bbr", queue=queue)
    cable.rates(10_000)
    found = cable.rates(30_000)
    assert found[0] == pytest.approx(cubic, abs=0.1) and sum(found) >= 0.97
