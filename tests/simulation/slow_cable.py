"""A source and a receiver behind two switches; the last cable has a rate of its own."""

from __future__ import annotations

from datacast.simulation.engine import PAPER, Simulation
from datacast.simulation.experiments.base import Setting, simulation

TREE = [("a", "s0"), ("b", "a"), ("r0", "b")]


def network(setting: Setting) -> Simulation:
    """s0 – a – b – r0, all at `rate` but the last, which is `slow`."""
    sim = simulation(setting, PAPER)
    for switch in ("a", "b"):
        sim.switch(switch)
    for host in ("s0", "r0"):
        sim.host(host)
    sim.cable("s0", "a", setting.rate, setting.delay, 1000)
    sim.cable("a", "b", setting.rate, setting.delay, setting.queue)
    sim.cable("b", "r0", setting.slow, setting.delay, setting.queue)
    return sim
