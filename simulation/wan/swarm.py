"""BitTorrent as Robber's section 2.5 has it: a random mesh that knows of no clusters.

A node connects to five others; a connection serves both. It asks each peer that unchokes it for five pieces, drawn at
random from those that the peer has and it lacks. Every ten seconds it unchokes the four peers that it got most from (a
node that has everything: that took most), and one at random. A piece is asked for once at a time.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field

from .clusters import LAN, LAN_HOP_S, Clusters, chosen
from .collective import PEERS, REQUESTS, Node, Outcome
from .fluid import Pipe

UNCHOKED, ROUND_S = 5, 10.0
PIECE = 1 << 18


@dataclass
class _Line:
    """`node` fetches from `peer`."""

    node: Node
    peer: Node
    pipe: Pipe
    asked: deque[int] = field(default_factory=deque)
    got: float = 0.0
    """Bytes in this round."""
    unchoked: bool = False


class Swarm:
    def __init__(self, network: Clusters, seed: int = 1) -> None:
        self.network = network
        self.pieces = -(-int(network.size) // PIECE)
        self._rng = random.Random(seed)
        self.fluid, wan = network.network()
        nodes = list(network.nodes())
        links: set[tuple[Node, Node]] = set()
        for node in nodes:
            for peer in chosen(self._rng, [other for other in nodes if other != node], PEERS):
                links |= {(node, peer), (peer, node)}
        self._from: dict[Node, list[_Line]] = {node: [] for node in nodes}
        """Lines over which others fetch from a node."""
        self._to: dict[Node, list[_Line]] = {node: [] for node in nodes}
        for node, peer in sorted(links):
            if node[0] == peer[0]:
                pipe = self.fluid.pipe([], LAN_HOP_S, LAN / 10)
            else:
                pipe = self.fluid.pipe(wan.path(peer, node), network.delays[peer[0], node[0]])
            line = _Line(node, peer, pipe)
            self._from[peer].append(line)
            self._to[node].append(line)
        self._have = dict.fromkeys(nodes, 0)
        self._asked = dict.fromkeys(nodes, 0)
        self._all = (1 << self.pieces) - 1
        self._missing = len(nodes) - 1

    def run(self) -> Outcome:
        self.fluid.begin()
        self._have[0, 0] = self._all
        self._choke()
        self.fluid.run(lambda: not self._missing)
        if self._missing:
            raise RuntimeError(f"BitTorrent: nothing moves any more at {self.fluid.now:.1f} s")
        came = [0.0] * self.network.count
        for lines in self._to.values():
            for line in lines:
                came[line.node[0]] += line.pipe.sent if line.node[0] != line.peer[0] else 0.0
        return Outcome(self.fluid.now, max(came[1:]) / (self.pieces * PIECE), 0.0)

    def _choke(self) -> None:
        """Each node decides whom it serves for the next round."""
        best: dict[tuple[Node, Node], float] = {
            (line.node, line.peer): line.got for at in self._to.values() for line in at
        }
        for node, lines in self._from.items():
            whole = self._have[node] == self._all
            order = sorted(lines, key=lambda line: self._rng.random())
            order.sort(key=lambda line: -(line.got if whole else best.get((node, line.node), 0.0)))
            served = order[: UNCHOKED - 1] + chosen_line(self._rng, order[UNCHOKED - 1 :])
            for line in lines:
                line.unchoked = line in served
                if not line.unchoked:
                    for _ in range(self.fluid.drop(line.pipe)):
                        self._asked[line.node] &= ~(1 << line.asked.pop())
        for lines in self._to.values():
            for line in lines:
                line.got = 0.0
                self._ask(line)
        self.fluid.after(ROUND_S, self._choke)

    def _ask(self, line: _Line) -> None:
        node = line.node
        while line.unchoked and len(line.asked) < REQUESTS:
            able = self._have[line.peer] & ~self._have[node] & ~self._asked[node]
            if not able:
                return
            skip = self._rng.randrange(self.pieces)
            later = able >> skip
            piece = skip + (later & -later).bit_length() - 1 if later else (able & -able).bit_length() - 1
            self._asked[node] |= 1 << piece
            line.asked.append(piece)
            self.fluid.send(line.pipe, PIECE, lambda piece=piece: self._there(line, piece))  # type: ignore[misc]

    def _there(self, line: _Line, piece: int) -> None:
        node = line.node
        line.asked.popleft()
        line.got += PIECE
        self._asked[node] &= ~(1 << piece)
        self._have[node] |= 1 << piece
        if self._have[node] == self._all:
            self._missing -= 1
        self._ask(line)
        for other in self._from[node]:
            self._ask(other)


def chosen_line(rng: random.Random, lines: list[_Line]) -> list[_Line]:
    return [rng.choice(lines)] if lines else []
