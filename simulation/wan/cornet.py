"""BitTorrent in a data centre, as the Datacast paper compares with it (section 6.3): BT-Cornet and BT-Optimized.

Nobody is choked, nobody leaves, blocks of 108 KB. A server chooses ten peers: BT-Cornet at random; BT-Optimized near
ones, but one at least in every range of distances (every distance, where there are five at most). A connection serves
both ends and goes over one shortest path. From a peer a server asks for the block that fewest of its peers have, four
blocks at a time.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass

import networkx as nx
import numpy as np

from .fluid import Fluid, Pipe

PEERS, REQUESTS, RANGES = 10, 4, 5
BLOCK = 108_000
QUANTUM_S = 0.002
"""Rates are found anew at most so often: ten thousand connections share a network."""


@dataclass
class _Line:
    """`node` fetches from `peer` over so many hops."""

    node: int
    peer: int
    pipe: Pipe
    hops: int
    asked: int = 0


@dataclass(frozen=True)
class Torrent:
    """`stress`: bytes on all links."""

    seconds: float
    stress: float


class Cornet:
    def __init__(
        self, graph: nx.Graph, members: list[str], size: int, near: bool, *, rate: float, seed: int = 1
    ) -> None:
        """`members`: the source first. `rate`: of every link, each way, bytes per second."""
        self._rng = random.Random(seed)
        self._np = np.random.default_rng(seed)
        self.blocks = -(-size // BLOCK)
        self.fluid = Fluid(QUANTUM_S)
        self._arcs: dict[tuple[str, str], int] = {}
        self._rate = rate
        trees = [self._tree(graph, name) for name in members]
        away = np.array([[hops[other] for other in members] for _, hops in trees])
        pairs: set[tuple[int, int]] = set()
        for i in range(len(members)):
            for j in self._chosen(i, away[i], near):
                pairs |= {(i, j), (j, i)}
        self._to: list[list[_Line]] = [[] for _ in members]
        self._from: list[list[_Line]] = [[] for _ in members]
        for i, j in sorted(pairs):
            path = self._path(trees[i][0], members[j])
            line = _Line(i, j, self.fluid.pipe(path), len(path))
            self._to[i].append(line)
            self._from[j].append(line)
        shape = (len(members), self.blocks)
        self._have, self._wanted = np.zeros(shape, bool), np.ones(shape, bool)
        self._copies = np.zeros(shape, np.uint16)
        """Of each server: how many of its peers have a block."""
        self._missing = [self.blocks] * len(members)

    def _tree(self, graph: nx.Graph, root: str) -> tuple[dict[str, str], dict[str, int]]:
        """Shortest paths towards a server, one of the shortest at random: each node's next, and hops."""
        following, hops, queue = {}, {root: 0}, deque([root])
        while queue:
            node = queue.popleft()
            if node != root and not graph.nodes[node].get("forwards"):
                continue
            others = list(graph.adj[node])
            self._rng.shuffle(others)
            for other in others:
                if other not in hops:
                    hops[other] = hops[node] + 1
                    following[other] = node
                    queue.append(other)
        return following, hops

    def _path(self, following: dict[str, str], source: str) -> list[int]:
        path, node = [], source
        while node in following:
            arc = (node, following[node])
            if arc not in self._arcs:
                self._arcs[arc] = self.fluid.resource(self._rate)
            path.append(self._arcs[arc])
            node = following[node]
        return path

    def _chosen(self, i: int, away: np.ndarray, near: bool) -> list[int]:
        others = [j for j in range(len(away)) if j != i]
        self._rng.shuffle(others)
        if not near or len(others) <= PEERS:
            return others[:PEERS]
        others.sort(key=lambda j: int(away[j]))
        ranges = np.array_split(np.unique(away[others]), RANGES)
        kept = [next(j for j in others if away[j] >= one[0]) for one in ranges if len(one)]
        return kept + [j for j in others if j not in kept][: PEERS - len(kept)]

    def run(self) -> Torrent:
        self.fluid.begin()
        self._have[0, :], self._wanted[0, :], self._missing[0] = True, False, 0
        for line in self._from[0]:
            self._copies[line.node, :] += 1
        for line in self._from[0]:
            self._ask(line)
        left = len(self._missing) - 1
        self._left = left
        self.fluid.run(lambda: not self._left)
        if self._left:
            raise RuntimeError(f"nothing moves any more at {self.fluid.now:.1f} s")
        stress = sum(line.pipe.sent * line.hops for lines in self._to for line in lines)
        return Torrent(self.fluid.now, stress)

    def _ask(self, line: _Line) -> None:
        while line.asked < REQUESTS:
            able = np.flatnonzero(self._wanted[line.node] & self._have[line.peer])
            if not len(able):
                return
            copies = self._copies[line.node, able]
            rare = able[copies == copies.min()]
            self._request(line, int(rare[self._rng.randrange(len(rare))]))

    def _request(self, line: _Line, block: int) -> None:
        self._wanted[line.node, block] = False
        line.asked += 1
        self.fluid.send(line.pipe, BLOCK, lambda: self._there(line, block))

    def _there(self, line: _Line, block: int) -> None:
        node = line.node
        line.asked -= 1
        self._have[node, block] = True
        self._missing[node] -= 1
        if not self._missing[node]:
            self._left -= 1
        self._ask(line)
        for other in self._from[node]:
            self._copies[other.node, block] += 1
            if other.asked < REQUESTS and self._wanted[other.node, block]:
                self._request(other, block)
