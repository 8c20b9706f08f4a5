"""Receivers that come and go, and groups that go on."""

from __future__ import annotations

from typing import Annotated

import typer

from datacast.controller.api import DEFAULT_URL, FINAL_STATES, ControllerClient
from datacast.controller.api.records import GroupRecord

from .connection import Controller, Json, TokenFile, connect
from .following import INTERRUPTED, follow
from .output import json_text
from .showing import show_group

Group = Annotated[str, typer.Argument(metavar="GROUP", help="The group, as `datacast groups` shows it.")]
Watch = Annotated[bool, typer.Option("--watch", help="Follow the group to its end. Ctrl-C stops the watching only.")]


def register(app: typer.Typer) -> None:
    receivers = typer.Typer(help="Have one host more, or one less, receive a group that runs.", no_args_is_help=True)
    receivers.command("add")(add)
    receivers.command("remove")(remove)
    app.add_typer(receivers, name="receivers")
    app.command("resume")(resume)


def parse_member(text: str) -> tuple[str, str | None]:
    """`HOST` or `HOST:PATH`. Raises typer.BadParameter."""
    host, colon, path = text.partition(":")
    if not host or (colon and not path):
        raise typer.BadParameter(f"{text!r}: give HOST or HOST:PATH")
    return host, path or None


def _show(client: ControllerClient, group: GroupRecord, text: str, watch: bool, as_json: bool) -> None:
    """Say what was done, or follow the group to its end."""
    if not watch:
        print(json_text(group) if as_json else text)
        return
    try:
        group = follow(client, group, quiet=as_json)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    print(json_text(group)) if as_json else show_group(group)
    raise typer.Exit(0 if group.state == "done" else 1)


def add(
    group: Group,
    host: Annotated[str, typer.Argument(metavar="HOST[:PATH]", help="The host, and where it wants the file.")],
    watch: Watch = False,
    as_json: Json = False,
    controller: Controller = DEFAULT_URL,
    token_file: TokenFile = None,
) -> None:
    """Have one host more receive a group that runs. It is served when the others are done.

    A receiver that has failed can join again. With --watch the exit code is 0 when the group ends well and 1 when it
    does not.
    """
    name, path = parse_member(host)
    with connect(controller, token_file) as client:
        record = client.add_receiver(group, name, path)
        _show(client, record, f"{name} joins {record.id}", watch, as_json)


def remove(
    group: Group,
    host: Annotated[str, typer.Argument(metavar="HOST", help="The receiver.")],
    as_json: Json = False,
    controller: Controller = DEFAULT_URL,
    token_file: TokenFile = None,
) -> None:
    """Have one host less receive a group that runs. What it has of the file is dropped; a whole file stays."""
    with connect(controller, token_file) as client:
        record = client.remove_receiver(group, host)
        _show(client, record, f"{host} leaves {record.id}", False, as_json)


def resume(
    group: Group,
    watch: Annotated[bool, typer.Option("--watch/--no-watch", help="Follow it to the end, or only start it.")] = True,
    as_json: Json = False,
    controller: Controller = DEFAULT_URL,
    token_file: TokenFile = None,
) -> None:
    """Start a group again that has failed or reached only some of its receivers, for example after a loss of power.

    Receivers go on from what they have verified. A source file that has changed is refused. The exit code is 0 when
    every receiver has the file in the end. Ctrl-C stops the watching only.
    """
    with connect(controller, token_file) as client:
        record = client.resume_group(group)
        goes_on = watch and record.state not in FINAL_STATES
        _show(client, record, f"{record.id} is {record.state}", goes_on, as_json)
