"""Long-lived answers, a JSON object a line, and long work that must not hold them up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from typing import Any, TypeVar

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from datacast.services import framing

from .api.orders import Ping
from .hub import Subscription

PING_S = 2.0
"""Who hears nothing for problems.SILENCE_S takes this service for gone."""
T = TypeVar("T")


async def in_turn(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results of all, in order. One begins after the other, and what has come meanwhile, such as news of a link,
    goes out between them; what they wait for they wait for together."""
    tasks = []
    for one in work:
        tasks.append(asyncio.create_task(one))
        await asyncio.sleep(0)
    return list(await asyncio.gather(*tasks))


class Stream(StreamingResponse):
    """Until the subscription is closed or the reader is gone; then `ended` is called, also for whoever goes before the
    first line, and so never begins to read."""

    def __init__(self, subscription: Subscription[Any], ended: Callable[[], None]) -> None:
        super().__init__(lines(subscription), media_type="application/x-ndjson")
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._ended()


async def lines(subscription: Subscription[Any]) -> AsyncIterator[bytes]:
    yield b'{"type":"hello"}\n'
    while True:
        try:
            # Not wait_for: its task would cost news of a link two more turns of a busy loop.
            async with asyncio.timeout(PING_S):
                event = await subscription.queue.get()
        except TimeoutError:
            event = Ping()
        if event is None:
            return
        yield framing.text(event) + b"\n"
