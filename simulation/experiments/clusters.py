"""Takahashi and others, section 4.2, packet by packet: four clusters with links of different rates, and a slow node
that joins. Every planner's trees carry the file on our core, with the master's parameters and stages."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from datacast import planners
from datacast.fabric_manager.api import PlannerName

from ..errors import ExperimentError
from ..networks import MBIT, TABLE1, clusters
from ..staged import Staged
from .base import Experiment, Report, Result, Row, Setting

ON_CABLES: tuple[PlannerName, ...] = (
    "datacast",
    "stable",
    "fpfr",
    "balanced",
    "depth-first",
    "dijkstra",
    "max-bottleneck",
)
"""The others send from host to host, several times over one cable: their rates are in bench/planners/paper.py."""
ONE_RATE = ("fpfr", "balanced", "depth-first", "max-bottleneck")
"""Over cables Dijkstra's tree is the one there is, its hops at rates of their own: on a tree network that is stable."""
SLOW_JOINS = [("s-A", "tenth", 10, 10)]
SIZE = 64_000_000


def _chosen(s: Setting) -> tuple[PlannerName, ...]:
    if s.planner and s.planner not in ON_CABLES:
        known = ", ".join(ON_CABLES)
        why = "sends from host to host" if s.planner in planners.PLANNERS else "is no planner"
        raise ExperimentError(f"{s.planner} {why}; over cables there are {known}", what="planner")
    return tuple(planner for planner in ON_CABLES if s.planner in ("", planner))


def deliver(
    s: Setting, g: Any, source: str, receivers: list[str], planner: PlannerName
) -> tuple[Staged, dict[str, float]]:
    """Run it; seconds of each receiver. Raises ExperimentError."""
    options = replace(s.options(), planner=planner, delivery="stable")
    staged = Staged.of(g, source, receivers, s.size or SIZE, options, seed=s.seed)
    times = staged.run()
    if problem := staged.sim.check():
        raise ExperimentError(f"the books do not balance: {problem}", what="engine")
    return staged, times


def _row(staged: Staged, times: dict[str, float], names: list[str]) -> Row:
    plan, group = staged.plan, staged.group
    assert plan.rated is not None
    payload = plan.payload / plan.frame_bytes
    planned = sum(plan.rated.got[name] for name in names) * payload / MBIT
    seen = sum(group.size * 8 / times[name] for name in names) / MBIT
    return {
        "trees": len(plan.trees),
        "planned_mbps": planned,
        "aggregate_mbps": seen,
        "of_plan": seen / planned,
        "last_s": max(times.values()),
        "link_stress": staged.link_stress(),
        "duplicate_ratio": group.duplicate_ratio(),
    }


COLUMNS = {
    "planner": "planner",
    "trees": "trees",
    "planned_mbps": "planned Mb/s",
    "aggregate_mbps": "aggregate Mb/s",
    "of_plan": "of the plan",
    "last_s": "last s",
    "link_stress": "link stress",
    "duplicate_ratio": "duplicates",
}


def section42(s: Setting, report: Report) -> Result:
    s.check()
    count = s.receivers or 10
    if count not in TABLE1:
        raise ExperimentError(f"Table 1 has groups of {', '.join(map(str, TABLE1))}, not of {count}", what="receivers")
    g, (source, *receivers) = clusters(TABLE1[count])
    rows: list[Row] = []
    for planner in _chosen(s):
        report(f"{planner}, {count} receivers")
        rows.append({"planner": planner, **_row(*deliver(s, g, source, receivers, planner), receivers)})
    ours = [row["aggregate_mbps"] for row in rows if row["planner"] in ("datacast", "stable")]
    others = [row["aggregate_mbps"] for row in rows if row["planner"] in ONE_RATE]
    notes = [
        "aggregate: of every receiver the file over its finish time, added up; planned: payload of the plan's rates"
    ]
    if ours and others:
        notes.append(
            f"ours are {max(ours) / max(others):.2f} times the best that gives all one rate (the paper: 2.1 to 2.6)"
        )
    title = f"Stable broadcast, section 4.2: four clusters, {count} receivers"
    return Result("clusters", title, s, rows, COLUMNS, notes)


def joining(s: Setting, report: Report) -> Result:
    s.check()
    rows: list[Row] = []
    for planner in _chosen(s):
        g, (source, *nine) = clusters({**TABLE1[10], "D": 0}, SLOW_JOINS)
        report(f"{planner}, nine")
        before = _row(*deliver(s, g, source, nine, planner), nine)
        report(f"{planner}, ten")
        after = _row(*deliver(s, g, source, [*nine, "tenth"], planner), nine)
        left = after["aggregate_mbps"] / before["aggregate_mbps"]
        rows.append({"planner": planner, "before_mbps": before["aggregate_mbps"], **after, "left": left})
    columns = {"planner": "planner", "before_mbps": "before Mb/s", "aggregate_mbps": "after Mb/s", "left": "left"}
    columns |= {key: COLUMNS[key] for key in ("of_plan", "link_stress", "duplicate_ratio")}
    notes = ["of the nine; the tenth has a link of 10 Mb/s. The paper: 97.5 % are left with its own, 52 % depth-first"]
    return Result("joining", "Stable broadcast, Figure 7 (d): a slow node joins nine", s, rows, columns, notes)


def plot(result: Result, axes: Any) -> None:
    axes.bar([row["planner"] for row in result.rows], [row["aggregate_mbps"] for row in result.rows])
    axes.set_ylabel("aggregate, Mb/s")
    axes.tick_params(axis="x", rotation=60)


EXPERIMENTS = [
    Experiment("clusters", "stable broadcast, 4.2: four clusters, all planners over cables", section42, plot),
    Experiment("joining", "stable broadcast, Figure 7 (d): a slow node joins nine", joining, plot),
]
