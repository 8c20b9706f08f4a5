"""What runs beside a group's main course, for as long as the group."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

log = logging.getLogger("datacast.master")

END_S = 0.1


class Tasks:
    """One that breaks is told to `on_error`."""

    def __init__(self, group: str, on_error: Callable[[BaseException], None]) -> None:
        self._group, self._on_error = group, on_error
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            log.error("group %s", self._group, exc_info=error)
            self._on_error(error)

    async def end(self) -> None:
        """Cancel until they are done: in Python 3.11 `wait_for` forgets that it was cancelled when what it waits for
        comes at the same time. A task that asks for this ends itself."""
        mine = set(self._tasks)
        while left := {task for task in mine if not task.done()}:
            for task in left:
                task.cancel()
            await asyncio.wait(left, timeout=END_S)
