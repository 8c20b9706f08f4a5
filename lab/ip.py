"""`--dataplane ip`: plain Linux routers in place of the switches, and no Datacast in the network at all.

Every cable is a small IP network, every switch a router with static routes over all shortest paths. The fabric manager
is given another topology than the cables': hosts joined by tunnels (MPLS in UDP), which it gives out to the agents.

An *island* is a set of routers that reach each other; a host has one address in an island for each cable into it. The
addresses of an island are joined to a ring, in the order of their routers: a ring has two edge-disjoint trees from any
of its hosts, and crosses the cables between two routers as rarely as can be. A tunnel may use the part of its cable
that is its own: half, where two share it; and of each cable between routers under it likewise.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import networkx as nx

from datacast.lab.counters import NodeCounters
from datacast.lab.dataplane import DataPlane
from datacast.lab.errors import LabError
from datacast.lab.plan import PORTS_PER_PROCESS, Machine, Plan

if TYPE_CHECKING:
    from datacast.lab.lab import Lab

NETWORK = 10 << 24 | 128 << 16
"""10.128.0.0: four addresses for each cable."""
TABLE = 100
"""Routing tables from here on: one for each address of a host."""
READY_S = 30.0


def address(cable: int, end: int) -> str:
    value = NETWORK + 4 * cable + 1 + end
    return ".".join(str(value >> shift & 255) for shift in (24, 16, 8, 0))


@dataclass(frozen=True)
class Attachment:
    """A host's cable to a router."""

    host: str
    router: str
    address: str
    gate: str
    rate_bps: int


def attachments(plan: Plan) -> list[Attachment]:
    """In the order of the cables that are up. Raises LabError for one between hosts: those would have to be routers."""
    found = []
    for i, cable in enumerate(plan.cables):
        if not cable.up:
            continue
        ends = [(cable.a.node, address(i, 0)), (cable.b.node, address(i, 1))]
        hosts = [end for end in ends if end[0] in plan.hosts]
        if len(hosts) == 2:
            raise LabError(
                f"{cable.a.node} and {cable.b.node} are hosts on one cable, and no router is between them",
                what=f"{cable.a.node}-{cable.b.node}",
                remedy="--dataplane ip needs a topology in which switches join the hosts, such as leafspine or fattree",
            )
        for host, own in hosts:
            router, gate = next(end for end in ends if end[0] != host)
            found.append(Attachment(host, router, own, gate, cable.rate_bps))
    return found


def rings(plan: Plan, routers: nx.Graph) -> list[list[Attachment]]:
    """The attachments of each island, in the order in which a walk over its routers meets them."""
    at: dict[str, list[Attachment]] = {}
    for one in attachments(plan):
        at.setdefault(one.router, []).append(one)
    found = []
    for island in nx.connected_components(routers):
        first = next(name for name in routers if name in island)
        ring = [one for name in nx.dfs_preorder_nodes(routers, first) for one in at.get(name, [])]
        found.append(ring)
    return found


def _cables(plan: Plan, routers: nx.Graph, a: Attachment, b: Attachment) -> dict[frozenset[str], int]:
    """The cables between routers under a tunnel, with their rates; of several shortest ways, one."""
    rates = {frozenset((cable.a.node, cable.b.node)): cable.rate_bps for cable in plan.cables}
    return {frozenset(pair): rates[frozenset(pair)] for pair in pairwise(nx.shortest_path(routers, a.router, b.router))}


def overlay(plan: Plan, routers: nx.Graph, members: list[str] | None = None) -> nx.Graph:
    """Hosts and tunnels, as the fabric manager reads it. Two hosts have one tunnel at most. `members`: these alone."""
    graph = nx.Graph(name="tunnels")
    hosts = list(plan.hosts) if members is None else members
    for host in hosts:
        graph.add_node(host, kind="host", forwards=True)
    for island in rings(plan, routers):
        ring = [one for one in island if one.host in graph]
        pairs = list(zip(ring, ring[1:] + ring[:1], strict=True)) if len(ring) > 2 else [tuple(ring)][: len(ring) - 1]
        share: dict[str, int] = {}
        kept = []
        for a, b in pairs:
            if a.host != b.host and not graph.has_edge(a.host, b.host):
                graph.add_edge(a.host, b.host, tunnel={a.host: a.address, b.host: b.address})
                kept.append((a, b))
                for end in (a, b):
                    share[end.address] = share.get(end.address, 0) + 1
        under = {(a.host, b.host): _cables(plan, routers, a, b) for a, b in kept}
        loads = Counter(pair for pairs in under.values() for pair in pairs)
        for a, b in kept:
            rates = [end.rate_bps // share[end.address] for end in (a, b) if end.rate_bps]
            rates += [rate // loads[pair] for pair, rate in under[a.host, b.host].items() if rate]
            if rates:
                graph.edges[a.host, b.host]["rate_bps"] = min(rates)
    for host in hosts:
        for number, other in enumerate(graph[host]):
            graph.edges[host, other].setdefault("ports", {})[host] = number
    return graph


def addresses_script(plan: Plan, node: str) -> str:
    lines = []
    for i, cable in enumerate(plan.cables):
        for end, port in enumerate((cable.a, cable.b)):
            if port.node == node:
                lines.append(f"ip addr add {address(i, end)}/30 dev {port.ifname}\n")
    return "".join(lines)


FORWARD = "echo 1 >/proc/sys/net/ipv4/ip_forward\necho 1 >/proc/sys/net/ipv4/fib_multipath_hash_policy\n"


def router_routes(plan: Plan, routers: nx.Graph, name: str) -> str:
    """For each host's address all next hops on shortest paths; one of them where not all can be had."""
    lines = []
    gates: dict[str, list[str]] = {}
    for i, cable in enumerate(plan.cables):
        for end, (port, other) in enumerate(((cable.a, cable.b), (cable.b, cable.a))):
            if port.node == name and cable.up:
                gates.setdefault(other.node, []).append(address(i, 1 - end))
    far: dict[str, dict[str, int]] = {}
    for one in attachments(plan):
        if one.router not in far:
            far[one.router] = nx.single_source_shortest_path_length(routers, one.router)
        hop_count = far[one.router]
        if not hop_count.get(name):  # it hangs here, or where no way leads
            continue
        hops = sorted(hop for hop in routers[name] if hop_count[hop] < hop_count[name])
        ways = [f"nexthop via {gate}" for hop in hops for gate in gates[hop]]
        choices = [" ".join(ways), *(ways if len(ways) > 1 else [])]
        lines.append(" || ".join(f"ip route replace {one.address}/32 {choice}" for choice in choices))
    return "".join(f"{line}\n" for line in lines)


def host_routes(plan: Plan, host: str) -> str:
    """What leaves from an address leaves by its cable."""
    own = [one for one in attachments(plan) if one.host == host]
    lines = [f"ip route replace default via {one.gate} table {TABLE + number}\n" for number, one in enumerate(own)]
    # to look a way up before an address is chosen
    return "".join(lines) + (f"ip route replace default via {own[0].gate}\n" if own else "")


def host_rules(plan: Plan, host: str) -> str:
    own = [one for one in attachments(plan) if one.host == host]
    return "".join(f"ip rule add from {one.address} lookup {TABLE + number}\n" for number, one in enumerate(own))


class IpPlane(DataPlane):
    """Linux routes between the hosts' tunnels."""

    name = "ip"
    ports_per_machine = PORTS_PER_PROCESS
    ip = lone = True

    def routers(self, lab: Lab) -> nx.Graph:
        """And their cables that are up: the kernel takes no route over others."""
        switches = lab.graph.subgraph([name for name, data in lab.graph.nodes(data=True) if data["kind"] == "switch"])
        return nx.subgraph_view(switches, filter_edge=lambda u, v: bool(switches.edges[u, v].get("up", True)))

    def apart(self, lab: Lab) -> tuple[str, ...]:
        return tuple(self.routers(lab))  # a namespace has one routing table

    def topology(self, lab: Lab) -> str:
        from datacast.topologies import files

        path = Path(lab.run_folder) / "tunnels.json"
        path.write_text(json.dumps(files.to_json(overlay(lab.plan, self.routers(lab)))))
        return str(path)

    def agent_options(self, lab: Lab, host: str) -> list[str]:
        graph = overlay(lab.plan, self.routers(lab))
        return ["--tunnel-slots", str(max(1, graph.degree(host)))]

    def start(self, lab: Lab, machine: Machine) -> None:
        for node in machine.nodes:
            lab.network.script(machine.name, FORWARD + addresses_script(lab.plan, node))
            lab.network.route(machine.name, router_routes(lab.plan, self.routers(lab), node))

    def start_host(self, lab: Lab, host: str) -> None:
        lab.network.script(host, addresses_script(lab.plan, host) + host_rules(lab.plan, host))
        lab.network.route(host, host_routes(lab.plan, host))

    def ready(self, lab: Lab) -> None:
        """Every tunnel leads somewhere: both ends heard the other's hello."""
        lab.progress("tunnels")

        def up() -> bool:
            return all(link.up for link in lab.topology().links)

        lab.supervisor.wait(up, READY_S, "tunnels between all hosts")

    def counters(self, lab: Lab, machine: Machine) -> dict[str, NodeCounters]:
        return {}
