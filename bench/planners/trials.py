"""Random networks with rates, links down among them: do receivers get their max-flow?

    python bench/planners/trials.py --cases 10000

A gap is the part of its max-flow that the worst-off receiver does not get (for one rate: of the least max-flow), of
the trees that the core grows and of those that a group gets. Where a group's fall short, the first --lp networks of
each row are held against the best that any trees can do, by linear programme (planners/packing.py): the largest part
that one receiver misses of what the programme gives the one of its rank. Each receiver's certificate is looked at in
all: a cut that has its bound's capacity.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Iterable, Mapping

import networkx as nx

from datacast.core.rates import RatedTree, RatedTrees, arc_rates, rated_trees
from datacast.core.trees import Network, Unreachable
from datacast.planners.packing import pack
from datacast.planners.small import packed

UNIT = 10**6
"""Bit/s of a rate that is drawn as 1: trees have whole bits per second."""


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
                    u, v, rate_bps=UNIT * rng.randint(1, most), ports={u: ports[u], v: ports[v]}, up=rng.random() > 0.05
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


def got(trees: Iterable[RatedTree], names: Iterable[str]) -> dict[str, int]:
    return {name: sum(tree.rate_bps for tree in trees if name in tree.receivers) for name in names}


def targets(plan: RatedTrees, together: bool) -> dict[str, int]:
    reached = {name: bound for name, bound in plan.bound.items() if bound}
    return dict.fromkeys(reached, min(reached.values())) if together else reached


def missed(rates: Mapping[str, float], wanted: Mapping[str, float]) -> float:
    """The part that the worst-off receiver lacks. (Whole bits per second: one of a million is none.)"""
    part = max(1 - rates[name] / rate for name, rate in wanted.items())
    return part if part > 1e-5 else 0.0


def below(rates: Mapping[str, float], best: Mapping[str, float]) -> float:
    """The same against the one of its rank: who has what may differ."""
    pairs = zip(sorted(rates[name] for name in best), sorted(best.values()), strict=True)
    return max(1 - one / other for one, other in pairs)


def programme(g: nx.Graph, plan: RatedTrees, together: bool) -> dict[str, float]:
    """The best that any trees can do."""
    d = arcs_of(g, plan.source)
    d.remove_nodes_from(set(d) - {plan.source} - nx.descendants(d, plan.source))
    return pack(d, plan.source, targets(plan, together), together=together).got


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--cases", type=int, default=10000)
    options.add_argument(
        "--lp", type=int, default=50, help="networks short of the bound that a programme is solved for"
    )
    given = options.parse_args()
    cases = given.cases
    heads = (
        "hosts pass on",
        "rate",
        "networks",
        "certificates",
        "by splitting off",
        "core short",
        "mean gap of those",
        "group short",
        "mean gap",
        "worst",
        "by programme",
        "within 1 % of it",
        "mean gap to it",
        "worst to it",
    )
    print("| " + " | ".join(heads) + " |")
    print("| --- " * len(heads) + "|")
    for forwards in (True, False):
        for together in (True, False):
            seen = split = proved = 0
            core, group, left = [], [], []
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
                wanted = targets(plan, together)
                if not (gap := missed(plan.got, wanted)):
                    continue
                core.append(gap)
                rates = got(packed(plan, together=together), wanted)
                if not (gap := missed(rates, wanted)):
                    continue
                group.append(gap)
                if len(left) < given.lp:
                    left.append(below(rates, programme(g, plan, together)))
            cells = [
                "yes" if forwards else "no",
                "one for all" if together else "own",
                *(str(n) for n in (seen, proved, split, len(core))),
                f"{mean(core):.3f}",
                str(len(group)),
                f"{mean(group):.3f}",
                f"{max(group, default=0):.3f}",
                str(len(left)),
                str(sum(gap < 0.01 for gap in left)),
                f"{mean(left):.3f}",
                f"{max(left, default=0):.3f}",
            ]
            print("| " + " | ".join(cells) + " |", flush=True)


def mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


if __name__ == "__main__":
    main()
