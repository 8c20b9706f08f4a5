"""Networks and trees of the experiments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import networkx as nx

from datacast.core import trees as engine
from datacast.core.routes import Routes, routes

from .errors import ExperimentError

Arcs = list[tuple[str, str]]
"""A tree as (child, parent) pairs."""

FIGURE10_RECEIVERS = ["02", "10", "21", "23", "31", "33"]

FIGURE10_TREE: Arcs = [
    ("s0.0", "00"),
    ("01", "s0.0"),
    ("02", "s0.0"),
    ("03", "s0.0"),
    ("s1.1", "01"),
    ("11", "s1.1"),
    ("21", "s1.1"),
    ("31", "s1.1"),
    ("s0.1", "11"),
    ("10", "s0.1"),
    ("s1.3", "03"),
    ("23", "s1.3"),
    ("33", "s1.3"),
]
"""The tree of the paper's Figure 10(a) in a BCube(4,1)."""


def shortest_path_tree(g: nx.Graph, source: str, receivers: Sequence[str]) -> Arcs:
    """One tree of shortest paths (BFS in the order of names), pruned to the receivers. Hosts that do not forward carry
    nothing for others. O(nodes + links)."""
    parent: dict[str, str] = {source: ""}
    queue = [source]
    for node in queue:
        if node != source and not g.nodes[node]["forwards"]:
            continue
        for peer in sorted(g.adj[node]):
            if peer not in parent and g.edges[node, peer].get("up", True):
                parent[peer] = node
                queue.append(peer)
    arcs: dict[str, str] = {}
    for receiver in receivers:
        if receiver not in parent:
            raise ExperimentError(f"{receiver} cannot be reached from {source}", what=receiver)
        node = receiver
        while node != source and node not in arcs:
            arcs[node] = parent[node]
            node = parent[node]
    return list(arcs.items())


def path(arcs: Arcs, receiver: str) -> list[str]:
    """The vertices from the source to a receiver."""
    parent = dict(arcs)
    out = [receiver]
    while out[-1] in parent:
        out.append(parent[out[-1]])
    return out[::-1]


def steiner_trees(g: nx.Graph, source: str, receivers: Sequence[str], most: int = 0) -> tuple[list[Arcs], list[Routes]]:
    """Edge-disjoint Steiner trees and their routes, from the core's tree engine (the paper's Figure 3). At most `most`
    trees unless it is 0."""
    found = engine.steiner_trees(g, source, receivers, most or None)
    return [[(child, parent) for parent, child in tree.arcs] for tree in found], routes(found)


CLUSTERS = {"A": (59, 900, 1000), "B": (9, 900, 400), "C": (35, 900, 1000), "D": (2, 100, 100)}
"""Takahashi and others, 4.2: hosts with 105 destinations, Mbit/s of a host's link, of the cluster's link to the middle.
The rates of their Figure 8 are not in its text: these are ours."""
TABLE1 = {
    105: {"A": 59, "B": 9, "C": 35, "D": 2},
    47: {"A": 30, "B": 1, "C": 16, "D": 1},
    10: {"A": 6, "B": 1, "C": 2, "D": 1},
}
MBIT = 1_000_000


def rated_graph(links: Sequence[tuple[str, str, int, int]]) -> nx.Graph:
    """(u, v, Mbit/s from u to v, back); names of switches begin with s."""
    g = nx.Graph()
    ports: Counter[str] = Counter()
    for u, v, there, back in links:
        rates = {u: there * MBIT, v: back * MBIT}
        g.add_edge(u, v, rates_bps=rates, rate_bps=min(rates.values()), ports={u: ports[u], v: ports[v]}, up=True)
        ports.update([u, v])
    for name, data in g.nodes(data=True):
        data |= {"kind": "switch" if name[0] == "s" else "host", "forwards": name[0] == "s"}
    return g


def clusters(hosts: dict[str, int], further: Sequence[tuple[str, str, int, int]] = ()) -> tuple[nx.Graph, list[str]]:
    """The four clusters and their hosts, the source first. `further`: links beside them."""
    links, names = [], []
    for cluster, count in hosts.items():
        _, own, up = CLUSTERS[cluster]
        links.append(("s-middle", f"s-{cluster}", up, up))
        for i in range(count + (cluster == "A")):  # the source is one more of A
            links.append((f"s-{cluster}", f"{cluster}{i}", own, own))
            names.append(f"{cluster}{i}")
    return rated_graph([*links, *further]), names
