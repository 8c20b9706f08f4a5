"""The option that names a group's planner."""

from __future__ import annotations

from typing import Annotated

import typer

Planner = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Whose trees with rates: datacast, stable, fpfr, balanced, depth-first, dijkstra or max-bottleneck.",
    ),
]
