"""Named sets of hosts."""

from __future__ import annotations

from typing import Annotated

import typer

from datacast.controller.api import DEFAULT_URL

from .connection import Controller, Json, TokenFile, connect
from .output import json_text

SetName = Annotated[str, typer.Argument(metavar="NAME", help="The set's name.")]


def register(app: typer.Typer) -> None:
    sets = typer.Typer(help="Named sets of hosts, for `send --to @SET`.", no_args_is_help=True)
    sets.command("list")(list_sets)
    sets.command("put")(put_set)
    sets.command("delete")(delete_set)
    app.add_typer(sets, name="sets")


def list_sets(as_json: Json = False, controller: Controller = DEFAULT_URL, token_file: TokenFile = None) -> None:
    """List the sets."""
    with connect(controller, token_file) as client:
        found = client.sets()
    if as_json:
        print(json_text(found))
        return
    if not found:
        print("no sets")
    for name, members in found.items():
        print(f"{name}  {','.join(members)}")


def put_set(
    name: SetName,
    members: Annotated[list[str], typer.Argument(metavar="HOST…", help="Its hosts.")],
    as_json: Json = False,
    controller: Controller = DEFAULT_URL,
    token_file: TokenFile = None,
) -> None:
    """Make or replace a set."""
    names = [host for text in members for host in text.split(",") if host]
    with connect(controller, token_file) as client:
        made = client.put_set(name, names)
    print(json_text(made) if as_json else f"{name}  {','.join(made.hosts)}")


def delete_set(name: SetName, controller: Controller = DEFAULT_URL, token_file: TokenFile = None) -> None:
    """Forget a set."""
    with connect(controller, token_file) as client:
        client.delete_set(name)
    print(f"{name} is forgotten")
