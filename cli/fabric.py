"""The fabric as it is: switches that are programmed, nodes, links."""

from __future__ import annotations

import json
from typing import Annotated

import msgspec
import typer

from datacast.controller.api import DEFAULT_URL

from .connection import Controller, Json, TokenFile, connect
from .output import json_text, new_table, output, rate_text


def register(app: typer.Typer) -> None:
    app.command("switches")(switches)
    app.command("topology")(topology)


def switches(
    name: Annotated[str | None, typer.Argument(metavar="SWITCH", help="One of them, in full.")] = None,
    as_json: Json = False,
    controller: Controller = DEFAULT_URL,
    token_file: TokenFile = None,
) -> None:
    """Show the switches that the controller programs."""
    with connect(controller, token_file) as client:
        if name:
            detail = msgspec.to_builtins(client.switch(name))
            print(json.dumps(detail, indent=None if as_json else 1))
            return
        found = client.switches()
    if as_json:
        print(json_text(found))
        return
    if not found.switches:
        print("this controller programs no switches")
        return
    table = new_table("switch", "kind", "connected", "programmed", "ports up", "rules", "problems")
    for row in found.switches:
        table.add_row(
            row.name, row.kind, "yes" if row.connected else "no", "yes" if row.programmed else "no",
            f"{row.ports_up}/{row.ports}", str(row.rules), "; ".join(row.problems),
        )  # fmt: skip
    output().print(table)


def topology(
    links: Annotated[bool, typer.Option("--links", help="Show every link.")] = False,
    as_json: Json = False,
    controller: Controller = DEFAULT_URL,
    token_file: TokenFile = None,
) -> None:
    """Show the fabric as the fabric manager sees it."""
    with connect(controller, token_file) as client:
        view = client.topology()
    if as_json:
        print(json_text(view))
        return
    nodes = view.nodes
    down = [link for link in view.links if not link.up]
    console = output()
    hosts = [node for node in nodes if node.kind == "host"]
    console.print(
        f"{view.spec or 'topology'}: {len(hosts)} hosts ({sum(node.registered for node in hosts)} with an agent), "
        f"{len(nodes) - len(hosts)} switches, {len(view.links)} links ({len(down)} down)",
        highlight=False,
    )
    table = new_table("node", "kind", "agent", "links up", "alive")
    degree: dict[str, list[int]] = {}
    for link in view.links:
        for end in (link.u, link.v):
            count = degree.setdefault(end, [0, 0])
            count[0] += link.up
            count[1] += 1
    for node in nodes:
        up, of = degree.get(node.name, [0, 0])
        table.add_row(
            node.name,
            node.kind,
            node.addr or ("registered" if node.registered else "-"),
            f"{up}/{of}",
            "yes" if node.alive else "no",
        )
    console.print(table)
    if plain := [node.name for node in nodes if node.kind == "switch" and node.cache is False]:
        console.print(f"without a cache appliance: {', '.join(plain)}", highlight=False)
    if links or down:
        table = new_table("link", "ports", "rate", "up", "carries (group/tree)")
        for link in view.links if links else down:
            table.add_row(
                f"{link.u} - {link.v}",
                f"{link.u_port} - {link.v_port}",
                rate_text(link.rate_bps),
                "yes" if link.up else "no",
                " ".join(f"{c.parent}→{c.child} {c.group}/{c.tree}" for c in link.carries),
            )
        console.print(table)
