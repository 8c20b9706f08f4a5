"""The rows of the fault matrix: each fault at the source, a receiver and a branch, on BCube, Torus and Fattree.

Where the branches are comes from the tree engine itself, so that a fault strikes where data flows. Links are slow, so
that a transfer of a few megabytes takes about two seconds and every fault falls into its middle.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from datacast import topologies
from datacast.core.trees import Network

AT, LATER = "600ms", "1500ms"


@dataclass(frozen=True)
class Place:
    """A fabric and a group in it."""

    name: str
    topology: str
    source: str
    receivers: tuple[str, ...]
    size: int
    rate_bps: int


PLACES = {
    place.name: place
    for place in (
        Place("bcube", "bcube:3,1", "00", ("02", "11", "20", "22"), 8 << 20, 16_000_000),
        Place("torus", "torus:3,2", "00", ("01", "12", "21"), 16 << 20, 16_000_000),
        Place("fattree", "fattree:4,2", "000", ("001", "010", "101", "111"), 4 << 20, 16_000_000),
    )
}


@dataclass(frozen=True)
class Row:
    """One transfer with its faults."""

    place: str
    name: str
    faults: tuple[str, ...]
    lost: tuple[str, ...] = ()
    """Receivers that cannot get the file."""
    corrupt: bool = False
    """Blocks must have been found bad."""
    options: dict[str, Any] = field(default_factory=dict)
    larger: int = 1
    """The file so many times as large: a busy machine must not have brought it before the last fault."""
    fast: bool = False
    """Part of `make test`."""

    def __str__(self) -> str:
        return f"{self.place}-{self.name}"


@dataclass(frozen=True)
class Positions:
    """Where a fault makes sense. `cable`: a node and its port."""

    source: str
    receiver: str
    """One that passes nothing on, where there is one."""
    branch_host: str | None
    branch_switch: str | None
    source_cable: str
    receiver_cable: str
    branch_cable: str


def positions(place: Place) -> Positions:
    graph = topologies.parse(place.topology)
    trees = Network(graph).steiner_trees(place.source, list(place.receivers)).trees
    children: dict[str, int] = {}
    passing: set[str] = set()
    arcs = [arc for tree in trees for arc in tree.arcs]
    for tree in trees:
        own: dict[str, int] = {}
        for u, _ in tree.arcs:
            own[u] = own.get(u, 0) + 1
        passing |= set(own)
        for node, count in own.items():
            children[node] = max(children.get(node, 0), count)

    def most(kind: str) -> str | None:
        found = [n for n in children if n != place.source and graph.nodes[n]["kind"] == kind]
        return max(found, key=lambda n: (children[n], n not in place.receivers, n), default=None)

    def cable(u: str, v: str) -> str:
        return f"{u}:{graph.edges[u, v]['ports'][u]}"

    receiver = next((r for r in reversed(place.receivers) if r not in passing), place.receivers[-1])
    branch_host, branch_switch = most("host"), most("switch")
    branch = branch_switch or branch_host
    return Positions(
        place.source,
        receiver,
        branch_host,
        branch_switch,
        next(cable(u, v) for u, v in arcs if u == place.source),
        next(cable(v, u) for u, v in arcs if v == receiver),
        next(cable(u, v) for u, v in reversed(arcs) if u == branch and v != receiver),
    )


def rows_of(place: Place) -> list[Row]:
    at = positions(place)
    one_way_in = place.name == "fattree"
    """A host has one cable: what breaks it for good cuts the host off."""
    rows: list[Row] = []

    def row(name: str, *faults: str, **more: Any) -> None:
        rows.append(Row(place.name, name, faults, **more))

    cables = {"source": at.source_cable, "receiver": at.receiver_cable, "branch": at.branch_cable}
    for where, cable in cables.items():
        alone = one_way_in and where != "branch"
        if not alone:
            row(f"link-{where}", f"link {cable} down at {AT}", fast=place.name != "fattree" and where == "source")
        row(f"link-{where}-back", f"link {cable} down at {AT}, up at {LATER}", fast=alone and where == "source")
        for way in ("both", "in", "out"):
            over = f", off at {LATER}" if alone else ""
            row(f"blackhole-{way}-{where}", f"blackhole {cable} {way} at {AT}{over}")
    if one_way_in:
        row("link-receiver-for-good", f"link {at.receiver_cable} down at {AT}", lost=(at.receiver,), options=SOON)
    if at.branch_switch:
        lone = one_way_in and at.branch_switch.startswith("s0")
        if not lone:
            row("switch-killed", f"kill switch {at.branch_switch} at {AT}", fast=place.name == "bcube")
        row("switch-restarted", f"kill switch {at.branch_switch} at {AT}, restart at {LATER}", fast=lone)
        # Blocks of 90 packets, each fetched again as a whole: one in six is bad, none eight times.
        small = {"block_bytes": 128 << 10}
        row("corrupt", f"corrupt {at.branch_switch} 2e-3", corrupt=True, options=small, fast=place.name == "bcube")
    row("source-restarted", f"kill agent {at.source} at {AT}, restart at {LATER}", fast=place.name == "torus")
    row("receiver-restarted", f"kill agent {at.receiver} at {AT}, restart at {LATER}", fast=place.name == "bcube")
    row("receiver-killed", f"kill agent {at.receiver} at {AT}", lost=(at.receiver,), options=SOON)
    row("source-stopped", f"stop agent {at.source} for 1s at {AT}")
    row("receiver-stopped", f"stop agent {at.receiver} for 1s at {AT}")
    row("receiver-stopped-long", f"stop agent {at.receiver} for 6s at {AT}", fast=place.name == "torus")
    stopped = f"stop agent {at.receiver} at {AT}"
    row("receiver-stopped-for-good", stopped, lost=(at.receiver,), options=SOON, larger=2)
    full = f"fill disk {at.receiver} at {AT}"
    row("receiver-disk-full", full, lost=(at.receiver,), larger=2, fast=place.name == "bcube")
    if at.branch_host:
        member = (at.branch_host,) if at.branch_host in place.receivers else ()
        row("branch-host-killed", f"kill agent {at.branch_host} at {AT}", lost=member, options=SOON)
        row("branch-host-restarted", f"kill agent {at.branch_host} at {AT}, restart at {LATER}")
        row("branch-host-stopped", f"stop agent {at.branch_host} for 1s at {AT}")
    row("master", f"kill master at {AT}", fast=place.name == "fattree")
    row("master-three-times", "kill master at 500ms", "kill master at 1s", f"kill master at {LATER}", larger=2)
    row("fabric-manager", f"kill fabric-manager at {AT}")
    row("controller", f"kill controller at {AT}")
    row("fabric-manager-and-master", f"kill master at {AT}", "kill fabric-manager at 610ms", fast=place.name == "bcube")
    row("management-of-receiver-3s", f"cut management of {at.receiver} for 3s at {AT}")
    row("management-of-receiver-10s", f"cut management of {at.receiver} for 10s at {AT}")
    row("management-of-source-3s", f"cut management of {at.source} for 3s at {AT}")
    row("management-3s", f"cut management for 3s at {AT}", fast=place.name == "torus")
    row("management-10s", f"cut management for 10s at {AT}")
    row("power", f"power loss at {AT}, back at {LATER}", fast=place.name == "fattree")
    return rows


SOON = {"member_timeout_ms": 2000}
"""Give a member up soon, where it cannot come back."""
ROWS = [row for place in PLACES.values() for row in rows_of(place)]
