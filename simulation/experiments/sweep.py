"""Does a rule hold everywhere? Random settings, seeded; the worst are printed."""

from __future__ import annotations

import math
import random
from typing import Any

from ..engine import PAPER, SECOND, Simulation
from .base import Experiment, Report, Result, Row, Setting, simulation

CREDITS_MAX = 4096
PIECES_MAX = 40_000
START_RTTS = 20
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
    best = min(slow, c.get("credits", CREDITS_MAX) * frame / rtt)
    # Long enough to tell a rate from a start, short enough to run many.
    pieces = int(min(max(2000, 60 * rtt * best / frame), c.get("pieces", PIECES_MAX)))
    group = sim.group("src", receivers, pieces * (c["mtu"] - 16), c["mtu"] - 16, c["cache"])
    tree = s.with_(rate=c["rate"], slow=slow, mtu=c["mtu"], cache=(c["cache"],)).tree(hops=deepest)
    group.tree(arcs, tree)
    group.assign()
    group.schedule()
    return sim, group, pieces * frame / best, rtt


def start(credits: int, rate: float, rtt: float, frame: int) -> float:
    """Seconds that any start from `credits` packets loses against a full pipe: the first packet comes after a round
    trip, and windows that double each round trip fill the pipe only then."""
    full, window, lost = rate * rtt / frame, float(credits), 1.0
    while window < full:
        lost += 1 - window / full
        window *= 2
    return lost * rtt


def run_case(s: Setting, number: int) -> Row:
    return run_case_of(s, case(s, number))


def run_case_of(s: Setting, c: Row) -> Row:
    """Run one case. What happened in the first `START` round trips, or the first fourth of the file, is told apart."""
    sim, group, ideal, rtt = build(s, c)
    most = 100 * ideal + 10
    frame = c["mtu"] * 8
    best = group.pieces * frame / ideal
    begin = start(s.with_(rate=c["rate"], mtu=c["mtu"]).product().credits, best, rtt, frame)
    sim.run(until=int(min(most, max(START_RTTS * rtt, ideal / 4)) * SECOND))
    early, then = group.tree_stats()[0], sim.now / SECOND
    slowest = min(r["pieces"] for r in group.receiver_stats().values())
    sim.run(until=int(most * SECOND))
    whole = all(r["whole"] for r in group.receiver_stats().values())
    finish = group.finish() / SECOND if whole else math.inf
    late = group.tree_stats()[0]
    rest = group.pieces - slowest
    return {
        "start_s": begin,
        "finish_over_start": finish / (ideal + begin),
        "start_duplicates": early["dup_packets"],
        "start_duplicates_per_rtt": early["dup_packets"] / max(1.0, best * rtt / frame),
        "steady_rate": rest * frame / best / (finish - then) if finish > then and rest > 0 else None,
        "steady_duplicate_ratio": (late["dup_packets"] - early["dup_packets"]) / max(1, rest),
        "cache_over_bdp": (c["cache"] // c["mtu"]) / max(1e-9, best * rtt / frame),
        "case": c["case"],
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
        "cache_over_bdp": "cache/BDP",
        "ideal_s": "ideal s",
        "finish_over_ideal": "finish/ideal",
        "finish_over_start": "with start",
        "steady_rate": "steady rate",
        "duplicate_ratio": "duplicates",
        "steady_duplicate_ratio": "steady dup.",
        "link_stress": "stress",
        "problem": "problem",
    }

    notes = [_quantiles(key, rows) for key in MEASURES]
    near = [r for r in rows if r["cache_over_bdp"] >= 1]
    if 0 < len(near) < len(rows):
        notes.append(f"The {len(near)} cases whose caches hold a round trip of the slowest receiver:")
        notes += [_quantiles(key, near) for key in MEASURES]
    notes.append(IDEAL)
    return Result("sweep", f"{s.cases} random settings, the worst first", s, rows, columns, notes)


MEASURES = ("finish_over_ideal", "finish_over_start", "duplicate_ratio", "steady_duplicate_ratio", "link_stress")
IDEAL = (
    "Ideal: the slowest link's rate, or 4,096 credits per round trip where that is less. With start: beside what a "
    f"start from the first credits costs at least. Steady: after {START_RTTS} round trips and a fourth of the ideal; "
    "its rate is a share of the ideal's, its duplicates those per packet that the slowest receiver still missed."
)


def _quantiles(key: str, rows: list[Row]) -> str:
    values = sorted(r[key] for r in rows)

    def at(q: float) -> float:
        return values[min(len(values) - 1, int(q * len(values)))]

    return f"{key}: median {at(0.5):.4f}, 90 % {at(0.9):.4f}, worst {at(1.0):.4f}"


def plot_sweep(r: Result, ax: Any) -> None:
    ax.loglog(
        [max(row["duplicate_ratio"], 1e-5) for row in r.rows], [row["finish_over_ideal"] for row in r.rows], "o", ms=3
    )
    ax.set(xlabel="duplicate data ratio", ylabel="finish / ideal", title=f"cc={r.setting.cc}")


def tradeoff(s: Setting, report: Report) -> Result:
    """What a cache far smaller than the bandwidth-delay product of the slowest receiver costs."""
    rows = []
    c: Row = {"case": 0, "rate": s.rate, "ratio": s.rate / s.slow, "mtu": s.mtu, "layers": 1, "seed": s.seed}
    c |= {"delay": s.delay, "receivers": s.receivers or 6}
    trip = 4 * s.delay / SECOND + 8 * s.mtu * (2 / s.rate + 1 / s.slow)
    product = s.slow * trip / 8
    for k in range(-6, 3):
        cache = max(2 * s.mtu, round(product * 2.0**k))
        report(f"cache {cache // KB} KB")
        rows.append(run_case_of(s, {**c, "cache": cache}))
    columns = {
        "cache_kb": "cache KB",
        "cache_over_bdp": "cache/BDP",
        "finish_over_ideal": "finish/ideal",
        "finish_over_start": "with start",
        "steady_rate": "steady rate",
        "start_duplicates_per_rtt": "start dup. / BDP",
        "duplicate_ratio": "duplicates",
        "steady_duplicate_ratio": "steady dup.",
    }
    notes = [f"A round trip holds {product / s.mtu:.0f} packets of the slowest receiver ({trip * 1e3:.2f} ms).", IDEAL]
    return Result("tradeoff", "Caches smaller than a round trip of the slowest receiver", s, rows, columns, notes)


def plot_tradeoff(r: Result, ax: Any) -> None:
    x = [row["cache_over_bdp"] for row in r.rows]
    ax.semilogx(x, [row["finish_over_ideal"] for row in r.rows], "o-", label="finish / ideal")
    ax.semilogx(x, [1 + row["duplicate_ratio"] for row in r.rows], "s-", label="1 + duplicates")
    ax.semilogx(x, [1 + row["steady_duplicate_ratio"] for row in r.rows], "^-", label="1 + steady duplicates")
    ax.set(xlabel="cache / (slowest rate x round trip)", title=f"cc={r.setting.cc}")
    ax.legend()


RATIOS, PATHS_US = (1.1, 3, 10, 30, 100), (20, 1_000, 10_000, 100_000)
RECEIVERS, CACHES = (3, 30), (8 * KB, 64 * KB, 512 * KB)
LONG = {"credits": 10_000, "pieces": 500_000}
"""More than any of its paths holds, and 60 round trips of each."""


def whole_range(s: Setting, report: Report) -> Result:
    """A slow receiver over the whole range, with what masters hand out: each row the worst of six cells."""
    rows = []
    for trip in PATHS_US:
        for ratio in RATIOS:
            report(f"{trip} us, 1:{ratio}")
            found = []
            for n in RECEIVERS:
                c: Row = {"case": 0, "rate": s.rate, "ratio": ratio, "receivers": n, "mtu": s.mtu, "seed": s.seed}
                c |= {"layers": 1, "delay": trip * 1000 // 4, **LONG}
                found += [run_case_of(s, {**c, "cache": cache}) for cache in CACHES]
            rates = [r["steady_rate"] or 1 / r["finish_over_ideal"] for r in found]
            near = [r["duplicate_ratio"] for r in found if r["cache_over_bdp"] >= 1]
            rows.append(
                {
                    "trip_us": trip,
                    "ratio": ratio,
                    "rate": min(rates),
                    "duplicates": max(r["duplicate_ratio"] for r in found),
                    "near": max(near, default=None),
                    "good": sum(x >= 0.985 and r["duplicate_ratio"] <= 0.02 for x, r in zip(rates, found, strict=True)),
                    "problem": next((r["problem"] for r in found if r["problem"]), ""),
                }
            )
    columns = {
        "trip_us": "round trip us",
        "ratio": "1:slow",
        "rate": "least rate",
        "duplicates": "most duplicates",
        "near": "where the cache holds a round trip",
        "good": "good of 6",
        "problem": "problem",
    }
    notes = [
        f"{sum(r['good'] for r in rows)} of {6 * len(rows)} cells have 0.985 of the slowest rate and 2 % duplicates.",
        "Each row: 3 and 30 receivers, caches of 8, 64 and 512 KB. Rate: after the start, of the slowest receiver's.",
    ]
    return Result("range", "A slow receiver over the whole range, with what masters hand out", s, rows, columns, notes)


def plot_range(r: Result, ax: Any) -> None:
    for trip in PATHS_US:
        part = [row for row in r.rows if row["trip_us"] == trip]
        ax.semilogx([row["ratio"] for row in part], [row["rate"] for row in part], "o-", label=f"{trip} us")
    ax.set(xlabel="1:slow", ylabel="least rate", title=f"cc={r.setting.cc}")
    ax.legend()


EXPERIMENTS = [
    Experiment("range", "A slow receiver over the whole range, masters' parameters", whole_range, plot_range),
    Experiment("sweep", "Random settings, seeded, worst cases first", sweep, plot_sweep),
    Experiment(
        "tradeoff",
        "Finish and duplicates where caches hold less than a round trip",
        tradeoff,
        plot_tradeoff,
        {"rate": 10**10, "slow": 10**9, "delay": 1_000_000},
    ),
]
