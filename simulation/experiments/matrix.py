"""Who gets how much, over the whole range: groups beside groups, beside TCP, and beside slow receivers.

A dumbbell: sources -- a == shared cable == b -- receivers. A cell runs in seconds and follows from its numbers, so a
change of the rule is judged by one command."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from datacast.fabric_manager.shares import BACKGROUND

from ..engine import PAPER, SECOND, Simulation
from ..errors import ExperimentError
from ..shares import SHARES, TOLD, Span, share
from .base import INTEREST, Experiment, Report, Result, Row, Setting, jain, late_hosts, simulation

WINDOWS = 20
"""Parts of the time after a change in which no group may fall below half of its share."""


@dataclass(frozen=True)
class Cell:
    """One setting of the matrix."""

    groups: int = 4
    tcp: int = 0
    flavour: str = "cubic"
    queue: int = 100
    rtt_us: int = 100
    mbps: int = 1000
    receivers: int = 2
    """Of each group; two branch at b and have its cache, one has none."""
    order: str = "staggered"
    """together, staggered (each twenty round trips after the one before), reversed (masters count the later ones first,
    so that who starts last has most credits)."""
    slow: int = 1
    """The last receiver's cable has this part of the rate."""
    slow_tcp: int = 0
    """Connections that share the last receiver's cable with the first group."""
    leave: bool = False
    """Half of the groups stop half way."""
    weights: tuple[int, ...] = ()
    """Of the groups; 0 is background. Empty: all the same."""
    in_place: str = ""
    """A TCP connection of this kind in each group's place: what it has there is what can be asked of a group."""
    kind: str = field(default="groups", compare=False)

    @property
    def name(self) -> str:
        plain = Cell()
        parts = [f"{self.groups}g", *([f"{self.tcp}{self.flavour}"] if self.tcp else [])]
        parts += [f"q{self.queue}", f"{self.rtt_us / 1000:g}ms"]
        for key in ("mbps", "receivers", "order", "slow", "slow_tcp", "leave"):
            if getattr(self, key) != getattr(plain, key):
                parts.append(f"{key}={getattr(self, key)}")
        if self.weights:
            parts.append(f"weights={':'.join(map(str, self.weights))}")
        return " ".join(parts)

    def fair(self, group: int) -> float:
        """Its part of the shared cable, when all that come late have come and those that leave have left."""
        if self.slow != 1:
            return 1 / self.slow / (1 + self.slow_tcp)
        if not self.weights:
            return 1 / (self.groups + self.tcp - (self.groups // 2 if self.leave else 0))
        busy = 1 - BACKGROUND if 0 in self.weights else 1.0
        return busy * self.weights[group] / sum(self.weights) or BACKGROUND

    @property
    def loaded(self) -> int:
        """A round trip with a full queue, ns."""
        return self.rtt_us * 1000 + self.queue * Setting.mtu * 8 * 1000 // self.mbps

    @property
    def step(self) -> int:
        """Between the starts of two groups, ns."""
        return 0 if self.order == "together" else 20 * self.loaded

    @property
    def settled(self) -> int:
        """From when on shares count, ns: fifty loaded round trips after the last change. TCP has a second more, BBR
        twelve, as it believes its shortest round trip for ten, and who is in the background, with rounds of 30 ms,
        what its timers take for what its start lost."""
        more = SECOND if self.tcp or self.slow_tcp else SECOND // 5 if 0 in self.weights else 0
        more *= 12 if self.flavour == "bbr" else 1
        return (self.groups - 1) * self.step + (100 if self.leave else 50) * self.loaded + more

    @property
    def window(self) -> int:
        """One of the windows, ns."""
        flows = self.groups + self.tcp
        least = 100 * flows * Setting.mtu * 8 * 1000 // self.mbps // WINDOWS
        return max(10 * self.loaded, least, SECOND // 10 if self.tcp or self.slow_tcp else 0)

    def words(self) -> tuple[str, ...]:
        """By which it can be asked for."""
        return self.kind, *self.name.split(), *([self.flavour] if self.tcp else [])

    @property
    def end(self) -> int:
        return self.settled + WINDOWS * self.window

    def stop(self, group: int) -> int:
        """When a group stops, ns."""
        return self.settled - 50 * self.loaded if self.leave and group % 2 else self.end


def cells() -> Iterator[Cell]:
    """The matrix: one thing changes at a time around the middle, then the corners."""
    base = Cell()
    for groups in (2, 4, 10):
        for queue in (20, 100, 1000):
            yield Cell(groups, queue=queue)
    for rtt, mbps in ((20, 1000), (1000, 1000), (10_000, 100), (100_000, 100)):
        for queue in (20, 100, 1000):
            yield Cell(4, rtt_us=rtt, mbps=mbps, queue=queue)
    yield replace(base, order="together", groups=10)
    yield replace(base, order="reversed", groups=10)
    yield replace(base, receivers=1, groups=10)
    yield replace(base, leave=True, groups=10)
    yield replace(base, weights=(1, 2, 4, 0))
    yield replace(base, slow=10)
    for flavour in ("cubic", "bbr"):
        for n in (1, 3, 9):
            for queue, rtt, mbps in (
                *((20, 100, 1000), (100, 100, 1000), (1000, 100, 1000), (100, 1000, 1000)),
                *((100, 10_000, 100), (100, 100_000, 100), (1000, 100_000, 100)),
            ):
                yield Cell(1, n, flavour, queue, rtt, mbps, kind="tcp")
        yield Cell(4, 4, flavour, kind="tcp")
    yield Cell(1, slow=10, slow_tcp=1, kind="slow")


@dataclass
class Dumbbell:
    """A cell, built: `read` gives the bits that each group's slowest receiver, and then each connection, has, those in
    groups' places first."""

    sim: Simulation
    groups: list[Any]
    flows: list[int]
    frame: int

    def read(self) -> list[float]:
        taken = [min(r["pieces"] for r in g.receiver_stats().values()) * self.frame for g in self.groups]
        return [float(x) for x in taken] + [self.sim.tcp_bytes(f) * 8.0 for f in self.flows]


def build(s: Setting, c: Cell) -> Dumbbell:
    rate = c.mbps * 1_000_000
    s = s.with_(rate=rate, slow=rate, queue=c.queue, delay=max(1000, c.rtt_us * 1000 // 6))
    sim = simulation(s, PAPER)
    sim.switch("a")
    sim.switch("b")
    sim.cable("a", "b", rate, s.delay, c.queue)
    capacity = {("a", "b"): rate, ("b", "a"): rate}
    groups, flows, spans = [], [], []

    def connect(one: str, other: str, start: int, flavour: str) -> None:
        for name in (one, other):
            sim.host(name)
        sim.cable(one, "a", rate, s.delay, max(c.queue, 1000))
        sim.cable("b", other, rate, s.delay, c.queue)
        flows.append(sim.tcp([one, "a", "b", other], start, c.end, flavour, s.mtu))

    for i in range(c.groups):
        if c.in_place:
            connect(f"s{i}", f"r{i}", i * c.step, c.in_place)
            continue
        names = [f"r{i}.{k}" for k in range(c.receivers)]
        for name in (f"s{i}", *names):
            sim.host(name)
        sim.cable(f"s{i}", "a", rate, s.delay, max(c.queue, 1000))
        capacity |= {(f"s{i}", "a"): rate, **{("b", name): rate for name in names}}
        for name in names:
            last = i == 0 and name == names[-1]
            sim.cable("b", name, rate // c.slow if last else rate, s.delay, c.queue)
        size = int(rate * (c.end - i * c.step) / SECOND / 8 * 1.1) + 10**6  # more than it can carry until it stops
        others = c.groups - 1 - i if c.order == "reversed" else i
        group = sim.group(f"s{i}", names, size, s.piece, s.store(others))
        group.tree([("a", f"s{i}"), ("b", "a")] + [(name, "b") for name in names], s.tree(others, hops=3))
        group.assign()
        group.schedule(i * c.step, c.stop(i))
        groups.append(group)
        weight = c.weights[i] if c.weights else 1
        spans.append(Span(group, i * c.step, c.stop(i), rate, weight or 1, weight == 0, INTEREST / s.mtu))
    share(spans, capacity, TOLD + c.rtt_us * 1000)
    for k in range(c.tcp):
        connect(f"t{k}", f"u{k}", k * 1000, c.flavour)
    if c.slow_tcp:
        sim.host("t")
        sim.cable("t", "b", rate, s.delay, max(c.queue, 1000))
        last_one = f"r0.{c.receivers - 1}"
        flows += [sim.tcp(["t", "b", last_one], k * 1000, c.end, c.flavour, s.mtu) for k in range(c.slow_tcp)]
    if flows or not s.punctual:
        late_hosts(sim, s, [(name, at) for name, at in sim.links if at in "ab" and name not in "ab"])
    return Dumbbell(sim, groups, flows, s.mtu * 8)


def run_cell(s: Setting, c: Cell) -> Row:
    """Run one cell and read its shares."""
    d = build(s, c)
    d.sim.run(c.settled, whole=False)
    seen, carried = [d.read()], d.sim.link_stats("a", "b")["bytes"]
    for k in range(WINDOWS):
        d.sim.run(c.settled + (k + 1) * c.window, whole=False)
        seen.append(d.read())
    live = [i for i in range(c.groups) if not (c.leave and i % 2)]

    def share(column: int, first: int, last: int) -> float:
        fair = c.mbps * c.fair(min(column, c.groups - 1))
        return (seen[last][column] - seen[first][column]) * SECOND / ((last - first) * c.window) / 1e6 / fair

    mine = [share(i, 0, WINDOWS) for i in live]
    theirs = [share(k, 0, WINDOWS) for k in range(c.groups, len(seen[0]))]
    trees = [t for g in d.groups for t in g.tree_stats()]
    return {
        "cell": c.name,
        "kind": c.kind,
        "jain": jain(mine) if c.slow == 1 else 1.0,
        "share": sum(mine) / len(mine),
        "least": min(share(i, k, k + 1) for i in live for k in range(WINDOWS)),
        "tcp": sum(theirs) / len(theirs) if theirs else None,
        "used": (d.sim.link_stats("a", "b")["bytes"] - carried) * 8e3 / (WINDOWS * c.window * c.mbps),
        "duplicates": sum(t["dup_packets"] for t in trees) / max(1, sum(t["new_packets"] for t in trees)),
        "each": [round(x, 3) for x in mine + theirs],
        "problem": d.sim.check() or "",
    }


def good(r: Row) -> bool:
    """Does a row reach what is asked for?"""
    if r["kind"] != "groups":
        return bool(0.67 <= r["share"] <= 1.5 and r["jain"] >= 0.9)
    return bool(r["jain"] >= 0.99 and r["least"] >= 0.5 and (r["used"] >= 0.98 or "slow" in r["cell"]))


def matrix(s: Setting, report: Report) -> Result:
    rows = []
    for c in cells():
        if s.only in ("", *c.words()):
            report(c.name)
            row = run_cell(s, c)
            beside = c.kind == "tcp" and s.engine == "datacast"
            cubic = run_cell(s, replace(c, in_place="cubic"))["share"] if beside else None
            rows.append({"good": "yes" if good(row) else "NO", **row, "cubic": cubic})
    if not rows:
        known = ", ".join(sorted({word for c in cells() for word in c.words()}))
        raise ExperimentError(f"no cell has the word {s.only!r}; there are {known}", what="only")
    columns = {
        "cell": "cell",
        "good": "good",
        "share": "share/fair",
        "cubic": "a Cubic's in its place",
        "jain": "Jain",
        "least": "least/fair",
        "tcp": "TCP/fair",
        "used": "link use",
        "duplicates": "duplicates",
    }
    notes = [
        f"{sum(r['good'] == 'yes' for r in rows)} of {len(rows)} cells reach what is asked for.",
        "From 50 loaded round trips after the last change on (a second later beside Cubic, twelve beside BBR), "
        "over 20 windows of at least 10 of them; least: the worst window of any group. A Cubic's in its place: what a "
        "connection has that takes the group's place in the same cell.",
        SHARES,
    ]
    return Result("matrix", "Shares over the whole range", s, rows, columns, notes)


def plot_matrix(r: Result, ax: Any) -> None:
    ax.barh([row["cell"] for row in r.rows], [row["share"] for row in r.rows])
    ax.axvline(0.67, color="grey", lw=0.8)
    ax.axvline(1.5, color="grey", lw=0.8)
    ax.set(xlabel="share / fair", title=f"cc={r.setting.cc}")


EXPERIMENTS = [Experiment("matrix", "Shares among groups and beside TCP over the whole range", matrix, plot_matrix)]
