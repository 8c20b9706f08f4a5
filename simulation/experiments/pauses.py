"""Receivers that stand still for a moment, as hosts with other work do."""

from __future__ import annotations

import random
from typing import Any

from ..engine import ETHERNET, SECOND
from .base import Experiment, Report, Result, Row, Setting, simulation

PAUSES = ((5, 20, 100, False), (20, 80, 200, False), (50, 300, 500, False), (1, 5, 45, True))
"""Shortest and longest pause, and the mean time between two, in ms; whether any vertex of the tree stands still with
all that passes it, or one receiver's interests do."""
RECEIVERS, CRAWL = 12, 150_000


def run_once(s: Setting, seed: int, shortest: int, longest: int, every: int, anyone: bool) -> Row:
    """Two switches under one; a paused receiver's interests leave its host at CRAWL bit/s, what any other vertex
    sends waits."""
    rng = random.Random(seed)
    sim = simulation(s.with_(seed=seed), ETHERNET)
    sim.host("src")
    arcs = [("a", "src"), ("b", "a"), ("c", "a")]
    receivers = [f"r{i}" for i in range(s.receivers or RECEIVERS)]
    arcs += [(r, "bc"[i % 2]) for i, r in enumerate(receivers)]
    for child, parent in arcs:
        (sim.host if child in receivers else sim.switch)(child)
        sim.cable(parent, child, s.rate, s.delay, s.queue)
    size = int(s.rate * s.seconds / 8)
    group = sim.group("src", receivers, size, s.mtu - 50, s.store())
    group.tree(arcs, s.tree(hops=3))
    group.assign()
    group.schedule()
    at = 0
    while at < 100 * s.seconds * SECOND and not all(r["whole"] for r in group.receiver_stats().values()):
        at += int(rng.expovariate(1 / every) * 1e6)
        sim.run(until=at)
        if anyone:
            victim = rng.choice(["src", "a", "b", "c", *receivers])
            for child, parent in arcs:
                if victim in (child, parent):
                    sim.hold(victim, parent if victim == child else child, int(rng.uniform(shortest, longest) * 1e6))
            continue
        victim = rng.choice(receivers)
        link = (victim, dict(arcs)[victim])
        sim.rate(*link, CRAWL)
        at += int(rng.uniform(shortest, longest) * 1e6)
        sim.run(until=at)
        sim.rate(*link, s.rate)
    finish = group.finish() / SECOND
    return {"finish_over_ideal": finish / (group.pieces * s.mtu * 8 / s.rate), "duplicates": group.duplicate_ratio()}


def pauses(s: Setting, report: Report) -> Result:
    s.check()
    rows = []
    for shortest, longest, every, anyone in PAUSES:
        report(f"{shortest} to {longest} ms")
        runs = [run_once(s, s.seed + k, shortest, longest, every, anyone) for k in range(4)]
        finish = [r["finish_over_ideal"] for r in runs]
        rows.append(
            {
                "shortest_ms": shortest,
                "longest_ms": longest,
                "every_ms": every,
                "anyone": "yes" if anyone else "no",
                "finish_over_ideal": sum(finish) / len(finish),
                "worst_finish_over_ideal": max(finish),
                "duplicate_ratio": sum(r["duplicates"] for r in runs) / len(runs),
            }
        )
    columns = {
        "shortest_ms": "from ms",
        "longest_ms": "to ms",
        "every_ms": "every ms",
        "anyone": "any host",
        "finish_over_ideal": "finish/ideal",
        "worst_finish_over_ideal": "worst",
        "duplicate_ratio": "duplicates",
    }
    notes = [
        "Means of four seeds. A paused receiver's interests leave its host at 150 kbit/s, what waits there too. Where "
        "any host of the tree pauses, all that it sends waits."
    ]
    return Result("pauses", "Receivers that stand still for a moment", s, rows, columns, notes)


def plot_pauses(r: Result, ax: Any) -> None:
    names = [f"{row['shortest_ms']} to {row['longest_ms']} ms" for row in r.rows]
    ax.bar(names, [row["finish_over_ideal"] for row in r.rows], width=0.4)
    ax.set(ylabel="finish / ideal", title=f"cc={r.setting.cc}")


DEFAULTS = {
    "rate": 100_000_000,
    "slow": 100_000_000,
    "delay": 20_000,
    "mtu": 9000,
    "seconds": 5.0,
}
"""As in a lab of 100 Mbit/s."""

EXPERIMENTS = [Experiment("pauses", "Receivers that stand still for a moment", pauses, plot_pauses, DEFAULTS)]
