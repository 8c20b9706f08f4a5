"""What is on its way to one switch. A switch that stands still holds up nobody but itself."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from typing import Any

log = logging.getLogger("datacast.controller.switches")

WAITING_MAX = 4096
"""Batches; a switch that has not taken so many is given up."""
CROWDED = 512
"""With so many, what can come again may as well wait until it does."""


class Outbox:
    """A thread that sends to one connection what it is given, in order. `send` may block, and raise: then `failed` is
    called with the error. Both are called in this thread."""

    def __init__(self, name: str, send: Callable[[list[Any]], None], failed: Callable[[Exception], None]) -> None:
        self._send, self._failed = send, failed
        self._queue: queue.Queue[list[Any] | Callable[[], None] | None] = queue.Queue(WAITING_MAX)
        self._closed = False
        threading.Thread(target=self._run, name=f"to {name}", daemon=True).start()

    def put(self, what: list[Any] | Callable[[], None]) -> bool:
        """Messages to send, or a call to make when everything before is out. Never waits; False: there is no room."""
        try:
            self._queue.put_nowait(what)
        except queue.Full:
            return False
        return True

    @property
    def crowded(self) -> bool:
        return self._queue.qsize() >= CROWDED

    def flush(self, timeout_s: float) -> None:
        """Until everything before is out, but no longer than that."""
        out = threading.Event()
        if self.put(out.set):
            out.wait(timeout_s)

    def close(self) -> None:
        """What has not been sent is dropped."""
        self._closed = True
        try:
            self._queue.put_nowait(None)
        except queue.Full:  # it looks at `_closed` after every batch
            return

    def _run(self) -> None:
        while (what := self._queue.get()) is not None and not self._closed:
            try:
                if callable(what):
                    what()
                else:
                    self._send(what)
            except Exception as error:
                if not self._closed:
                    self._failed(error)
