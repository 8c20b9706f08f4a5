"""Random networks with rates, links down among them: do receivers get their max-flow?

    python bench/planners/trials.py --cases 10000

Where they do not, the first --lp networks of each row are held against the best that any trees can do, by linear
programme (packing.py). Each receiver's certificate is looked at in all: a cut that has its bound's capacity.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter

import networkx as nx
from packing import best

from datacast.core.rates import RatedTrees, arc_rates, rated_trees
from datacast.core.trees import Network, Unreachable


def network(rng: random.Random, forwards: bool) -> tuple[nx.Graph, str, list[str]]:
    """4 to 14 nodes, two thirds of them hosts."""
    n, dense, most = rng.randint(4, 14), rng.uniform(0.2, 0.6), rng.choice([2, 10, 1000])
    g = nx.Graph()
    ports: Counter[str] = Counter()
    for i in range(n):
        host = i < max(2, n * 2 // 3)
        g.add_node(f"n{i}", kind="host" if host else "switch", forwards=forwards or not host)
        for j in range(i):
            if rng.random() < dense:
                u, v = f"n{i}", f"n{j}"
                g.add_edge(
                    u, v, rate_bps=rng.randint(1, most), ports={u: ports[u], v: ports[v]}, up=rng.random() > 0.05
                )
                ports.update([u, v])
    hosts = [name for name, data in g.nodes(data=True) if data["kind"] == "host"]
    return g, "n0", rng.sample(hosts[1:], rng.randint(1, len(hosts) - 1))


def arcs_of(g: nx.Graph, source: str) -> nx.DiGraph:
    """The arcs that trees may use."""
    d = nx.DiGraph()
    d.add_nodes_from(g)
    for u, v, data in g.edges(data=True):
        for a, b in ((u, v), (v, u)):
            if data["up"] and b != source and (a == source or g.nodes[a]["forwards"]):
                d.add_edge(a, b, capacity=data["rate_bps"])
    return d


def worst(plan: RatedTrees, together: bool) -> float:
    """The part of its bound that the worst-off receiver gets; for one rate: of the least bound."""
    reached = [name for name in plan.receivers if plan.bound[name]]
    least = min(plan.bound[name] for name in reached)
    return min(plan.got[name] / (least if together else plan.bound[name]) for name in reached)


def programme(g: nx.Graph, plan: RatedTrees, together: bool) -> float:
    """The best that any trees can do for the worst-off receiver, as `worst` counts."""
    reached = [name for name in plan.receivers if plan.bound[name]]
    least = min(plan.bound[name] for name in reached)
    weight = {name: float(least if together else plan.bound[name]) for name in reached}
    return best(arcs_of(g, plan.source), plan.source, weight, together=together)[0]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--cases", type=int, default=10000)
    options.add_argument(
        "--lp", type=int, default=50, help="networks short of the bound that a programme is solved for"
    )
    given = options.parse_args()
    cases = given.cases
    print(
        "| hosts pass on | rate | networks | certificates | short of the bound | by splitting off | worst gap | "
        "mean gap of those | by programme | as good | mean gap to it | worst |"
    )
    print("| --- " * 12 + "|")
    for forwards in (True, False):
        for together in (True, False):
            seen = split = proved = 0
            gaps, left = [], []
            for seed in range(cases):
                g, source, receivers = network(random.Random(seed), forwards)
                engine = Network(g)
                try:
                    plan = rated_trees(engine, source, receivers, arc_rates(engine, g), together=together, most=512)
                except Unreachable:
                    continue
                seen += 1
                split += plan.split
                proved += all(plan.cut(name).capacity_bps == plan.bound[name] for name in receivers)
                gap = 1 - worst(plan, together)
                if gap > 0:
                    gaps.append(gap)
                    if len(left) < given.lp:
                        left.append(max(0.0, 1 - worst(plan, together) / programme(g, plan, together)))
            print(
                f"| {'yes' if forwards else 'no'} | {'one for all' if together else 'own'} | {seen} | {proved} | "
                f"{len(gaps)} | {split} | {max(gaps, default=0):.3f} | {sum(gaps) / len(gaps) if gaps else 0:.3f} | "
                f"{len(left)} | {sum(gap < 1e-3 for gap in left)} | {sum(left) / len(left) if left else 0:.3f} | "
                f"{max(left, default=0):.3f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
