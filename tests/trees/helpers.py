"""What must hold of every set of trees and of every route, checked without the engine; failures and groups by seed."""

from __future__ import annotations

import random

import networkx as nx

from datacast import topologies
from datacast.core.trees import TreeSet
from datacast.core.wire import decode_route


def break_links(g: nx.Graph, rate: float, seed: int) -> list[tuple[str, str]]:
    """Take a share of the links down."""
    links = list(g.edges)
    down = random.Random(seed).sample(links, round(rate * len(links)))
    for u, v in down:
        g.edges[u, v]["up"] = False
    return down


def group(g: nx.Graph, receivers: int, seed: int) -> tuple[str, list[str]]:
    members = random.Random(seed).sample(topologies.hosts(g), receivers + 1)
    return members[0], members[1:]


def digraph(g: nx.Graph, source: str) -> nx.DiGraph:
    """Arcs that a tree may use, with capacity 1."""
    d = nx.DiGraph()
    d.add_nodes_from(g)
    for u, v, data in g.edges(data=True):
        if data.get("up", True):
            for a, b in ((u, v), (v, u)):
                if a == source or g.nodes[a]["forwards"]:
                    d.add_edge(a, b, capacity=1)
    return d


def max_flow(g: nx.Graph, source: str, receivers: list[str]) -> int:
    d = digraph(g, source)
    return min(int(nx.maximum_flow_value(d, source, r)) for r in receivers)


def check_trees(g: nx.Graph, found: TreeSet, source: str, receivers: list[str]) -> None:
    """Arcs exist and are up, no arc in two trees, every receiver joined, no cycles, pruned, leaves stay leaves."""
    used: set[tuple[str, str]] = set()
    for tree in found.trees:
        parent = tree.parent
        assert len(parent) == len(tree.arcs), "a node is entered twice"
        assert source not in parent
        for u, v in tree.arcs:
            assert g.has_edge(u, v), f"no link {u}-{v}"
            assert g.edges[u, v].get("up", True), f"{u}-{v} is down"
            assert (u, v) not in used, f"arc {u}->{v} in two trees"
            used.add((u, v))
            assert u == source or g.nodes[u]["forwards"], f"{u} does not forward"
        depth = 0
        for r in receivers:
            steps, at = 0, r
            while at != source:
                assert at in parent, f"{r} does not lead to the source in tree {tree.id}"
                at = parent[at]
                steps += 1
                assert steps <= len(parent), "a cycle"
            depth = max(depth, steps)
        assert depth == tree.depth
        inner = set(parent.values())
        for leaf in set(parent) - inner:
            assert leaf in set(receivers), f"leaf {leaf} is no receiver"
        seen = {source}
        for u, v in tree.arcs:
            assert u in seen, "a child before its parent"
            seen.add(v)


def check_routes(g: nx.Graph, found: TreeSet, routes, source: str, receivers: list[str]) -> None:
    """Follow every route port by port: there, back, along the tree, with label stacks that each node can handle."""
    peers = {u: {d["ports"][u]: v for v, d in g.adj[u].items()} for u in g}
    cache = {u: u == source or (data["forwards"] and data.get("cache", True)) for u, data in g.nodes(data=True)}
    assert [r.tree for r in routes] == found.ids
    for tree, tree_routes in zip(found.trees, routes, strict=True):
        parent = tree.parent
        consumers: dict[str, int] = dict.fromkeys(receivers, 1)
        for u, v in reversed(tree.arcs):  # children before parents
            here = consumers[v]
            consumers[u] = consumers.get(u, 0) + (1 if cache[v] else here)
        assert set(tree_routes.blobs) == set(receivers)
        deepest = 0
        for r in receivers:
            stops = decode_route(tree_routes.blobs[r])
            path, at = [r], r
            while at != source:
                at = parent[at]
                path.append(at)
            node, walked, stores = r, [r], set()
            for i, stop in enumerate(stops):
                assert bool(stop.store) <= (cache[node] and consumers.get(node, 0) >= 2)
                if stop.store:
                    stores.add(node)
                if i and 0 < i < len(stops) - 1:
                    assert cache[node], f"{node} cannot be a waypoint"
                if i + 1 == len(stops):
                    break
                lower, below = node, [node]
                assert len(stop.fwd.ports) + stop.fwd.local <= (g.nodes[node].get("msd") or 10**6), (
                    "an appliance's first label"
                )
                for k, port in enumerate(stop.fwd.ports):
                    node = peers[node][port]
                    walked.append(node)
                    below.append(node)
                    left = len(stop.fwd.ports) - 1 - k + stop.fwd.local
                    assert left <= (g.nodes[node].get("msd") or 10**6)
                back = stops[i + 1].ret
                # A cache appliance's frames come to its switch with the first port's label still on.
                for own, seg in ((lower, stop.fwd), (node, back)):
                    assert len(seg.ports) + seg.local <= (g.nodes[own].get("msd") or 10**6)
                at = node
                assert len(back.ports) + back.local <= (g.nodes[at].get("msd") or 10**6)
                for k, port in enumerate(back.ports):
                    at = peers[at][port]
                    assert at == below[-2 - k]
                    assert len(back.ports) - 1 - k + back.local <= (g.nodes[at].get("msd") or 10**6)
                assert at == lower
                assert back.local == (i > 0), "only the receiver itself is an endpoint"
                deepest = max(deepest, len(back.labels()) if back.ports else 0)
            assert walked == path
            for v in path:
                assert consumers[v] < 2 or not cache[v] or v in stores, f"branch node {v} does not store"
        assert deepest <= tree_routes.labels
