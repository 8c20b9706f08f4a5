"""What a group would get, before it begins."""

from __future__ import annotations

from typing import Annotated, cast

import typer

from datacast.controller.api import DEFAULT_URL
from datacast.core.lists import few
from datacast.core.quantities import parse_rate, parse_size
from datacast.fabric_manager.api import Delivery, GroupOptions, GroupSpec, PlannerName
from datacast.fabric_manager.api.records import Plan

from .arguments import with_receivers
from .connection import Controller, Json, TokenFile, connect
from .output import json_text, new_table, output, rate_text, size_text
from .planner import Planner
from .shards import Scatter, Shard, with_shards

CUT_SHOWN = 8
"""Arcs of a cut."""
WANTED_SHOWN = 16
"""Receivers whose ranges are counted."""


def register(app: typer.Typer) -> None:
    app.command("plan")(plan)


def plan(
    source: Annotated[str, typer.Option("--from", metavar="HOST", help="The host that has the file.")],
    to: Annotated[list[str], typer.Option("--to", metavar="HOST,HOST…|all|@SET", help="The receivers.")],
    size: Annotated[str | None, typer.Option(metavar="SIZE", help="Of the file, for the time it takes.")] = None,
    weight: Annotated[int, typer.Option(metavar="N", min=1, max=1000, help="Of its share; 100 is normal.")] = 100,
    background: Annotated[bool, typer.Option("--background", help="Take only what others leave.")] = False,
    most: Annotated[str | None, typer.Option(metavar="RATE", help="Most that all its trees together may send.")] = None,
    delivery: Annotated[
        str | None,
        typer.Option(metavar="stable|together", help="Each receiver at its own rate (where they differ), or one."),
    ] = None,
    planner: Planner = None,
    scatter: Scatter = False,
    shard: Shard = None,
    as_json: Json = False,
    controller: Controller = DEFAULT_URL,
    token_file: TokenFile = None,
) -> None:
    """Say what a group would get if it began now: trees, its share of the links, the time. Nothing is started."""
    spec = GroupSpec(
        source=source,
        source_path="/plan",
        weight=weight,
        priority="background" if background else "normal",
        most_bps=parse_rate(most) if most else None,
        options=GroupOptions(
            delivery=cast(Delivery | None, delivery or None), planner=cast(PlannerName | None, planner or None)
        ),
    )
    spec = with_shards(with_receivers(spec, to), scatter, shard or [])
    with connect(controller, token_file) as client:
        found = client.plan(spec, parse_size(size) if size else None)
    print(json_text(found)) if as_json else _show_plan(found)


def _show_plan(found: Plan) -> None:
    console = output()
    time_s = f", {found.expected_s:.2f} s" if found.expected_s is not None else ""
    console.print(f"{len(found.receivers)} receivers, {rate_text(found.rate_bps)}{time_s}", highlight=False)
    table = new_table("tree", "links", "depth", "share")
    for number, tree in enumerate(found.trees):
        table.add_row(str(number), str(tree.links), str(tree.depth), rate_text(tree.share_bps))
    console.print(table)
    if found.wanted_bytes:
        wanted = few((f"{name} {size_text(count)}" for name, count in found.wanted_bytes.items()), WANTED_SHOWN)
        console.print(f"wanted: {wanted}", highlight=False)
    gap, cut = found.gap, found.cut
    console.print(
        f"gap {gap.part:.1%}: {gap.receiver} gets less than its bound of {rate_text(found.bound_bps[gap.receiver])}"
        if gap.receiver is not None and gap.part
        else "no gap: no trees could bring more",
        highlight=False,
    )
    if cut:
        shown = few([f"{u}>{v}" for u, v in cut.arcs], CUT_SHOWN, " ")
        console.print(f"the cut: {cut.receiver} has {rate_text(cut.bps)} over {shown}", highlight=False)
    if found.unreachable:
        console.print(f"no path leads to {', '.join(found.unreachable)}", highlight=False)
