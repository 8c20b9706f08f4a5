"""What happens, as it happens."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Annotated

import typer

from datacast.controller.api import DEFAULT_URL, ControllerClient
from datacast.controller.api.records import Event
from datacast.core.visible import visible
from datacast.fabric_manager.api.records import AllGroups, GroupChange, GroupForgotten
from datacast.fabric_manager.api.topology import LinkChange, NodeChange, Topology
from datacast.services.problems import Problem

from .connection import Controller, Json, TokenFile, connect
from .following import WAITED
from .output import json_text, rate_text

AGAIN_S = 0.5


def register(app: typer.Typer) -> None:
    app.command("events")(events)


def events(
    group: Annotated[str | None, typer.Option(metavar="ID", help="Only this group.")] = None,
    as_json: Json = False,
    controller: Controller = DEFAULT_URL,
    token_file: TokenFile = None,
) -> None:
    """Show what happens as it happens: groups, links, hosts. Ctrl-C ends it.

    A controller that goes away is waited for."""
    with connect(controller, token_file) as client:
        if group is not None:
            client.group(group)  # nothing would ever come of one that there is not
        for event in _lasting(client, group):
            print(json_text(event) if as_json else told(event), flush=True)


def _lasting(client: ControllerClient, group: str | None) -> Iterator[Event]:
    """Also of a controller that was started again: then what was missed, or all as it stands. Raises Problem."""
    since, there, said = "none", False, False
    while True:
        why = f"{client.url} has ended the stream"
        try:
            for event in client.events(group, since=since):
                since, there, said = getattr(event, "event", "") or since, True, False
                yield event
            there = True
        except Problem as problem:
            if not there or problem.status not in WAITED:
                raise
            why = str(problem)
        if not said:
            print(f"datacast: {visible(why)}; trying again", file=sys.stderr, flush=True)
        said = True
        time.sleep(AGAIN_S)


def told(event: Event) -> str:
    """An event for a person."""
    if isinstance(event, GroupChange):
        return f"group {event.id} {event.state} {event.fraction:.0%}, {rate_text(event.rate_bps)}"
    if isinstance(event, GroupForgotten):
        return f"group {event.id} forgotten"
    if isinstance(event, LinkChange):
        return f"link {event.u} - {event.v} {'up' if event.up else 'down'}"
    if isinstance(event, NodeChange):
        return f"node {event.name} {'alive' if event.alive else 'gone'}"
    if isinstance(event, AllGroups):
        return f"{len(event.groups)} groups"
    if isinstance(event, Topology):
        return f"topology {event.spec}, {sum(not link.up for link in event.links)} links down"
    return "the controller is there"
