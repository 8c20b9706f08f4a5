"""Does a rule hold everywhere? Random settings, seeded; the worst are printed."""

from __future__ import annotations

import math
import random
from typing import Any

from ..engine import PAPER, SECOND, Simulation
from .base import Experiment, Report, Result, Row, Setting, simulation

CREDITS_MAX = 4096
KB = 1024


def case(s: Setting, number: int) -> Row:
    """The parameters of one case: everything log-uniform over the whole range of the issue."""
    rng = random.Random(s.seed * 1_000_003 + number)

    def log_uniform(low: float, high: float) -> float:
        return math.exp(rng.uniform(math.log(low), math.log(high)))

    c = {
        "case": number,
        "rate": round(log_uniform(10e6, 100e9)),
        "delay": round(log_uniform(5e3, 5e6)),
        "ratio": log_uniform(1, 100) if rng.random() > 0.2 else 1.0,
        "receivers": round(log_uniform(2, 1024)),
        "cache": rng.choice(s.cache) if s.cache else rng.choice([32, 128, 512]) * KB,
        "mtu": rng.choice([1500, 9000]),
        "layers": 0,
        "seed": rng.getrandbits(32),
    }
    # A switch has at most 128 children here, so many receivers need more than one layer of them.
    c["layers"] = rng.randint(1 if c["receivers"] <= 120 else 2, 5)
    return c


def build(s: Setting, c: Row) -> tuple[Simulation, Any, float, float]:
    """A tree of switches with receivers at random leaves, one behind a slow link. Returns the simulation, the group,
    the ideal finish (s) and the round trip to the farthest receiver (s)."""
    rng = random.Random(c["seed"])
    sim = simulation(s.with_(seed=c["seed"]), PAPER)
    slow = max(10_000, round(c["rate"] / c["ratio"]))
    sim.host("src")
    sim.switch("w")
    sim.cable("src", "w", c["rate"], c["delay"], s.queue)
    arcs = [("w", "src")]
    fanout = max(2, math.ceil(c["receivers"] ** (1 / c["layers"])))
    receivers: list[str] = []
    for leaf in sorted(rng.sample(range(fanout ** c["layers"]), c["receivers"])):
        at = "w"
        for level in range(c["layers"], 0, -1):  # the digits of the leaf's number lead to it
            name = f"{at}.{leaf // fanout ** (level - 1) % fanout}" if level > 1 else f"r{leaf}"
            if level == 1:
                sim.host(name)
                receivers.append(name)
            elif (name, at) not in arcs:
                sim.switch(name)
            if (name, at) not in arcs:
                sim.cable(at, name, c["rate"], c["delay"], s.queue)
                arcs.append((name, at))
            at = name
    parent = dict(arcs)
    victim = rng.choice(receivers)
    sim.rate(parent[victim], victim, slow)
    deepest = 1 + c["layers"]
    frame = c["mtu"] * 8
    rtt = 2 * deepest * c["delay"] / SECOND + deepest * frame / c["rate"] + frame / slow
    best = min(slow, CREDITS_MAX * frame / rtt)
    # Long enough to tell a rate from a start, short enough to run many.
    pieces = int(min(max(2000, 60 * rtt * best / frame), 40_000))
    group = sim.group("src", receivers, pieces * (c["mtu"] - 16), c["mtu"] - 16, c["cache"])
    tree = s.with_(rate=c["rate"], slow=slow, mtu=c["mtu"], rate_init=0).tree()
    group.tree(
        arcs, tree.with_(delta=max(1, c["rate"] // 200), rto_init=max(SECOND // 10, int(4e9 * rtt)), rto_max=4 * SECOND)
    )
    group.assign()
    group.schedule()
    return sim, group, pieces * frame / best, rtt


def run_case(s: Setting, number: int) -> Row:
    c = case(s, number)
    sim, group, ideal, rtt = build(s, c)
    sim.run(until=int((100 * ideal + 10) * SECOND))
    whole = all(r["whole"] for r in group.receiver_stats().values())
    finish = group.finish() / SECOND if whole else math.inf
    return {
        "case": number,
        "rate_mbps": c["rate"] / 1e6,
        "delay_us": c["delay"] / 1e3,
        "slow_ratio": c["ratio"],
        "receivers": c["receivers"],
        "cache_kb": c["cache"] / KB,
        "mtu": c["mtu"],
        "layers": c["layers"],
        "rtt_ms": rtt * 1e3,
        "pieces": group.pieces,
        "ideal_s": ideal,
        "finish_s": finish,
        "finish_over_ideal": finish / ideal,
        "lost_rtts": (finish - ideal) / rtt,
        "duplicate_ratio": group.duplicate_ratio(),
        "link_stress": sim.link_stress(),
        "problem": sim.check() or ("" if whole else "not finished"),
    }


def sweep(s: Setting, report: Report) -> Result:
    rows = []
    for number in range(s.cases):
        report(f"case {number + 1} of {s.cases}")
        rows.append(run_case(s, number))
    rows.sort(key=lambda r: -r["finish_over_ideal"])
    columns = {
        "case": "case",
        "rate_mbps": "Mb/s",
        "delay_us": "delay us",
        "slow_ratio": "1:slow",
        "receivers": "receivers",
        "cache_kb": "cache KB",
        "mtu": "MTU",
        "rtt_ms": "RTT ms",
        "ideal_s": "ideal s",
        "finish_over_ideal": "finish/ideal",
        "lost_rtts": "RTTs lost",
        "duplicate_ratio": "duplicates",
        "link_stress": "stress",
        "problem": "problem",
    }

    def quantile(key: str, q: float) -> float:
        values = sorted(r[key] for r in rows)
        return values[min(len(values) - 1, int(q * len(values)))]

    notes = [
        f"{key}: median {quantile(key, 0.5):.4f}, 90 % {quantile(key, 0.9):.4f}, worst {quantile(key, 1.0):.4f}"
        for key in ("finish_over_ideal", "duplicate_ratio", "link_stress", "lost_rtts")
    ]
    notes.append(
        "Ideal: the slowest link's rate, or 4,096 credits per round trip where that is less; no start counted."
    )
    return Result("sweep", f"{s.cases} random settings, the worst first", s, rows, columns, notes)


def plot_sweep(r: Result, ax: Any) -> None:
    ax.loglog(
        [max(row["duplicate_ratio"], 1e-5) for row in r.rows], [row["finish_over_ideal"] for row in r.rows], "o", ms=3
    )
    ax.set(xlabel="duplicate data ratio", ylabel="finish / ideal", title=f"cc={r.setting.cc}")


EXPERIMENTS = [Experiment("sweep", "Random settings, seeded, worst cases first", sweep, plot_sweep, {"adaptive": True})]
