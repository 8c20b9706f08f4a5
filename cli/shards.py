"""Ranges per receiver, on the command line."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from datacast.fabric_manager.api import GroupSpec

Scatter = Annotated[bool, typer.Option("--scatter", help="Each receiver gets another part of the file, all alike.")]
Shard = Annotated[
    list[str] | None,
    typer.Option(metavar="HOST=RANGE", help="HOST wants bytes FIRST-LAST, FIRST-, or the part K/N only; repeat."),
]


def with_shards(spec: GroupSpec, scatter: bool, texts: list[str]) -> GroupSpec:
    """`HOST=RANGE[,RANGE…]`, each. Raises typer.BadParameter."""
    shards: dict[str, list[str]] = {}
    for text in texts:
        host, _, ranges = text.partition("=")
        if not host or not ranges:
            raise typer.BadParameter(f"{text!r} is no shard: give HOST=FIRST-LAST in bytes, HOST=FIRST-, or HOST=K/N")
        shards.setdefault(host, []).extend(part.strip() for part in ranges.split(","))
    return replace(spec, scatter=scatter, shards=shards)


Holds = Annotated[
    list[str] | None,
    typer.Option(metavar="HOST=RANGE", help="Source HOST has these bytes of the file only, as with --shard; repeat."),
]
Unfinished = Annotated[
    list[str] | None,
    typer.Option(metavar="HOST=GROUP", help="Source HOST has what it received of a GROUP that broke off; repeat."),
]


def with_holds(spec: GroupSpec, holds: list[str], unfinished: list[str]) -> GroupSpec:
    """Which parts sources have. Raises typer.BadParameter."""
    ranges, groups = _by_host(holds, "FIRST-LAST"), _by_host(unfinished, "GROUP")
    if twice := next((host for host, named in groups.items() if len(named) > 1), None):
        raise typer.BadParameter(f"{twice} has what it received of one group: name it once")
    return replace(spec, holds=ranges, unfinished={host: names[0] for host, names in groups.items()})


def _by_host(texts: list[str], what: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for text in texts:
        host, _, named = text.partition("=")
        if not host or not named:
            raise typer.BadParameter(f"{text!r} does not say what a host has: give HOST={what}")
        found.setdefault(host, []).extend(part.strip() for part in named.split(","))
    return found
