"""Fan-out of events to long-lived streams. A subscriber that does not read is cut off and has to come again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

QUEUE_MAX = 4096


class Subscription:
    def __init__(self, wants: Callable[[dict[str, Any]], bool]) -> None:
        self.wants = wants
        self.queue: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue(QUEUE_MAX)
        self.closed = False

    def put(self, event: dict[str, Any]) -> None:
        if self.closed or not self.wants(event):
            return
        try:
            self.queue.put_nowait(event)
        except asyncio.QueueFull:
            self.close()

    def close(self) -> None:
        """The reader gets what is queued, then None."""
        if self.closed:
            return
        self.closed = True
        if self.queue.full():
            self.queue.get_nowait()
        self.queue.put_nowait(None)


class Hub:
    def __init__(self) -> None:
        self._subscriptions: set[Subscription] = set()

    def subscribe(self, wants: Callable[[dict[str, Any]], bool]) -> Subscription:
        subscription = Subscription(wants)
        self._subscriptions.add(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        self._subscriptions.discard(subscription)

    @property
    def streams(self) -> int:
        """How many read along now."""
        return len(self._subscriptions)

    def publish(self, event: dict[str, Any]) -> None:
        for subscription in tuple(self._subscriptions):
            subscription.put(event)

    def close(self) -> None:
        for subscription in tuple(self._subscriptions):
            subscription.close()
