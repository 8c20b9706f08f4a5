"""The paper's Figures 8 and 9: running time and number of trees, beside three other ways to get them.

    python bench/trees/measure.py [--quick] [--out FILE]

Per topology, link failure rate and group size:

- the engine, and (a) its floor: one bare breadth-first search over the network per tree, by the same engine;
- (b) the paper's algorithm by breadth-first search in networkx;
- (c) a generic edge-disjoint branching algorithm: Edmonds' theorem made constructive by Lovasz, where an arc joins a
  branching if the max-flows of the rest allow it.

They take turns on every case, so that what else runs on the machine hits all alike. Times are of the thread's
processor clock. Groups are drawn from the hosts with a link that is up; cases that are still disconnected are left out,
as in the paper.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import time
from pathlib import Path
from typing import Any

import networkx as nx

from datacast import topologies
from datacast.core._core import lib
from datacast.core.routes import routes
from datacast.core.trees import Network, TreeSet

PAPER = ["fattree:24,3", "bcube:8,3", "torus:16,3"]
LARGE = ["fattree:64,3", "bcube:16,3", "torus:40,3"]
SIZES = [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4095]
RATES = [0.0, 0.01, 0.03, 0.05]


def now() -> int:
    return time.thread_time_ns()


def quantile(values: list[float], q: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * q))]


class Case:
    """A topology; `draw` breaks links and draws a group, `mend` takes that back."""

    def __init__(self, spec: str) -> None:
        self.spec = spec
        self.graph = topologies.parse(spec)
        self.network = Network(self.graph)
        self.links = list(self.graph.edges)
        self.hosts = topologies.hosts(self.graph)
        self.down: list[tuple[str, str]] = []

    def draw(self, rate: float, size: int, seed: int) -> tuple[str, list[str]] | None:
        rng = random.Random(f"{self.spec} {rate} {size} {seed}")
        self.down = rng.sample(self.links, round(rate * len(self.links)))
        for u, v in self.down:
            self.network.set_up(u, v, False)
        gone = {frozenset(link) for link in self.down}
        joined = [h for h in self.hosts if any(frozenset((h, p)) not in gone for p in self.graph.adj[h])]
        size = min(size, len(joined) - 1)
        members = rng.sample(joined, size + 1)
        return members[0], members[1:]

    def mend(self) -> None:
        for u, v in self.down:
            self.network.set_up(u, v, True)


def engine(case: Case, source: str, receivers: list[str], repeat: int) -> dict[str, Any] | None:
    """Times of the engine and its floor in microseconds, trees, bounds, depths, routes' time; None: disconnected."""
    found = TreeSet(case.network, *case.network.members(source, receivers))
    times, floors = [], []
    for _ in range(repeat):
        begin = now()
        trees = lib.dc_trees_compute(found._set, found._query)
        times.append((now() - begin) / 1e3)
        begin = now()
        lib.dc_trees_floor(found._set, found._source, max(trees, 1))
        floors.append((now() - begin) / 1e3)
    if found.cut_off():
        return None
    begin = now()
    # The exact way, as a user gets it: the bound is looked at, and met where the quick way falls short.
    trees = found.compute()
    exact = (now() - begin) / 1e3
    begin = now()
    routes(found)
    routed = (now() - begin) / 1e3
    return {
        "times": times,
        "floors": floors,
        "exact": exact,
        "routes": routed,
        "trees": trees,
        "bound_degree": found.bound_degree,
        "bound_maxflow": found.bound_maxflow,
        "depths": [found.depth(t) for t in found.ids],
    }


def by_networkx(case: Case, source: str, receivers: list[str], wanted: int) -> tuple[float, int]:
    """(b): trees one after the other, each a breadth-first search over what is left. Milliseconds, trees."""
    g = nx.DiGraph()
    gone = {frozenset(link) for link in case.down}
    nodes = case.graph.nodes
    g.add_edges_from(
        (a, b)
        for u, v in case.links
        if frozenset((u, v)) not in gone
        for a, b in ((u, v), (v, u))
        if a == source or nodes[a]["forwards"]
    )
    begin, trees = now(), 0
    for _ in range(wanted):
        parent = dict((v, u) for u, v in nx.bfs_edges(g, source))
        if any(r not in parent for r in receivers):
            break
        used = set()
        for r in receivers:
            while r != source and (parent[r], r) not in used:
                used.add((parent[r], r))
                r = parent[r]
        g.remove_edges_from(used)
        trees += 1
    return (now() - begin) / 1e6, trees


def by_branchings(case: Case, source: str, wanted: int, limit_s: float) -> tuple[float, int, bool]:
    """(c): milliseconds, branchings, finished within the limit."""
    gone = {frozenset(link) for link in case.down}
    nodes = case.graph.nodes
    succ: dict[str, set[str]] = {v: set() for v in nodes}
    pred: dict[str, set[str]] = {v: set() for v in nodes}
    for u, v in case.links:
        if frozenset((u, v)) not in gone:
            for a, b in ((u, v), (v, u)):
                if a == source or nodes[a]["forwards"]:
                    succ[a].add(b)
                    pred[b].add(a)
    begin = now()

    def flow(to: str, enough: int) -> bool:
        used: set[tuple[str, str]] = set()
        for _ in range(enough):
            back: dict[str, tuple[str, bool]] = {to: ("", False)}
            queue = [to]
            for v in queue:
                if source in back:
                    break
                for u in pred[v]:
                    if u not in back and (u, v) not in used:
                        back[u] = (v, False)
                        queue.append(u)
                for u in succ[v]:
                    if u not in back and (v, u) in used:
                        back[u] = (v, True)
                        queue.append(u)
            if source not in back:
                return False
            at = source
            while at != to:
                v, undo = back[at]
                if undo:
                    used.discard((v, at))
                else:
                    used.add((at, v))
                at = v
        return True

    done = 0
    for left in range(wanted - 1, -1, -1):
        seen, queue = {source}, [source]
        for u in queue:
            for v in list(succ[u]):
                if (now() - begin) / 1e9 > limit_s:
                    return (now() - begin) / 1e6, done, False
                if v in seen:
                    continue
                succ[u].discard(v)
                pred[v].discard(u)
                if flow(v, left):
                    seen.add(v)
                    queue.append(v)
                else:
                    succ[u].add(v)
                    pred[v].add(u)
        if len(seen) < len(nodes):
            break
        done += 1
    return (now() - begin) / 1e6, done, True


def repair(case: Case, source: str, receivers: list[str], rng: random.Random, times: list[float]) -> None:
    """A link of a tree breaks, the trees are mended, it comes back: microseconds of the first."""
    found = TreeSet(case.network, *case.network.members(source, receivers))
    if not found.compute():
        return
    for _ in range(5):
        tree = rng.choice(found.ids or [0])
        parents, children = found.arcs_of(tree)
        if len(parents) == 0:
            return
        i = rng.randrange(len(parents))
        u, v = case.network.names[parents[i]], case.network.names[children[i]]
        arc = case.network.set_up(u, v, False)
        from datacast.core._core import ffi

        changed = ffi.new("uint32_t[]", [arc])
        begin = now()
        lib.dc_trees_repair(found._set, changed, 1)
        times.append((now() - begin) / 1e3)
        found.repair([(u, v, True)])
        found.compute()


def figures(spec: str, sizes: list[int], trials: int, repeat: int) -> list[dict[str, Any]]:
    case, rows = Case(spec), []
    for rate in RATES:
        for size in sizes:
            runs: list[dict[str, Any]] = []
            slow, repairs = [], []
            for seed in range(trials):
                source, receivers = case.draw(rate, size, seed)
                run = engine(case, source, receivers, repeat)
                if run is not None:
                    runs.append(run)
                    if seed < 2:
                        slow.append(by_networkx(case, source, receivers, run["bound_degree"]))
                    if rate == 0 or seed < 5:
                        repair(case, source, receivers, random.Random(seed), repairs)
                case.mend()
            if not runs:
                continue
            times = [t for run in runs for t in run["times"]]
            rows.append(
                {
                    "topology": spec,
                    "lfr": rate,
                    "receivers": size,
                    "cases": len(runs),
                    "median_us": quantile(times, 0.5),
                    "p99_us": quantile(times, 0.99),
                    "floor_us": quantile([t for run in runs for t in run["floors"]], 0.5),
                    "exact_max_us": max(run["exact"] for run in runs),
                    "routes_ms": quantile([run["routes"] / 1e3 for run in runs], 0.5),
                    "repair_us": quantile(repairs, 0.5) if repairs else None,
                    "trees": sum(run["trees"] for run in runs) / len(runs),
                    "bound_degree": sum(run["bound_degree"] for run in runs) / len(runs),
                    "bound_maxflow": sum(run["bound_maxflow"] for run in runs) / len(runs),
                    "short": sum(run["trees"] < run["bound_maxflow"] for run in runs),
                    "depth": sum(sum(run["depths"]) / max(len(run["depths"]), 1) for run in runs) / len(runs),
                    "networkx_ms": quantile([ms for ms, _ in slow], 0.5),
                    "networkx_trees": sum(t for _, t in slow) / len(slow),
                }
            )
            row = rows[-1]
            print(
                f"{spec} lfr {rate:.0%} {size:5d}: {row['median_us']:7.1f} us, p99 {row['p99_us']:7.1f}, floor "
                f"{row['floor_us']:6.1f}, {row['trees']:.2f} of {row['bound_maxflow']:.2f} trees, "
                f"depth {row['depth']:.2f}, "
                f"networkx {row['networkx_ms']:.0f} ms",
                flush=True,
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="three sizes, few trials")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="receivers, with commas between")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--large-trials", type=int, default=5)
    parser.add_argument("--branching-limit", type=float, default=60, help="seconds for each run of (c)")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results.json")
    args = parser.parse_args()
    sizes = [8, 1024, 4095] if args.quick else [int(size) for size in args.sizes.split(",")]
    trials = 4 if args.quick else args.trials
    rows = [row for spec in PAPER for row in figures(spec, sizes, trials, args.repeat)]
    large = (
        [] if args.quick else [row for spec in LARGE for row in figures(spec, [1024], args.large_trials, args.repeat)]
    )
    generic = []
    for spec in PAPER:
        case = Case(spec)
        source, _ = case.draw(0, 8, 1)
        wanted = {"f": 1, "b": 4, "t": 6}[spec[0]]
        ms, branchings, finished = by_branchings(case, source, wanted, args.branching_limit)
        generic.append({"topology": spec, "ms": ms, "branchings": branchings, "wanted": wanted, "finished": finished})
        print(generic[-1], flush=True)
    args.out.write_text(
        json.dumps(
            {
                "machine": f"{platform.machine()}, Python {platform.python_version()}",
                "trials": trials,
                "repeat": args.repeat,
                "rows": rows,
                "large": large,
                "generic": generic,
            },
            indent=1,
        )
        + "\n"
    )


if __name__ == "__main__":
    main()
