"""Rates of given trees by linear programme: the largest sum that no cable forbids (HiGHS)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import highspy
import numpy as np

from .model import Arc, PlannerError, RateTree
from .solver import programme

LEAST = 1e-6
"""Of the largest rate: less is the solver's rounding."""


def balance(trees: Sequence[RateTree], capacity: Mapping[Arc, float]) -> list[RateTree]:
    """The trees that get a rate. Raises PlannerError when HiGHS finds no optimum."""
    arcs = sorted({arc for tree in trees for arc in tree.uses})
    row = {arc: i for i, arc in enumerate(arcs)}
    scale = max(capacity[arc] for arc in arcs)
    solver = programme()
    for arc in arcs:
        solver.addRow(-highspy.kHighsInf, capacity[arc] / scale, 0, np.array([], np.int32), np.array([]))
    for tree in trees:
        index = np.array([row[arc] for arc in tree.uses], np.int32)
        solver.addCol(-1.0, 0.0, highspy.kHighsInf, len(index), index, np.array(list(tree.uses.values()), float))
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        raise PlannerError(f"HiGHS: {solver.getModelStatus()}", what="balanced")
    rates = solver.getSolution().col_value
    most = max(rates)
    return [replace(t, rate_bps=rate * scale) for t, rate in zip(trees, rates, strict=True) if rate > LEAST * most]
