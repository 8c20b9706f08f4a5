"""How long another site's bytes are waited for: by what it has been heard of, and by time that this process had.

A connection is given up where it brings nothing and nothing else is heard of its site; what is on its way then is lost,
and comes again. So nobody is given up who is only behind others in a queue, or waits for the bytes itself: its answers
to questions are heard meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from datacast.services.ticks import Ticks

T = TypeVar("T")

TICK_S = 0.25
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
        self._ticks = Ticks(self._tick)

    def heard(self) -> None:
        self._quiet = 0

    async def of(self, work: Awaitable[T]) -> T:
        """What it brings. Raises TimeoutError."""
        async with asyncio.timeout(None) as limit:
            wait = _Wait(limit)
            self._waits.add(wait)
            if not self._ticks.running:
                self._quiet = 0
                self._ticks.start(TICK_S)
            try:
                found = await work
            finally:
                self._waits.discard(wait)
        self.heard()
        return found

    def _tick(self) -> None:
        self._quiet += 1
        for wait in tuple(self._waits):
            wait.ticks += 1
            if wait.ticks >= (STILL if self._quiet >= STILL else DEAD):
                self._waits.discard(wait)  # once: to end may take it longer than a tick
                wait.limit.reschedule(asyncio.get_running_loop().time())
        if not self._waits:
            self._ticks.stop()
