"""Clusters that fetch together: Robber, MOB, and Datacast's sites, with the product's own dealing and exchange.

A piece is somebody's work until its cluster fetches it, so it crosses the WAN into a cluster once. What arrives is
everybody's in the cluster after a hop of its own network: Robber's and MOB's nodes hand it around, Datacast's trees
carry it. Then it can be fetched from there.

- Robber and MOB: a fetcher is a node; it asks up to five peers of other clusters (section 3.1), five pieces at a time
  from each (BitTorrent's R), at random from what it wants and the peer has. Each cluster has one Dealing.
- Datacast: a fetcher is a connection of a host to another site; each site has one Exchange, and tells the others what
  it begins and what it has.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import partial

from datacast.origins.dealing import Dealing
from datacast.origins.exchange import Exchange
from datacast.origins.ranges import Range, added

from .clusters import LAN, LAN_HOP_S, PIECE, Clusters, chosen
from .fluid import Pipe

Node = tuple[int, int]
PEERS, REQUESTS = 5, 5
AHEAD, LONG = 2, 10
"""Runs that a Datacast connection has asked for; one only, where a run takes so many round trips: asking costs little
then, and what is asked for of a slow connection is nobody else's."""
HAVE, REQUEST, PIECE_HEADER = 5, 5, 1
"""Bytes of Robber's messages (Table 1)."""
GET, PROGRESS = 700, 24
"""Bytes of a range request and the head of its answer; of a report of what a site has, each."""


@dataclass
class _Line:
    """A connection: `node` fetches from `peer`."""

    node: Node
    peer: Node
    pipe: Pipe
    fetcher: str
    asked: int = 0
    ahead: int = AHEAD


@dataclass
class Outcome:
    """`seconds`: until the last node had everything. `wan`: bytes over the WAN into each cluster but the first,
    messages included, over the object's size; the most of any cluster."""

    seconds: float
    wan: float
    overhead: float
    """Bytes that are no data, over all that is received."""
    ends: tuple[float, ...] = ()
    """When all nodes of each cluster had everything."""
    links: dict[tuple[int, int], float] = field(default_factory=dict)
    """Data over each link, by source and target cluster, over the object's size."""


@dataclass
class _Cluster:
    work: Dealing | Exchange
    held: list[Range] = field(default_factory=list)
    have: int = 0
    lines: dict[int, list[_Line]] = field(default_factory=dict)
    """By the cluster that they fetch from."""


class Collective:
    def __init__(
        self, network: Clusters, policy: str, seed: int = 1, *, peers: int = 0, above: dict[int, int] | None = None
    ) -> None:
        """`policy`: robber, mob, or steal (Datacast). `peers`: hosts of a site that fetch, 0: all (Datacast). `above`:
        the one site that each fetches from; None: all that there are."""
        self.network, self.policy, self._above = network, policy, above
        self.fluid, self._wan = network.network()
        self._rng = random.Random(seed)
        self._ours = policy == "steal"
        self._messages = [0] * network.count
        self._ends = [0.0] * network.count
        pairs = self._all_hosts(peers) if self._ours else self._global_peers()
        self._clusters: list[_Cluster] = []
        for c in range(network.count):
            self._clusters.append(_Cluster(self._work(c, pairs, seed * 100 + c)))
        for node, peer in pairs:
            delay = network.delays[peer[0], node[0]]
            line = _Line(node, peer, self.fluid.pipe(self._wan.path(peer, node), delay), self._name(node, peer))
            self._clusters[node[0]].lines.setdefault(peer[0], []).append(line)

    def _work(self, c: int, pairs: list[tuple[Node, Node]], seed: int) -> Dealing | Exchange:
        names = sorted({(self._name(node, peer), str(peer[0])) for node, peer in pairs if node[0] == c})
        if not self._ours:
            return Dealing(
                self.network.pieces, sorted({name for name, _ in names}) or ["nobody"], self.policy, seed=seed
            )
        exchange = Exchange(self.network.pieces, run=1, seed=seed)
        for name, origin in names:
            exchange.connects(name, origin)
        return exchange

    def _name(self, node: Node, peer: Node) -> str:
        return f"{node[0]}.{node[1]:03}" + (f"<{peer[0]}" if self._ours else "")

    def _all_hosts(self, most: int) -> list[tuple[Node, Node]]:
        """Every fetching host asks a host of every other site."""
        pairs = []
        for c, cards in enumerate(self.network.cards):
            ranks = range(len(cards))[: most or None]
            for d, others in enumerate(self.network.cards):
                if c not in (0, d) and (d, c) in self.network.links and (not self._above or self._above[c] == d):
                    pairs += [((c, r), (d, r * len(others) // len(cards))) for r in ranks]
        return pairs

    def _global_peers(self) -> list[tuple[Node, Node]]:
        """Phase 2 of Robber: up to N of the nodes of equal rank elsewhere; a connection serves both."""
        links: set[tuple[Node, Node]] = set()
        for c, r in self.network.nodes():
            equal = []
            for d, others in enumerate(self.network.cards):
                if d != c:
                    mine = len(self.network.cards[c])
                    first, end = -(-r * len(others) // mine), -(-(r + 1) * len(others) // mine)
                    equal.append((d, self._rng.randrange(first, max(end, first + 1)) % len(others)))
            for peer in chosen(self._rng, equal, PEERS):
                links |= {((c, r), peer), (peer, (c, r))}
        return sorted((node, peer) for node, peer in links if node[0] != 0)

    def run(self) -> Outcome:
        network = self.network
        self.fluid.begin()
        self._clusters[0].held, self._clusters[0].have = [Range(0, network.pieces)], network.pieces
        if self._ours:
            self._tell(0, Range(0, network.pieces), begun=False)
        else:
            self._offer(0)
        rest = self._clusters[1:]
        self.fluid.run(lambda: all(c.have == network.pieces for c in rest))
        if not all(c.have == network.pieces for c in rest):
            raise RuntimeError(f"{self.policy}: nothing moves any more at {self.fluid.now:.1f} s")
        seconds = self.fluid.now + LAN_HOP_S + PIECE / LAN
        data = network.pieces * PIECE
        came = [sum(line.pipe.sent for lines in c.lines.values() for line in lines) for c in rest]
        wan = max((b + m) / data for b, m in zip(came, self._messages[1:], strict=True))
        over: dict[tuple[int, int], float] = {}
        for d, cluster in enumerate(self._clusters):
            for c, lines in cluster.lines.items():
                over[c, d] = sum(line.pipe.sent for line in lines) / data
        return Outcome(seconds, wan, sum(self._messages) / sum(came), tuple(self._ends), over)

    def _offer(self, source: int) -> None:
        """Cluster `source` has more than before: whoever fetches from it looks again."""
        for cluster in self._clusters:
            for line in cluster.lines.get(source, ()):
                self._ask(cluster, line)

    def _ask(self, cluster: _Cluster, line: _Line) -> bool:
        """As many requests as the connection takes. False: there is nothing for it."""
        while line.asked < (line.ahead if self._ours else REQUESTS):
            if isinstance(cluster.work, Exchange):
                one = cluster.work.take(line.fetcher)
            else:
                one = cluster.work.take(line.fetcher, self._clusters[line.peer[0]].held, 1)
            if one is None:
                return False
            if self._ours:
                self._tell(line.node[0], one, begun=True)
            line.asked += 1
            self._messages[line.node[0]] += GET if self._ours else REQUEST + PIECE_HEADER
            asked_at = self.fluid.now
            send = partial(self._send, cluster, line, one, asked_at)
            trip = self.network.delays[line.node[0], line.peer[0]] if line.asked == 1 else 0.0
            if trip:
                self.fluid.after(trip, send)
            else:
                send()
        return True

    def _send(self, cluster: _Cluster, line: _Line, one: Range, asked_at: float) -> None:
        """Its pieces one after another: each is there for others when it has come."""
        for piece in range(one.first, one.end):

            def there(piece: int = piece) -> None:
                if piece + 1 == one.end:
                    self._there(cluster, line, one, self.fluid.now - asked_at)
                self.fluid.after(LAN_HOP_S + PIECE / LAN, lambda: self._spread(line.node[0], Range(piece, 1)))

            self.fluid.send(line.pipe, PIECE, there)

    def _there(self, cluster: _Cluster, line: _Line, one: Range, seconds: float) -> None:
        line.asked -= 1
        # A connection has several requests under way, and each waits for those before it.
        took = seconds / (line.asked + 1)
        cluster.work.fetched(line.fetcher, one, took)
        line.ahead = 1 if took > LONG * 2 * self.network.delays[line.peer[0], line.node[0]] else AHEAD
        self._ask(cluster, line)

    def _spread(self, c: int, one: Range) -> None:
        """All nodes of the cluster have it."""
        cluster = self._clusters[c]
        cluster.have += one.count
        self._ends[c] = self.fluid.now
        if self._ours:
            self._tell(c, one, begun=False)
            return
        added(cluster.held, one)
        for d in range(1, self.network.count):
            self._messages[d] += HAVE if d != c else 0
        self._offer(c)

    def _tell(self, c: int, one: Range, *, begun: bool) -> None:
        """A site's report to all others, which they have after the delay between them."""
        for d, other in enumerate(self._clusters):
            if d in (0, c) or (c, d) not in self.network.links:
                continue
            self._messages[d] += PROGRESS
            self.fluid.after(self.network.delays[c, d], lambda other=other: self._told(other, c, one, begun))  # type: ignore[misc]

    def _told(self, cluster: _Cluster, c: int, one: Range, begun: bool) -> None:
        assert isinstance(cluster.work, Exchange)
        if begun:
            cluster.work.begun_elsewhere(one)
            return
        cluster.work.holds(str(c), one)
        for line in cluster.lines.get(c, ()):
            if not self._ask(cluster, line):
                break
