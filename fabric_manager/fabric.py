"""The fabric as it stands: the wiring, who is registered, which links are up. Pure: reports in, changes out.

A link carries data when its wiring says up, neither end reports its port down, and both nodes live. A host lives while
its agent is registered (nobody else forwards there or takes part in a group). A switch lives until it registered once
and its connection went away: switches that never register are taken to live, and so are those for which a controller
spoke (`proxy`: Open vSwitch, bmv2), for they forward without it.

Every change gets the next version; a snapshot carries the version up to which it is complete.
"""

from __future__ import annotations

import ipaddress
from collections.abc import MutableMapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from msgspec import structs

from datacast.core import constants
from datacast.services.address import AddressError, host_and_port

from .api import Kind, LinkSpec, NodeSpec
from .api.topology import (
    Change,
    Counted,
    Defaults,
    LinkChange,
    NodeChange,
    NodeState,
    PortState,
    Topology,
    TopologyLink,
    TopologyNode,
)
from .told import NAME_MAX, FabricError, Heartbeat, Registration

if TYPE_CHECKING:
    import networkx as nx


@dataclass
class Port:
    """A data port, as its node told."""

    ifname: str | None = None
    mtu: int | None = None
    reason: str | None = None
    """Why it is down: carrier, silent (no hello comes), unheard (ours do not arrive there)."""
    carried: int | None = None
    """How long a frame came whole from the neighbour lately; None: its hellos do not tell."""


@dataclass
class Node:
    """What is known of a node beyond the wiring."""

    name: str
    kind: Kind
    forwards: bool
    registered: bool = False
    seen: bool = False
    """Registered at least once."""
    session: int | None = None
    addr: str | None = None
    pid: int | None = None
    instance: str | None = None
    """Which run of its process this is."""
    version: str | None = None
    control: str | None = None
    msd: int | None = None
    cache: bool | None = None
    """Can be a waypoint; None: as the topology says."""
    expected: bool = False
    """Taken to live although it has not registered: this process is new, the node perhaps is not; or the node's process
    said that it would be away."""
    away_until_ns: int = 0
    """It said so; its connection may end until then."""
    silent: bool = False
    """Nothing was heard any more, but its connection did not end: hellos of its neighbours tell whether it lives."""
    removed: bool = False
    """Taken away while all runs (wiring.py): its place is kept."""
    drained: str | None = None
    """A switch that no tree is to use, and why: its links count as down, and carry what is still on its way."""
    proxy: bool = False
    """Registered by a controller that speaks for it: when that goes away the switch does not."""
    dest_roots: list[str] = field(default_factory=list)
    source_roots: list[str] = field(default_factory=list)
    disks: list[tuple[int, int]] = field(default_factory=list)
    """Bytes free and bytes in all of each of dest_roots, as the last heartbeat told."""
    clock_ms: float | None = None
    """How far its clock is behind this process's, and the message's way: 2 ms is good, 500 ms is a clock to be set."""
    certificate_until: float | None = None
    """When the certificate ends that it registered with, in seconds since 1970; None: it showed none."""
    last_n: int = -1
    """Number of the last link report."""
    counted: Counted | None = None
    ports_down: set[int] = field(default_factory=set)
    ports: dict[int, Port] = field(default_factory=dict)

    @property
    def alive(self) -> bool:
        if self.removed:
            return False
        held = self.registered or self.expected or self.silent
        return held or (self.kind == "switch" and (not self.seen or self.proxy))


@dataclass(frozen=True)
class Tunnel:
    """One that ends at a node: its port, both addresses, and the MTU that the path must have."""

    port: int
    local: str
    remote: str
    mtu: int


def tunnel_overhead(address: str) -> int:
    """Bytes of the path's MTU that a link over a tunnel lacks: IP, UDP and a label (docs/wire.md)."""
    return (40 if ipaddress.ip_address(address).version == 6 else 20) + 8 + constants.LABEL_LEN


def check_tunnel(u: str, v: str, data: MutableMapping[str, Any], path_mtu: int) -> None:
    """A link with `tunnel` ({node: address}) is one; its MTU, where it says none, is what `path_mtu` leaves."""
    if "tunnel" not in data:
        return
    try:
        ends = {end: ipaddress.ip_address(data["tunnel"][end]) for end in (u, v)}
        good = ends[u].version == ends[v].version and ends[u] != ends[v]
    except (KeyError, TypeError, ValueError):
        good = False
    if not good:
        raise FabricError(
            "bad_topology", f"link {u}-{v}: tunnel must give both nodes an address, two of one family", f"{u}-{v}"
        )
    data["tunnel"] = {end: str(address) for end, address in ends.items()}
    data.setdefault("mtu", path_mtu - tunnel_overhead(data["tunnel"][u]))


class Fabric:
    """Topology and health. `graph`: networkx.Graph with node attributes `kind`, `forwards` (and perhaps `msd`) and edge
    attributes `ports` ({node: port}), `up`, perhaps `rate_bps` and `mtu`."""

    def __init__(
        self, graph: nx.Graph, *, spec: str = "", rate_bps: int | None = None, mtu: int = 1500, queue_packets: int = 100
    ) -> None:
        self.graph = graph
        self.spec = spec
        self.version = 1
        self.defaults = Defaults(rate_bps=rate_bps, mtu=mtu, queue_packets=queue_packets)
        for u, v, data in graph.edges(data=True):
            check_tunnel(u, v, data, mtu)
        self.nodes: dict[str, Node] = {name: self._node(name) for name in graph.nodes}
        self._sessions: dict[int, set[str]] = {}
        """Nodes that each connection has registered."""
        self._edge_at: dict[str, dict[int, tuple[str, str]]] = {}
        """By node and port."""
        self._up: dict[tuple[str, str], bool] = {}
        for u, v, data in graph.edges(data=True):
            key = self._key(u, v)
            self._up[key] = self._computed(u, v)
            for end in (u, v):
                self._edge_at.setdefault(end, {})[int(data["ports"][end])] = key

    def _node(self, name: str) -> Node:
        data = self.graph.nodes[name]
        kind = data["kind"]
        forwards = bool(data.get("forwards", kind == "switch"))
        return Node(name=name, kind=kind, forwards=forwards, msd=data.get("msd"))

    @staticmethod
    def _key(u: str, v: str) -> tuple[str, str]:
        return (u, v) if u <= v else (v, u)

    def _computed(self, u: str, v: str) -> bool:
        data = self.graph.edges[u, v]
        return bool(
            data.get("up", True)
            and self.nodes[u].alive
            and self.nodes[v].alive
            and self.nodes[u].drained is self.nodes[v].drained is None
            and int(data["ports"][u]) not in self.nodes[u].ports_down
            and int(data["ports"][v]) not in self.nodes[v].ports_down
        )

    def link_up(self, u: str, v: str) -> bool:
        return self._up[self._key(u, v)]

    @property
    def links_down(self) -> int:
        """How many carry nothing now, and should."""
        return sum(not up and not self._gone(key) for key, up in self._up.items())

    def _gone(self, ends: tuple[str, str]) -> bool:
        return any(self.nodes[name].removed for name in ends)

    def _refresh(self, edges: list[tuple[str, str]], t_ns: int | None = None) -> list[Change]:
        changes: list[Change] = []
        for u, v in edges:
            key, now_up = self._key(u, v), self._computed(u, v)
            if self._up[key] != now_up:
                self._up[key] = now_up
                self.version += 1
                changes.append(LinkChange(version=self.version, u=u, v=v, up=now_up, t_ns=t_ns))
        return changes

    def _node_change(self, node: Node) -> NodeChange:
        self.version += 1
        return NodeChange(version=self.version, **structs.asdict(self.node(node.name)))

    # ---- nodes come and go (wiring.py) ----
    def numbered(self, name: str, spec: NodeSpec) -> NodeSpec:
        """With every port. Raises FabricError where the fabric has no place for it."""
        if not 0 < len(name) <= NAME_MAX or not name.isprintable() or any(c in name for c in " ,/@:"):
            raise FabricError("bad_name", f"{name!r} is no name of a node: letters, digits, dots and dashes", name)
        free = {link.to: self.graph.degree(link.to) if link.to in self.graph else 0 for link in spec.links}
        links: list[LinkSpec] = []
        for at, link in enumerate(spec.links):
            node = self.nodes.get(link.to)
            if node is None or node.removed or link.to == name:
                raise FabricError("unknown_node", f"the fabric has no node {link.to!r} to link {name} with", link.to)
            if any(link.to == other.to for other in links):
                raise FabricError("bad_topology", f"{name} and {link.to} have one cable at most", link.to)
            if link.port not in (None, at) or link.to_port not in (None, free[link.to]):
                raise FabricError(
                    "bad_port",
                    f"link {name}-{link.to}: the next ports are {at} at {name} and {free[link.to]} at {link.to}",
                    link.to,
                )
            links.append(replace(link, port=at, to_port=free[link.to]))
        return replace(spec, links=links)

    def add(self, name: str, spec: NodeSpec) -> None:
        """As `numbered` has made it. Raises FabricError."""
        spec = self.numbered(name, spec)
        forwards = spec.kind == "switch" or len(spec.links) > 1 if spec.forwards is None else spec.forwards
        self.graph.add_node(name, kind=spec.kind, forwards=forwards)
        self.nodes[name] = self._node(name)
        for link in spec.links:
            given = {key: value for key, value in (("rate_bps", link.rate_bps), ("mtu", link.mtu)) if value}
            self.graph.add_edge(name, link.to, ports={name: link.port, link.to: link.to_port}, up=True, **given)
            for end, port in ((name, link.port), (link.to, link.to_port)):
                self._edge_at.setdefault(end, {})[int(port or 0)] = self._key(name, link.to)
            self._up[self._key(name, link.to)] = self._computed(name, link.to)
        self.version += 1

    def place(self, name: str) -> NodeSpec:
        """What it is and its cables, by its ports."""
        links = [
            LinkSpec(
                to=to,
                port=int(data["ports"][name]),
                to_port=int(data["ports"][to]),
                rate_bps=data.get("rate_bps") or self.defaults.rate_bps,
                mtu=data.get("mtu") or self.defaults.mtu,
            )
            for _, to, data in self.graph.edges(name, data=True)
        ]
        node = self.nodes[name]
        return NodeSpec(kind=node.kind, forwards=node.forwards, links=sorted(links, key=lambda link: link.port or 0))

    def remove(self, name: str, now_ns: int | None) -> list[Change]:
        node = self.nodes[name]
        node.removed, node.registered = True, False  # its process keeps its connection, and may be wanted again
        return [self._node_change(node), *self._refresh(list(self.graph.edges(name)), now_ns)]

    def restore(self, name: str, now_ns: int, anew: bool = True) -> list[Change]:
        """`anew`: that it was seen before says nothing any more."""
        node = self.nodes[name]
        node.removed, node.registered = False, node.session is not None
        node.seen = node.registered or (node.seen and not anew)
        return [self._node_change(node), *self._refresh(list(self.graph.edges(name)), now_ns)]

    def drain(self, name: str, reason: str | None, now_ns: int | None = None) -> list[Change]:
        """A switch that no tree is to use any more, and why; None: trees may use it again."""
        node = self.nodes[name]
        node.drained = reason
        return [self._node_change(node), *self._refresh(list(self.graph.edges(name)), now_ns)]

    # ---- after a restart ----
    def expect_all(self) -> None:
        """Take every host to live for now: groups run, and agents need a moment to find the new process."""
        for node in self.nodes.values():
            node.expected = not node.registered and not node.seen
        self._refresh(list(self.graph.edges))

    def expect_none(self, now_ns: int) -> list[Change]:
        """The moment is over: who has not registered is gone, and is not away by its own word."""
        return self.expect_no_more(list(self.nodes), now_ns)

    def expect_no_more(self, names: list[str], now_ns: int) -> list[Change]:
        """Those of `names` that were expected and have not come, and are not away by their own word, are gone."""
        changes: list[Change] = []
        for node in map(self.nodes.__getitem__, names):
            if node.expected and node.away_until_ns <= now_ns:
                node.expected = False
                if not node.registered:
                    changes.append(self._node_change(node))
                    changes += self._refresh(list(self.graph.edges(node.name)), now_ns)
        return changes

    # ---- reports ----
    def register(
        self, told: Registration, session: int, now_ns: int, certificate_until: float | None = None
    ) -> list[Change]:
        """Of a connection, and when its certificate ends. A switch that a controller speaks for is the next one's once
        that one says so: the switch has chosen it. Returns the changes; raises FabricError when it is refused."""
        node = self.nodes.get(told.node)
        if node is None or node.removed:
            raise FabricError(
                "unknown_node",
                f"the topology {self.spec or ''} has no node {told.node!r}".replace("  ", " "),
                told.node,
            )
        if node.registered and node.session != session and not (told.proxy and node.proxy):
            raise FabricError(
                "duplicate", f"node {node.name} is registered already, by process {node.pid} at {node.addr}", node.name
            )
        if told.kind != node.kind:
            raise FabricError("bad_request", f"node {node.name} is a {node.kind}, not a {told.kind!r}", node.name)
        if node.kind == "host" and not _is_address(told.addr or ""):
            raise FabricError("bad_request", f"node {node.name}: addr must be host:port, not {told.addr!r}", node.name)
        if told.instance is None or told.instance != node.instance:  # another process; its id may be the same
            node.last_n = -1
        node.last_n = max(node.last_n, -1 if told.n is None else told.n)  # `ports` tells what became of it
        node.registered, node.seen, node.silent, node.session = True, True, False, session
        self._sessions.setdefault(session, set()).add(node.name)
        node.addr, node.pid, node.instance = told.addr, told.pid, told.instance
        node.version, node.control = told.version, told.control
        node.msd = node.msd if told.msd is None else told.msd
        node.cache = node.cache if told.cache is None else told.cache
        node.proxy = told.proxy and node.kind == "switch"
        node.dest_roots, node.source_roots = list(told.dest_roots), list(told.source_roots)
        node.ports_down = {port.number for port in told.ports if not port.up}
        known = node.ports
        node.ports = {
            port.number: Port(
                port.ifname,
                port.mtu,
                known[port.number].reason if port.number in known and port.number in node.ports_down else None,
            )
            for port in told.ports
        }
        node.disks, node.clock_ms, node.counted = [], None, None
        node.certificate_until = certificate_until
        return [self._node_change(node), *self._refresh(list(self.graph.edges(node.name)), now_ns)]

    def speaker(self, name: str) -> int | None:
        """The connection that has registered a node; None: none has, or it is gone."""
        node = self.nodes.get(name)
        return node.session if node is not None and node.registered else None

    def disconnect(self, session: int, now_ns: int, silent: bool = False) -> list[Change]:
        """The connection went away: all its nodes are gone until they register again. O(its nodes, and their links):
        thousands go at once where the management network is cut. silent: it did not end, but
        nothing is heard any more. Perhaps only the management network is cut: then the neighbours decide, where all of
        them say hello."""
        changes: list[Change] = []
        for node in map(self.nodes.__getitem__, sorted(self._sessions.pop(session, ()))):
            if node.session != session:
                continue
            node.session = None
            if node.registered:
                node.registered, node.expected = False, now_ns < node.away_until_ns
                node.silent = silent and not node.proxy and self._watched(node)
                changes.append(self._node_change(node))
                changes += self._refresh(list(self.graph.edges(node.name)), now_ns)
        return changes

    def away(self, names: list[str], for_ms: int, now_ns: int) -> None:
        """The process of these nodes is about to start again: they live on for so long."""
        for name in names:
            self.nodes[name].away_until_ns = now_ns + for_ms * 1_000_000

    def away_for(self, names: list[str], now_ns: int) -> int:
        """Nanoseconds."""
        return max((self.nodes[name].away_until_ns - now_ns for name in names if self.nodes[name].expected), default=0)

    def _watched(self, node: Node) -> bool:
        """All its neighbours say hello, and would report it."""
        neighbours = [self.nodes[name] for name in self.graph.neighbors(node.name)]
        return bool(neighbours) and all(other.seen and not other.proxy for other in neighbours)

    def heartbeat(self, names: list[str], told: Heartbeat, now_ns: int) -> None:
        """What the nodes of one process tell with it."""
        for name in names:
            node = self.nodes[name]
            if (own := told.nodes.get(name)) is not None:
                node.counted = own.counted
                for number, port in node.ports.items():
                    port.carried = own.carried.get(str(number))
            if told.t_ns is not None:
                node.clock_ms = round((now_ns - told.t_ns) / 1e6, 1)
            if told.disks is not None:
                node.disks = list(told.disks[: len(node.dest_roots)])

    def link_report(
        self, name: str, port: int, up: bool, n: int, t_ns: int | None, reason: str | None = None
    ) -> list[Change]:
        """Report `n` of a node about one of its ports. An old or repeated number changes nothing."""
        node = self.nodes[name]
        if n <= node.last_n:
            return []
        node.last_n = n
        edge = self._edge_at.get(name, {}).get(port)
        if edge is None:
            raise FabricError("unknown_port", f"node {name} has no link at port {port}", name)
        node.ports.setdefault(port, Port()).reason = None if up else reason
        if up:
            node.ports_down.discard(port)
        else:
            node.ports_down.add(port)
        return self._refresh([edge], t_ns)

    # ---- views ----
    def tunnels(self, name: str) -> list[Tunnel]:
        """Those that end at a node."""
        found = []
        for _, other, data in self.graph.edges(name, data=True):
            if ends := data.get("tunnel"):
                mtu = int(data["mtu"]) + tunnel_overhead(ends[name])
                found.append(Tunnel(int(data["ports"][name]), ends[name], ends[other], mtu))
        return found

    def node(self, name: str) -> NodeState:
        node = self.nodes[name]
        return NodeState(
            name=node.name,
            kind=node.kind,
            forwards=node.forwards,
            alive=node.alive,
            registered=node.registered,
            addr=node.addr,
            pid=node.pid,
            msd=node.msd,
            cache=node.cache,
            control=node.control,
            dest_roots=node.dest_roots,
            removed=node.removed,
            drained=node.drained,
        )

    def snapshot(self) -> Topology:
        """Everything."""
        nodes = []
        for name, data in self.graph.nodes(data=True):
            node = self.nodes[name]
            nodes.append(
                TopologyNode(
                    **structs.asdict(self.node(name)),
                    version=node.version,
                    ports=[PortState(port=number, **vars(port)) for number, port in sorted(node.ports.items())],
                    disks=node.disks,
                    clock_ms=node.clock_ms,
                    certificate_until=node.certificate_until,
                    counted=node.counted,
                    attributes={k: v for k, v in data.items() if k not in ("kind", "forwards", "msd") and _is_json(v)},
                )
            )
        links = [
            TopologyLink(
                u=u,
                v=v,
                u_port=int(data["ports"][u]),
                v_port=int(data["ports"][v]),
                up=self.link_up(u, v),
                rate_bps=data.get("rate_bps") or self.defaults.rate_bps,
                mtu=data.get("mtu") or self.defaults.mtu,
                rates_bps=data.get("rates_bps") or None,
            )
            for u, v, data in self.graph.edges(data=True)
        ]
        return Topology(
            version=self.version,
            spec=self.spec,
            defaults=self.defaults,
            attributes={k: v for k, v in self.graph.graph.items() if _is_json(v)},
            nodes=nodes,
            links=links,
        )

    def there(self) -> Topology:
        """Without what was taken away."""
        whole = self.snapshot()
        nodes = [node for node in whole.nodes if not node.removed]
        links = [link for link in whole.links if not self._gone((link.u, link.v))]
        return structs.replace(whole, nodes=nodes, links=links)

    def members(self) -> list[str]:
        """Hosts with a registered agent, in the topology's order."""
        return [n.name for n in self.nodes.values() if n.kind == "host" and n.registered]


def _is_address(text: str) -> bool:
    try:
        return host_and_port(text)[1] > 0
    except AddressError:
        return False


def _is_json(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(k, str) and _is_json(v) for k, v in value.items())
    if isinstance(value, list | tuple):
        return all(_is_json(v) for v in value)
    return value is None or isinstance(value, str | int | float | bool)
