"""How long another site's bytes are waited for: by what it has been heard of, and by time that this process had.

A connection is given up where it brings nothing and nothing else is heard of its site; what is on its way then is lost,
and comes again. So nobody is given up who is only behind others in a queue, or waits for the bytes itself: its answers
to questions are heard meanwhile. Time is counted in ticks, each some turns of the loop at least: a process that had no
processor, or little of one, has waited for nobody, and what came meanwhile is in its sockets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")

TICK_S, TURNS = 0.25, 8
"""Of a tick, at least. An answer takes some turns to be read, each long where others have the processor: by time alone
every one would be given up before it is whole, and asked for again."""
STILL, DEAD = 8, 48
"""Ticks. After a cut the first is sooner than TCP's own timers; the second is of a connection that alone is dead."""


class _Wait:
    def __init__(self, limit: asyncio.Timeout) -> None:
        self.limit, self.ticks = limit, 0


class Patience:
    """With one site."""

    def __init__(self) -> None:
        self._waits: set[_Wait] = set()
        self._quiet = 0
        """Ticks since it was heard of."""
        self._timer: asyncio.TimerHandle | None = None

    def heard(self) -> None:
        self._quiet = 0

    async def of(self, work: Awaitable[T]) -> T:
        """What it brings. Raises TimeoutError."""
        async with asyncio.timeout(None) as limit:
            wait = _Wait(limit)
            self._waits.add(wait)
            if self._timer is None:
                self._quiet = 0
                self._timer = asyncio.get_running_loop().call_later(TICK_S, self._turn, TURNS)
            try:
                found = await work
            finally:
                self._waits.discard(wait)
        self.heard()
        return found

    def _turn(self, left: int) -> None:
        """What has come in is read by others before the tick counts."""
        if left:
            asyncio.get_running_loop().call_soon(self._turn, left - 1)
        else:
            self._tick()

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        self._quiet += 1
        for wait in tuple(self._waits):
            wait.ticks += 1
            if wait.ticks >= (STILL if self._quiet >= STILL else DEAD):
                self._waits.discard(wait)  # once: to end may take it longer than a tick
                wait.limit.reschedule(loop.time())
        self._timer = loop.call_later(TICK_S, self._turn, TURNS) if self._waits else None
