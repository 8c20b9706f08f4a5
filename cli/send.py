"""Start a group and follow it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Annotated, cast

import typer

from datacast.controller.api import DEFAULT_URL
from datacast.core.quantities import parse_rate, parse_size
from datacast.fabric_manager.api import Delivery, GroupOptions, PlannerName, RuleName

from .arguments import parse_labels, with_receivers
from .connection import Controller, Json, TokenFile, connect
from .origin import parse_origin
from .output import json_text
from .planner import Planner
from .shards import Holds, Scatter, Shard, Unfinished, with_holds, with_shards
from .showing import show_group
from .starting import Ending


def register(app: typer.Typer) -> None:
    app.command("send")(send)


def send(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE|URL",
            help="A path at the source host, or https://…, s3://BUCKET/KEY, hf://ORG/REPO[/FILE], oci://HOST/NAME:TAG.",
        ),
    ],
    to: Annotated[list[str], typer.Option("--to", metavar="HOST,…|all|@SET|SITE/all", help="The receivers.")],
    source: Annotated[
        list[str] | None,
        typer.Option("--from", metavar="HOST[,HOST…]", help="The host that has the file; several send it together."),
    ] = None,
    fetchers: Annotated[
        str | None,
        typer.Option(metavar="N|all|HOST,…", help="Of a URL: how many receivers fetch, or which (default: 8 at most)."),
    ] = None,
    origin_policy: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Of a URL: steal (default), robber, mob, non-steal or flat."),
    ] = None,
    dest: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Path at the receivers; a relative one is inside the agent's folder. Without it: the file's name.",
        ),
    ] = None,
    trees: Annotated[int | None, typer.Option(metavar="N", min=1, help="Use at most N trees.")] = None,
    cache: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Cache per tree at branch nodes, such as 128K.")
    ] = None,
    credit: Annotated[
        int | None, typer.Option("--credits", metavar="W", min=1, help="Interests a receiver may have out per tree.")
    ] = None,
    rate: Annotated[
        str | None, typer.Option(metavar="RATE", help="Most that one tree may send, such as 50mbit.")
    ] = None,
    cc: Annotated[
        str | None, typer.Option(metavar="NAME", help="Rate control: steady (default), or the paper's, datacast.")
    ] = None,
    delivery: Annotated[
        str | None,
        typer.Option(metavar="stable|together", help="Each receiver at its own rate (where they differ), or one."),
    ] = None,
    planner: Planner = None,
    quorum: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Start when N receivers are ready; the others are served later."),
    ] = None,
    lease: Annotated[
        float | None,
        typer.Option(
            metavar="S",
            min=1,
            max=600,
            help="Members drop it when they hear nothing for so long; so long an origin without time is asked again.",
        ),
    ] = None,
    weight: Annotated[int, typer.Option(metavar="N", min=1, max=1000, help="Of its share; 100 is normal.")] = 100,
    most: Annotated[str | None, typer.Option(metavar="RATE", help="Most that all its trees together may send.")] = None,
    background: Annotated[bool, typer.Option("--background", help="Take only what other groups leave.")] = False,
    deadline: Annotated[
        float | None,
        typer.Option(metavar="S", min=0.001, help="Refuse it where the links cannot deliver it within S seconds."),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Of the file: then a --deadline may be refused at once."),
    ] = None,
    sha256: Annotated[
        str | None, typer.Option(metavar="HEX", help="What the file must have; receivers keep no other.")
    ] = None,
    label: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="Yours, to find it by; repeat.")] = None,
    scatter: Scatter = False,
    shard: Shard = None,
    holds: Holds = None,
    unfinished: Unfinished = None,
    watch: Annotated[bool, typer.Option("--watch/--no-watch", help="Follow it to the end, or only start it.")] = True,
    as_json: Json = False,
    controller: Controller = DEFAULT_URL,
    token_file: TokenFile = None,
) -> None:
    """Deliver a file to many hosts, from one or several that have it, or from a URL that some of them fetch.

    Follows the transfer to its end: exit code 0 when every receiver has the whole verified file, 1 when any has not.
    Ctrl-C cancels the transfer, and so does SIGTERM. A terminal that is closed (SIGHUP) leaves it running, and so does
    --no-watch.
    """
    if sha256 is not None and not re.fullmatch("[0-9a-fA-F]{64}", sha256):
        raise typer.BadParameter(f"--sha256 {sha256!r}: give 64 hexadecimal digits, as sha256sum prints them")
    options = GroupOptions(
        trees=trees,
        credits=credit,
        cc=cast(RuleName | None, cc),
        cache_bytes=parse_size(cache) if cache else None,
        rate_bps=parse_rate(rate) if rate else None,
        quorum=quorum,
        lease_ms=GroupOptions.lease_ms if lease is None else round(1000 * lease),
        delivery=cast(Delivery | None, delivery),
        planner=cast(PlannerName | None, planner),
    )
    spec = with_receivers(parse_origin(file, source or [], fetchers, origin_policy), to)
    spec = with_holds(with_shards(spec, scatter, shard or []), holds or [], unfinished or [])
    spec = replace(
        spec,
        options=options,
        weight=weight,
        labels=parse_labels(label or []),
        priority="background" if background else "normal",
        most_bps=None if most is None else parse_rate(most),
        deadline_s=deadline,
        dest_path=spec.dest_path if dest is None else dest,
        size=None if size is None else parse_size(size),
        sha256=spec.sha256 if sha256 is None else sha256.lower(),
    )
    with connect(controller, token_file) as client, Ending() as ending:
        group = ending.carried_out(client, spec, watch=watch, as_json=as_json)
    if not watch:
        print(json_text(group) if as_json else group.id)
        return
    print(json_text(group)) if as_json else show_group(group)
    raise typer.Exit(0 if group.state == "done" else 1)
