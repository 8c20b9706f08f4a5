"""Hosts and switches that join the fabric, or leave it."""

from __future__ import annotations

from typing import Annotated, cast

import typer

from datacast.controller.api import DEFAULT_URL
from datacast.core.quantities import parse_rate
from datacast.fabric_manager.api import Kind, LinkSpec, NodeSpec

from .connection import Controller, Json, TokenFile, connect
from .output import json_text

NodeName = Annotated[str, typer.Argument(metavar="NODE", help="The host's or switch's name.")]


def register(app: typer.Typer) -> None:
    nodes = typer.Typer(
        help="Hosts and switches that join the fabric, or leave it, while it runs.", no_args_is_help=True
    )
    nodes.command("add")(add_node)
    nodes.command("remove")(remove_node)
    app.add_typer(nodes, name="nodes")


def add_node(
    name: NodeName,
    link: Annotated[list[str], typer.Option("--link", metavar="NODE", help="Its cables, by its port; repeat.")],
    kind: Annotated[str, typer.Option(metavar="host|switch", help="What it is.")] = "host",
    rate: Annotated[str | None, typer.Option(metavar="RATE", help="Of its cables, such as 10gbit.")] = None,
    as_json: Json = False,
    controller: Controller = DEFAULT_URL,
    token_file: TokenFile = None,
) -> None:
    """Have a host or a switch join the fabric. Each cable takes the next free port of its neighbour.

    Its agent may register then. One that was taken away comes back where it was.
    """
    bps = parse_rate(rate) if rate else None
    links = [LinkSpec(to=other, rate_bps=bps) for text in link for other in text.split(",")]
    spec = NodeSpec(kind=cast(Kind, kind), links=links)
    with connect(controller, token_file) as client:
        node = client.add_node(name, spec)
    print(json_text(node) if as_json else f"{name} is part of the fabric")


def remove_node(name: NodeName, controller: Controller = DEFAULT_URL, token_file: TokenFile = None) -> None:
    """Take a host or a switch away. Refused while a group has it as a member: drain it first. Its place is kept."""
    with connect(controller, token_file) as client:
        client.remove_node(name)
    print(f"{name} is no part of the fabric any more")
