"""The simulations of Takahashi and others, sections 4.1 and 4.2, in rates, for all planners.

    python bench/planners/paper.py --svg docs/results/planners.svg --cases 10 --destinations 100
    python bench/planners/paper.py --only time,joining

The topologies of the paper are not in its text. Ours: 400 hosts on 40 switches that join as a random tree (each to one
of the six before it), drawn by seed; the four clusters of Table 1 with links as CLUSTERS in
simulation/networks.py says.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import networkx as nx

from datacast import planners
from datacast.core.rates import arc_rates, rated_trees
from datacast.core.trees import Network
from datacast.simulation.networks import MBIT, TABLE1, clusters, rated_graph

HOSTS, SWITCHES = 400, 40
DISTRIBUTIONS = {
    "uniform 500 to 1000": lambda rng, inner: rng.randint(500, 1000),
    "uniform 100 to 1000": lambda rng, inner: rng.randint(100, 1000),
    "80 % 1000, 20 % 100": lambda rng, inner: 1000 if rng.random() < 0.8 else 100,
    "random between switches": lambda rng, inner: rng.randint(100, 1000) if inner else 1000,
}


def random_tree(rng: random.Random, distribution: str, symmetric: bool) -> nx.Graph:
    draw = DISTRIBUTIONS[distribution]

    def link(u: str, v: str, inner: bool) -> tuple[str, str, int, int]:
        there = draw(rng, inner)
        return u, v, there, there if symmetric else draw(rng, inner)

    links = [link(f"s{rng.randrange(max(0, i - 6), i)}", f"s{i}", True) for i in range(1, SWITCHES)]
    links += [link(f"s{rng.randrange(SWITCHES)}", f"h{i}", False) for i in range(HOSTS)]
    return rated_graph(links)


def aggregate(g: nx.Graph, source: str, to: list[str], seed: int) -> dict[str, float]:
    """Mbit/s of all receivers together, by planner; `bound`: of each one's own max-flow."""
    net = planners.hosts(g)
    out = {}
    for name in planners.PLANNERS:
        view = planners.cables(g) if name == "datacast" else net
        out[name] = planners.plan(view, source, to, name, seed=seed).aggregate / MBIT
    network = Network(g)
    found = rated_trees(network, source, to, arc_rates(network, g), most=4096)
    out["bound"] = sum(found.bound.values()) / MBIT
    return out


def section41(cases: int, destinations: int) -> list[tuple[str, str, dict[str, float]]]:
    rows = []
    for distribution in DISTRIBUTIONS:
        for symmetric in (True, False):
            runs = []
            for seed in range(cases):
                rng = random.Random(f"{distribution}/{symmetric}/{seed}")
                g = random_tree(rng, distribution, symmetric)
                source, *to = rng.sample([f"h{i}" for i in range(HOSTS)], destinations + 1)
                got = aggregate(g, source, to, seed)
                runs.append({name: value / got["flat-tree"] for name, value in got.items()})
            mean = {name: statistics.mean(run[name] for run in runs) for name in runs[0]}
            rows.append((distribution, "symmetric" if symmetric else "not", mean))
    return rows


def table(rows: list[tuple[str, str, dict[str, float]]]) -> str:
    names = [*planners.PLANNERS, "bound"]
    out = ["| links | both ways | " + " | ".join(names) + " |", "| --- | --- |" + " --- |" * len(names)]
    for distribution, way, mean in rows:
        out.append(f"| {distribution} | {way} | " + " | ".join(f"{mean[name]:.2f}" for name in names) + " |")
    return "\n".join(out)


def section41_table(cases: int, destinations: int, svg: Path | None) -> str:
    rows = section41(cases, destinations)
    if svg:
        picture(rows, svg)
    return table(rows)


def section42() -> str:
    names = [*planners.PLANNERS, "bound"]
    out = [
        "| destinations | " + " | ".join(names) + " | ours to the best other |",
        "| --- |" + " --- |" * (len(names) + 1),
    ]
    for count, hosts in TABLE1.items():
        g, members = clusters(hosts)
        got = aggregate(g, members[0], members[1:], 1)
        others = max(v for n, v in got.items() if n not in ("datacast", "stable", "bound"))
        row = " | ".join(f"{got[name]:.0f}" for name in names)
        out.append(f"| {count} | {row} | {got['datacast'] / others:.2f} |")
    return "\n".join(out)


def joining() -> str:
    """A slow node joins nine (figure 7 d): what the nine get together after, of what they got before."""
    g, members = clusters({**TABLE1[10], "D": 0}, [("s-A", "tenth", 10, 10)])
    source, *nine = members
    out = ["| planner | before, Mb/s | after | left |", "| --- | --- | --- | --- |"]
    for name in planners.PLANNERS:
        view = planners.cables(g) if name == "datacast" else planners.hosts(g)
        before = planners.plan(view, source, nine, name).aggregate / MBIT
        plan = planners.plan(view, source, [*nine, "tenth"], name)
        after = sum(plan.got[host] for host in nine) / MBIT
        out.append(f"| {name} | {before:.0f} | {after:.0f} | {100 * after / before:.1f} % |")
    return "\n".join(out)


def planning(repeat: int) -> str:
    """The core's plan for 400 nodes, in milliseconds of this thread's processor time."""
    out = [
        "| links | trees at most | trees | in C: median ms | p99 ms | with Python's trees: median ms |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for distribution in DISTRIBUTIONS:
        g = random_tree(random.Random(1), distribution, True)
        network = Network(g)
        rates = arc_rates(network, g)
        to = [f"h{i}" for i in range(1, HOSTS)]
        for most in (12, 400):
            whole, times = [], []
            for _ in range(repeat):
                begin = time.thread_time()
                found = rated_trees(network, "h0", to, rates, most=most)
                middle = time.thread_time()
                found.compute()
                times.append((time.thread_time() - middle) * 1e3)
                whole.append((middle - begin) * 1e3)
            times.sort()
            p99 = times[min(len(times) - 1, int(len(times) * 0.99))]
            out.append(
                f"| {distribution} | {most} | {len(found.trees)} | {statistics.median(times):.2f} | {p99:.2f} | "
                f"{statistics.median(whole):.2f} |"
            )
    return "\n".join(out)


def picture(rows: list[tuple[str, str, dict[str, float]]], path: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    names = [*planners.PLANNERS, "bound"]
    figure, axes = plt.subplots(2, 4, figsize=(15, 6), sharey="row")
    for i, (distribution, way, mean) in enumerate(rows):
        axis = axes[i % 2][i // 2]
        axis.bar(names, [mean[name] for name in names], color=["#d62728"] + ["#1f77b4"] * (len(names) - 2) + ["#bbb"])
        axis.set_title(f"{distribution}, {'symmetric' if way == 'symmetric' else 'asymmetric'}", fontsize=9)
        axis.tick_params(axis="x", rotation=75, labelsize=7)
    for row in axes:
        row[0].set_ylabel("aggregate, flat-tree = 1")
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--cases", type=int, default=10)
    options.add_argument("--destinations", type=int, default=100)
    options.add_argument("--repeat", type=int, default=50)
    options.add_argument("--svg", type=Path, help="of 4.1")
    parts: dict[str, Callable[[], str]] = {
        "4.1": lambda: section41_table(given.cases, given.destinations, given.svg),
        "4.2": section42,
        "joining": joining,
        "time": lambda: planning(given.repeat),
    }
    options.add_argument("--only", default=",".join(parts), help=f"of {', '.join(parts)}, by comma")
    given = options.parse_args()
    if unknown := set(given.only.split(",")) - parts.keys():
        options.error(f"--only {', '.join(sorted(unknown))}: there are {', '.join(parts)}")
    for title in given.only.split(","):
        print(f"## {title}\n\n{parts[title]()}\n", flush=True)


if __name__ == "__main__":
    main()
