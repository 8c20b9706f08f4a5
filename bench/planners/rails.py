"""Trees with rates on rail fabrics: 1,024 hosts with 8 rails, which pass nothing on.

    python bench/planners/rails.py --repeat 20

Hosts have a link of 400 Gbit/s to one leaf in every rail, 32 hosts per leaf, leaves 1,600 to each of 4 spines (tapered
two to one). Times are processor time of the thread.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections import Counter

import networkx as nx

from datacast.core.rates import arc_rates, rated_trees
from datacast.core.trees import Network

GBIT = 10**9
HOSTS, RAILS, PER_LEAF, SPINES = 1024, 8, 32, 4


def rails() -> nx.Graph:
    g = nx.Graph()
    ports: Counter[str] = Counter()

    def link(u: str, v: str, rate: int) -> None:
        g.add_edge(u, v, rate_bps=rate * GBIT, ports={u: ports[u], v: ports[v]})
        ports.update([u, v])

    for rail in range(RAILS):
        for leaf in range(HOSTS // PER_LEAF):
            for host in range(leaf * PER_LEAF, (leaf + 1) * PER_LEAF):
                link(f"h{host}", f"r{rail}l{leaf}", 400)
            for spine in range(SPINES):
                link(f"r{rail}l{leaf}", f"r{rail}s{spine}", 1600)
    for name, data in g.nodes(data=True):
        data |= {"kind": "host" if name[0] == "h" else "switch", "forwards": name[0] != "h"}
    return g


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--repeat", type=int, default=20)
    repeat = options.parse_args().repeat
    rng = random.Random(3)
    whole, down, mixed = rails(), rails(), rails()
    broken = rng.sample(list(down.edges), 20)
    for g in (down, mixed):
        for edge in broken:
            g.edges[edge]["up"] = False
    for host in range(0, HOSTS, 5):
        for leaf in mixed[f"h{host}"]:
            mixed.edges[f"h{host}", leaf]["rate_bps"] = 100 * GBIT
    heads = (
        "fabric",
        "delivery",
        "trees",
        "least, Gbit/s",
        "its bound",
        "below bound",
        "mean of bound",
        "median ms",
        "p99 ms",
    )
    print("| " + " | ".join(heads) + " |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    receivers = [f"h{i}" for i in range(2, HOSTS)]
    for fabric, g in (("whole", whole), ("20 links down", down), ("and every fifth host with 100 Gbit/s", mixed)):
        network = Network(g)
        rates = arc_rates(network, g)
        for together in (True, False):
            plan = rated_trees(network, "h1", receivers, rates, together=together)
            times = []
            for _ in range(repeat):
                begin = time.thread_time()
                plan.compute()
                times.append((time.thread_time() - begin) * 1e3)
            times.sort()
            short = sum(plan.got[name] < plan.bound[name] for name in receivers)
            if together:
                short = sum(plan.got[name] < plan.common_bound for name in receivers)
            part = statistics.mean(plan.got[name] / plan.bound[name] for name in receivers)
            print(
                f"| {fabric} | {'together' if together else 'stable'} | {len(plan.trees)} | {plan.common / GBIT:.0f} | "
                f"{plan.common_bound / GBIT:.0f} | "
                f"{short} of {len(receivers)} | {part:.3f} | {statistics.median(times):.2f} | "
                f"{times[min(len(times) - 1, int(len(times) * 0.99))]:.2f} |"
            )


if __name__ == "__main__":
    main()
