"""Fan-out of events to long-lived streams. A subscriber that does not read is cut off and has to come again."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from msgspec import structs

from .api.records import AllGroups, GroupChange, GroupForgotten
from .api.topology import Change, Topology

QUEUE_MAX = 4096
E = TypeVar("E")
Event = Change | GroupChange | GroupForgotten | AllGroups


class Subscription(Generic[E]):
    """Of a reader, to some kind of message."""

    def __init__(self, wants: Callable[[E], bool]) -> None:
        self.wants = wants
        self.queue: asyncio.Queue[E | None] = asyncio.Queue(QUEUE_MAX)
        self.closed = False

    def put(self, event: E) -> None:
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
    """Every event gets an `event`: which it is, of this hub. The last ones are kept for those who come again, from the
    last whole topology on: each holds all nodes, and who comes again from before it is told of all as it stands."""

    def __init__(self) -> None:
        self._subscriptions: dict[Subscription[Event], None] = {}
        self._followers: set[Subscription[Event]] = set()
        self.followed = asyncio.Event()
        """Another fabric manager waits to lead."""
        self._name, self._count = os.urandom(4).hex(), 0
        self._kept: deque[Event] = deque(maxlen=QUEUE_MAX // 2)

    def subscribe(self, wants: Callable[[Event], bool]) -> Subscription[Event]:
        subscription = Subscription(wants)
        self._subscriptions[subscription] = None
        return subscription

    def follow(self) -> Subscription[Event]:
        """Of a fabric manager that follows: it reads nothing but that the stream ends."""
        subscription = self.subscribe(lambda event: False)
        self._followers.add(subscription)
        self.followed.set()
        return subscription

    def unsubscribe(self, subscription: Subscription[Event]) -> None:
        self._subscriptions.pop(subscription, None)
        self._followers.discard(subscription)
        if not self._followers:
            self.followed.clear()

    @property
    def streams(self) -> int:
        """How many read along now."""
        return len(self._subscriptions)

    @property
    def last(self) -> str:
        """The newest event's."""
        return f"{self._name}-{self._count}"

    def since(self, event: str) -> list[Event] | None:
        """What came after an event; None when that is not known any more, or was another hub's."""
        name, _, text = event.partition("-")
        if name != self._name or not (text.isascii() and text.isdigit()):
            return None
        missed = self._count - int(text)
        if not 0 <= missed <= len(self._kept):
            return None
        return list(self._kept)[len(self._kept) - missed :]

    def publish(self, event: Event) -> None:
        self._count += 1
        event = structs.replace(event, event=self.last)
        if isinstance(event, Topology):
            self._kept.clear()
        self._kept.append(event)
        for subscription in tuple(self._subscriptions):
            subscription.put(event)

    def close(self) -> None:
        for subscription in tuple(self._subscriptions):
            subscription.close()
