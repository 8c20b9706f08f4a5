"""Random networks with rates, links down among them: do receivers get their max-flow?

python bench/planners/trials.py --cases 10000
"""

from __future__ import annotations

import argparse
import random
from collections import Counter

import networkx as nx

from datacast.core.rates import arc_rates, rated_trees
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


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--cases", type=int, default=10000)
    cases = options.parse_args().cases
    print("| hosts pass on | rate | networks | short of the bound | by splitting off | worst gap | mean gap of those |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for forwards in (True, False):
        for together in (True, False):
            seen = split = 0
            gaps = []
            for seed in range(cases):
                g, source, receivers = network(random.Random(seed), forwards)
                engine = Network(g)
                try:
                    plan = rated_trees(engine, source, receivers, arc_rates(engine, g), together=together, most=512)
                except Unreachable:
                    continue
                seen += 1
                split += plan.split
                reached = [name for name in receivers if plan.bound[name]]
                least = min(plan.bound[name] for name in reached)
                gap = max(1 - plan.got[name] / (least if together else plan.bound[name]) for name in reached)
                if gap > 0:
                    gaps.append(gap)
            print(
                f"| {'yes' if forwards else 'no'} | {'one for all' if together else 'own'} | {seen} | {len(gaps)} | "
                f"{split} | {max(gaps, default=0):.3f} | {sum(gaps) / len(gaps) if gaps else 0:.3f} |"
            )


if __name__ == "__main__":
    main()
