"""Table 1 under the paper's rule, one thing changed at a time that the paper does not say: what its figures hang on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..engine import Faults
from .base import Experiment, Report, Result, Setting, measure
from .micro import PAPER_TABLE1

KB = 1024
CACHES = (8 * KB, 32 * KB, 128 * KB)


@dataclass(frozen=True)
class Assumption:
    """A name, fields of the Setting, and by how many ns a host's frames are late at most (each by chance, in order)."""

    name: str
    changes: dict[str, Any] = field(default_factory=dict)
    late: int = 0


AS_TABLE1 = "as in Table 1 (16 credits)"
ASSUMPTIONS = (
    Assumption(AS_TABLE1),
    *(Assumption(f"{n} credits", {"credits": n}) for n in (4, 8, 12, 15, 17, 24, 32)),
    *(Assumption(f"headers of {16 + n} bytes", {"mtu": 1500 + n}) for n in (-8, 8, 16)),
    *(Assumption(f"{us} us per link", {"delay": us * 1000}) for us in (1, 10, 20, 40)),
    *(Assumption(f"timeouts of {ms} ms at least", {"rto_min": ms * 1_000_000}) for ms in (1, 200)),
    Assumption("bursts of 16 packets", {"burst": 16}),
    Assumption("first rate 1,000 Mb/s", {"rate_init": 10**9}),
    Assumption("first rate 100 Mb/s", {"rate_init": 10**8}),
    *(Assumption(f"{s} s", {"seconds": float(s)}) for s in (1, 3, 30)),
    *(Assumption(f"hosts late by up to {us} us", late=us * 1000) for us in (1, 12, 20, 30, 40, 50)),
)


def assumptions(s: Setting, report: Report) -> Result:
    """One row per assumption, the paper's numbers first."""
    rows: list[dict[str, Any]] = [{"assumption": "the paper"}]
    for cache in CACHES:
        rate, duplicates = PAPER_TABLE1[cache // KB]
        rows[0] |= {f"mbps_{cache // KB}": rate, f"duplicate_ratio_{cache // KB}": duplicates / 100}
    for a in ASSUMPTIONS:
        if s.only and s.only not in a.name:
            continue
        report(a.name)
        row: dict[str, Any] = {"assumption": a.name}
        for cache in CACHES:
            found = measure(s.with_(**a.changes), cache, Faults(jitter=a.late) if a.late else None)
            row |= {f"mbps_{cache // KB}": found["throughput_mbps"]}
            row |= {f"duplicate_ratio_{cache // KB}": found["duplicate_ratio"]}
        rows.append(row)
    columns = {"assumption": "assumption"}
    for cache in CACHES:
        columns |= {f"mbps_{cache // KB}": f"{cache // KB} KB: Mb/s", f"duplicate_ratio_{cache // KB}": "duplicates"}
    return Result("assumptions", "Table 1, one assumption changed at a time", s, rows, columns)


def plot_assumptions(r: Result, ax: Any) -> None:
    for cache in (8, 32):
        ax.plot([row[f"mbps_{cache}"] for row in r.rows], range(len(r.rows)), "o", label=f"{cache} KB")
        ax.axvline(r.rows[0][f"mbps_{cache}"], color="grey", lw=0.8)
    ax.set_yticks(range(len(r.rows)), [row["assumption"] for row in r.rows], fontsize=6)
    ax.set(xlabel="throughput (Mb/s); grey: the paper")
    ax.legend()


EXPERIMENTS = [
    Experiment(
        "assumptions",
        "Table 1, one assumption changed at a time that the paper does not say",
        assumptions,
        plot_assumptions,
        {"cc": "datacast"},
    )
]
