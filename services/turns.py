"""Long work of many in pieces, of which each turn of the loop does one: what has come meanwhile, such as news of a
link, is read before the next. Pieces that became ready together would hold it up all together."""

from __future__ import annotations

import asyncio
from collections import deque


class Turns:
    """`await next()` before a piece that does not wait for anything."""

    def __init__(self) -> None:
        self._taken = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def next(self) -> None:
        """Returns at once where nobody else has had this turn."""
        loop = asyncio.get_running_loop()
        if not self._taken:
            self._take(loop)
            return
        future = loop.create_future()
        self._waiting.append(future)
        await future

    def _take(self, loop: asyncio.AbstractEventLoop) -> None:
        self._taken = True
        loop.call_soon(self._over, loop)

    def _over(self, loop: asyncio.AbstractEventLoop) -> None:
        self._taken = False
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():  # else it was cancelled meanwhile
                future.set_result(None)
                self._take(loop)
                return
