"""Connections to agents that a worker's groups share.

A TLS handshake takes an agent and a worker some milliseconds each, more than all else that happens before a group's
first data. So a worker keeps one connection to each agent it talks to, for all its groups, and opens some ahead.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine, Mapping
from itertools import islice
from typing import Any

import msgspec

from datacast.services.tls import PLAIN, Security
from datacast.services.turns import Turns

from .answers import A
from .events import AnyEvent
from .requests import PING, B, Op, P
from .signalling import Branch, Connection, Said, SignallingError

WARM_MAX = 64
"""Connections that no group needs. An agent takes 128 of others in all."""
MESH_MAX = 16
"""Where there are no more agents than this, they are made to keep connections among each other ready, too."""
KEEP_S = 20.0
"""Between two questions that keep such a connection: agents close one that says nothing for a minute."""
LOOK_S = 1.0
PING_S = 2.0
CONNECT_S = 5.0
READ_MAX = 16
"""Connections that are read in one turn of the loop."""


class _Shared:
    """One connection, and the groups that use it."""

    def __init__(self, name: str, address: str, security: Security, turns: Turns) -> None:
        self.name, self.address = name, address
        self.users: dict[str, Line] = {}
        self.used, self.pinged = time.monotonic(), 0.0
        self.connection = Connection(address, self._event, self._closed, name=name, security=security, turns=turns)
        self.opening = asyncio.create_task(self.connection.connect(CONNECT_S))
        self.opening.add_done_callback(lambda task: task.cancelled() or task.exception())  # whoever waits gets it

    @property
    def good(self) -> bool:
        """It stands, or may soon."""
        return not self.opening.done() or self.connection.alive

    async def ping(self, others: Mapping[str, str]) -> None:
        """So that the agent does not take it for forgotten; with `others` as its children, neither do they."""
        children = [Branch(name, address) for name, address in others.items() if name != self.name]
        tree = Branch(self.name, self.address, c=children)
        with contextlib.suppress(SignallingError):
            await self.connection.ask(PING, "", tree, timeout=PING_S)

    def _event(self, event: AnyEvent) -> None:
        line = self.users.get(event.group)
        if line is not None:
            line.on_event(event)

    def _closed(self) -> None:
        for line in tuple(self.users.values()):
            line.on_close()


class Agents:
    """`await line.connect()` shares a connection that is there; `keep` holds some open that no group needs yet."""

    def __init__(self, security: Security = PLAIN) -> None:
        self._security = security
        self._reads = Turns(READ_MAX)
        self._shared: dict[tuple[str, str], _Shared] = {}

    async def connected(self, name: str, address: str) -> _Shared:
        """Raises SignallingError."""
        key = name, address
        there = self._shared.get(key)
        if there is None or not there.good:
            there = self._shared[key] = _Shared(name, address, self._security, self._reads)
        await asyncio.shield(there.opening)  # others wait for it as well
        there.used = time.monotonic()
        return there

    async def keep(self, wanted: Callable[[], Mapping[str, str]]) -> None:
        """Until cancelled. `wanted()`: names and addresses of agents that groups may begin at."""
        try:
            while True:
                await self._look_after(wanted())
                await asyncio.sleep(LOOK_S)
        finally:
            for shared in tuple(self._shared.values()):
                await shared.connection.close()

    async def _look_after(self, wanted: Mapping[str, str]) -> None:
        idle = [key for key, one in self._shared.items() if not one.users and one.opening.done()]
        idle.sort(key=lambda key: self._shared[key].used, reverse=True)
        for at, key in enumerate(idle):
            (name, address), one = key, self._shared[key]
            if one.users or not one.opening.done():
                continue  # a group has taken it while the one before was closed
            if at >= WARM_MAX or wanted.get(name) != address or not one.good:
                del self._shared[key]
                await one.connection.close()
        room = max(0, WARM_MAX - len(self._shared))
        missing = (key for key in wanted.items() if key not in self._shared)
        opening = [self.connected(name, address) for name, address in islice(missing, room)]
        await asyncio.gather(*opening, return_exceptions=True)
        mesh, pings = wanted if len(wanted) <= MESH_MAX else {}, list[Coroutine[Any, Any, None]]()
        for one in tuple(self._shared.values()):
            spoke = one.pinged if mesh else max(one.pinged, one.used)
            if one.connection.alive and time.monotonic() - spoke > KEEP_S:
                one.pinged = time.monotonic()
                pings.append(one.ping(mesh))
                if mesh:  # one after another: handshakes take processors that the data path needs
                    await pings.pop()
        await asyncio.gather(*pings)  # together: of many that hang each would hold the others up


class Line:
    """A group's part in a connection to an agent."""

    def __init__(
        self,
        agents: Agents,
        name: str,
        address: str,
        group: str,
        epoch: int,
        on_event: Callable[[AnyEvent], None],
        on_close: Callable[[], None],
    ) -> None:
        self.name, self.address, self.group, self.epoch = name, address, group, epoch
        self.on_event, self.on_close = on_event, on_close
        self._agents = agents
        self._shared: _Shared | None = None

    async def connect(self, timeout: float) -> None:
        """Raises SignallingError."""
        try:
            async with asyncio.timeout(timeout):
                self._shared = await self._agents.connected(self.name, self.address)
        except TimeoutError as error:  # the cause says that it was silent, which a group that begins waits for
            text = f"no agent at {self.address}: no answer within {timeout:g} s"
            raise SignallingError(text, what=self.address) from error
        self._shared.users[self.group] = self

    @property
    def alive(self) -> bool:
        return self._shared is not None and self._shared.connection.alive

    async def ask(
        self,
        op: Op[B, P, A],
        tree: Branch | msgspec.Raw,
        everyone: B | None = None,
        timeout: float = 2.0,
        patience: float = 0.0,
    ) -> Said[A]:
        """As Connection.ask."""
        if self._shared is None:
            raise SignallingError(f"no connection to {self.address}", what=self.address)
        self._shared.used = time.monotonic()
        return await self._shared.connection.ask(op, self.group, tree, everyone, timeout, patience, epoch=self.epoch)

    def leave(self) -> None:
        """The group needs it no more."""
        if self._shared is not None and self._shared.users.get(self.group) is self:
            del self._shared.users[self.group]
        self._shared = None

    async def give_up(self) -> None:
        """The agent does not answer: nobody should wait for this connection any longer."""
        shared = self._shared
        self.leave()
        if shared is not None:
            users = tuple(shared.users.values())
            await shared.connection.close()
            for line in users:
                line.on_close()
