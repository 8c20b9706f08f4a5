"""Who gets how much: ten groups (the paper's Figure 13a), and one group among TCP connections (Figure 13b)."""

from __future__ import annotations

from typing import Any

from datacast.topologies import parse

from .. import networks
from ..engine import PAPER, SECOND, Group, Simulation
from ..shares import SHARES, Span, share
from .base import INTEREST, Experiment, Report, Result, Row, Setting, jain, late_hosts, simulation

STEP = SECOND // 10
SETTLE = SECOND
"""The first second of each phase is told apart: rates change there."""


def _phases(unit: int) -> list[tuple[int, int]]:
    return [(k * unit, (k + 1) * unit) for k in range(5)]


def _network(s: Setting) -> Simulation:
    s.check()
    sim = simulation(s, PAPER)
    sim.graph(parse("bcube:4,1"), s.rate, s.delay, s.queue)
    return sim


def _group(
    sim: Simulation, s: Setting, receivers: list[str], start: int, stop: int, arcs: networks.Arcs, others: int = 0
) -> Span:
    size = int(s.rate * (stop - start) / SECOND / 8 * 1.05)  # more than the link carries until then
    group = sim.group(s.source, receivers, size, s.piece, s.store(others))
    group.tree(arcs, s.tree(others))
    group.assign()
    group.schedule(start, stop)
    return Span(group, start, stop, s.rate, interest=INTEREST / s.mtu)


class _Meter:
    """Rates of groups (mean over the receivers) and connections per step of time, bit/s of frames."""

    def __init__(self, sim: Simulation, s: Setting, groups: list[Group], flows: list[int]):
        self.sim, self.s, self.groups, self.flows = sim, s, groups, flows
        self.last = self._read()
        self.series: list[list[float]] = []

    def _read(self) -> list[float]:
        out = []
        for group in self.groups:
            stats = group.receiver_stats().values()
            out.append(sum(r["pieces"] for r in stats) / len(stats) * self.s.mtu * 8)
        return out + [self.sim.tcp_bytes(f) * 8 for f in self.flows]

    def step(self, until: int) -> None:
        before = self.sim.now
        self.sim.run(until, whole=False)
        now = self._read()
        self.series.append([(b - a) * SECOND / (until - before) for a, b in zip(self.last, now, strict=True)])
        self.last = now

    def mean(self, begin: int, end: int) -> list[float]:
        part = self.series[begin // STEP : end // STEP]
        return [sum(column) / len(part) for column in zip(*part, strict=True)]


def _measure(sim: Simulation, s: Setting, groups: list[Group], flows: list[int], unit: int, report: Report) -> _Meter:
    meter = _Meter(sim, s, groups, flows)
    for k in range(5 * unit // STEP):
        if k * STEP % SECOND == 0:
            report(f"{k * STEP // SECOND} of {5 * unit // SECOND} s")
        meter.step((k + 1) * STEP)
    return meter


def figure13a(s: Setting, report: Report) -> Result:
    unit = max(2, int(s.seconds)) * SECOND
    sim = _network(s)
    deep: networks.Arcs = [
        ("s0.0", "00"),
        ("02", "s0.0"),
        ("s1.2", "02"),
        ("12", "s1.2"),
        ("22", "s1.2"),
        ("32", "s1.2"),
    ]
    wide: networks.Arcs = [("s0.0", "00"), ("01", "s0.0"), ("s1.1", "01"), ("11", "s1.1"), ("21", "s1.1")]
    spans = [_group(sim, s, networks.FIGURE10_RECEIVERS, 0, 5 * unit, networks.FIGURE10_TREE)]
    spans += [_group(sim, s, ["12", "22", "32"], unit, 4 * unit, deep, 1 + i) for i in range(3)]
    spans += [_group(sim, s, ["11", "21"], 2 * unit, 3 * unit, wide, 4 + i) for i in range(6)]
    if s.cc != "datacast":  # the paper has no scheduler
        share(spans, dict.fromkeys(sim.links, s.rate))
    groups = [span.group for span in spans]
    active = [1, 4, 10, 4, 1]
    meter = _measure(sim, s, groups, [], unit, report)
    rows: list[Row] = []
    for (begin, end), n in zip(_phases(unit), active, strict=True):
        whole, settled = meter.mean(begin, end)[:n], meter.mean(begin + SETTLE, end)[:n]
        rows.append(
            {
                "begin_s": begin / SECOND,
                "end_s": end / SECOND,
                "groups": n,
                "fair_mbps": s.rate / n / 1e6,
                "each_mbps": [r / 1e6 for r in settled],
                "least_mbps": min(settled) / 1e6,
                "most_mbps": max(settled) / 1e6,
                "sum_mbps": sum(settled) / 1e6,
                "jain": jain(whole),
                "jain_settled": jain(settled),
            }
        )
    notes = [
        f"Duplicate data ratio of the first group: {100 * groups[0].duplicate_ratio():.2f} %.",
        "Jain's index over the whole phase, and without its first second.",
        "Paper: the groups get about 250 and 100 Mb/s each.",
        "No shares: the paper has no scheduler." if s.cc == "datacast" else SHARES,
    ]
    columns = {
        "begin_s": "from s",
        "end_s": "to s",
        "groups": "groups",
        "fair_mbps": "fair",
        "least_mbps": "least",
        "most_mbps": "most",
        "sum_mbps": "sum",
        "jain": "Jain",
        "jain_settled": "Jain settled",
    }
    return Result(
        "figure13a",
        "Ten groups share a link (paper, Figure 13a)",
        s,
        rows,
        columns,
        notes,
        [[x / 1e6 for x in step] for step in meter.series],
    )


def figure13b(s: Setting, report: Report) -> Result:
    unit = max(2, int(s.seconds)) * SECOND
    sim = _network(s)
    group = _group(sim, s, networks.FIGURE10_RECEIVERS, 0, 5 * unit, networks.FIGURE10_TREE).group
    flows = [sim.tcp(["00", "s0.0", "02"], unit + k * 1000, 4 * unit, s.tcp, s.mtu) for k in range(3)]
    flows += [sim.tcp(["00", "s0.0", "01"], 2 * unit + k * 1000, 3 * unit, s.tcp, s.mtu) for k in range(6)]
    late_hosts(sim, s, [(a, b) for a, b in sim.links if not a.startswith("s")])
    active = [0, 3, 9, 3, 0]
    meter = _measure(sim, s, [group], flows, unit, report)
    rows: list[Row] = []
    for (begin, end), n in zip(_phases(unit), active, strict=True):
        whole, rates = meter.mean(begin, end), meter.mean(begin + SETTLE, end)
        fair = s.rate / (n + 1) / 1e6
        tcp = [r / 1e6 for r in rates[1 : n + 1]]
        rows.append(
            {
                "begin_s": begin / SECOND,
                "end_s": end / SECOND,
                "tcp_flows": n,
                "fair_mbps": fair,
                "datacast_mbps": rates[0] / 1e6,
                "tcp_mbps": tcp,
                "datacast_whole_phase_mbps": whole[0] / 1e6,
                "tcp_mean_mbps": sum(tcp) / n if n else None,
                "datacast_share": rates[0] / 1e6 / fair,
                "tcp_share": sum(tcp) / n / fair if n else None,
                "jain": jain([rates[0] / 1e6, *tcp]),
            }
        )
    columns = {
        "begin_s": "from s",
        "end_s": "to s",
        "tcp_flows": "TCP flows",
        "fair_mbps": "fair",
        "datacast_mbps": "Datacast",
        "tcp_mean_mbps": "TCP each",
        "datacast_share": "Datacast / fair",
        "tcp_share": "TCP / fair",
        "jain": "Jain",
    }
    notes = [
        f"TCP is {s.tcp}; rates in Mb/s of frames, without the first second of each phase.",
        f"Duplicate data ratio: {100 * group.duplicate_ratio():.2f} %.",
    ]
    return Result(
        "figure13b",
        "A group among TCP connections (paper, Figure 13b)",
        s,
        rows,
        columns,
        notes,
        [[x / 1e6 for x in step] for step in meter.series],
    )


def _plot(r: Result, ax: Any, names: list[str]) -> None:
    t = [(k + 1) * STEP / SECOND for k in range(len(r.series))]
    for i, column in enumerate(zip(*r.series, strict=True)):
        ax.plot(t, column, lw=0.9, label=names[i] if i < len(names) else None)
    ax.set(xlabel="time (s)", ylabel="Mb/s", title=f"cc={r.setting.cc}")
    ax.legend()


def plot_figure13a(r: Result, ax: Any) -> None:
    _plot(r, ax, ["first group"])


def plot_figure13b(r: Result, ax: Any) -> None:
    _plot(r, ax, ["Datacast"])


EXPERIMENTS = [
    Experiment("figure13a", "Fairness among ten groups over time", figure13a, plot_figure13a, {"slow": 1_000_000_000}),
    Experiment("figure13b", "A group among TCP connections", figure13b, plot_figure13b, {"slow": 1_000_000_000}),
]
