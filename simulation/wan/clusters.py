"""Clusters of nodes over a WAN, as Robber's Figure 1 has them: card, access link, WAN link, access link, card.

Between nodes of one cluster there is a network of its own, so much faster that only its latency is modelled.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import networkx as nx

from .fluid import Fluid

MB = 1e6
PIECE = 1 << 17
"""Bytes. The paper says nothing; "usually a few hundred kilobytes"."""
LAN = 1250 * MB
LAN_HOP_S = 2e-4


@dataclass(frozen=True)
class Change:
    """From `at` seconds on, the capacities of these links (bytes per second, by source and target cluster)."""

    at: float
    links: dict[tuple[int, int], float]


@dataclass(frozen=True)
class Clusters:
    """`cards`: of each node, by cluster; bytes per second. `links` and `delays`: by source and target cluster.
    Cluster 0 has the data at first: its nodes spread it among themselves faster than any WAN link takes it."""

    cards: tuple[tuple[float, ...], ...]
    links: dict[tuple[int, int], float]
    delays: dict[tuple[int, int], float]
    size: float
    access: float = float("inf")
    changes: tuple[Change, ...] = field(default=())

    @property
    def count(self) -> int:
        return len(self.cards)

    @cached_property
    def pieces(self) -> int:
        return -(-int(self.size) // PIECE)

    def nodes(self) -> Iterator[tuple[int, int]]:
        """(cluster, rank)"""
        return ((c, r) for c, cards in enumerate(self.cards) for r in range(len(cards)))

    def network(self) -> tuple[Fluid, Wan]:
        fluid = Fluid()
        wan = Wan(self, fluid)
        for change in self.changes:
            fluid.at(change.at, lambda change=change: wan.change(change))  # type: ignore[misc]
        return fluid, wan

    def at(self, when: float) -> dict[tuple[int, int], float]:
        """The links' capacities at that time."""
        links = dict(self.links)
        for change in self.changes:
            if change.at <= when:
                links.update(change.links)
        return links

    def bound(self, links: dict[tuple[int, int], float]) -> float:
        """Bytes per second that nobody can exceed: the least max-flow from cluster 0, which trees can reach (Edmonds)
        while access links and cards do not bind; and where they do, no more copies than clusters can send."""
        ways = [min(self.access, sum(cards)) for cards in self.cards]
        graph = nx.DiGraph()
        for c, way in enumerate(ways):
            graph.add_edge(f"in {c}", f"{c}", capacity=way)
            graph.add_edge(f"{c}", f"out {c}", capacity=way)
        for (a, b), capacity in links.items():
            graph.add_edge(f"out {a}", f"in {b}", capacity=capacity)
        least = min(nx.maximum_flow_value(graph, "0", f"{c}") for c in range(1, self.count))
        return min(least, sum(ways) / (self.count - 1))

    def best_at_once(self) -> float:
        """Seconds of one that changes its trees with the network and stores nothing: the paper's theoretical maximum.
        Where rates change this is no bound: a cluster that was sent more than it could pass on passes it on later."""
        done, now, ends = 0.0, 0.0, [change.at for change in self.changes]
        for end in [*ends, float("inf")]:
            rate = self.bound(self.at(now))
            if done + rate * (end - now) >= self.size:
                return now + (self.size - done) / rate
            done, now = done + rate * (end - now), end
        raise AssertionError("the last stretch has no end")

    def best(self, cluster: int | None = None) -> float:
        """Seconds that nobody can be faster than: the least time after which the links, with stores in all clusters,
        could have carried everything to the worst-off cluster, or to this one (max-flow over stretches of time)."""
        if not self.changes and cluster is None:
            return self.best_at_once()
        starts = [0.0, *(change.at for change in self.changes)]
        first, last = 0, 1
        while last < len(starts) and self._could(starts[: last + 1], starts[last], cluster) < self.size:
            first, last = last, min(2 * last, len(starts))
        while last - first > 1:
            middle = (first + last) // 2
            if self._could(starts[: middle + 1], starts[middle], cluster) < self.size:
                first = middle
            else:
                last = middle
        began, rest = starts[first], self._could(starts[: first + 1], starts[first], cluster)
        low, high = began, began + self.size / self.bound(self.at(began)) if rest < self.size else began
        while high - low > 1e-3:
            end = (low + high) / 2
            low, high = (end, high) if self._could(starts[: first + 1], end, cluster) < self.size else (low, end)
        return high

    def _could(self, starts: list[float], end: float, cluster: int | None) -> float:
        """Bytes that could be in the worst-off cluster, or this one, at `end`, which is in the last stretch."""
        graph = nx.DiGraph()
        for k, start in enumerate(starts):
            seconds = (starts[k + 1] if k + 1 < len(starts) else end) - start
            if seconds <= 0:
                break
            for c, cards in enumerate(self.cards):
                way = min(self.access, sum(cards)) * seconds
                graph.add_edge(f"in {c} {k}", f"{c} {k}", capacity=way)
                graph.add_edge(f"{c} {k}", f"out {c} {k}", capacity=way)
                graph.add_edge(f"{c} {k}", f"{c} {k + 1}")
                graph.add_edge(f"{c} {k}", f"end {c}")
            for (a, b), capacity in self.at(start).items():
                graph.add_edge(f"out {a} {k}", f"in {b} {k}", capacity=capacity * seconds)
        if not len(graph):
            return 0.0
        wanted = range(1, self.count) if cluster is None else [cluster]
        return min(nx.maximum_flow_value(graph, "0 0", f"end {c}") for c in wanted)


class Wan:
    """The resources of Clusters in a Fluid."""

    def __init__(self, clusters: Clusters, fluid: Fluid) -> None:
        self._fluid = fluid
        self.clusters = clusters
        self._out = {n: fluid.resource(clusters.cards[n[0]][n[1]]) for n in clusters.nodes()}
        self._in = {n: fluid.resource(clusters.cards[n[0]][n[1]]) for n in clusters.nodes()}
        self._up = [fluid.resource(clusters.access) for _ in clusters.cards]
        self._down = [fluid.resource(clusters.access) for _ in clusters.cards]
        self._link = {pair: fluid.resource(capacity) for pair, capacity in clusters.links.items()}

    def path(self, source: tuple[int, int], target: tuple[int, int]) -> list[int]:
        """Of data from a node to a node of another cluster."""
        a, b = source[0], target[0]
        return [self._out[source], self._up[a], self._link[a, b], self._down[b], self._in[target]]

    def tree(self, hops: list[tuple[int, int]]) -> list[int]:
        """Of a tree over clusters that uses all cards of each: its links and the access links."""
        return [r for a, b in hops for r in (self._up[a], self._link[a, b], self._down[b])]

    def change(self, change: Change) -> None:
        for pair, capacity in change.links.items():
            self._fluid.change(self._link[pair], capacity)


def both_ways(links: dict[tuple[int, int], float]) -> dict[tuple[int, int], float]:
    return {pair: capacity for (a, b), capacity in links.items() for pair in ((a, b), (b, a))}


def chosen(rng: random.Random, options: list[tuple[int, int]], most: int) -> list[tuple[int, int]]:
    """Up to `most` of them, at random."""
    return rng.sample(options, min(most, len(options)))
