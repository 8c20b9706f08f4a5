"""Many groups over one switch whose memory does not hold the content stores that they ask for."""

from __future__ import annotations

import random
from typing import Any

from ..engine import ETHERNET, SECOND
from .base import Experiment, Report, Result, Row, Setting, jain, simulation

GROUPS, RECEIVERS = 40, 3
STORES = (0, 10, 4, 1)
"""Of those that the groups ask for, so many fit; 0: all."""
UNASKED = 128 * 1024
PAUSE_MS, PER_MS = (1, 8), 0.1
"""Without anything that sets receivers apart no content store is asked twice. So each stands still now and then, as
where a host has no processor."""


def run_once(s: Setting, stores: float) -> Row:
    """Each host has a link of its own, so the switch's memory is all that the groups share."""
    rng = random.Random(s.seed)
    sim = simulation(s, ETHERNET)
    sim.switch("s")
    cache, size = s.product(hops=2).cache_bytes, int(s.rate * s.seconds / 8)
    receivers = []
    for g in range(GROUPS):
        members = [f"r{g}.{i}" for i in range(s.receivers or RECEIVERS)]
        for host in (f"src{g}", *members):
            sim.host(host)
            sim.cable("s", host, s.rate, s.delay, s.queue)
        group = sim.group(f"src{g}", members, size, s.mtu - 50, cache)
        group.tree([("s", group.source), *((r, "s") for r in members)], s.tree(hops=2))
        group.assign()
        group.schedule(start=int(rng.uniform(0, 0.2 * s.seconds) * SECOND))
        receivers += members
    if stores:
        sim.memory("s", UNASKED, int(stores * cache))
    at = most = 0
    while at < 50 * s.seconds * SECOND and not all(r["whole"] for g in sim.groups for r in g.receiver_stats().values()):
        for host in receivers:
            if rng.random() < PER_MS:
                sim.hold(host, "s", int(rng.uniform(*PAUSE_MS) * 1e6))
        at += SECOND // 1000
        sim.run(until=at)
        most = max(most, sim.node_stats("s")["bytes"])
    took = [(g.finish() - g.first()) / (g.pieces * s.mtu * 8 * SECOND / s.rate) for g in sim.groups]
    return {
        "stores": stores or GROUPS,
        "held_mb": most / 1e6,
        "finish_over_ideal": sum(took) / len(took),
        "worst_finish_over_ideal": max(took),
        "jain": jain([1 / t for t in took]),
        "duplicate_ratio": sum(g.duplicate_ratio() for g in sim.groups) / len(took),
        "link_stress": sim.link_stress(),
        "problem": sim.check() or "",
    }


def memory(s: Setting, report: Report) -> Result:
    s.check()
    rows = []
    for stores in STORES:
        report(f"room for {stores or GROUPS} of {GROUPS} stores")
        rows.append(run_once(s, stores))
    columns = {
        "stores": "stores that fit",
        "held_mb": "held, MB",
        "finish_over_ideal": "finish/ideal",
        "worst_finish_over_ideal": "worst",
        "jain": "Jain",
        "duplicate_ratio": "duplicates",
        "link_stress": "stress",
    }
    notes = [f"{GROUPS} groups of {s.receivers or RECEIVERS}, each receiver still for 1 to 8 ms every 10 ms or so."]
    return Result("memory", "Groups on a switch with little memory", s, rows, columns, notes)


def plot_memory(r: Result, ax: Any) -> None:
    ax.plot([row["stores"] for row in r.rows], [row["finish_over_ideal"] for row in r.rows], "o-")
    ax.set(xlabel=f"stores of {GROUPS} that fit", ylabel="finish / ideal", title=f"cc={r.setting.cc}")


DEFAULTS = {"slow": 1_000_000_000, "delay": 2_000, "mtu": 9000, "seconds": 0.1}

EXPERIMENTS = [Experiment("memory", "Groups on a switch with little memory", memory, plot_memory, DEFAULTS)]
