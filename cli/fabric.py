"""The commands about the fabric as a whole: plan, events, hosts, cordons, switches, topology; what has ended."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Annotated, cast

import msgspec
import typer

from datacast.controller.api import DEFAULT_URL, ControllerClient
from datacast.controller.api.records import Event
from datacast.core.lists import few
from datacast.core.quantities import parse_rate, parse_size
from datacast.fabric_manager.api import Delivery, GroupOptions, GroupSpec, PlannerName
from datacast.fabric_manager.api.orders import Ping
from datacast.fabric_manager.api.records import AllGroups, GroupChange, Plan
from datacast.fabric_manager.api.topology import LinkChange, NodeChange, Topology
from datacast.services.problems import Problem

from .arguments import with_receivers
from .connection import Controller, Json, TokenFile, connect
from .following import is_over
from .output import json_text, new_table, output, rate_text, size_text
from .planner import Planner
from .shards import Scatter, Shard, with_shards

AGAIN_S = 0.5
"""Until a stream that has ended is asked for again."""


def register(app: typer.Typer) -> None:
    for name, command in (
        ("plan", plan), ("events", events), ("hosts", hosts), ("cordon", cordon), ("uncordon", uncordon),
        ("drain", drain), ("switches", switches), ("forget", forget), ("topology", topology),
    ):  # fmt: skip
        app.command(name)(command)


CUT_SHOWN = 8
"""Arcs of a cut."""
WANTED_SHOWN = 16
"""Receivers whose ranges are counted."""


def plan(
    source: Annotated[str, typer.Option("--from", metavar="HOST", help="The host that has the file.")],
    to: Annotated[list[str], typer.Option("--to", metavar="HOST,HOST…|all|@SET", help="The receivers.")],
    size: Annotated[str | None, typer.Option(metavar="SIZE", help="Of the file, for the time it takes.")] = None,
    weight: Annotated[int, typer.Option(min=1, max=1000, help="Of its share; 100 is normal.")] = 100,
    background: Annotated[bool, typer.Option("--background", help="Take only what others leave.")] = False,
    rate: Annotated[str | None, typer.Option(metavar="RATE", help="Most that all its trees may send.")] = None,
    delivery: Annotated[str | None, typer.Option(help="stable (where receivers differ) or together.")] = None,
    planner: Planner = None,
    scatter: Scatter = False,
    shard: Shard = None,
    as_json: Json = False,
    controller: Controller = DEFAULT_URL,
    token_file: TokenFile = None,
) -> None:
    """Say what a group would get if it began now: trees, its share of the links, the time. Nothing is started."""
    spec = GroupSpec(
        source=source,
        source_path="/plan",
        weight=weight,
        priority="background" if background else "normal",
        most_bps=parse_rate(rate) if rate else None,
        options=GroupOptions(
            delivery=cast(Delivery | None, delivery or None), planner=cast(PlannerName | None, planner or None)
        ),
    )
    spec = with_shards(with_receivers(spec, to), scatter, shard or [])
    with connect(controller, token_file) as client:
        found = client.plan(spec, parse_size(size) if size else None)
    print(json_text(found)) if as_json else _show_plan(found)


def _show_plan(found: Plan) -> None:
    console = output()
    time_s = f", {found.expected_s:.2f} s" if found.expected_s is not None else ""
    console.print(f"{len(found.receivers)} receivers, {rate_text(found.rate_bps)}{time_s}", highlight=False)
    table = new_table("tree", "links", "depth", "share")
    for number, tree in enumerate(found.trees):
        table.add_row(str(number), str(tree.links), str(tree.depth), rate_text(tree.share_bps))
    console.print(table)
    if found.wanted_bytes:
        wanted = few((f"{name} {size_text(count)}" for name, count in found.wanted_bytes.items()), WANTED_SHOWN)
        console.print(f"wanted: {wanted}", highlight=False)
    gap, cut = found.gap, found.cut
    console.print(
        f"gap {gap.part:.1%}: {gap.receiver} gets less than its bound of {rate_text(found.bound_bps[gap.receiver])}"
        if gap.receiver is not None and gap.part
        else "no gap: no trees could bring more",
        highlight=False,
    )
    if cut:
        shown = few([f"{u}>{v}" for u, v in cut.arcs], CUT_SHOWN, " ")
        console.print(f"the cut: {cut.receiver} has {rate_text(cut.bps)} over {shown}", highlight=False)
    if found.unreachable:
        console.print(f"no path leads to {', '.join(found.unreachable)}", highlight=False)


def events(
    group: Annotated[str | None, typer.Option(metavar="ID", help="Only this group.")] = None,
    as_json: Json = False,
    controller: Controller = DEFAULT_URL,
    token_file: TokenFile = None,
) -> None:
    """Show what happens as it happens: groups, links, hosts. Ctrl-C ends it."""
    with connect(controller, token_file) as client:
        for event in client.events(group):
            print(json_text(event) if as_json else told(event), flush=True)


def told(event: Event) -> str:
    """An event for a person."""
    if isinstance(event, GroupChange):
        return f"group {event.id} {event.state} {event.fraction:.0%}, {rate_text(event.rate_bps)}"
    if isinstance(event, LinkChange):
        return f"link {event.u} - {event.v} {'up' if event.up else 'down'}"
    if isinstance(event, NodeChange):
        return f"node {event.name} {'alive' if event.alive else 'gone'}"
    if isinstance(event, AllGroups):
        return f"{len(event.groups)} groups"
    if isinstance(event, Topology):
        return f"topology {event.spec}, {sum(not link.up for link in event.links)} links down"
    return "the controller is there"


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


Host = Annotated[str, typer.Argument(metavar="HOST|SWITCH", help="As `datacast topology` shows it.")]


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
    controller: Controller = DEFAULT_URL,
    token_file: TokenFile = None,
) -> None:
    """Cordon a host or a switch, and wait until no group runs on it. Exit code 1 when one still does in the end.

    Groups that run on a host are waited for; those whose trees use a switch move away from it.
    """
    end = time.monotonic() + patience
    with connect(controller, token_file) as client:
        switch = _is_switch(client, host)
        client.cordon_switch(host, reason) if switch else client.cordon(host, reason)
        for _ in _ended(client, changes=switch):
            groups = _over(client, host) if switch else _on(client, host)
            if not groups:
                break
            if time.monotonic() > end:
                print(f"still on {host}: {' '.join(groups)}")
                raise typer.Exit(1)
    print(f"no group runs on {host}")


def _on(client: ControllerClient, host: str) -> list[str]:
    return next((row.groups for row in client.hosts() if row.name == host), [])


def _over(client: ControllerClient, switch: str) -> list[str]:
    links = [link for link in client.topology().links if switch in (link.u, link.v)]
    return sorted({entry.group for link in links for entry in link.carries})


def _ended(client: ControllerClient, changes: bool = False) -> Iterator[None]:
    """Yields at once, whenever a group has ended (or says anything: `changes`), and every few seconds."""
    while True:
        yield
        try:
            for event in client.events(pings=True):
                if is_over(event) or isinstance(event, AllGroups | Ping) or changes:
                    yield
        except Problem as problem:
            if problem.status != 503:
                raise
        time.sleep(AGAIN_S)


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
