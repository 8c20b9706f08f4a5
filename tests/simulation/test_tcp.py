"""The TCP that groups stand beside: what it does alone with losses, before anybody is measured by it."""

from __future__ import annotations

import pytest

from datacast.simulation.engine import PAPER, SECOND, Faults, Simulation
from datacast.simulation.experiments.base import jain

RATE, MS, SEGMENT = 50_000_000, SECOND // 1000, 1500


class Cable:
    """Connections over one cable; hosts are late by up to a packet's time."""

    def __init__(
        self, flows: int, delay: int = 5 * MS, queue: int = 100, flavour: str = "cubic", rate: int = RATE
    ) -> None:
        self.rate = rate
        self.sim = Simulation(1, PAPER)
        self.sim.switch("a")
        self.sim.switch("b")
        self.sim.cable("a", "b", rate, delay, queue)
        self.flows = []
        for k in range(flows):
            self.sim.host(f"t{k}")
            self.sim.host(f"u{k}")
            self.sim.cable(f"t{k}", "a", 4 * rate, 1000, 10_000)
            self.sim.cable("b", f"u{k}", 4 * rate, 1000, 10_000)
            self.sim.faults(f"t{k}", "a", Faults(jitter=SEGMENT * 8 * SECOND // rate))
            self.flows.append(self.sim.tcp([f"t{k}", "a", "b", f"u{k}"], k * 1000, 60 * SECOND, flavour, SEGMENT))
        self.seen = [0] * flows

    def rates(self, ms: float) -> list[float]:
        """What each has of the cable in the next so many milliseconds."""
        self.sim.run(self.sim.now + int(ms * MS), whole=False)
        before, self.seen = self.seen, [self.sim.tcp_bytes(f) for f in self.flows]
        return [(b - a) * 8 / (self.rate * ms / 1000) for a, b in zip(before, self.seen, strict=True)]

    @property
    def dropped(self) -> int:
        return self.sim.link_stats("a", "b")["dropped"]

    def lose(self, part: float, ms: float) -> None:
        """Such a part of what goes over the cable, for so long."""
        self.sim.faults("a", "b", Faults(loss_data=part, loss_interest=part))
        self.rates(ms)
        self.sim.faults("a", "b", Faults())


@pytest.mark.parametrize("flavour", ["cubic", "newreno"])
@pytest.mark.parametrize("queue", [20, 100])
def test_nine_connections_alone_fill_a_cable_and_share_it(flavour, queue):
    cable = Cable(9, queue=queue, flavour=flavour)
    cable.rates(3000)
    found = cable.rates(10_000)
    assert sum(found) >= 0.97 and jain(found) >= 0.95, found
    assert cable.dropped > 0


def test_one_connection_alone_fills_a_cable_whose_queue_holds_a_round_trip():
    cable = Cable(1)
    cable.rates(1000)
    assert cable.rates(10_000) == [pytest.approx(1, abs=0.02)]
    assert cable.dropped > 0


def test_a_lost_tail_costs_no_timeout():
    """Everything on the way is lost, so no acknowledgement comes: a probe does (RFC 8985), after two round trips."""
    cable = Cable(1)
    cable.rates(2000)
    cable.lose(1.0, 40)  # longer than a round trip, queue included
    assert cable.rates(80)[0] > 0
    assert cable.rates(80)[0] > 0.2


def test_a_burst_of_losses_costs_two_round_trips():
    """One in three of a whole window, what is sent again in that time too."""
    cable = Cable(1)
    cable.rates(2000)
    cable.lose(1 / 3, 35)
    cable.rates(70)
    assert cable.rates(100)[0] > 0.6


def test_a_start_leaves_slow_start_before_a_long_queue_is_full():
    """HyStart++ (RFC 9406): at 40 ms and 2,000 packets of queue it would end in 2,000 losses and more."""
    cable = Cable(1, delay=20 * MS, queue=2000)
    cable.rates(1500)
    assert cable.dropped == 0 and cable.rates(500)[0] > 0.97


def test_cubic_comes_back_in_the_time_of_its_cubic():
    """RFC 9438: three tenths of a window W are lost at once, and back after K = (0.3 W / 0.4) ^ 1/3 seconds, most of
    them in the first half."""
    cable = Cable(1, delay=50 * MS, rate=1_000_000_000)
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
