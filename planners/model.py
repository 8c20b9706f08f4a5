"""The network as planners see it, and what they answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import networkx as nx

from datacast.core.errors import DatacastError

Arc = tuple[str, str]


class PlannerError(DatacastError):
    """A planner that there is not, or that cannot serve this network; `what` names the culprit."""

    code = "planner"
    status = 422


@dataclass(frozen=True)
class RateTree:
    """A tree of hops (parent, child), parents first, and its rate in bit/s. `uses`: how often it takes its rate from
    each cable and direction; `receivers`: those that it reaches."""

    rate_bps: float
    hops: tuple[Arc, ...]
    uses: Mapping[Arc, int]
    receivers: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """`got`: bit/s of each receiver, the sum of its trees' rates. `note`: what the planner has to say for itself."""

    planner: str
    source: str
    receivers: tuple[str, ...]
    trees: tuple[RateTree, ...]
    note: str = ""

    @property
    def got(self) -> dict[str, float]:
        got = dict.fromkeys(self.receivers, 0.0)
        for tree in self.trees:
            for name in tree.receivers:
                got[name] += tree.rate_bps
        return got

    @property
    def aggregate(self) -> float:
        return sum(self.got.values())

    def load(self) -> dict[Arc, float]:
        """Bit/s on each cable and direction."""
        load: dict[Arc, float] = {}
        for tree in self.trees:
            for arc, times in tree.uses.items():
                load[arc] = load.get(arc, 0.0) + tree.rate_bps * times
        return load


@dataclass
class Net:
    """`capacity`: bit/s of every arc that is up. `overlay`: hops go from host to host over `path`; otherwise a hop is
    an arc, and nodes that `forwards` pass on to as many as they like."""

    graph: nx.Graph
    capacity: dict[Arc, float]
    forwards: set[str]
    hosts: tuple[str, ...]
    overlay: bool
    _next: dict[str, dict[str, str]] = field(default_factory=dict, repr=False)
    _paths: dict[Arc, tuple[Arc, ...]] = field(default_factory=dict, repr=False)

    def path(self, u: str, v: str) -> tuple[Arc, ...]:
        """The arcs under a hop; () when there are none. Between hosts: the fewest cables, as routing would have it."""
        if not self.overlay:
            return ((u, v),) if (u, v) in self.capacity else ()
        if (u, v) not in self._paths:
            way, at = [], u
            towards = self._towards(v)
            while at != v and at in towards:
                way.append((at, towards[at]))
                at = towards[at]
            self._paths[u, v] = tuple(way) if at == v else ()
        return self._paths[u, v]

    def _towards(self, v: str) -> dict[str, str]:
        """Each node's next one on the way to v."""
        if v not in self._next:
            following, queue = {}, [v]
            for node in queue:
                for peer in sorted(self.graph.adj[node]):
                    if peer in following or peer == v or (peer, node) not in self.capacity:
                        continue
                    following[peer] = node
                    if self.graph.nodes[peer]["kind"] != "host" or self.graph.nodes[peer].get("forwards"):
                        queue.append(peer)
            self._next[v] = following
        return self._next[v]

    def neighbours(self, node: str) -> Iterator[str]:
        """Over arcs that are up, in the order of names."""
        return (peer for peer in sorted(self.graph.adj[node]) if (node, peer) in self.capacity)

    def uses(self, hops: Iterable[Arc]) -> Counter[Arc]:
        uses: Counter[Arc] = Counter()
        for u, v in hops:
            uses.update(self.path(u, v))
        return uses

    def tree(self, rate: float, hops: Iterable[Arc], receivers: Iterable[str]) -> RateTree:
        hops = tuple(hops)
        reached = {child for _, child in hops}
        return RateTree(rate, hops, self.uses(hops), tuple(name for name in receivers if name in reached))


def width(left: Mapping[Arc, float], uses: Mapping[Arc, int]) -> float:
    """The most that a tree can have of what is left."""
    return min((left[arc] / times for arc, times in uses.items()), default=0.0)


def take(left: dict[Arc, float], tree: RateTree) -> None:
    for arc, times in tree.uses.items():
        left[arc] = max(0.0, left[arc] - tree.rate_bps * times)


def _capacity(graph: nx.Graph, default: float | None) -> dict[Arc, float]:
    out: dict[Arc, float] = {}
    for u, v, data in graph.edges(data=True):
        if not data.get("up", True):
            continue
        rates = data.get("rates_bps") or {}
        for a, b in ((u, v), (v, u)):
            rate = rates.get(a, data.get("rate_bps"))
            rate = default if rate is None else rate
            if rate is None or isinstance(rate, bool) or not rate > 0:
                raise PlannerError(
                    f"link {a}-{b} has a rate of {rate!r}: give bits per second above 0", what=f"{a}-{b}"
                )
            out[a, b] = rate
    return out


def _net(graph: nx.Graph, default: float | None, overlay: bool) -> Net:
    forwards = {name for name, data in graph.nodes(data=True) if data.get("forwards", data["kind"] == "switch")}
    members = tuple(name for name, data in graph.nodes(data=True) if data["kind"] == "host")
    return Net(graph, _capacity(graph, default), forwards, members, overlay)


def cables(graph: nx.Graph, default: float | None = None) -> Net:
    """Trees branch in switches, and in hosts that forward. `default`: of links without a rate. Raises PlannerError."""
    return _net(graph, default, False)


def hosts(graph: nx.Graph, default: float | None = None) -> Net:
    """Hosts pass data on to hosts over what switches do with ordinary packets: tunnels, plain IP."""
    return _net(graph, default, True)
