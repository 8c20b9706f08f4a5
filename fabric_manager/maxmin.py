"""Weighted max-min shares of groups that have several trees each. Pure.

A group counts as one, whatever its trees: what it gains on a free link it must not ask for on a busy one as well. The
shares are those of a sequence of linear programs (Ogryczak and others, Fair Optimization and Networks: A Survey, 2014):
the highest level that all can have by their weights; then those whose constraint has a price (a dual that is not zero)
are held there, and the rest is raised again, until all are held. HiGHS solves them, each from the last one's basis.

That is exact and takes milliseconds for what a lab or a pod has. For more than ENTRIES_MAX uses of links it would take
minutes: there progressive filling of trees (filling.py) stands in, each group's weight divided evenly among its trees.
In BCube(4,1) with 10 and 40 groups it gives the poorest group 5 to 20 % less (docs/decisions/shares.md).
"""

from __future__ import annotations

import highspy
import numpy as np
from numpy.typing import NDArray

from datacast.planners.solver import programme

from .filling import Costs, Floats, Ints, Numbers, Trees, fill

ENTRIES_MAX = 60_000
PRICED = 1e-7
"""A dual above this, of weights that are one together, is no rounding."""
HELD = 1 - 1e-7
"""Groups are held this near to their level, so that the next program is not refused for rounding."""
SURE = 1 / 10
"""Of its even share every tree gets so much: one that gets next to nothing would keep the pieces it has."""


def shares(
    capacity: Floats, trees: Trees, weight: Floats, least: Floats, most: Floats, apart: NDArray[np.bool_] | None = None
) -> Floats:
    """Rates by tree: every group's total is its weighted max-min share, at most `most` and, where the links have it,
    at least `least`. `weight`, `least`, `most` by group; weights above 0. Every tree has a link. `apart`: groups whose
    trees cannot send each other's pieces, so that each gets all of its even share."""
    if not trees.count:
        return np.zeros(0)
    per_group = np.maximum(np.bincount(trees.group, minlength=len(weight)), 1)
    part = (weight / per_group)[trees.group]
    if (per_group > 1).any() and len(trees.links) <= ENTRIES_MAX:
        so_much = np.full(len(weight), SURE)
        if apart is not None:
            so_much[apart] = 1.0
        return lexicographic(capacity, _sure(capacity, trees, part, most, so_much), weight, least, most)
    promised = None
    if least.any():
        promised = fill(capacity, trees, (least / per_group)[trees.group], np.minimum(least, most))
    return fill(capacity, trees, part, most, promised)


def _sure(capacity: Floats, trees: Trees, part: Floats, most: Floats, so_much: Floats) -> Trees:
    """With something for every tree: `so_much`, by group, of what it would have if every link were divided by weights
    alone. A group that may have little has it evenly: a part of that would be next to nothing."""
    asked = trees.use(part, len(capacity))
    with np.errstate(divide="ignore", invalid="ignore"):
        level = np.where(asked > 0, np.maximum(capacity, 0.0) / asked, np.inf)
    even = np.minimum.reduceat(level[trees.links], trees.at[:-1]) * part
    count = np.bincount(trees.group, minlength=len(most))[trees.group]
    sure = np.minimum(np.minimum(even, trees.most) * so_much[trees.group], most[trees.group] / count)
    return Trees(trees.at, trees.links, trees.cost, trees.group, np.maximum(trees.least, sure), trees.most)


def lexicographic(capacity: Floats, trees: Trees, weight: Floats, least: Floats, most: Floats) -> Floats:
    """The exact shares. `least` that does not fit is cut to what does, for all in the same proportion."""
    unit = float(capacity.max(initial=0.0)) or 1.0
    groups, level = len(weight), trees.count  # the column of the level
    kept, links = _distinct(trees, capacity / unit)
    program = programme()
    rows = len(kept) + 2 * groups
    fair, bound = len(kept), len(kept) + groups  # first rows of: sum - weight x level >= 0; least <= sum <= most
    scale = weight / weight.max()
    # Columns: the trees' entries in links, then in their group's two rows; last the level.
    lengths = np.bincount(links[0], minlength=trees.count)
    starts = np.concatenate(([0], np.cumsum(lengths + 2)))
    index, value = np.empty(starts[-1], np.int32), np.ones(starts[-1])
    places = np.arange(len(links[0])) + 2 * links[0]  # entries are in the order of trees
    index[places], value[places] = links[1], links[2]
    index[starts[1:] - 2], index[starts[1:] - 1] = fair + trees.group, bound + trees.group
    infinity = highspy.kHighsInf
    top = np.where(np.isfinite(most), most / unit, infinity)
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = trees.count + 1, rows
    lp.sense_ = highspy.ObjSense.kMaximize
    lp.col_cost_ = np.append(np.zeros(trees.count), 1.0)
    lp.col_lower_ = np.append(trees.least / unit, 0.0)
    lp.col_upper_ = np.append(np.where(np.isfinite(trees.most), trees.most / unit, infinity), 0.0)
    lp.row_lower_ = np.concatenate((np.full(len(kept), -infinity), np.zeros(2 * groups)))
    lp.row_upper_ = np.concatenate((kept, np.full(groups, infinity), top))
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = np.append(starts, starts[-1])
    lp.a_matrix_.index_, lp.a_matrix_.value_ = index, value
    program.passModel(lp)
    if least.any():
        _promise(program, level, bound, np.minimum(least / unit, top), top)
    for group in range(groups):
        program.changeCoeff(int(fair + group), level, -float(scale[group]))
    free = np.ones(groups, bool)
    free[np.bincount(trees.group, minlength=groups) == 0] = False
    rate = trees.least
    while free.any():
        # Groups that can have all they ask for are held by that.
        enough = np.where(free, top / scale, infinity)
        program.changeColBounds(level, 0.0, float(enough.min()))
        program.run()
        if program.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            break
        solution = program.getSolution()
        found = np.asarray(solution.col_value)
        rate = np.maximum(found[:level], 0.0) * unit
        price = np.abs(np.asarray(solution.row_dual)[fair:bound]) * scale
        held = free & ((price > PRICED) | (enough <= found[level] * (1 + 1e-9)))
        if not held.any():  # nothing bounds the rest, or it cannot be told what does
            break
        for one in np.flatnonzero(held).tolist():
            program.changeCoeff(fair + one, level, 0.0)
            program.changeRowBounds(fair + one, float(scale[one] * found[level] * HELD), infinity)
        free &= ~held
    return rate


def _promise(program: highspy.Highs, level: int, bound: int, least: Floats, top: Floats) -> None:
    """Hold every group to its `least`, or, where all together do not fit, to as large a part of it as does."""
    asking = [int(group) for group in np.flatnonzero(least > 0)]
    for group in asking:
        program.changeCoeff(bound + group, level, -float(least[group]))
    program.changeColBounds(level, 0.0, 1.0)
    program.run()
    fits = program.getSolution().col_value[level]
    for group in asking:
        program.changeCoeff(bound + group, level, 0.0)
        program.changeRowBounds(bound + group, float(least[group]) * fits * HELD, float(top[group]))


def _distinct(trees: Trees, capacity: Floats) -> tuple[Floats, tuple[Numbers, Ints, Costs]]:
    """Links that the same trees use alike are one, with the least capacity: (capacity, (tree, link, cost) entries in
    the order of trees)."""
    order = np.lexsort((trees.owner, trees.links))
    link, owner, cost = trees.links[order], trees.owner[order], trees.cost[order]
    used, first = np.unique(link, return_index=True)
    number: dict[bytes, int] = {}
    kept: list[float] = []
    keep: list[Ints] = []
    spans = np.append(first, len(link))
    for k, name in enumerate(used):
        span = slice(spans[k], spans[k + 1])
        key = owner[span].tobytes() + cost[span].tobytes()
        at = number.setdefault(key, len(kept))
        if at == len(kept):
            kept.append(np.inf)
            keep.append(np.arange(span.start, span.stop))
        kept[at] = min(kept[at], max(0.0, float(capacity[name])))
    rows = np.concatenate([np.full(len(part), i) for i, part in enumerate(keep)])
    entries = np.concatenate(keep)
    trees_of, costs = owner[entries], cost[entries]
    order = np.lexsort((rows, trees_of))
    return np.asarray(kept), (trees_of[order], rows[order], costs[order])
