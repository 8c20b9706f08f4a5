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
