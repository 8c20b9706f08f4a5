"""From a topology to the lab's parts: interfaces, addresses, and which switches share a process. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

from datacast.core.lists import few
from datacast.lab.errors import LabError

if TYPE_CHECKING:
    import networkx as nx

IFNAME_MAX = 15
NODE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,62}")
"""What agents (host_agent/params.c) and switches (SW_NAME_MAX) take for a name, and commands for its beginning."""
PORTS_PER_PROCESS = 32
"""Of several switches together: more in one process would wait for its one core."""
CORES_PER_PROCESS = 4
PORTS_PER_SWITCH = 256
"""DC_NODE_PORTS_MAX of the core."""
MANAGEMENT = ipaddress.IPv4Network("198.18.0.0/15")
SLOT_PREFIX = 20
AGENT_PORT = 7600


MTU_MIN, MTU_MAX = 576, 16000
QUEUE_MIN, QUEUE_MAX = 8, 10000
"""Packets of a port's queue."""
JUMBO = 9000
DELAYED_MAX = 64
"""LINES_MAX of delay.c."""
LINK_BPS_MIN = 8000
"""A slower link takes seconds for a frame: no agent would hear its neighbour."""


def ip_queue(queue_packets: int, mtu: int) -> int:
    """Packets of a queue that has the bytes of one of jumbo frames: at 1,500 bytes a hundred packets are nothing."""
    return max(queue_packets, queue_packets * JUMBO // mtu)


@dataclass(frozen=True)
class Port:
    """A node's end of a cable."""

    node: str
    port: int
    ifname: str
    mac: str
    neighbour: str
    neighbour_port: int
    neighbour_mac: str


@dataclass(frozen=True)
class Cable:
    """Two ports and what shapes them. `rate_bps` 0: unshaped."""

    a: Port
    b: Port
    rate_bps: int
    mtu: int
    queue_packets: int
    up: bool = True
    back_bps: int | None = None
    """From b to a; None: the same."""
    delay_us: int = 0
    """One way, by the delay line (delay.c)."""

    def rate_of(self, port: Port) -> int:
        """What a port sends at most."""
        return self.rate_bps if port == self.a or self.back_bps is None else self.back_bps


@dataclass(frozen=True)
class Machine:
    """A network namespace: one host, or the switches that share a process."""

    name: str
    address: str
    """On the management network."""
    nodes: tuple[str, ...]
    ports: dict[str, tuple[Port, ...]]
    """Per node, by number."""


@dataclass(frozen=True)
class Plan:
    """Everything there is to make."""

    hosts: dict[str, Machine]
    switches: list[Machine]
    cables: list[Cable]
    prefix: int
    root_address: str
    forwards: dict[str, bool] = field(default_factory=dict)

    def machine_of(self, node: str) -> Machine:
        if node in self.hosts:
            return self.hosts[node]
        return next(machine for machine in self.switches if node in machine.nodes)


def interface_name(node: str, index: int, port: int) -> str:
    """`<node>-eth<port>` where that is a legal interface name, else `n<index>+eth<port>`, which is no other node's."""
    name = f"{node}-eth{port}"
    if len(name) <= IFNAME_MAX and re.fullmatch(r"[A-Za-z0-9_.-]+", name):
        return name
    return f"n{index}+eth{port}"


def mac_address(index: int, port: int) -> str:
    """Locally administered: 02:dc, the node's index, the port."""
    digits = f"02dc{index & 0xFFFF:04x}{port & 0xFFFF:04x}"
    return ":".join(digits[i : i + 2] for i in range(0, 12, 2))


def pack(sizes: dict[str, int], most: int = PORTS_PER_PROCESS) -> list[list[str]]:
    """Put nodes with so many ports into as few groups of at most `most` ports as first-fit decreasing finds.

    Names keep their order within a group. A node with more is a group by itself; of 256 there is none: LabError.
    """
    groups: list[tuple[int, list[str]]] = []
    for node in sorted(sizes, key=lambda name: -sizes[name]):
        if sizes[node] > PORTS_PER_SWITCH:
            raise LabError(
                f"switch {node} has {sizes[node]} ports, a switch has {PORTS_PER_SWITCH} at most",
                what=node,
                remedy="use a topology with smaller switches",
            )
        for i, (used, names) in enumerate(groups):
            if used + sizes[node] <= most:
                groups[i] = (used + sizes[node], [*names, node])
                break
        else:
            groups.append((sizes[node], [node]))
    order = {node: i for i, node in enumerate(sizes)}
    return [sorted(names, key=order.__getitem__) for _, names in groups]


def ports_each(sizes: dict[str, int], most: int, cores: int) -> int:
    """Ports of a process where switches of `sizes` ports are shared out: a process per four cores, as hosts want the
    others, with at most `most` ports. A switch is in one of them."""
    even = -(-sum(sizes.values()) // max(1, cores // CORES_PER_PROCESS))
    return min(most, max(even, *sizes.values())) if sizes else most


def make_plan(
    graph: nx.Graph,
    *,
    rate_bps: int,
    mtu: int,
    queue_packets: int = 100,
    slot: int = 0,
    ports_per_process: int = PORTS_PER_PROCESS,
    cores: int = 1,
    apart: tuple[str, ...] = (),
) -> Plan:
    """Lay out the lab for a topology.

    Parameters
    ----------
    graph : networkx.Graph
        Node attributes `kind` ("host" or "switch") and `forwards`; edge attributes `ports` ({node: port number}) and
        perhaps `rate_bps`, `mtu`, `queue_packets`, `up`, which override the parameters, `delay_ms`, and `interfaces`
        ({node: (name, MAC)}) of a network that is there already.
    rate_bps, mtu, queue_packets
        Of every cable, each way. The queue is the paper's 100 packets (section 6.2).
    slot : int
        Which /20 of 198.18.0.0/15 the management network takes.
    cores : int
        Processors to share the switches out over (`ports_each`).
    apart : tuple of str
        Switches that share their process with no other.

    Raises
    ------
    LabError
        Too many nodes for the management network, a switch too large, no hosts, a node without a link, a link too slow,
        a name that no daemon takes.

    Notes
    -----
    O(nodes + cables).
    """
    for name in graph.nodes:
        if not NODE.fullmatch(name):
            remedy = "give 1 to 63 letters, digits or ._-, of which the first is no dot and no dash"
            raise LabError(f"a node cannot be called {name!r} in a lab", what=name, remedy=remedy)
    cables, ports = _cabled(graph, rate_bps, mtu, queue_packets)
    if (lines := sum(cable.delay_us > 0 for cable in cables)) > DELAYED_MAX:
        raise LabError(f"{lines} links have a delay, the delay line takes {DELAYED_MAX}", what="delay_ms")
    hosts = [name for name, data in graph.nodes(data=True) if data["kind"] == "host"]
    switches = [name for name in graph.nodes if name not in set(hosts)]
    if not hosts:
        raise LabError("the topology has no hosts", remedy="give it nodes of kind host")
    if alone := sorted(name for name in graph.nodes if not ports[name]):
        remedy = "give every node an edge, or leave it out"
        raise LabError(f"no link leads to {few(alone, 16)}", what=alone[0], remedy=remedy)
    network = list(MANAGEMENT.subnets(new_prefix=SLOT_PREFIX))[slot]
    sizes = {name: len(ports[name]) for name in switches if name not in apart}
    groups = pack(sizes, ports_each(sizes, ports_per_process, cores))
    groups += [[name] for name in switches if name in apart]
    if len(hosts) + len(groups) + 3 > network.num_addresses:
        raise LabError(f"{len(hosts)} hosts are more than the management network {network} holds")
    address = network.hosts()

    def machine(name: str, nodes: list[str]) -> Machine:
        return Machine(
            name,
            str(next(address)),
            tuple(nodes),
            {node: tuple(ports[node][number] for number in sorted(ports[node])) for node in nodes},
        )

    machines = {name: machine(name, [name]) for name in hosts}
    free = (name for i in count() if (name := f"sw{i}") not in machines)
    groups_machines = [machine(next(free), names) for names in groups]
    root = str(network.broadcast_address - 1)
    forwards = {name: bool(data.get("forwards", data["kind"] == "switch")) for name, data in graph.nodes(data=True)}
    return Plan(machines, groups_machines, cables, SLOT_PREFIX, root, forwards)


def _cabled(
    graph: nx.Graph, rate_bps: int, mtu: int, queue_packets: int
) -> tuple[list[Cable], dict[str, dict[int, Port]]]:
    """The cables, and every node's ports by number. Raises LabError."""
    index = {name: i for i, name in enumerate(graph.nodes)}
    ports: dict[str, dict[int, Port]] = {name: {} for name in graph.nodes}
    cables: list[Cable] = []
    for u, v, data in graph.edges(data=True):
        pu, pv = int(data["ports"][u]), int(data["ports"][v])
        made: dict[str, tuple[str, str]] = data.get("interfaces") or {
            name: (interface_name(name, index[name], port), mac_address(index[name], port))
            for name, port in ((u, pu), (v, pv))
        }
        (name_u, mac_u), (name_v, mac_v) = made[u], made[v]
        a = Port(u, pu, name_u, mac_u, v, pv, mac_v)
        b = Port(v, pv, name_v, mac_v, u, pu, mac_u)
        for port in (a, b):
            if port.port in ports[port.node]:
                raise LabError(
                    f"port {port.port} of {port.node} has two cables",
                    what=port.node,
                    remedy="number the ports of every node once each in the topology",
                )
            ports[port.node][port.port] = port
        cable = Cable(
            a,
            b,
            (data.get("rates_bps") or {}).get(u) or _of(data, "rate_bps", rate_bps),
            _of(data, "mtu", mtu),
            _of(data, "queue_packets", queue_packets),
            bool(data.get("up", True)),
            (data.get("rates_bps") or {}).get(v),
            round(1000 * data.get("delay_ms", 0)),
        )
        for port in (a, b):
            if 0 < (rate := cable.rate_of(port)) < LINK_BPS_MIN:
                raise LabError(
                    f"the link from {port.node} to {port.neighbour} has {rate} bit/s",
                    what=f"{port.node}-{port.neighbour}",
                    remedy=f"rates are in bit/s, and {LINK_BPS_MIN} at least",
                )
        cables.append(cable)
    return cables, ports


def _of(data: Mapping[str, Any], key: str, default: int) -> int:
    value = data.get(key)
    return default if value is None else int(value)
