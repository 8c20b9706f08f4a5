"""A cable that becomes much slower in mid-file: what was lost there is asked for again, and comes."""

from __future__ import annotations

import pytest
from slow_cable import TREE, network

from datacast.simulation.engine import SECOND
from datacast.simulation.experiments.base import Setting, late_hosts

RATE, PIECES, MTU = 10**9, 30_000, 1500


@pytest.mark.parametrize("queue", [20, 50, 100])
def test_a_cable_that_carries_a_twentieth_from_the_middle_of_a_file_on_ends_it_all_the_same(queue: int) -> None:
    """New numbers wait at the source for seconds then, as its front waits for this receiver. With one timer for those
    and for what is asked again each waited for the other, and the transfer did not end."""
    setting = Setting(rate=RATE, slow=RATE, mtu=MTU, queue=queue, delay=10_000_000 // 6)
    sim = network(setting)
    group = sim.group("s0", ["r0"], PIECES * (MTU - 16), MTU - 16, setting.store())
    group.tree(TREE, setting.tree(hops=3))
    group.assign()
    group.schedule()
    late_hosts(sim, setting, [("s0", "a"), ("r0", "b")])
    half = PIECES // 2 * MTU * 8 * SECOND // RATE
    sim.run(until=half, whole=False)
    sim.rate("a", "b", RATE // 20)
    sim.run(until=half + 1000 * SECOND)
    assert group.finish() < 20 * 21 * half  # 2.4 to 11: chance, as losses meet timers
