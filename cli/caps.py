"""What all groups together may send at most."""

from __future__ import annotations

from typing import Annotated

import typer

from datacast.controller.api import DEFAULT_URL
from datacast.core.quantities import parse_rate
from datacast.fabric_manager.api.records import Caps

from .connection import Controller, Json, TokenFile, connect
from .output import json_text, rate_text

Host = Annotated[
    str | None, typer.Option("--host", metavar="HOST", help="Over this host's links; without it: in the fabric.")
]


def register(app: typer.Typer) -> None:
    caps = typer.Typer(help="What all groups together may send: in the fabric, or over a host's links.")
    caps.callback(invoke_without_command=True)(listing)
    caps.command("set")(put)
    caps.command("clear")(clear)
    app.add_typer(caps, name="caps")


def _show(told: Caps, as_json: bool) -> None:
    if as_json:
        print(json_text(told))
        return
    print(f"fabric  {'no cap' if told.fabric_bps is None else rate_text(told.fabric_bps)}")
    for host, bps in told.hosts.items():
        print(f"{host}  {rate_text(bps)}")


def listing(
    context: typer.Context, as_json: Json = False, controller: Controller = DEFAULT_URL, token_file: TokenFile = None
) -> None:
    """Show the caps."""
    if context.invoked_subcommand is None:
        with connect(controller, token_file) as client:
            _show(client.caps(), as_json)


def put(
    rate: Annotated[str, typer.Argument(metavar="RATE", help="Such as 2gbit, of whole frames.")],
    host: Host = None,
    as_json: Json = False,
    controller: Controller = DEFAULT_URL,
    token_file: TokenFile = None,
) -> None:
    """Set a cap; groups that run keep to it at once. A host's counts for what it sends, and for what it receives."""
    with connect(controller, token_file) as client:
        _show(client.cap(host, parse_rate(rate)), as_json)


def clear(
    host: Host = None, as_json: Json = False, controller: Controller = DEFAULT_URL, token_file: TokenFile = None
) -> None:
    """Take a cap away."""
    with connect(controller, token_file) as client:
        _show(client.uncap(host), as_json)
