"""The TCP that groups stand beside: what it does alone with losses, before anybody is measured by it."""

from __future__ import annotations

import pytest
from tcp_cable import MS, SEGMENT, Cable

from datacast.simulation.experiments.base import jain


@pytest.mark.parametrize("flavour", ["cubic", "newreno"])
@pytest.mark.parametrize("queue", [20, 100])
def test_nine_connections_alone_fill_a_cable_and_share_it(flavour, queue):
    cable = Cable(*[flavour] * 9, queue=queue)
    cable.rates(3000)
    found = cable.rates(10_000)
    assert sum(found) >= 0.97 and jain(found) >= 0.95, found
    assert cable.dropped > 0


def test_one_connection_alone_fills_a_cable_whose_queue_holds_a_round_trip():
    cable = Cable("cubic")
    cable.rates(1000)
    assert cable.rates(10_000) == [pytest.approx(1, abs=0.02)]
    assert cable.dropped > 0


def test_a_lost_tail_costs_no_timeout():
    """Everything on the way is lost, so no acknowledgement comes: a probe does (RFC 8985), after two round trips."""
    cable = Cable("cubic")
    cable.rates(2000)
    cable.lose(1.0, 40)  # longer than a round trip, queue included
    assert cable.rates(80)[0] > 0
    assert cable.rates(80)[0] > 0.2


def test_a_burst_of_losses_costs_two_round_trips():
    """One in three of a whole window, what is sent again in that time too."""
    cable = Cable("cubic")
    cable.rates(2000)
    cable.lose(1 / 3, 35)
    cable.rates(70)
    assert cable.rates(100)[0] > 0.6


def test_a_start_leaves_slow_start_before_a_long_queue_is_full():
    """HyStart++ (RFC 9406): at 40 ms and 2,000 packets of queue it would end in 2,000 losses and more."""
    cable = Cable("cubic", delay=20 * MS, queue=2000)
    cable.rates(1500)
    assert cable.dropped == 0 and cable.rates(500)[0] > 0.97


def test_cubic_comes_back_in_the_time_of_its_cubic():
    """RFC 9438: three tenths of a window W are lost at once, and back after K = (0.3 W / 0.4) ^ 1/3 seconds, most of
    them in the first half."""
    cable = Cable("cubic", delay=50 * MS, rate=1_000_000_000)
    cable.rates(850)
    cable.lose(0.01, 30)
    cable.rates(20)
    cut = cable.rates(100)[0]
    whole = cut / 0.7
    k = (0.3 * whole * 1e9 / SEGMENT / 8 / 10 / 0.4) ** (1 / 3)
    cable.rates(1000 * k / 2 - 150)
    assert cable.rates(100)[0] == pytest.approx((1 - 0.3 / 8) * whole, rel=0.01)
    cable.rates(1000 * k / 2 - 100)
    assert cable.rates(100)[0] == pytest.approx(whole, rel=0.01)


def test_cubic_goes_on_from_where_a_timeout_has_left_it():
    """RFC 9438, 4.8: in the first congestion avoidance after a timeout K is 0, and the window that it begins with is
    the plateau. It went on towards the window before as fast as behind a loss, and nobody knows what is there now."""
    cable = Cable("cubic", delay=50 * MS, rate=1_000_000_000, queue=4000)
    cable.rates(1580)
    cable.lose(1.0, 900)
    cable.rates(2000)
    began = cable.rates(500)[0]
    cable.rates(2000)
    assert cable.rates(500)[0] == pytest.approx(began, rel=0.02)
    cable.rates(4500)
    assert cable.rates(500)[0] > 1.03 * began
