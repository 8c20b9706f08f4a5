"""Which experiments the results pages hold, and what each is told."""

from __future__ import annotations

from dataclasses import dataclass, field

KB = 1024


@dataclass(frozen=True)
class Figure:
    """One table: an experiment and what it is told."""

    name: str
    experiment: str
    changes: dict[str, object] = field(default_factory=dict)
    options: str = ""
    """The same for the command line."""
    cells: tuple[dict[str, object], ...] = ({},)
    """Settings whose rows together make the table. Each is kept as soon as it has run, and not run again."""
    witness: bool = False
    """Beside ns-3."""
    rows: int = 0
    """So many rows in the table, and the notes under it; 0: all rows, no notes. The raw numbers have all."""


SIZES = (8, 16, 32, 64, 128, 256, 512, 1024)
LARGE = ("fattree:24,3", "bcube:8,3", "torus:16,3")

TRANSPORT = [
    Figure("table1", "table1"),
    Figure("table1-paper", "table1", {"cc": "datacast"}, "--cc datacast"),
    Figure("assumptions", "assumptions"),
    Figure("figure11", "figure11"),
    Figure("theorem1", "theorem1"),
    Figure("figure12", "figure12"),
    Figure("figure12-paper", "figure12", {"cc": "datacast"}, "--cc datacast"),
    Figure("figure12-queue", "figure12", {"loss_on_wire": False}, "--loss-in-queue"),
    Figure("figure13a", "figure13a", {"seconds": 5.0}, "--seconds 5"),
    Figure("figure13b", "figure13b", {"seconds": 5.0}, "--seconds 5"),
    Figure("matrix", "matrix"),
    Figure("cachepolicy", "cachepolicy", {"cache": (64 * KB, 128 * KB, 256 * KB)}, "--cache 64K,128K,256K"),
    Figure(
        "figure14",
        "figure14",
        cells=tuple({"topology": t, "receivers": n} for t in LARGE for n in SIZES),
    ),
    Figure("testbed", "testbed"),
    Figure("testbed-paper", "testbed", {"cc": "datacast"}, "--cc datacast"),
    Figure(
        "testbed-few",
        "testbed",
        {"cc": "datacast", "credits": 6, "delay": 40_000},
        "--cc datacast --credits 6 --delay 40",
    ),
    Figure("sweep", "sweep", {"cases": 40}, "--cases 40", rows=12),
    Figure("tradeoff", "tradeoff"),
    Figure("range", "range"),
    Figure("pauses", "pauses"),
    Figure("pauses-paper", "pauses", {"cc": "datacast"}, "--cc datacast"),
]

PAGES = {"transport": TRANSPORT}
