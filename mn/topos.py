"""Mininet topologies from Datacast's builders, and back: any Mininet network as a graph."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import networkx as nx
from mininet.topo import Topo

from datacast import topologies
from datacast.topologies.spec import BUILDERS

from .links import rate_of, shapes

if TYPE_CHECKING:
    from mininet.link import Intf
    from mininet.node import Node

    from .net import DatacastNet


class GraphTopo(Topo):  # type: ignore[misc]
    """A graph as `datacast.topologies` makes it. Host port p is `<host>-eth<p>`, switch port p is `<switch>-eth<p+1>`,
    as Mininet counts."""

    def __init__(self, graph: nx.Graph, **params: Any) -> None:
        self.graph = graph
        super().__init__(**params)

    def build(self, **link_options: Any) -> None:
        """link_options: for every link, such as bw=10 with TCLink."""
        hosts = set(topologies.hosts(self.graph))
        for name, data in self.graph.nodes(data=True):
            if name in hosts:
                self.addHost(name, forwards=bool(data["forwards"]))
            else:
                self.addSwitch(name)
        for u, v, data in self.graph.edges(data=True):
            first, second = (data["ports"][end] + (end not in hosts) for end in (u, v))
            options = dict(link_options)
            if rates := data.get("rates_bps"):
                options.pop("bw", None)
                options |= {"params1": {"bw": rates[u] / 1e6}, "params2": {"bw": rates[v] / 1e6}}
            elif data.get("rate_bps"):
                options["bw"] = data["rate_bps"] / 1e6
            if data.get("delay_ms"):
                options["delay_ms"] = data["delay_ms"]
            self.addLink(u, v, port1=first, port2=second, **options)


def _built(builder: str, *sizes: int, **link_options: Any) -> GraphTopo:
    return GraphTopo(topologies.parse(f"{builder}:{','.join(map(str, sizes))}"), **link_options)


def _from_file(*path: object, **link_options: Any) -> GraphTopo:
    """`mn` takes a path with commas apart, and makes numbers of digits."""
    name = ",".join(map(str, path))
    if not name:
        raise topologies.FileError("no file is named: give file,PATH", what="file")
    return GraphTopo(topologies.from_file(name), **link_options)


topos = {name: partial(_built, name) for name in BUILDERS} | {"file": _from_file}
"""For `mn --topo bcube,4,1`, and `file,PATH` for GraphML or JSON."""


def data_ports(node: Node) -> list[Intf]:
    """A node's cables, in the order of Mininet's port numbers. Datacast numbers them from 0."""
    return [node.intfs[number] for number in sorted(node.intfs) if node.intfs[number].link is not None]


def graph_of(net: DatacastNet, rate_bps: int) -> nx.Graph:
    """The network as a topology: ports numbered from 0 at each node, rates from `bw` of links, else `rate_bps`.

    Each edge says its interfaces (`interfaces`: {node: (name, MAC)}), at which nodes Mininet shapes it (`shaped`), and
    where its two halves meet, if it has a delay (`inner`).
    What else a GraphTopo's graph says of nodes and links (cache, msd, up, mtu) stays.
    Raises TopologyError for what is none, such as two links between two nodes.
    """
    made = getattr(net.topo, "graph", None)
    if made is None:
        made = nx.Graph(topology="mininet")
    order = [*made.nodes, *(node.name for node in (*net.hosts, *net.switches) if node.name not in made)]
    g = nx.Graph(topology=made.graph["topology"])
    hosts = {host.name for host in net.hosts}
    for name in order:
        node = net[name]
        told = made.nodes[name] if name in made else {}
        if name in hosts:
            forwards = getattr(node, "forwards", None)
            told = {**told, "forwards": len(data_ports(node)) > 1 if forwards is None else bool(forwards)}
        g.add_node(name, **{"forwards": True, **told, "kind": "host" if name in hosts else "switch"})
    number = {intf: i for name in order for i, intf in enumerate(data_ports(net[name]))}
    for link in net.links:
        ends = {intf.node.name: intf for intf in (link.intf1, link.intf2)}
        u, v = link.intf1.node.name, link.intf2.node.name
        if g.has_edge(u, v):
            raise topologies.LinkError(f"parallel links between {u} and {v}: one is supported", what=f"{u}-{v}")
        rates = {name: rate_of(intf) or rate_bps for name, intf in ends.items()}
        told = dict(made.edges[u, v]) if made.has_edge(u, v) else {}
        told.pop("rates_bps", None)
        told |= {"rate_bps": rates[u]} if rates[u] == rates[v] else {"rates_bps": rates}
        told["delay_ms"], told["inner"] = net.long_links.get(link, (0, ()))
        told["ports"] = {name: number[intf] for name, intf in ends.items()}
        told["interfaces"] = {name: (intf.name, intf.MAC()) for name, intf in ends.items()}
        told["shaped"] = {name for name, intf in ends.items() if shapes(intf)}
        g.add_edge(u, v, **told)
    return topologies.validate(g)
