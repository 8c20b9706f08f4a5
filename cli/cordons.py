"""Hosts, and who takes part: cordons and drains, of switches too."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated

import msgspec
import typer

from datacast.controller.api import DEFAULT_URL, ControllerClient
from datacast.fabric_manager.api.orders import Ping
from datacast.fabric_manager.api.records import AllGroups
from datacast.services.problems import Problem

from .connection import Controller, Json, TokenFile, connect
from .following import WAITED, is_over
from .output import json_text, new_table, output

AGAIN_S = 0.5
"""Until a stream that has ended is asked for again."""
Host = Annotated[str, typer.Argument(metavar="HOST|SWITCH", help="As `datacast topology` shows it.")]


def register(app: typer.Typer) -> None:
    app.command("hosts")(hosts)
    app.command("cordon")(cordon)
    app.command("uncordon")(uncordon)
    app.command("drain")(drain)


def hosts(as_json: Json = False, controller: Controller = DEFAULT_URL, token_file: TokenFile = None) -> None:
    """List the hosts: who is there, who is cordoned, room for files, how its clock is set, which groups run on them."""
    with connect(controller, token_file) as client:
        rows = client.hosts()
    if as_json:
        print(json_text(rows))
        return
    table = new_table("host", "agent", "cordoned", "disk free", "clock", "groups")
    for row in rows:
        why = "-" if row.cordoned is None else row.cordoned or "yes"
        free = min((disk.free_bytes for disk in row.disks), default=None)
        table.add_row(
            row.name,
            "yes" if row.registered else "no",
            why,
            "-" if free is None else f"{free / 1e9:.1f} GB",
            "-" if row.clock_ms is None else f"{row.clock_ms:.0f} ms",
            " ".join(row.groups),
        )
    output().print(table)


def _is_switch(client: ControllerClient, name: str) -> bool:
    return any(node.name == name and node.kind == "switch" for node in client.topology().nodes)


def cordon(
    host: Host,
    reason: Annotated[str, typer.Option(help="Shown to whoever wants it in a group.")] = "",
    as_json: Json = False,
    controller: Controller = DEFAULT_URL,
    token_file: TokenFile = None,
) -> None:
    """Have a host take part in no new group; those that run go on. Have no tree use a switch; those that do move."""
    with connect(controller, token_file) as client:
        switch = _is_switch(client, host)
        answer = client.cordon_switch(host, reason) if switch else client.cordon(host, reason)
    said = f"no tree uses {host} any more" if switch else f"{host} takes part in no new group"
    print(json_text(answer) if as_json else said)


def uncordon(
    host: Host, as_json: Json = False, controller: Controller = DEFAULT_URL, token_file: TokenFile = None
) -> None:
    """Have a host or a switch take part again."""
    with connect(controller, token_file) as client:
        answer = client.uncordon_switch(host) if _is_switch(client, host) else client.uncordon(host)
    print(json_text(answer) if as_json else f"{host} takes part again")


def drain(
    host: Host,
    reason: Annotated[str, typer.Option(help="Shown to whoever wants it in a group.")] = "drained",
    patience: Annotated[float, typer.Option("--timeout", metavar="S", min=0, help="How long to wait.")] = 3600.0,
    as_json: Json = False,
    controller: Controller = DEFAULT_URL,
    token_file: TokenFile = None,
) -> None:
    """Cordon a host or a switch, and wait until no group runs on it. Exit code 1 when one still does in the end.

    Groups that run on a host are waited for; those whose trees use a switch move away from it. A controller that goes
    away is waited for.
    """
    end = time.monotonic() + patience
    groups: list[str] = []
    with connect(controller, token_file) as client:
        switch = _is_switch(client, host)
        answer = client.cordon_switch(host, reason) if switch else client.cordon(host, reason)
        for _ in _ended(client, end, changes=switch):
            try:
                groups = _over(client, host) if switch else _on(client, host)
            except Problem as problem:
                if problem.status not in WAITED or time.monotonic() > end:
                    raise
                continue
            if not groups or time.monotonic() > end:
                break
    told = f"still on {host}: {' '.join(groups)}" if groups else f"no group runs on {host}"
    print(json_text({**msgspec.to_builtins(answer), "groups": groups}) if as_json else told)
    raise typer.Exit(1 if groups else 0)


def _on(client: ControllerClient, host: str) -> list[str]:
    return next((row.groups for row in client.hosts() if row.name == host), [])


def _over(client: ControllerClient, switch: str) -> list[str]:
    links = [link for link in client.topology().links if switch in (link.u, link.v)]
    return sorted({entry.group for link in links for entry in link.carries})


def _ended(client: ControllerClient, end: float, changes: bool) -> Iterator[None]:
    """Yields at once, whenever a group has ended (or says anything: `changes`, or it is past `end`), and every few
    seconds when all are silent."""
    while True:
        yield
        try:
            for event in client.events(pings=True):
                if is_over(event) or isinstance(event, AllGroups | Ping) or changes or time.monotonic() > end:
                    yield
        except Problem as problem:
            if problem.status not in WAITED:
                raise
        time.sleep(AGAIN_S)
