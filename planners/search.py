"""The trees of the papers' planners, each in what is left of the network."""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterable, Mapping, Sequence

from .model import Arc, Net


def visited(
    net: Net, source: str, left: Mapping[Arc, float], rng: random.Random | None = None
) -> tuple[list[str], dict[str, str]]:
    """Depth first over arcs with room, from the source: nodes in the order of their visit, and each one's parent."""
    order, parent = [], {}
    seen = {source}
    stack = [(source, "")]
    while stack:
        node, before = stack.pop()
        if node in seen and node != source:
            continue
        seen.add(node)
        if before:
            parent[node] = before
        order.append(node)
        if node != source and node not in net.forwards and not (net.overlay and len(net.graph.adj[node]) > 1):
            continue
        peers = [peer for peer in net.neighbours(node) if peer not in seen and left[node, peer] > 0]
        if rng is not None:
            rng.shuffle(peers)
        stack += [(peer, node) for peer in reversed(peers)]
    return order, parent


def depth_first(
    net: Net, source: str, wanted: Sequence[str], left: Mapping[Arc, float], rng: random.Random | None = None
) -> list[Arc]:
    """All wanted receivers that have room towards them. Between hosts a pipeline in the order of the visit; a host that
    the last one has no room to hangs on an earlier one. Over cables the tree of the search, pruned."""
    order, parent = visited(net, source, left, rng)
    need = set(wanted)
    if not net.overlay:
        keep: set[str] = set()
        for name in order:
            while name in need and name != source and name not in keep:
                keep.add(name)
                need.add(parent[name])
                name = parent[name]
        return [(parent[name], name) for name in order if name in keep]
    chain, hops = [source], []
    spent: dict[Arc, int] = {}
    for name in order:
        if name not in need or name == source:
            continue
        for before in reversed(chain):
            path = net.path(before, name)
            if path and all(left[arc] > 0 for arc in path):
                hops.append((before, name))
                for arc in path:
                    spent[arc] = spent.get(arc, 0) + 1
                chain.append(name)
                break
    return hops


def widest(net: Net, source: str, wanted: Sequence[str], left: Mapping[Arc, float], shared: bool) -> list[Arc]:
    """Prim's way: each time the hop with most room from what is reached. Over cables the pruned tree. `shared`: hops of
    the tree itself count (the maximum-bottleneck tree does not know of them, nor does Dijkstra's)."""
    hops: list[Arc] = []
    reached, need = {source}, set(wanted)
    room = dict(left)

    def offers(node: str) -> Iterable[tuple[float, str, str]]:
        others = need - reached if net.overlay else set(net.neighbours(node)) - reached
        for other in others:
            path = net.path(node, other)
            if path:
                yield -min(room[arc] for arc in path), node, other

    heap = list(offers(source))
    heapq.heapify(heap)
    while heap and not need <= reached:
        wide, node, other = heapq.heappop(heap)
        if other in reached or not wide:
            continue
        if shared and (now := -min(room[arc] for arc in net.path(node, other))) != wide:
            heapq.heappush(heap, (now, node, other))
            continue
        reached.add(other)
        hops.append((node, other))
        if shared:
            for arc in net.path(node, other):
                room[arc] /= 2
        if net.overlay or other in net.forwards:
            for offer in offers(other):
                heapq.heappush(heap, offer)
    return hops if net.overlay else pruned(hops, need)


def pruned(hops: list[Arc], need: set[str]) -> list[Arc]:
    """Without those that lead to nobody who needs it."""
    keep = set(need)
    out = []
    for parent, child in reversed(hops):
        if child in keep:
            keep.add(parent)
            out.append((parent, child))
    return out[::-1]


def fair(net: Net, hops: Sequence[Arc], left: Mapping[Arc, float]) -> dict[str, float]:
    """Each child's rate when hops share cables fairly and nobody passes on faster than it receives."""
    paths = {child: net.path(parent, child) for parent, child in hops}
    parent = {child: above for above, child in hops}
    below: dict[str, list[str]] = {}
    for above, child in hops:
        below.setdefault(above, []).append(child)
    users: dict[Arc, set[str]] = {}
    for child, path in paths.items():
        for arc in path:
            users.setdefault(arc, set()).add(child)
    room = dict(left)
    rate: dict[str, float] = {}
    level, open_hops = 0.0, set(paths)
    while open_hops:
        step = min((room[arc] / len(names) for arc, names in users.items() if names), default=0.0)
        level += step
        for arc, names in users.items():
            room[arc] -= step * len(names)
        full = {name for arc, names in users.items() if names and room[arc] <= 1e-9 * left[arc] for name in names}
        if not full:
            break
        queue = list(full)
        while queue:
            name = queue.pop()
            if name not in open_hops:
                continue
            open_hops.discard(name)
            rate[name] = min(level, rate.get(parent[name], level))
            for arc in paths[name]:
                users[arc].discard(name)
            queue += below.get(name, ())
    return rate
