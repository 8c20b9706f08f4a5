"""Small networks where grown trees fall short of a bound: trees by linear programme instead (packing.py), where that
brings receivers their file sooner."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import networkx as nx

from datacast.core.rates import RatedTree, RatedTrees

from .fluid import stages
from .model import Arc
from .packing import ROUNDS, pack

NODES_MAX, RECEIVERS_MAX = 64, 8
"""Receivers that hang on the same links, alike, count once."""
WORK = 15_000_000
"""Steps of a plan's pricing: about 0.1 s."""
SAME = 0.01
"""Differences below this part decide nothing."""

Packing = tuple[tuple[float, frozenset[Arc]], ...]


def packed(
    found: RatedTrees, *, wish: Mapping[str, int] | None = None, together: bool = False, most: int = 64
) -> list[RatedTree]:
    """The engine's trees, or better ones: compared is what each receiver gets of the file per second, stages counted,
    from the one that gets least on. `wish`: no more for a receiver, in bit/s."""
    target = {name: min(bound, (wish or {}).get(name, bound)) for name, bound in found.bound.items() if bound}
    if together and target:
        target = dict.fromkeys(target, min(target.values()))
    if all(found.got[name] >= rate * (1 - SAME) for name, rate in target.items()):
        return found.trees
    graph = nx.DiGraph()
    graph.add_weighted_edges_from(((*arc, rate) for arc, rate in found.arcs().items()), "capacity")
    classes = _alike(graph, target)
    others = {name: like[0] for like in classes for name in like[1:]}
    graph.remove_nodes_from(others)
    graph.remove_nodes_from(set(graph) - {found.source} - nx.descendants(graph, found.source))
    n, k = len(graph), len(classes)
    if n > NODES_MAX or k > RECEIVERS_MAX:
        return found.trees
    rounds = min(ROUNDS, WORK // (n * n * (1 << k) + n * 3**k))
    best, wanted = found.trees, {like[0]: target[like[0]] for like in classes}
    for nested in (False,) if together else (True, False):
        made = pack(graph, found.source, wanted, together=together, nested=nested, rounds=rounds).trees
        for name, rate in wanted.items():
            made = _no_more(made, name, rate if graph.out_degree(name) == 0 else math.inf)
        trees = [_whole(found, rate, arcs, others) for rate, arcs in _in_whole_bits(made, graph)]
        trees = sorted(trees, key=lambda tree: (-tree.rate_bps * len(tree.receivers), tree.arcs))[:most]
        trees = sorted((tree for tree in trees if tree.rate_bps > 0), key=_first)
        if _better(_speeds(trees, target), _speeds(best, target)):
            best = trees
    return best


def _first(tree: RatedTree) -> tuple[int, int]:
    """Trees that reach most are a plan's first."""
    return -len(tree.receivers), -tree.rate_bps


def _alike(graph: nx.DiGraph, target: Mapping[str, int]) -> list[list[str]]:
    """Receivers that pass nothing on, over the same links with the same rates, that want the same."""
    classes: dict[object, list[str]] = defaultdict(list)
    for name, rate in target.items():
        links = frozenset((u, data["capacity"]) for u, _, data in graph.in_edges(name, data=True))
        classes[name if graph.out_degree(name) else (rate, links)].append(name)
    return list(classes.values())


def _no_more(trees: Packing, leaf: str, most: float) -> Packing:
    """Nobody gets more than it wants: a tree ends before a leaf that has enough, or its rate is divided."""
    kept: list[tuple[float, frozenset[Arc]]] = []
    for rate, arcs in trees:
        arc = next((arc for arc in arcs if arc[1] == leaf), None)
        taken = rate if arc is None else min(rate, most)
        if arc is not None:
            most -= taken
        if taken > 0:
            kept.append((taken, arcs))
        if arc is not None and rate > taken and (others := _without(arcs, leaf)):
            kept.append((rate - taken, others))
    return tuple(kept)


def _without(arcs: frozenset[Arc], leaf: str) -> frozenset[Arc]:
    """And without what led to nobody else."""
    above = {child: parent for parent, child in arcs}
    while leaf in above and leaf not in above.values():
        leaf = above.pop(leaf)
    return frozenset((parent, child) for child, parent in above.items())


def _in_whole_bits(trees: Packing, graph: nx.DiGraph) -> list[tuple[int, frozenset[Arc]]]:
    """No arc above its capacity by a bit: the solver's rounding."""
    rates = [int(rate) for rate, _ in trees]
    load: Counter[Arc] = Counter()
    for rate, (_, arcs) in zip(rates, trees, strict=True):
        load.update(dict.fromkeys(arcs, rate))
    for arc in [arc for arc, rate in load.items() if rate > graph.edges[arc]["capacity"]]:
        for i, (_, arcs) in enumerate(trees):
            over = min(load[arc] - graph.edges[arc]["capacity"], rates[i])
            if over > 0 and arc in arcs:
                rates[i] -= over
                load.subtract(dict.fromkeys(arcs, over))
    return [(rate, arcs) for rate, (_, arcs) in zip(rates, trees, strict=True)]


def _whole(found: RatedTrees, rate: int, arcs: frozenset[Arc], others: Mapping[str, str]) -> RatedTree:
    """Parents first, with those that are alike."""
    parent = {child: above for above, child in arcs}
    parent |= {name: parent[like] for name, like in others.items() if like in parent}
    below: dict[str, list[str]] = defaultdict(list)
    for child, above in sorted(parent.items()):
        below[above].append(child)
    order, queue = [], [found.source]
    for node in queue:
        order += [(node, child) for child in below[node]]
        queue += below[node]
    return RatedTree(rate, tuple(order), tuple(name for name in found.receivers if name in parent))


def _speeds(trees: Sequence[RatedTree], target: Mapping[str, int]) -> list[float]:
    size = 1e12
    done = stages(trees, size)
    return sorted(size / done[name] if name in done else 0.0 for name in target)


def _better(ours: list[float], theirs: list[float]) -> bool:
    for one, other in zip(ours, theirs, strict=True):
        if abs(one - other) > SAME * max(one, other):
            return one > other
    return False
