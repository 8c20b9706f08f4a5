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
    """So many rows in the table (0: all). The raw numbers have all."""
    notes: int = 0
    """So many of the notes under it; beside ns-3 the first is the verdict."""


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
    Figure(
        "figure14-small",
        "figure14",
        {"size": 20_000_000},
        "--size 20000000",
        cells=tuple({"topology": t, "receivers": n} for t in LARGE for n in (64, 512, 1024)),
    ),
    Figure("testbed", "testbed"),
    Figure("testbed-paper", "testbed", {"cc": "datacast"}, "--cc datacast"),
    Figure(
        "testbed-few",
        "testbed",
        {"cc": "datacast", "credits": 6, "delay": 40_000},
        "--cc datacast --credits 6 --delay 40",
    ),
    Figure("sweep", "sweep", {"cases": 40}, "--cases 40", rows=12, notes=11),
    Figure("tradeoff", "tradeoff"),
    Figure("range", "range"),
    Figure("pauses", "pauses"),
    Figure("pauses-paper", "pauses", {"cc": "datacast"}, "--cc datacast"),
    Figure("memory", "memory"),
]

NS3 = [
    Figure("table1", "table1", {"seconds": 2.0}, "--seconds 2", witness=True, notes=1),
    Figure(
        "table1-paper", "table1", {"cc": "datacast", "seconds": 5.0}, "--cc datacast --seconds 5", witness=True, notes=1
    ),
    Figure("figure11", "figure11", {"seconds": 2.0}, "--seconds 2", witness=True, notes=1),
    Figure("figure12", "figure12", {"seconds": 3.0}, "--seconds 3", witness=True, notes=1),
    Figure(
        "figure12-queue",
        "figure12",
        {"seconds": 3.0, "loss_on_wire": False},
        "--seconds 3 --loss-in-queue",
        witness=True,
        notes=1,
    ),
    Figure("figure13a", "figure13a", {"seconds": 2.0}, "--seconds 2", witness=True, notes=1),
    Figure("figure13b", "figure13b", {"seconds": 2.0}, "--seconds 2", witness=True, notes=1),
    Figure("matrix-groups", "matrix", {"only": "groups"}, "--only groups", witness=True, notes=1),
    Figure("matrix-cubic", "matrix", {"only": "cubic"}, "--only cubic", witness=True, notes=1),
    Figure(
        "figure14",
        "figure14",
        {"size": 20_000_000},
        "--size 20000000",
        cells=(
            {"topology": "bcube:8,1", "receivers": 16},
            {"topology": "torus:4,2", "receivers": 8},
        ),
        witness=True,
        notes=0,
    ),
]

PAGES = {"transport": TRANSPORT, "ns3": NS3}
