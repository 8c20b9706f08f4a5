"""The fabric under the agents: which links work, and how pieces get from sources to receivers.

A tree's numbers go out at its rate as far as somebody asks for them; what was sent reaches each receiver whose route
works. Routes are the real ones, walked port by port.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from datacast.core.wire import decode_route

from .virtual import VirtualLoop

if TYPE_CHECKING:
    from .agents import Agent, Role
    from .watch import Watch

TICK_S, IDLE_S = 0.02, 0.1


def ones(count: int, at: int = 0) -> int:
    return ((1 << count) - 1) << at


@dataclass
class Way:
    """What a route goes through."""

    links: list[frozenset[str]]
    hosts: list[str]


@dataclass
class Sending:
    """A tree at its source."""

    id: int
    bps: float
    packet: int
    bound: float | None = None
    extents: list[tuple[int, int, int]] = field(default_factory=list)
    """(number, piece, count)"""
    end: int = 0
    """One past the last number it was ever told of."""
    sent: int = 0
    numbers: int = 0
    ready: int = 0
    """Pieces whose number is below `sent`: who asks for them gets them."""
    spare: float = 0.0
    marked: set[tuple[int, bool]] = field(default_factory=set)

    @property
    def rate(self) -> float:
        bps = self.bps if self.bound is None else min(self.bps, self.bound)
        return bps / 8 / self.packet


class Plane:
    """`agents`: those that run now, by host."""

    def __init__(self, loop: VirtualLoop, graph: Any) -> None:
        self.loop, self.graph = loop, graph
        self.note = loop.network.note
        self.agents: dict[str, Agent] = {}
        self.down: set[frozenset[str]] = set()
        self.share = 1.0
        """Of its rates that the fabric carries."""
        self.watch: Watch
        self._ways: dict[tuple[str, str], Way | None] = {}
        self._at = {}
        for u, v, data in graph.edges(data=True):
            for end, other in ((u, v), (v, u)):
                self._at[end, data["ports"][end]] = other

    # ---- routes ----
    def way(self, receiver: str, blob: str) -> Way | None:
        """None: it leads over a port that is not there."""
        key = (receiver, blob)
        if key not in self._ways:
            self._ways[key] = self._walk(receiver, blob)
        return self._ways[key]

    def _walk(self, node: str, blob: str) -> Way | None:
        links, hosts = [], []
        for stop in decode_route(bytes.fromhex(blob)):
            for port in stop.fwd.ports:
                other = self._at.get((node, port))
                if other is None:
                    return None
                links.append(frozenset((node, other)))
                node = other
                if self.graph.nodes[node]["kind"] == "host":
                    hosts.append(node)
        return Way(links, hosts)

    def works(self, receiver: str, blob: str) -> bool:
        way = self.way(receiver, blob)
        if way is None:
            return False
        return not any(link in self.down for link in way.links) and all(self.runs(host) for host in way.hosts)

    def runs(self, host: str) -> bool:
        agent = self.agents.get(host)
        return agent is not None and agent.process.alive and not agent.process.paused

    # ---- data ----
    async def run(self) -> None:
        last = self.loop.now
        while True:
            await asyncio.sleep(TICK_S)
            now = self.loop.now
            groups = self._groups()
            if not groups:
                last = self.loop.now
                await asyncio.sleep(IDLE_S)
                continue
            for senders, receivers in groups.values():
                for source, role in senders:
                    self._carry(source, role, receivers, self.share * (now - last))
            last = now

    def _groups(self) -> dict[str, tuple[list[tuple[Agent, Role]], list[tuple[Agent, Role]]]]:
        """Who sends, and who receives."""
        found: dict[str, tuple[list[tuple[Agent, Role]], list[tuple[Agent, Role]]]] = {}
        agents = [agent for agent in self.agents.values() if agent.process.alive and not agent.process.paused]
        for agent in agents:
            for name, role in agent.roles.items():
                if role.sending:
                    found.setdefault(name, ([], []))[0].append((agent, role))
        for agent in agents:
            for name, role in agent.roles.items():
                if role.kind == "receiver" and role.state == "running" and name in found:
                    found[name][1].append((agent, role))
        return found

    def _carry(self, source: Agent, role: Role, receivers: list[tuple[Agent, Role]], elapsed: float) -> None:
        for number, tree in role.sending.items():
            asking = []
            wanted = 0
            for agent, receiver in receivers:
                route = receiver.routes.get(str(number))
                taking = receiver.taking.get(number)
                if route is None or taking is None or not self.works(agent.name, route):
                    continue
                lacks = taking.pieces & ~receiver.held
                wanted |= lacks
                asking.append((agent, receiver, taking))
            before = tree.numbers
            self._send(tree, wanted, elapsed)
            if tree.numbers > before and role.t_first_ns is None:
                source.first(role)
            source.progress(role, tree)
            for agent, receiver, taking in asking:
                new = taking.pieces & tree.ready & ~receiver.held
                if new:
                    agent.take(receiver, number, new)

    @staticmethod
    def _send(tree: Sending, wanted: int, elapsed: float) -> None:
        budget = min(tree.spare + tree.rate * elapsed, 4 * tree.rate * elapsed + 1)
        wanted &= ~tree.ready
        for first, piece, count in tree.extents:
            if first < tree.sent and wanted:  # was passed by, and is asked for now
                late = wanted & ones(min(count, tree.sent - first), piece)
                tree.ready |= late
                tree.numbers += late.bit_count()
                budget -= late.bit_count()
            if budget < 1:
                break
            at = max(tree.sent, first)
            if at >= first + count:
                continue
            shift = piece - first
            left = (wanted >> (at + shift)) & ones(first + count - at)
            if not left:
                continue
            start = at + ((left & -left).bit_length() - 1)
            stop = min(first + left.bit_length() + at - first, start + int(budget))
            budget -= stop - start
            tree.ready |= ones(stop - at, at + shift)
            tree.numbers += stop - start
            tree.sent = stop
        tree.spare = budget
