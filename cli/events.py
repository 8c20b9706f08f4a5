"""What happens, as it happens."""

from __future__ import annotations

from typing import Annotated

import typer

from datacast.controller.api import DEFAULT_URL
from datacast.controller.api.records import Event
from datacast.fabric_manager.api.records import AllGroups, GroupChange
from datacast.fabric_manager.api.topology import LinkChange, NodeChange, Topology

from .connection import Controller, Json, TokenFile, connect
from .output import json_text, rate_text


def register(app: typer.Typer) -> None:
    app.command("events")(events)


def events(
    group: Annotated[str | None, typer.Option(metavar="ID", help="Only this group.")] = None,
    as_json: Json = False,
    controller: Controller = DEFAULT_URL,
    token_file: TokenFile = None,
) -> None:
    """Show what happens as it happens: groups, links, hosts. Ctrl-C ends it."""
    with connect(controller, token_file) as client:
        for event in client.events(group):
            print(json_text(event) if as_json else told(event), flush=True)


def told(event: Event) -> str:
    """An event for a person."""
    if isinstance(event, GroupChange):
        return f"group {event.id} {event.state} {event.fraction:.0%}, {rate_text(event.rate_bps)}"
    if isinstance(event, LinkChange):
        return f"link {event.u} - {event.v} {'up' if event.up else 'down'}"
    if isinstance(event, NodeChange):
        return f"node {event.name} {'alive' if event.alive else 'gone'}"
    if isinstance(event, AllGroups):
        return f"{len(event.groups)} groups"
    if isinstance(event, Topology):
        return f"topology {event.spec}, {sum(not link.up for link in event.links)} links down"
    return "the controller is there"
