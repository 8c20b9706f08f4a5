"""What a group of a fabric gets: trees with rates where its receivers differ, or one rate for all. The one place where
that is decided: the master plans by it, and a dry run tells it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import networkx as nx

from datacast.core.rates import RatedTree, arc_rates, rated_trees
from datacast.core.trees import Network

from .model import PlannerError, cables
from .names import plan
from .small import packed

TREES_MAX = 12
"""Of one plan: each costs every member a stream, and like receivers share a level."""
LEAST_SHARE = 0.002
"""A tree that carries less than this share of its group's rate is not worth a stream."""
SAME = 0.99
"""Rates that differ by less are the same: small trees are left out of a plan, and rates are whole numbers."""


@dataclass(frozen=True)
class Delivery:
    """Trees by rate, what each receiver gets and could get, in bit/s."""

    trees: tuple[RatedTree, ...]
    got: dict[str, int]
    bound: dict[str, int]

    @property
    def differ(self) -> bool:
        return differ(self.got.values())


@dataclass(frozen=True)
class Gap:
    """The part that the receiver farthest from its bound lacks of it; 0, and no receiver: no plan can be better for
    anybody. Where hosts pass nothing on, or one tree has to serve several, the bound itself may be beyond reach."""

    part: float
    receiver: str | None


def gap(got: Mapping[str, float], bound: Mapping[str, int]) -> Gap:
    """`got` and `bound` in bit/s. Rates are whole numbers: what a bit per second makes is no gap."""
    short = {name: 1.0 - got[name] / most for name, most in bound.items() if bound[name] - got[name] > 1}
    name = max(short, key=lambda name: short[name], default=None)
    return Gap(round(short[name], 6) if name is not None else 0.0, name)


def differ(rates: Iterable[float]) -> bool:
    """Do the receivers that are reached get different rates?"""
    reached = [rate for rate in rates if rate]
    return bool(reached) and min(reached) < SAME * max(reached)


def rates_of(graph: nx.Graph, default: int, down: bool = False) -> set[int]:
    """The different rates of links that are up, or (`down`) of all."""
    return {
        rate
        for _, _, data in graph.edges(data=True)
        if down or data.get("up", True)
        for rate in (data.get("rates_bps") or {"": data.get("rate_bps") or default}).values()
    }


def might_differ(graph: nx.Graph, receivers: Sequence[str], default: int) -> bool:
    """Might these receivers get different rates? The quick question: are there links of different rates at all (the
    graph may say itself that there are none: `one_rate`), or receivers with different numbers of links?"""
    if not graph.graph.get("one_rate") and len(rates_of(graph, default)) > 1:
        return True
    links = {sum(data.get("up", True) for data in graph.adj[name].values()) for name in receivers if name in graph}
    return len(links) > 1


def unequal(
    graph: nx.Graph,
    source: str,
    receivers: Sequence[str],
    *,
    delivery: str | None,
    planner: str | None,
    default: int,
    most: int | None = None,
    network: Network | None = None,
) -> Delivery | None:
    """Trees with rates for a group that asks for them, or whose receivers differ; None: one rate for all.
    Raises TreeError, PlannerError."""
    chosen = delivery == "stable" or planner is not None
    if delivery == "together" or (not chosen and not might_differ(graph, receivers, default)):
        return None
    found = deliver(graph, network or Network(graph), source, receivers, default=default, most=most, planner=planner)
    return found if chosen or found.differ else None


def deliver(
    graph: nx.Graph,
    network: Network,
    source: str,
    receivers: Sequence[str],
    *,
    default: int,
    most: int | None = None,
    caps: Mapping[str, int] | None = None,
    narrow: Mapping[tuple[str, str], int] | None = None,
    planner: str | None = None,
    together: bool = False,
) -> Delivery:
    """Trees with rates. `caps`: what receivers were seen to take, in bit/s; `narrow`: what links were. `together`: each
    tree for all, one rate for everybody. `planner`: not the core. Raises TreeError, PlannerError."""
    capacity = arc_rates(network, graph, caps=narrow, default=default)
    most = min(most or TREES_MAX, TREES_MAX)
    found = rated_trees(network, source, receivers, capacity, most=most, wish=caps or None, together=together)
    if planner in (None, "datacast"):
        trees = packed(found, wish=caps, together=together, most=most)
    else:
        reached = [name for name in receivers if found.bound[name]]  # most of them serve all or nobody
        trees = _planned(graph, source, reached, planner, default, most)
    total = sum(tree.rate_bps for tree in trees)
    kept = [tree for tree in trees if tree.rate_bps >= LEAST_SHARE * total] or trees
    # The least tree of a receiver stays, however small.
    served = {name for tree in kept for name in tree.receivers}
    kept += [tree for tree in trees if tree not in kept and not served.issuperset(tree.receivers)]
    got = Counter({name: 0 for name in receivers})
    for tree in kept:
        got.update({name: tree.rate_bps for name in tree.receivers})
    return Delivery(tuple(kept), dict(got), found.bound)


def _planned(
    graph: nx.Graph, source: str, receivers: Sequence[str], planner: str, default: int, most: int
) -> list[RatedTree]:
    """Another planner's trees. Of more than `most` those that reach and carry most are taken."""
    made = plan(cables(graph, default), source, receivers, planner)
    trees = sorted(made.trees, key=lambda tree: (-len(tree.receivers), -tree.rate_bps))[:most]
    kept = [RatedTree(int(tree.rate_bps), tree.hops, tree.receivers) for tree in trees if tree.rate_bps >= 1]
    if not kept:
        raise PlannerError(f"{planner} finds no tree from {source} that carries a bit per second", what=source)
    return kept
