"""The signalling tree beside parallel TCP connections, as in the paper (section 6.5: 2.592 ms and 20.122 ms).

The same request (`ping` with a route for every receiver) goes to the same receivers in three ways, each until the last
acknowledgement is in: over the tree of members from the source's agent, as a master does; over one new connection to
each receiver, all at once; over one kept connection to each receiver, all at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping

from datacast.core.trees import Network, signalling_tree
from datacast.lab.lab import Lab
from datacast.master.answers import Answer
from datacast.master.branches import FAN_OUT
from datacast.master.requests import PING, Routes
from datacast.master.signalling import Branch, Connection, tree_message
from datacast.services.priority import PriorityError, go_realtime

TIMEOUT_S = 2.0
ROUTE = "00" * 60
"""About as long as the routes that a `reroute` brings."""


class Signalling:
    """`await start()`, then `await sample()` again and again: milliseconds by way and number of receivers."""

    def __init__(self, lab: Lab, source: str, groups: list[list[str]]) -> None:
        self.lab, self.source, self.groups = lab, source, groups
        self._network = Network(lab.graph)
        self.found: dict[str, list[float]] = {}
        self._kept: dict[str, Connection] = {}
        self._security = lab.credentials.security("master/main")
        self._used: list[Connection] = []

    def _connection(self, host: str) -> Connection:
        return Connection(self.lab.agent_address(host), lambda event: None, name=host, security=self._security)

    async def start(self) -> None:
        """As a master would run. Without the right to it, it is measured as an ordinary process."""
        with contextlib.suppress(PriorityError):
            go_realtime(self.lab.control_priority)
        for host in {self.source, *(name for names in self.groups for name in names)}:
            self._kept[host] = self._connection(host)
            await self._kept[host].connect(TIMEOUT_S)

    async def stop(self) -> None:
        await asyncio.gather(*(connection.close() for connection in self._kept.values()))

    async def sample(self) -> None:
        for names in self.groups:
            for way, work in (("tree", self._tree), ("fresh", self._fresh), ("kept", self._parallel)):
                started = time.perf_counter()
                answers = await work(names)
                took = 1000 * (time.perf_counter() - started)
                while self._used:
                    await self._used.pop().close()
                bad = [name for name in names if not answers.get(name, Answer()).ok]
                if bad:
                    raise RuntimeError(f"signalling, {way}: no answer of {', '.join(bad)}: {answers}")
                self.found.setdefault(f"{way}_{len(names)}_ms", []).append(took)

    async def _tree(self, names: list[str]) -> Mapping[str, Answer]:
        addresses = {name: self.lab.agent_address(name) for name in (self.source, *names)}
        parts = dict.fromkeys(names, Routes({"1": ROUTE}))
        tree = tree_message(signalling_tree(self._network, self.source, names, FAN_OUT), self.source, addresses, parts)
        return (await self._kept[self.source].ask(PING, "bench", tree, None, TIMEOUT_S)).read()

    async def _one(self, name: str, connection: Connection) -> Mapping[str, Answer]:
        tree = Branch(name, connection.address, Routes({"1": ROUTE}))
        return (await connection.ask(PING, "bench", tree, None, TIMEOUT_S)).read()

    async def _parallel(self, names: list[str]) -> Mapping[str, Answer]:
        answers = await asyncio.gather(*(self._one(name, self._kept[name]) for name in names))
        return {name: result for answer in answers for name, result in answer.items()}

    async def _fresh(self, names: list[str]) -> Mapping[str, Answer]:
        connections = {name: self._connection(name) for name in names}

        async def one(name: str) -> Mapping[str, Answer]:
            await connections[name].connect(TIMEOUT_S)
            return await self._one(name, connections[name])

        self._used += connections.values()
        answers = await asyncio.gather(*(one(name) for name in names))
        return {name: result for answer in answers for name, result in answer.items()}
