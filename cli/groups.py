"""The commands about groups there are: list them, show or watch one, end one, forget one."""

from __future__ import annotations

from typing import Annotated

import typer

from datacast.controller.api import DEFAULT_URL, FINAL_STATES

from .connection import Controller, Json, TokenFile, connect
from .following import CANCEL_PATIENCE_S, INTERRUPTED, follow, wait
from .output import json_text, new_table, output, size_text
from .showing import message_of, show_group, sources_of


def register(app: typer.Typer) -> None:
    app.command("groups")(groups)
    app.command("status")(status)
    app.command("cancel")(cancel)
    app.command("forget")(forget)


def groups(
    state: Annotated[
        str | None, typer.Option(metavar="STATE", help="Only groups in this state, such as running.")
    ] = None,
    as_json: Json = False,
    controller: Controller = DEFAULT_URL,
    token_file: TokenFile = None,
) -> None:
    """List the groups, oldest first."""
    with connect(controller, token_file) as client:
        rows = client.groups(state)
    if as_json:
        print(json_text(rows))
        return
    if not rows:
        print("no groups" + (f" in state {state}" if state else ""))
        return
    table = new_table("group", "state", "source", "receivers", "trees", "size", "progress", "file", "error")
    for row in rows:
        table.add_row(
            row.id,
            row.state,
            sources_of(row),
            f"{row.receivers_done}/{row.receivers}",
            str(row.trees),
            size_text(row.size),
            f"{row.fraction:.0%}",
            row.source_path,
            message_of(row.error),
        )
    output().print(table)


def status(
    group: Annotated[str, typer.Argument(metavar="ID", help="The group, as `datacast groups` shows it.")],
    watch: Annotated[
        bool, typer.Option("--watch", help="Follow it to the end. Ctrl-C stops the watching only.")
    ] = False,
    as_json: Json = False,
    controller: Controller = DEFAULT_URL,
    token_file: TokenFile = None,
) -> None:
    """Show a group. With --watch the exit code is 0 when it ends well and 1 when it does not."""
    with connect(controller, token_file) as client:
        record = client.group(group)
        if watch:
            try:
                record = follow(client, record, quiet=as_json)
            except KeyboardInterrupt:
                raise typer.Exit(INTERRUPTED) from None
    print(json_text(record)) if as_json else show_group(record)
    if watch and record.state != "done":
        raise typer.Exit(1)


def cancel(
    group: Annotated[str, typer.Argument(metavar="ID", help="The group.")],
    to_the_end: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it has ended.")] = True,
    as_json: Json = False,
    controller: Controller = DEFAULT_URL,
    token_file: TokenFile = None,
) -> None:
    """End a group. Receivers that have the file keep it; the others are left without. One that has ended stays as it
    is."""
    with connect(controller, token_file) as client:
        record = client.cancel_group(group)
        if to_the_end:
            record = wait(client, record, CANCEL_PATIENCE_S)
    print(json_text(record) if as_json else f"{record.id} is {record.state}")
    if to_the_end and record.state not in FINAL_STATES:
        raise typer.Exit(1)


def forget(
    group: Annotated[str, typer.Argument(metavar="ID", help="A group that has ended.")],
    as_json: Json = False,
    controller: Controller = DEFAULT_URL,
    token_file: TokenFile = None,
) -> None:
    """Forget a group that has ended. Files that were delivered stay."""
    with connect(controller, token_file) as client:
        record = client.forget_group(group)
    print(json_text(record) if as_json else f"{group} is forgotten")
