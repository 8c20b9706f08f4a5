"""Long-lived answers: a JSON object a line."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable

from .hub import Subscription

PING_S = 5.0


async def lines(subscription: Subscription, ended: Callable[[], None]) -> AsyncIterator[bytes]:
    """Until the subscription is closed or the reader is gone; then `ended` is called."""
    try:
        yield b'{"type":"hello"}\n'
        while True:
            try:
                event = await asyncio.wait_for(subscription.queue.get(), PING_S)
            except TimeoutError:
                event = {"type": "ping"}
            if event is None:
                return
            yield json.dumps(event).encode() + b"\n"
    finally:
        ended()
