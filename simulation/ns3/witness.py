"""An experiment in both simulators, side by side with the paper and the theory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import ExperimentError
from ..experiments import find
from ..experiments.base import Report, Result, Row, Setting

TOLERANCE = 0.01
"""How far the two may be apart in what must agree."""


@dataclass(frozen=True)
class _Sides:
    """What a row of an experiment is: its parameters, what was measured, and which of it must agree."""

    parameters: tuple[str, ...]
    measured: tuple[str, ...]
    agree: tuple[str, ...] = ("finish_s", "link_stress")
    parted: tuple[str, str] | None = None
    """Only rows with this value in this column must agree."""


_TRANSFER = ("finish_s", "link_stress", "throughput_mbps", "duplicate_ratio")
WITNESSED = {
    "table1": _Sides(("cache_kb",), _TRANSFER),
    "figure11": _Sides(("delta_mbps",), _TRANSFER),
    "figure12": _Sides(("loss",), _TRANSFER),
    "figure13a": _Sides(("begin_s", "groups", "fair_mbps"), ("each_mbps", "sum_mbps"), ("each_mbps", "sum_mbps")),
    "figure13b": _Sides(("begin_s", "tcp_flows", "fair_mbps"), ("datacast_mbps", "tcp_mbps"), ()),
    "matrix": _Sides(("cell",), ("each", "used"), ("each", "used"), parted=("kind", "groups")),
    "figure14": _Sides(("topology", "receivers", "trees"), ("finish_s", "link_stress", "duplicate_ratio")),
    "sweep": _Sides(("case", "rate_mbps", "delay_us", "slow_ratio", "receivers"),
                    ("finish_s", "link_stress", "duplicate_ratio")),
}  # fmt: skip
"""What can be witnessed. Where TCP takes part, nothing has to agree: ns-3 has its own."""

_HEADINGS = {
    "cache_kb": "cache KB", "delta_mbps": "delta Mb/s", "begin_s": "from s", "fair_mbps": "fair",
    "finish_s": "finish s", "link_stress": "stress", "throughput_mbps": "Mb/s", "duplicate_ratio": "duplicates",
    "each_mbps": "each group", "sum_mbps": "sum", "datacast_mbps": "Datacast", "tcp_mbps": "each TCP",
    "tcp_flows": "TCP flows", "rate_mbps": "link Mb/s", "delay_us": "delay us", "slow_ratio": "1:slow",
    "each": "each, of fair", "used": "link use",
}  # fmt: skip


def difference(ours: Any, theirs: Any) -> float | None:
    """Relative to ours, of lists the greatest of all; None where one is missing."""
    if ours is None or theirs is None:
        return None
    if isinstance(ours, list):
        apart = [difference(a, b) for a, b in zip(ours, theirs, strict=True)]
        return max((d for d in apart if d is not None), key=abs, default=0.0)
    if ours == theirs:
        return 0.0
    return float("inf") if ours == 0 else theirs / ours - 1


def pair(sides: _Sides, ours: Row, theirs: Row) -> Row:
    """One row of the table: ours under its plain names, ns-3's as `ns3_…`, the paper's and the theory's as they are."""
    row = {key: ours[key] for key in sides.parameters}
    for key in sides.measured:
        row[key], row[f"ns3_{key}"] = ours[key], theirs[key]
        row[f"{key}_difference"] = difference(ours[key], theirs[key])
    row.update({key: value for key, value in ours.items() if key.startswith(("paper_", "theory_"))})
    must = sides.parted is None or ours[sides.parted[0]] == sides.parted[1]
    apart = [row[f"{key}_difference"] for key in sides.agree] if must else []
    row["agree"] = all(d is not None and abs(d) <= TOLERANCE for d in apart) if apart else None
    return row


def witness(name: str, setting: Setting, report: Report) -> Result:
    """Run an experiment in our simulator and in ns-3.

    Raises ExperimentError for one that ns-3 does not run, SimulationError when `datacast-ns3` is not built.
    """
    experiment = find(name)
    if name not in WITNESSED:
        raise ExperimentError(f"ns-3 is no witness for {name}; it is for {', '.join(WITNESSED)}", what=name)
    sides = WITNESSED[name]
    setting = setting.with_(punctual=True)
    ours = experiment.run(setting.with_(engine="datacast"), lambda text: report(f"ours: {text}"))
    theirs = experiment.run(setting.with_(engine="ns3"), lambda text: report(f"ns-3: {text}"))
    by_parameters = {tuple(row[key] for key in sides.parameters): row for row in theirs.rows}
    rows = [pair(sides, row, by_parameters[tuple(row[key] for key in sides.parameters)]) for row in ours.rows]
    columns = {key: _HEADINGS.get(key, key) for key in sides.parameters}
    extra = [key for key in rows[0] if key.startswith(("paper_", "theory_"))]
    for key in sides.measured:
        if key == "throughput_mbps" and f"paper_{key}" not in extra:
            continue  # follows from the finish time
        columns |= {key: _HEADINGS.get(key, key), f"ns3_{key}": "ns-3"}
        columns |= {e: e.split("_", 1)[0] for e in extra if e.split("_", 1)[1] == key}
    notes = [_verdict(sides, rows), *ours.notes]
    return Result(name, f"{experiment.title}: ours beside ns-3", setting, rows, columns, notes)


def _verdict(sides: _Sides, rows: list[Row]) -> str:
    rows = [row for row in rows if row["agree"] is not None]
    if not rows:
        return "ns-3 brings its own TCP, so the two need not agree."
    what = " and ".join(_HEADINGS[key] for key in sides.agree)
    worst = {key: max((abs(r[f"{key}_difference"]) for r in rows if r[f"{key}_difference"] is not None), default=0.0)
             for key in sides.agree}  # fmt: skip
    apart = [row for row in rows if not row["agree"]]
    shown = ", ".join(f"{_HEADINGS[key]} {100 * value:.4f} %" for key, value in worst.items())
    limit = f"{100 * TOLERANCE:g} %"
    if not apart:
        return f"Ours and ns-3 agree within {limit} on {what} in all {len(rows)} rows; farthest apart: {shown}."
    lines = "; ".join(", ".join(f"{key} {row[key]}" for key in sides.parameters) for row in apart)
    return (f"Ours and ns-3 are more than {limit} apart on {what} in {len(apart)} of {len(rows)} rows ({lines}); "
            f"farthest: {shown}.")  # fmt: skip
