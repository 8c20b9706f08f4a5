"""Fetching one object from a store together: the cloud paper's Figures 8 to 12, with the product's own dealing.

Rates of a node towards the store have two levels and change now and then (the paper's section III.B); how often is
not in its text, so it is assumed here: a node draws a new level every 30 s on average. A run is a request and costs a
round trip before its first byte. `one phase` delivers over trees what was fetched, while it is fetched (the paper's
future work); the paper's two phases exchange the pieces when all of them are there.
"""

from __future__ import annotations

import heapq
import random
import statistics
from dataclasses import dataclass, field
from typing import Any

from datacast.origins.dealing import Dealing
from datacast.origins.ranges import Range

from .base import Experiment, Report, Result, Row, Setting

FAST, SLOW = 10e6, 5e6
"""Bytes per second from the store (Figures 1 and 3: two groups)."""
FAST_SHARE, LEVEL_S = 0.3, 30.0
REQUEST_S = 0.03
DELIVERY = 10e6
"""Bytes per second to every node inside the cloud (Figure 11: phase 2 carries about this)."""
NODES, RUNS = (4, 8, 16, 32), 10
PIECE = 1 << 18


@dataclass
class Line:
    """One node's rate towards the store over time, drawn as it goes on."""

    rng: random.Random
    until: list[float] = field(default_factory=lambda: [0.0])
    rates: list[float] = field(default_factory=lambda: [0.0])
    at: int = 0

    def takes(self, start: float, size: float) -> float:
        """Seconds that `size` bytes take from `start` on. Starts never go back."""
        while self.until[self.at] <= start:
            self._next()
        now, at = start, self.at
        while True:
            if at == len(self.until):
                self._draw()
            carried = (self.until[at] - now) * self.rates[at]
            if carried >= size:
                return now + size / self.rates[at] - start
            size, now, at = size - carried, self.until[at], at + 1

    def _next(self) -> None:
        self.at += 1
        if self.at == len(self.until):
            self._draw()

    def _draw(self) -> None:
        self.until.append(self.until[-1] + self.rng.expovariate(1 / LEVEL_S))
        self.rates.append(FAST if self.rng.random() < FAST_SHARE else SLOW)


@dataclass(frozen=True)
class Fetch:
    """When each run was whole, by which node."""

    runs: list[tuple[float, int, Range]]

    @property
    def end(self) -> float:
        return max(at for at, _, _ in self.runs)

    def bytes(self) -> int:
        return PIECE * sum(one.count for _, _, one in self.runs)


def fetch(policy: str, nodes: int, size: int, seed: int) -> Fetch:
    """All nodes fetch by the policy until nothing is left."""
    dealing = Dealing(-(-size // PIECE), [str(n) for n in range(nodes)], policy, run=16, seed=seed)
    lines = [Line(random.Random(f"{seed} {n}")) for n in range(nodes)]
    events: list[tuple[float, int, Range | None, float]] = [(0.0, n, None, 0.0) for n in range(nodes)]
    whole = []
    while events:
        now, node, done, took = heapq.heappop(events)
        if done is not None:
            dealing.fetched(str(node), done, took)
            whole.append((now, node, done))
        if (one := dealing.take(str(node))) is not None:
            seconds = REQUEST_S + lines[node].takes(now + REQUEST_S, one.count * PIECE)
            heapq.heappush(events, (now + seconds, node, one, seconds))
    return Fetch(whole)


def one_phase(found: Fetch) -> float:
    """Trees carry every piece to everybody at DELIVERY, in the order in which they were fetched."""
    now = 0.0
    for at, _, one in sorted(found.runs):
        now = max(now, at) + one.count * PIECE / DELIVERY
    return now


@dataclass(frozen=True)
class Finish:
    """`ends`: when each node has everything. `fetched`: when nothing is left at the store (phase 1)."""

    ends: list[float]
    fetched: float
    out: int
    """Bytes that left the store."""


def finish(policy: str, nodes: int, size: int, seed: int) -> Finish:
    name = policy.removesuffix(", one phase")
    found = fetch(name, nodes, size, seed)
    if name == "flat":
        ends = [max(at for at, node, _ in found.runs if node == n) for n in range(nodes)]
    elif policy != name:
        ends = [one_phase(found)] * nodes
    else:
        own = [PIECE * sum(one.count for _, node, one in found.runs if node == n) for n in range(nodes)]
        ends = [found.end + (size - mine) / DELIVERY for mine in own]
    return Finish(ends, found.end, found.bytes())


TWO_PHASES = ("non-steal", "steal")
POLICIES = ("flat", "non-steal", "steal", "steal, one phase", "robber, one phase")


def cloud(s: Setting, report: Report) -> Result:
    size = s.size or 10**9
    rows: list[Row] = []
    for nodes in (s.receivers,) if s.receivers else NODES:
        report(f"{nodes} nodes")
        flat = 0.0
        for policy in POLICIES:
            runs = [finish(policy, nodes, size, s.seed * 1000 + k) for k in range(RUNS)]
            last = statistics.mean(max(run.ends) for run in runs)
            fetched = statistics.mean(run.fetched for run in runs)
            flat = flat or last
            bound = size / min(nodes * (FAST_SHARE * FAST + (1 - FAST_SHARE) * SLOW), DELIVERY)
            rows.append(
                {
                    "nodes": nodes,
                    "policy": policy,
                    "best_s": min(min(run.ends) for run in runs),
                    "mean_s": last,
                    "worst_s": max(max(run.ends) for run in runs),
                    "over_flat": flat / last,
                    "over_bound": last / bound,
                    "origin": statistics.mean(run.out for run in runs) / (-(-size // PIECE) * PIECE),
                    "phase1_s": fetched,
                    "phase1_share": fetched / last if policy in TWO_PHASES else None,
                    "phase1_mbs": size / nodes / fetched / 1e6 if policy in TWO_PHASES else None,
                    "runs": [[min(run.ends), statistics.mean(run.ends), max(run.ends)] for run in runs],
                }
            )
    columns = {
        "nodes": "nodes",
        "policy": "policy",
        "best_s": "first s",
        "mean_s": "last s",
        "worst_s": "worst s",
        "over_flat": "times flat",
        "over_bound": "last/bound",
        "origin": "from store",
        "phase1_share": "phase 1 / all",
        "phase1_mbs": "phase 1 MB/s",
    }
    notes = [
        f"{size / 1e6:g} MB, {RUNS} seeds each. Towards the store {FAST / 1e6:g} MB/s with probability {FAST_SHARE:g}, "
        f"else {SLOW / 1e6:g}, drawn anew every {LEVEL_S:g} s; inside {DELIVERY / 1e6:g} MB/s.",
        "'times flat': throughput over that of everybody fetching everything (the paper, 32 nodes: 1.6 non-steal, 1.7 "
        "steal). The bound: the object over the lesser of all rates towards the store and the rate inside.",
    ]
    return Result("cloud", "One object from a store to many nodes", s, rows, columns, notes)


def plot_cloud(r: Result, ax: Any) -> None:
    for policy in POLICIES:
        rows = [row for row in r.rows if row["policy"] == policy]
        ax.plot([row["nodes"] for row in rows], [row["mean_s"] for row in rows], marker="o", label=policy)
    ax.set(xlabel="nodes", ylabel="last node has it after s", ylim=(0, None))
    ax.legend()


EXPERIMENTS = [Experiment("cloud", "One object from a store to many nodes", cloud, plot_cloud)]
