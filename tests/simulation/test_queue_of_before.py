"""New trees begin behind the packets of the old ones (a plan for slow receivers, a repair): their round trips are that
queue, which is no long path."""

from __future__ import annotations

import pytest
from slow_cable import TREE, network

from datacast.simulation.engine import SECOND, Group, Simulation
from datacast.simulation.experiments.base import Setting

RATE, SLOW, MTU, QUEUE, PIECES = 50_000_000, 5_000_000, 9000, 100, 1000
BELIEVED = 16_000_000
"""What the new tree's source is told of the slow link."""
FIRST_S = 2


def after_another(first: int, credits: int) -> tuple[Simulation, Group]:
    """A tree with so many credits over a slow cable, as one that had `first` has just ended there."""
    setting = Setting(rate=RATE, slow=SLOW, mtu=MTU, queue=QUEUE, delay=5000)
    sim = network(setting)
    packet = MTU * 8 * SECOND // SLOW
    for pieces, config, start in (
        (FIRST_S * SECOND // packet, {"credits": first}, 0),
        (PIECES, {"credits": credits, "rate_init": BELIEVED, "rate_max": BELIEVED}, FIRST_S * SECOND - first * packet),
    ):
        group = sim.group("s0", ["r0"], pieces * (MTU - 16), MTU - 16, setting.store())
        group.tree(TREE, setting.tree(hops=3).with_(**config))
        group.assign()
        group.schedule(start=start)
    sim.run(until=1000 * SECOND)
    return sim, group


@pytest.mark.parametrize(
    "first, credits, queued, again",
    [
        pytest.param(2, 48, 48, 0, id="nothing stands there"),
        pytest.param(16, 16, 60, 1, id="few"),
        pytest.param(30, 48, 99, 1, id="many"),
        pytest.param(80, 16, 99, 8, id="nearly all that the queue holds"),
        pytest.param(80, 48, 101, 60, id="more than it holds"),
    ],
)
def test_credits_do_not_grow_by_a_queue_that_was_there_before(
    first: int, credits: int, queued: int, again: int
) -> None:
    """They did until the spacing of packets counted, and a timer that ends before anything has come no longer did: 1 to
    36 % of them were sent again."""
    sim, group = after_another(first, credits)
    assert sim.link_stats("b", "r0")["queue_max"] <= queued
    assert group.tree_stats()[0]["duplicates"] <= again
    assert group.finish() < 1.01 * (FIRST_S + PIECES * MTU * 8 / SLOW) * SECOND
