"""Who gets how much, over the whole range: groups beside groups, beside TCP, and beside slow receivers.

A dumbbell: sources -- a == shared cable == b -- receivers. Every cell runs in a second or two, and all of them follow
from their numbers, so that a change of the rule can be judged by one command."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from ..engine import PAPER, SECOND
from .base import Experiment, Report, Result, Row, Setting, jain, simulation

WINDOWS = 20
"""Parts of the time after a change in which no group may fall below half of its share."""


@dataclass(frozen=True)
class Cell:
    """One setting of the matrix. Times in microseconds, rates in Mb/s."""

    groups: int = 4
    tcp: int = 0
    flavour: str = "cubic"
    queue: int = 100
    rtt_us: int = 100
    mbps: int = 1000
    receivers: int = 2
    """Of each group; two branch at b and have its cache, one has none."""
    order: str = "staggered"
    """together, staggered (each twenty round trips after the one before), reversed (others are counted backwards)."""
    slow: int = 1
    """The last receiver's cable has this part of the rate."""
    slow_tcp: int = 0
    """Connections that share the last receiver's cable with the first group."""
    weights: tuple[int, ...] = ()
    background: int = 0
    """So many of the groups are scavengers."""
    leave: bool = False
    """Half of the groups stop half way."""
    tags: tuple[str, ...] = field(default=(), compare=False)

    @property
    def name(self) -> str:
        d = Cell()
        parts = [f"{self.groups}g"]
        parts += [f"{self.tcp}{self.flavour}"] if self.tcp else []
        parts += [f"q{self.queue}", f"{self.rtt_us / 1000:g}ms"]
        for key in ("mbps", "receivers", "order", "slow", "slow_tcp", "weights", "background", "leave"):
            value = getattr(self, key)
            if value != getattr(d, key):
                parts.append(f"{key}={value}")
        return " ".join(parts)


def cells() -> Iterator[Cell]:
    """The matrix: one thing changes at a time around the middle, then the corners."""
    base = Cell()
    for groups in (2, 4, 10):
        for queue in (20, 100, 1000):
            yield Cell(groups, queue=queue, tags=("fair",))
    for rtt, mbps in ((20, 1000), (1000, 1000), (10_000, 100), (100_000, 100)):
        for queue in (20, 100, 1000):
            yield Cell(4, rtt_us=rtt, mbps=mbps, queue=queue, tags=("fair",))
    for order in ("together", "reversed"):
        yield replace(base, order=order, groups=10, tags=("fair",))
    yield replace(base, receivers=1, groups=10, tags=("fair",))
    yield replace(base, leave=True, groups=10, tags=("fair",))
    yield replace(base, weights=(100, 200, 400), groups=3, tags=("weights",))
    yield replace(base, slow=10, tags=("fair",))
    for flavour in ("cubic", "bbr"):
        for n in (1, 3, 9):
            for queue, rtt, mbps in (
                *((20, 100, 1000), (100, 100, 1000), (1000, 100, 1000), (100, 1000, 1000)),
                *((100, 10_000, 100), (100, 100_000, 100), (1000, 100_000, 100)),
            ):
                yield Cell(1, n, flavour, queue, rtt, mbps, tags=("tcp", flavour))
    yield Cell(4, 4, "cubic", tags=("tcp", "cubic"))
    yield Cell(1, slow=10, slow_tcp=1, tags=("slowtcp",))
    yield Cell(1, 3, background=1, tags=("background",))
    yield Cell(1, 3, background=1, queue=1000, tags=("background",))
    yield Cell(3, 0, background=1, tags=("background",))


def run_cell(s: Setting, c: Cell) -> Row:
    """Run one cell. Shares are measured from fifty round trips (with a full queue) after the last change on."""
    frame = s.mtu * 8
    rate = c.mbps * 1_000_000
    s = s.with_(rate=rate, slow=rate, queue=c.queue, delay=max(1000, c.rtt_us * 1000 // 6))
    sim = simulation(s, PAPER)
    sim.switch("a")
    sim.switch("b")
    sim.cable("a", "b", rate, s.delay, c.queue)
    loaded = c.rtt_us * 1000 + c.queue * frame * SECOND // rate
    step = {"together": 0, "staggered": 20, "reversed": 20}[c.order] * loaded
    begin = (c.groups - 1) * step
    settle = begin + 50 * loaded
    window = max(10 * loaded, 100 * frame * SECOND // rate * max(1, c.groups + c.tcp) // WINDOWS)
    end = settle + WINDOWS * window
    if c.tcp or c.slow_tcp:
        settle, window = settle + SECOND, max(window, SECOND // 10)
        end = settle + WINDOWS * window
    part = settle  # of the groups leaves here
    if c.leave:
        settle, end = settle + 50 * loaded, end + 50 * loaded
    groups = []
    for i in range(c.groups):
        names = [f"r{i}.{k}" for k in range(c.receivers)]
        for name in (f"s{i}", *names):
            sim.host(name)
        sim.cable(f"s{i}", "a", rate, s.delay, max(c.queue, 1000))
        for name in names:
            last = i == 0 and name == names[-1]
            sim.cable("b", name, rate // c.slow if last else rate, s.delay, c.queue)
        t = s.with_(weight=c.weights[i]) if c.weights else s
        t = t.with_(background=True) if i < c.background else t
        # Unlike masters', the sizes are endless; stop tells when.
        stop = end if not (c.leave and i % 2) else part
        size = int(rate * (end - i * step) / SECOND / 8 * 1.1) + 10**6
        group = sim.group(f"s{i}", names, size, s.piece, (s.cache or (128 * 1024,))[0])
        others = i if c.order != "reversed" else c.groups - 1 - i
        arcs = [("a", f"s{i}"), ("b", "a")] + [(name, "b") for name in names]
        group.tree(arcs, t.tree(others, 3))
        group.assign()
        group.schedule(i * step, stop)
        groups.append(group)
    flows = []
    for k in range(c.tcp):
        sim.host(f"t{k}")
        sim.host(f"u{k}")
        sim.cable(f"t{k}", "a", rate, s.delay, max(c.queue, 1000))
        sim.cable("b", f"u{k}", rate, s.delay, c.queue)
        flows.append(sim.tcp([f"t{k}", "a", "b", f"u{k}"], begin // 2 + k * 1000, end, c.flavour, s.mtu))
    if c.slow_tcp:
        sim.host("t")
        sim.cable("t", "b", rate, s.delay, max(c.queue, 1000))
        last = f"r0.{c.receivers - 1}"
        flows += [sim.tcp(["t", "b", last], k * 1000, end, c.flavour, s.mtu) for k in range(c.slow_tcp)]

    def read() -> list[float]:
        taken = [min(r["pieces"] for r in g.receiver_stats().values()) * frame for g in groups]
        return [float(x) for x in taken] + [sim.tcp_bytes(f) * 8.0 for f in flows]

    sim.run(settle, whole=False)
    series, first = [], read()
    last_read = first
    link = sim.link_stats("a", "b")["bytes"]
    for k in range(WINDOWS):
        sim.run(settle + (k + 1) * window, whole=False)
        now = read()
        series.append([(b - a) * SECOND / window / 1e6 for a, b in zip(last_read, now, strict=True)])
        last_read = now
    total = [(b - a) * SECOND / window / WINDOWS / 1e6 for a, b in zip(first, last_read, strict=True)]
    used = (sim.link_stats("a", "b")["bytes"] - link) * 8 * SECOND / (WINDOWS * window) / rate
    live = [i for i in range(c.groups) if not (c.leave and i % 2)]
    weights = [c.weights[i] if c.weights else 100 for i in live]
    per = [total[i] * 100 / w for i, w in zip(live, weights, strict=True)]
    mine, theirs = per[c.background :], total[c.groups :]
    fair = (c.mbps * 100 / sum(weights)) if not c.tcp else c.mbps / (len(live) - c.background + c.tcp)
    if c.background and not c.tcp:
        fair = c.mbps / (len(live) - c.background)
    if c.slow > 1:
        fair = c.mbps / c.slow / (1 + c.slow_tcp)
    low = min((row[i] * 100 / w for row in series for i, w in zip(live, weights, strict=True)), default=0.0)
    sent = sum(t["new_packets"] for g in groups for t in g.tree_stats())
    return {
        "cell": c.name,
        "kind": c.tags[0] if c.tags else "",
        "jain": jain(mine) if c.slow == 1 else 1.0,
        "share": sum(mine) / len(mine) / fair if mine else None,
        "least": low / fair if not c.background else None,
        "background": per[0] / c.mbps if c.background else None,
        "tcp": sum(theirs) / len(theirs) / fair if theirs else None,
        "used": used,
        "duplicates": sum(t["dup_packets"] for g in groups for t in g.tree_stats()) / max(1, sent),
        "each": [round(x, 1) for x in total],
        "problem": sim.check() or "",
    }


def good(r: Row) -> bool:
    """Does a row reach what is asked for?"""
    if r["kind"] == "tcp":
        return 0.67 <= r["share"] <= 1.5 and r["jain"] >= 0.9
    if r["kind"] == "background":
        return r["used"] >= 0.95 and (r["tcp"] is None or r["tcp"] >= 0.98) and r["background"] <= 0.05
    if r["kind"] == "slowtcp":
        return 0.67 <= r["share"] <= 1.5
    if r["kind"] == "weights":
        return r["jain"] >= 0.99 and r["used"] >= 0.98
    return r["jain"] >= 0.99 and r["least"] >= 0.5 and (r["used"] >= 0.98 or "slow" in r["cell"])


def matrix(s: Setting, report: Report) -> Result:
    rows = []
    wanted = [c for c in cells() if not s.only or any(s.only in (t, *c.name.split()) for t in c.tags)]
    for c in wanted:
        report(c.name)
        row = run_cell(s, c)
        rows.append({"good": "yes" if good(row) else "NO", **row})
    columns = {
        "cell": "cell",
        "good": "good",
        "share": "share/fair",
        "jain": "Jain",
        "least": "least/fair",
        "tcp": "TCP/fair",
        "background": "background",
        "used": "link use",
        "duplicates": "duplicates",
    }
    n = sum(r["good"] == "yes" for r in rows)
    notes = [
        f"{n} of {len(rows)} cells reach what is asked for.",
        "Shares over 20 windows from 50 round trips with a full queue after the last start on (and a second, beside "
        "TCP); least: the worst window of any group.",
    ]
    return Result("matrix", "Shares over the whole range", s, rows, columns, notes)


def plot_matrix(r: Result, ax: Any) -> None:
    shares = [row["share"] or 0 for row in r.rows]
    ax.barh([row["cell"] for row in r.rows], shares)
    ax.axvline(0.67, color="grey", lw=0.8)
    ax.axvline(1.5, color="grey", lw=0.8)
    ax.set(xlabel="share / fair", title=f"cc={r.setting.cc}")


EXPERIMENTS = [
    Experiment("matrix", "Shares among groups and beside TCP over the whole range", matrix, plot_matrix),
]
"""One experiment, many cells."""
