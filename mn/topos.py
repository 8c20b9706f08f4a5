"""Mininet topologies from Datacast's builders, and back: any Mininet network as a graph."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import networkx as nx
from mininet.topo import Topo

from datacast import topologies
from datacast.topologies.spec import BUILDERS

if TYPE_CHECKING:
    from mininet.link import Intf
    from mininet.net import Mininet
    from mininet.node import Node


class GraphTopo(Topo):
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
            if data.get("rate_bps"):
                options["bw"] = data["rate_bps"] / 1e6
            self.addLink(u, v, port1=first, port2=second, **options)


def _built(builder: str, *sizes: int, **link_options: Any) -> GraphTopo:
    return GraphTopo(topologies.parse(f"{builder}:{','.join(map(str, sizes))}"), **link_options)


def _from_file(path: str, **link_options: Any) -> GraphTopo:
    return GraphTopo(topologies.from_file(path), **link_options)


topos = {name: partial(_built, name) for name in BUILDERS} | {"file": _from_file}
"""For `mn --topo bcube,4,1`, and `file,PATH` for GraphML or JSON."""


def data_ports(node: Node) -> list[Intf]:
    """A node's cables, in the order of Mininet's port numbers. Datacast numbers them from 0."""
    return [node.intfs[number] for number in sorted(node.intfs) if node.intfs[number].link is not None]


def graph_of(net: Mininet, rate_bps: int) -> nx.Graph:
    """The network as a topology: ports numbered from 0 at each node, rates from TCLink's `bw`, else `rate_bps`.

    Each edge says its interfaces (`interfaces`: {node: (name, MAC)}) and whether Mininet shapes it (`shaped`).
    Raises TopologyError for what is none, such as two links between two nodes.
    """
    made = getattr(net.topo, "graph", None)
    order = list(made.nodes) if made is not None else [node.name for node in (*net.hosts, *net.switches)]
    g = nx.Graph(topology=made.graph["topology"] if made is not None else "mininet")
    hosts = {host.name for host in net.hosts}
    for name in order:
        node = net[name]
        if name in hosts:
            forwards = getattr(node, "forwards", None)
            g.add_node(name, kind="host", forwards=len(data_ports(node)) > 1 if forwards is None else bool(forwards))
        else:
            g.add_node(name, kind="switch", forwards=True)
    number = {intf: i for name in order for i, intf in enumerate(data_ports(net[name]))}
    for link in net.links:
        ends = (link.intf1, link.intf2)
        u, v = (intf.node.name for intf in ends)
        if g.has_edge(u, v):
            raise topologies.LinkError(f"parallel links between {u} and {v}: one is supported", what=f"{u}-{v}")
        rates = [float(bw) for intf in ends if (bw := intf.params.get("bw"))]
        g.add_edge(
            u,
            v,
            ports={intf.node.name: number[intf] for intf in ends},
            rate_bps=int(min(rates) * 1e6) if rates else rate_bps,
            interfaces={intf.node.name: (intf.name, intf.MAC()) for intf in ends},
            shaped=bool(rates) and all(hasattr(intf, "bwCmds") for intf in ends),
        )
    return topologies.validate(g)
