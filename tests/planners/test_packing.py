"""The linear programme that bench/planners holds plans against: is it the best that any trees can do?"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import highspy
import networkx as nx
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench" / "planners"))
import packing
import trials

from datacast import planners
from datacast.core.rates import arc_rates, rated_trees
from datacast.core.trees import Network, Unreachable


def of_all(graph: nx.DiGraph, trees: list[set[tuple[str, str]]]) -> float:
    """The largest sum of rates of these trees."""
    lp = highspy.Highs()
    lp.setOptionValue("output_flag", False)
    row = {arc: i for i, arc in enumerate(graph.edges)}
    for arc in row:
        lp.addRow(-highspy.kHighsInf, graph.edges[arc]["capacity"], 0, np.array([], np.int32), np.array([]))
    for tree in trees:
        index = np.array([row[arc] for arc in tree], np.int32)
        lp.addCol(-1.0, 0.0, highspy.kHighsInf, len(tree), index, np.ones(len(tree)))
    lp.run()
    return -lp.getInfo().objective_function_value


def test_its_columns_are_as_good_as_all_the_trees_there_are():
    seen = 0
    for seed in range(400):
        g, source, receivers = trials.network(random.Random(seed), forwards=False)
        if len(g) > 6 or g.number_of_edges() > 8:
            continue
        d = trials.arcs_of(g, source)
        reached = [name for name in receivers if nx.has_path(d, source, name)]
        if not reached or not (trees := packing.by_hand(d, source, reached)):
            continue
        found, used = packing.best(d, source, dict.fromkeys(reached, 1.0), together=True)
        wanted = of_all(d, trees)
        assert abs(found - wanted) <= 1e-6 * wanted, f"seed {seed}"
        assert abs(sum(rate for rate, _ in used) - wanted) <= 1e-6 * wanted
        seen += 1
    assert seen > 40


def test_no_plan_is_better_and_none_worse_where_everybody_passes_on():
    for forwards in (True, False):
        for seed in range(25):
            g, source, receivers = trials.network(random.Random(seed), forwards)
            engine = Network(g)
            try:
                plan = rated_trees(engine, source, receivers, arc_rates(engine, g), most=512)
            except Unreachable:
                continue
            ours, best = trials.worst(plan, False), trials.programme(g, plan, False)
            assert ours <= best + 1e-6 <= 1 + 2e-6, f"seed {seed}"
            assert not forwards or ours >= best - 1e-6


def flows(g: nx.Graph, source: str, receivers: list[str]) -> dict[str, int]:
    """Bounds, found without the engine."""
    d = trials.arcs_of(g, source)
    return {name: nx.maximum_flow_value(d, source, name) for name in receivers}


def test_the_gap_that_is_told_is_the_gap_there_is():
    short = 0
    for forwards in (True, False):
        for seed in range(1000, 1250):
            g, source, receivers = trials.network(random.Random(seed), forwards)
            for _, _, data in g.edges(data=True):
                data["rate_bps"] *= 1000  # as of links: a bit per second is none
            engine = Network(g)
            try:
                plan = rated_trees(engine, source, receivers, arc_rates(engine, g), most=512)
            except Unreachable:
                continue
            bound = flows(g, source, receivers)
            carried = dict.fromkeys(receivers, 0)
            for tree in plan.trees:
                for name in tree.receivers:
                    carried[name] += tree.rate_bps
            told = planners.gap(plan.got, plan.bound)
            missing = {name: 1 - carried[name] / most for name, most in bound.items() if most - carried[name] > 1}
            assert told.part == round(max(missing.values(), default=0.0), 6), f"seed {seed}"
            assert (told.receiver is None) == (not missing) and (
                not missing or missing[told.receiver] >= told.part - 1e-6
            )
            assert not forwards or told.part == 0, f"seed {seed}: the bound is known to be reachable"
            short += told.part > 0
    assert short >= 5, "some nets must fall short, or this shows nothing"
