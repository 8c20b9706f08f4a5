"""Until the core's tree engine is here: edge-disjoint trees by BFS over free arcs, and routes of stops (route.h)."""

from __future__ import annotations

import struct
from collections import deque


def steiner_trees(graph, source, receivers, count=None):
    """Trees as {child: parent}; arcs disjoint per direction."""
    used, trees = set(), []
    wanted = set(receivers)
    for first in graph.adj[source]:
        if count is not None and len(trees) == count:
            break
        # One tree per port of the source.
        if not graph.edges[source, first]["up"]:
            continue
        parent, queue = {source: None, first: source}, deque([first])
        while queue and not wanted <= parent.keys():
            node = queue.popleft()
            if not graph.nodes[node]["forwards"]:
                continue
            for peer in graph.adj[node]:
                if peer not in parent and graph.edges[node, peer]["up"] and (node, peer) not in used:
                    parent[peer] = node
                    queue.append(peer)
        if not wanted <= parent.keys():
            continue
        tree = {}
        for name in receivers:
            while name != source and name not in tree:
                tree[name] = parent[name]
                name = parent[name]
        used |= {(p, c) for c, p in tree.items()}
        trees.append(tree)
    return trees


def routes(graph, tree, source, receivers):
    """{receiver: blob}."""
    children: dict[str, int] = {}
    for parent in tree.values():
        children[parent] = children.get(parent, 0) + 1
    wanted = set(receivers)
    branch = {n for n, c in children.items() if c + (n in wanted) >= 2}

    def port(u, v):
        return graph.edges[u, v]["ports"][u]

    blobs = {}
    for receiver in receivers:
        path = [receiver]
        while path[-1] != source:
            path.append(tree[path[-1]])
        # (node, is endpoint); the receiver's and the source's own nodes are waypoints when they branch.
        stops = [(0, True)]
        for at, node in enumerate(path):
            if node in branch:
                stops.append((at, False))
        stops.append((len(path) - 1, True))
        blob = b""
        for i, (at, endpoint) in enumerate(stops):
            ret, fwd, flags = [], [], 0
            if not endpoint:
                flags |= 1
            if i > 0:
                below, below_end = stops[i - 1]
                ret = [port(path[k], path[k - 1]) for k in range(at, below, -1)]
                flags |= 0 if below_end else 4
            if i + 1 < len(stops):
                above, above_end = stops[i + 1]
                fwd = [port(path[k], path[k + 1]) for k in range(at, above)]
                flags |= 0 if above_end else 2
            blob += struct.pack(f"!BBBB{len(ret)}H{len(fwd)}H", flags, len(ret), len(fwd), 0, *ret, *fwd)
        blobs[receiver] = blob
    return blobs
