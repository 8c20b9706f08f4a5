"""What is told of the topology: all of it at first, then each change (`GET /events`). A form for each."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from datacast.services import framing
from datacast.services.described import Described

from .orders import Hello, Ping

if TYPE_CHECKING:
    import networkx as nx


Attributes = dict[str, Any]
"""What a topology's builder or file says beside what is known here: JSON of any form."""


class NodeState(Described, msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """How a node is."""

    name: str
    kind: str
    forwards: bool
    alive: bool
    registered: bool
    addr: str | None = None
    """Where its agent takes signalling."""
    pid: int | None = None
    msd: int | None = None
    """The deepest label stack that it can pop from; None: any."""
    cache: bool | None = None
    """Of a switch: an appliance is attached; None: nobody has said."""
    control: str | None = None
    dest_roots: list[str] = []
    """Folders in which its agent receives files."""
    removed: bool = False
    drained: str | None = None
    """Why no tree uses this switch; None: they may."""


class NodeChange(NodeState, frozen=True, kw_only=True, tag_field="type", tag="node"):
    version: int
    """Of the topology, with this change."""
    event: str = ""
    """Which event it is, of its fabric manager."""


class LinkChange(msgspec.Struct, frozen=True, gc=False, kw_only=True, tag_field="type", tag="link"):
    version: int
    event: str = ""
    u: str
    v: str
    up: bool
    t_ns: int | None = None
    """When who saw it says that it was."""


class PortState(Described, msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A data port, as its node told."""

    port: int
    ifname: str | None = None
    mtu: int | None = None
    reason: str | None = None
    """Why it is down: carrier, silent (no hello comes), unheard (ours do not arrive there)."""
    carried: int | None = None
    """How long a frame came whole from the neighbour lately; None: its hellos do not tell."""


class Counted(Described, msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What a node has counted since it began, by its last heartbeat."""

    forwarded: int = 0
    interests: int = 0
    hits: int = 0
    """Interests that its cache answered."""
    trees: int = 0
    bytes: int = 0
    """In its cache now."""
    drop: dict[str, int] = {}
    """Frames by reason."""


class TopologyNode(NodeState, frozen=True, kw_only=True):
    version: str | None = None
    """Of its program."""
    ports: list[PortState] = []
    disks: list[tuple[int, int]] = []
    """Bytes free and in all, of each of dest_roots."""
    clock_ms: float | None = None
    """How far its clock is behind the fabric manager's."""
    certificate_until: float | None = None
    """When it ends, in seconds since 1970."""
    counted: Counted | None = None
    attributes: Attributes = {}


class Defaults(Described, msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Of links that say nothing else."""

    rate_bps: int | None
    mtu: int
    queue_packets: int


class TopologyLink(Described, msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    u: str
    v: str
    u_port: int
    v_port: int
    up: bool
    rate_bps: int | None
    mtu: int | None
    rates_bps: dict[str, int] | None = None
    """By the node that sends, where they differ."""


class Wiring(Described, msgspec.Struct, frozen=True, gc=False, kw_only=True):
    version: int
    """One more with each change."""
    spec: str | None
    defaults: Defaults
    attributes: Attributes
    nodes: list[TopologyNode]


class Topology(Wiring, frozen=True, kw_only=True, tag_field="type", tag="topology"):
    event: str = ""
    links: list[TopologyLink]


class CarriedTree(Described, msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A group's tree on a link, and which way it goes."""

    parent: str = msgspec.field(name="from")
    child: str = msgspec.field(name="to")
    group: str
    tree: int


class LoadedLink(TopologyLink, frozen=True, kw_only=True):
    carries: list[CarriedTree]


class LoadedTopology(Wiring, frozen=True, kw_only=True):
    """What `GET /topology` answers."""

    services: dict[str, str] = {}
    """Versions of the services that have a part in the answer."""
    links: list[LoadedLink]


Change = Topology | NodeChange | LinkChange
AnyEvent = Hello | Ping | Topology | NodeChange | LinkChange
_reader: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)


def read(line: bytes | str) -> AnyEvent:
    """Raises FramingError: it is none of these, or not of its form."""
    return framing.read_json(_reader, line)


def graph_of(topology: Topology) -> nx.Graph:
    """The networkx.Graph of it: node attributes `kind`, `forwards`, `alive`, `addr`, `msd`; edge attributes `ports`
    ({node: port}), `up`, `rate_bps`, `mtu`; graph attributes as the builder set them, and `defaults`. A host that is
    not alive does not forward."""
    import networkx as nx

    graph = nx.Graph()  # and no attributes as arguments: networkx has names of its own for some
    graph.graph.update(topology.attributes)
    graph.graph["defaults"] = structs.asdict(topology.defaults)
    for node in topology.nodes:
        name = sys.intern(node.name)
        graph.add_node(name)
        graph.nodes[name].update(node.attributes, kind=sys.intern(node.kind), forwards=node.forwards)
        update_node(graph, node)
    shared: dict[int | None, int | None] = {}  # most links are alike, and a large fabric has many
    for link in topology.links:
        u, v = sys.intern(link.u), sys.intern(link.v)
        graph.add_edge(
            u,
            v,
            ports={u: link.u_port, v: link.v_port},
            up=link.up,
            rate_bps=shared.setdefault(link.rate_bps, link.rate_bps),
            mtu=shared.setdefault(link.mtu, link.mtu),
            **({"rates_bps": link.rates_bps} if link.rates_bps else {}),
        )
    return graph


def update_node(graph: Any, node: NodeState) -> None:
    """Apply a node's state to graph_of's graph."""
    graph.nodes[node.name].update(alive=node.alive, addr=node.addr, registered=node.registered)
    if node.msd is not None:
        graph.nodes[node.name]["msd"] = node.msd
    if node.cache is not None:
        graph.nodes[node.name]["cache"] = node.cache
