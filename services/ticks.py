"""Time that a process had. One that had no processor, or little of one, has waited for nobody, and what came meanwhile
lies in its sockets. So who waits for others counts ticks, each some turns of the loop at least: however long the
process stands still, that is one of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

TURNS = 8
"""Of a tick, at least. An answer takes some turns to be read, each long where others have the processor: by time alone
every one would be given up before it is whole, and asked for again."""


class Ticks:
    """`on_tick` is called every `seconds` between `start` and `stop`."""

    def __init__(self, on_tick: Callable[[], None]) -> None:
        self._on_tick = on_tick
        self._seconds = 0.0
        self._timer: asyncio.Handle | None = None

    def start(self, seconds: float) -> None:
        if self._timer is None:
            self._seconds = seconds
            self._timer = asyncio.get_running_loop().call_later(seconds, self._turn, TURNS)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def running(self) -> bool:
        return self._timer is not None

    def _turn(self, left: int) -> None:
        """What has come in is read by others before the tick counts."""
        loop = asyncio.get_running_loop()
        if left:
            self._timer = loop.call_soon(self._turn, left - 1)
            return
        self._timer = loop.call_later(self._seconds, self._turn, TURNS)
        self._on_tick()
