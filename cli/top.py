"""`datacast top`: the fabric and its groups in a terminal, live."""

from __future__ import annotations

import time
from typing import Annotated

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from datacast.cli.connection import Controller, TokenFile, connect
from datacast.cli.following import INTERRUPTED
from datacast.controller.api import DEFAULT_URL, FINAL_STATES, ControllerClient
from datacast.controller.api.records import GroupRecord, GroupSummary, Topology
from datacast.core.lists import few
from datacast.services.problems import Problem

GROUPS_MAX = 20
"""Looked at one by one: each costs a request a round."""


def register(app: typer.Typer) -> None:
    app.command("top")(top)


def top(
    interval: Annotated[float, typer.Option("--interval", min=0.2, max=60, help="Seconds between looks.")] = 1.0,
    count: Annotated[int | None, typer.Option("--count", min=1, help="End after so many looks.")] = None,
    controller: Controller = DEFAULT_URL,
    token_file: TokenFile = None,
) -> None:
    """Show what the fabric does, until Ctrl-C or the token's end. A controller that goes away is waited for."""
    console = Console()
    with connect(controller, token_file) as client:
        try:
            with Live(look(client), console=console, auto_refresh=False, screen=console.is_terminal) as live:
                looks = 1
                while count is None or looks < count:
                    time.sleep(interval)
                    looks += 1
                    try:
                        live.update(look(client), refresh=True)
                    except Problem as problem:
                        if problem.status in (401, 403):  # a token that has ended comes back no more
                            raise
                        live.update(Text(f"{problem}; trying again", style="red"), refresh=True)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
    if not console.is_terminal:
        console.print()  # the last look ends its line


def look(client: ControllerClient) -> RenderableType:
    """One picture. Raises Problem."""
    fabric, groups = client.topology(), client.groups()
    running = [group for group in groups if group.state not in FINAL_STATES]
    details = [client.group(group.id) for group in running[-GROUPS_MAX:]]
    return Group(_head(fabric, groups), _running(details), _recent(groups))


def _head(fabric: Topology, groups: list[GroupSummary]) -> Text:
    hosts = [node for node in fabric.nodes if node.kind == "host"]
    away = [node.name for node in fabric.nodes if not node.registered]
    down = [f"{link.u}-{link.v}" for link in fabric.links if not link.up]
    text = Text(f"{fabric.spec}: {len(hosts)} hosts, {len(fabric.links)} cables, {len(groups)} groups")
    for names, what in ((down, "down"), (away, "not registered")):
        if names:
            text.append(f"\n{len(names)} {what}: {few(names)}", style="red")
    return text


def _running(details: list[GroupRecord]) -> Table:
    table = Table("group", "from", "receivers", "progress", "Mb/s", "trees", "slowest", box=None, pad_edge=False)
    for group in details:
        receivers = group.receivers
        slowest = min(receivers, key=lambda name: receivers[name].fraction, default="-")
        table.add_row(
            group.id,
            group.source,
            str(len(receivers)),
            ProgressBar(1.0, group.fraction, width=24),
            f"{group.rate_bps / 1e6:.1f}",
            str(len(group.trees)),
            f"{slowest} {100 * receivers[slowest].fraction:.0f} %" if receivers else "-",
        )
    if not details:
        table.add_row("none is running", *[""] * 6)
    return table


def _recent(groups: list[GroupSummary]) -> Table:
    table = Table("ended", "state", box=None, pad_edge=False, style="dim")
    for group in [group for group in groups if group.state in FINAL_STATES][-5:]:
        table.add_row(group.id, group.state)
    return table
