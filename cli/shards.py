"""Ranges per receiver, on the command line."""

from __future__ import annotations

from typing import Annotated, Any

import typer

Scatter = Annotated[bool, typer.Option("--scatter", help="Each receiver gets another part of the file, all alike.")]
Shard = Annotated[
    list[str] | None,
    typer.Option(metavar="HOST=RANGE", help="HOST wants bytes FIRST-LAST, FIRST-, or the part K/N only; repeat."),
]


def parse_shards(scatter: bool, texts: list[str]) -> dict[str, Any]:
    """`HOST=RANGE[,RANGE…]`, each. Raises typer.BadParameter."""
    shards: dict[str, list[str]] = {}
    for text in texts:
        host, _, ranges = text.partition("=")
        if not host or not ranges:
            raise typer.BadParameter(f"{text!r} is no shard: give HOST=FIRST-LAST in bytes, HOST=FIRST-, or HOST=K/N")
        shards.setdefault(host, []).extend(part.strip() for part in ranges.split(","))
    return ({"scatter": True} if scatter else {}) | ({"shards": shards} if shards else {})
