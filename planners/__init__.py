"""Planners: a network, a source and receivers in, trees with rates out (README.md). Pure.

from datacast import planners
net = planners.cables(graph)            # trees branch in switches
net = planners.hosts(graph)             # hosts pass data on; a hop takes its rate from every cable underneath
plan = planners.plan(net, "00", ["02", "31"], "stable")
"""

from __future__ import annotations

from .delivery import Delivery, Gap, deliver, differ, gap, rates_of, unequal
from .fluid import finish_times
from .model import Net, Plan, PlannerError, RateTree, cables, hosts
from .names import PLANNERS, plan

__all__ = [
    "PLANNERS",
    "Delivery",
    "Gap",
    "Net",
    "Plan",
    "PlannerError",
    "RateTree",
    "cables",
    "deliver",
    "differ",
    "finish_times",
    "gap",
    "hosts",
    "plan",
    "rates_of",
    "unequal",
]
