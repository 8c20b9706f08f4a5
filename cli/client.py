"""The commands that talk to the controller: send, groups, status, cancel, topology."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from datacast.controller.api import DEFAULT_URL, ENV_TOKEN, ENV_URL, FINAL_STATES, ControllerClient
from datacast.services.problems import Problem

from .origin import parse_origin
from .output import output
from .planner import Planner
from .shards import Holds, Scatter, Shard, Unfinished, parse_holds, parse_shards

REFRESH_S = 0.2
CANCEL_PATIENCE_S = 15.0
ROWS_MAX = 24
INTERRUPTED = 130

Controller = Annotated[
    str,
    typer.Option(
        "--controller",
        metavar="URL",
        envvar=ENV_URL,
        help="The controller: http://host:port or unix:/path; several divided by commas.",
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        envvar="DATACAST_TOKEN_FILE",
        help="File with the token for the controller (else $DATACAST_TOKEN, ~/.config/datacast/token, or the lab's).",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


def connect(controller: str, token_file: Path | None) -> ControllerClient:
    """With the token from --token-file, the environment, the user's file, or a lab at this address, the first there is.
    Who names no controller but a lab ($DATACAST_LAB) means the lab's. Raises Problem."""
    if controller == DEFAULT_URL and ENV_URL not in os.environ:
        controller = _lab_rest() or controller
    token = None if token_file else os.environ.get(ENV_TOKEN)
    own = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "datacast" / "token"
    path = token_file or (own if own.is_file() else _lab_token(controller))
    if not token and path is not None:
        try:
            token = path.read_text(errors="replace").strip()
        except OSError as error:
            raise Problem(400, "bad_token_file", f"cannot read {path}: {error.strerror}", what=str(path)) from error
    if token and not re.fullmatch(r"[!-~]+", token):
        raise Problem(400, "bad_token", "the token holds spaces, or nothing that is one", what=str(path or ENV_TOKEN))
    return ControllerClient(controller, token=token)


def _lab_rest() -> str | None:
    """Of the lab that $DATACAST_LAB names."""
    from datacast.lab.state import NAME_ENV, Registry

    state = Registry().load(os.environ[NAME_ENV]) if os.environ.get(NAME_ENV) else None
    return state.rest if state is not None and state.rest else None


def _lab_token(controller: str) -> Path | None:
    """Of a lab of this machine, for whoever may read its file."""
    from datacast.lab.state import Registry

    for state in Registry().all():
        path = Registry().folder(state.name) / "token"
        if state.rest == controller and os.access(path, os.R_OK):
            return path
    return None


def register(app: typer.Typer) -> None:
    app.command("send")(send)
    app.command("groups")(groups)
    app.command("status")(status)
    app.command("cancel")(cancel)
    app.command("topology")(topology)


# ---- reading arguments ----
def parse_size(text: str) -> int:
    """`128K`, `1M`, `512KiB`, `4096`: bytes, in powers of 1024. Raises typer.BadParameter."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)(?:i?b)?", text.strip().lower())
    if not match:
        raise typer.BadParameter(f"{text!r} is no size: give something like 128K or 1M")
    return int(float(match[1]) * 1024 ** " kmgt".index(match[2] or " "))


def parse_rate(text: str) -> int:
    """`50mbit`, `1gbit`, `1000000`: bit/s. Raises typer.BadParameter."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)(?:bit(?:/s)?|bps)?", text.strip().lower())
    if not match:
        raise typer.BadParameter(f"{text!r} is no rate: give something like 50mbit")
    return int(float(match[1]) * 1000 ** " kmgt".index(match[2] or " "))


def parse_receivers(texts: list[str]) -> dict[str, Any]:
    """`all`, `@set`, or hosts, separated by commas or given several times. Raises typer.BadParameter."""
    names = [name.strip() for text in texts for name in text.split(",") if name.strip()]
    if not names:
        raise typer.BadParameter("--to names no host: give hosts, all, or @set")
    if names == ["all"]:
        return {"receivers": "all"}
    if len(names) == 1 and names[0].startswith("@"):
        return {"receiver_set": names[0][1:]}
    odd = next((name for name in names if name == "all" or name.startswith("@")), None)
    if odd:
        raise typer.BadParameter(f"--to: {odd} stands alone or not at all")
    return {"receivers": names}


def parse_labels(texts: list[str]) -> dict[str, str]:
    """`NAME=VALUE`, each. Raises typer.BadParameter."""
    odd = next((text for text in texts if not text.partition("=")[0] or "=" not in text), None)
    if odd is not None:
        raise typer.BadParameter(f"{odd!r} is no label: give NAME=VALUE")
    return dict(text.partition("=")[::2] for text in texts)


# ---- commands ----
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
    weight: Annotated[int, typer.Option(min=1, max=1000, help="Of its share of links; 100 is normal.")] = 100,
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
    Ctrl-C cancels the transfer; start it with --no-watch to leave it running.
    """
    options: dict[str, Any] = {
        "trees": trees,
        "credits": credit,
        "cc": cc,
        "cache_bytes": parse_size(cache) if cache else None,
        "rate_bps": parse_rate(rate) if rate else None,
        "quorum": quorum,
        "delivery": delivery,
        "planner": planner,
    }
    spec = {
        **parse_origin(file, source or [], fetchers, origin_policy),
        **parse_receivers(to),
        "options": {k: v for k, v in options.items() if v is not None},
    }
    spec |= {"weight": weight, "labels": parse_labels(label or [])}
    if background:
        spec["priority"] = "background"
    if most is not None:
        spec["most_bps"] = parse_rate(most)
    if deadline is not None:
        spec["deadline_s"] = deadline
    if dest is not None:
        spec["dest_path"] = dest
    if size is not None:
        spec["size"] = parse_size(size)
    if sha256 is not None:
        if not re.fullmatch("[0-9a-fA-F]{64}", sha256):
            raise typer.BadParameter(f"--sha256 {sha256!r}: give 64 hexadecimal digits, as sha256sum prints them")
        spec["sha256"] = sha256.lower()
    spec |= parse_shards(scatter, shard or []) | parse_holds(holds or [], unfinished or [])
    with connect(controller, token_file) as client:
        group, interrupted = _create(client, spec)
        if interrupted:
            _cancel_and_wait(client, group["id"])
            raise typer.Exit(INTERRUPTED)
        if not watch:
            print(json.dumps(group) if as_json else group["id"])
            return
        try:
            group = follow(client, group, quiet=as_json)
        except KeyboardInterrupt:
            group = _cancel_and_wait(client, group["id"])
            if as_json:
                print(json.dumps(group))
            raise typer.Exit(INTERRUPTED) from None
    print(json.dumps(group)) if as_json else show_group(group)
    raise typer.Exit(0 if group["state"] == "done" else 1)


def _create(client: ControllerClient, spec: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """The new group, and whether Ctrl-C was pressed meanwhile: a group that nobody knows of must not come about."""
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        return client.create_group(spec), bool(pressed)
    finally:
        signal.signal(signal.SIGINT, before)


def _cancel_and_wait(client: ControllerClient, group: str) -> dict[str, Any]:
    print(f"datacast: cancelling {group} …", file=sys.stderr)
    record = wait(client, client.cancel_group(group), CANCEL_PATIENCE_S)
    print(f"datacast: {group} is {record['state']}", file=sys.stderr)
    return record


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
        print(json.dumps(rows))
        return
    if not rows:
        print("no groups" + (f" in state {state}" if state else ""))
        return
    table = _table("group", "state", "source", "receivers", "trees", "size", "progress", "file", "error")
    for row in rows:
        table.add_row(
            row["id"],
            row["state"],
            _sources(row),
            f"{row['receivers_done']}/{row['receivers']}",
            str(row["trees"]),
            _size(row["size"]),
            f"{row['fraction']:.0%}",
            row["source_path"],
            (row["error"] or {}).get("message", ""),
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
    print(json.dumps(record)) if as_json else show_group(record)
    if watch and record["state"] != "done":
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
    print(json.dumps(record) if as_json else f"{record['id']} is {record['state']}")
    if to_the_end and record["state"] not in FINAL_STATES:
        raise typer.Exit(1)


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
        print(json.dumps(view))
        return
    nodes = view["nodes"]
    down = [link for link in view["links"] if not link["up"]]
    console = output()
    hosts = [n for n in nodes if n["kind"] == "host"]
    console.print(
        f"{view['spec'] or 'topology'}: {len(hosts)} hosts ({sum(n['registered'] for n in hosts)} with an agent), "
        f"{len(nodes) - len(hosts)} switches, {len(view['links'])} links ({len(down)} down)",
        highlight=False,
    )
    table = _table("node", "kind", "agent", "links up", "alive")
    degree: dict[str, list[int]] = {}
    for link in view["links"]:
        for end in (link["u"], link["v"]):
            count = degree.setdefault(end, [0, 0])
            count[0] += link["up"]
            count[1] += 1
    for node in nodes:
        up, of = degree.get(node["name"], [0, 0])
        table.add_row(
            node["name"],
            node["kind"],
            node["addr"] or ("registered" if node["registered"] else "-"),
            f"{up}/{of}",
            "yes" if node["alive"] else "no",
        )
    console.print(table)
    if plain := [node["name"] for node in nodes if node["kind"] == "switch" and node.get("cache") is False]:
        console.print(f"without a cache appliance: {', '.join(plain)}", highlight=False)
    if links or down:
        table = _table("link", "ports", "rate", "up", "carries (group/tree)")
        for link in view["links"] if links else down:
            table.add_row(
                f"{link['u']} - {link['v']}",
                f"{link['u_port']} - {link['v_port']}",
                _rate(link["rate_bps"]),
                "yes" if link["up"] else "no",
                " ".join(f"{c['from']}→{c['to']} {c['group']}/{c['tree']}" for c in link["carries"]),
            )
        console.print(table)


# ---- showing ----
def _table(*columns: str) -> Any:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column in ("group", "state", "size", "receivers"))
    return table


def _size(value: int | None) -> str:
    if value is None:
        return "-"
    size = float(value)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return ""


def _rate(value: float | None) -> str:
    return "-" if not value else f"{value / 1e6:.1f} Mbit/s"


def appliance_notes(plain: Sequence[str], reactions: Sequence[dict[str, Any]]) -> list[str]:
    """What a person should know of cache appliances that were or are not there."""
    notes = [f"{', '.join(plain)} had no cache appliance: the source sent more"] if plain else []
    for reaction in reactions:
        for node, present in reaction.get("appliances", ()):
            what = "came back" if present else "went away: the source sends more"
            notes.append(f"the cache appliance of {node} {what}")
    return notes


def _sources(group: dict[str, Any]) -> str:
    return ",".join([group["source"], *group.get("other_sources", [])])


def _goes_on(group: dict[str, Any]) -> bool:
    """Whether some of it came, and would be of use to a group that is resumed."""
    code = (group["error"] or {}).get("code")
    if group["state"] not in ("failed", "partial") or group["id"].startswith("s-") or code in ("changed", "digest"):
        return False
    rows = [row for row in group["receivers"].values() if row["state"] == "failed"]
    return any(row.get("fraction", 0) > 0 and (row.get("error") or {}).get("code") != "digest" for row in rows)


def show_group(group: dict[str, Any]) -> None:
    """A group for a person: one line, its receivers, its trees."""
    console = output()
    report = group["report"] or {}
    what = group["source_path"] if "://" in group["source_path"] else f"{_sources(group)}:{group['source_path']}"
    text = f"{group['id']}: {group['state']}, {what} ({_size(group['size'])})"
    if report.get("finish_s") is not None and report.get("start_s") is not None:
        text += f", started in {report['start_s'] * 1000:.0f} ms, finished in {report['finish_s']:.2f} s"
        if report.get("finish_over_ideal") and report["ideal_s"] > 0.1:  # of tiny files it says nothing
            text += f" ({report['finish_over_ideal']:.3f} of the ideal), duplicates {report['duplicate_ratio']:.2%}"
    console.print(text, highlight=False)
    if group["error"]:
        console.print(f"  {group['error']['message']}", highlight=False)
    if _goes_on(group):
        console.print(f"  what came is kept: `datacast resume {group['id']}` goes on from it", highlight=False)
    for text in appliance_notes(
        report.get("plain_branches", ()), report.get("reactions") or group.get("reactions", ())
    ):
        console.print(f"  {text}", highlight=False)
    table = _table("receiver", "state", "progress", "rate", "finish", "sha256", "retransmitted", "error")
    for name, receiver in group["receivers"].items():
        finish = receiver.get("finish_s")
        table.add_row(
            name,
            receiver["state"],
            f"{receiver.get('fraction', 0):.0%}",
            _rate(receiver.get("rate_bps")),
            f"{finish:.2f} s" if finish is not None else "-",
            "ok" if receiver.get("sha256_ok") else "-",
            str(receiver.get("retransmissions", "-")),
            "" if receiver.get("error") == group["error"] else (receiver.get("error") or {}).get("message", ""),
        )
    console.print(table)
    if group.get("sites"):
        table = _table("site", "state", "progress", "rate", "error")
        for name, part in group["sites"].items():
            error = (part["error"] or {}).get("message", "")
            table.add_row(name, part["state"], f"{part['fraction']:.0%}", _rate(part["rate_bps"]), error)
        console.print(table)
    if group["trees"]:
        table = _table("tree", "state", "depth", "links", "rate", "new packets", "duplicates", "retransmitted")
        for name, tree in group["trees"].items():
            table.add_row(
                name,
                tree["state"],
                str(tree["depth"]),
                str(tree["links"]),
                _rate(tree["rate_bps"]),
                str(tree["new_packets"]),
                str(tree["dup_packets"]),
                str(tree["retransmissions"]),
            )
        console.print(table)


def follow(
    client: ControllerClient, group: dict[str, Any], *, quiet: bool, pause: Callable[[float], None] = time.sleep
) -> dict[str, Any]:
    """Until the group has ended, with a bar per receiver on a terminal. A controller that is away for a while (it
    keeps no state) is waited for."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    progress = Progress(
        TextColumn("{task.description:>8}"),
        BarColumn(),
        TextColumn("{task.percentage:>5.1f} %"),
        TextColumn("{task.fields[rate]:>14}"),
        TextColumn("{task.fields[state]}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=quiet or not console.is_terminal,
    )
    rows: dict[str, Any] = {}
    away_since: float | None = None
    said, changes = "", _changes(client, group["id"], pause)
    with progress:
        while group["state"] not in FINAL_STATES:
            if (why := (group.get("error") or {}).get("message") or said) != said and not quiet:
                console.print(f"{group['id']} waits: {why}", markup=False, highlight=False, soft_wrap=True)
            said = why
            for name, receiver in list(group["receivers"].items())[:ROWS_MAX]:
                if name not in rows:
                    rows[name] = progress.add_task(name, total=1.0, rate="", state="")
                progress.update(
                    rows[name],
                    completed=receiver.get("fraction", 0.0),
                    rate=_rate(receiver.get("rate_bps")),
                    state=receiver["state"],
                )
            more = len(group["receivers"]) - ROWS_MAX
            if more > 0:
                rest = list(group["receivers"].values())[ROWS_MAX:]
                if "…" not in rows:
                    rows["…"] = progress.add_task(f"{more} more", total=1.0, rate="", state="")
                progress.update(
                    rows["…"],
                    completed=sum(r.get("fraction", 0.0) for r in rest) / more,
                    state=f"{sum(r['state'] == 'done' for r in rest)} done",
                )
            next(changes)
            try:
                group, away_since = client.group(group["id"]), None
            except Problem as problem:
                away_since = away_since or time.monotonic()
                if problem.status != 503 or time.monotonic() - away_since > 30:
                    raise
    return group


def wait(client: ControllerClient, group: dict[str, Any], patience_s: float) -> dict[str, Any]:
    """The record when the group has ended, or as it is after so long. Events tell when to look."""
    end = time.monotonic() + patience_s
    while group["state"] not in FINAL_STATES and time.monotonic() < end:
        try:
            for event in client.events(group["id"], pings=True):
                if event.get("state") in FINAL_STATES or event["type"] == "groups" or time.monotonic() > end:
                    break
            group = client.group(group["id"])
        except Problem as problem:
            if problem.status != 503:
                raise
            time.sleep(REFRESH_S)  # it is away for a moment: it keeps no state
    return group


def _changes(client: ControllerClient, group: str, pause: Callable[[float], None]) -> Iterator[None]:
    """Yields when the group may be another than before, at most every REFRESH_S while it runs."""
    while True:
        try:
            shown = 0.0
            for event in client.events(group, pings=True):
                if event.get("state") in FINAL_STATES or time.monotonic() - shown >= REFRESH_S:
                    shown = time.monotonic()
                    yield
        except Problem:
            pass  # who asks for the record will hear it
        pause(REFRESH_S)
        yield


__all__ = ["parse_rate", "parse_receivers", "parse_size", "register"]
