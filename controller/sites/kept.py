"""Tasks that are kept: each goes on for as long as it is wanted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Generic, TypeVar

Key = TypeVar("Key")
Work = Callable[[], Coroutine[Any, Any, None]]


class Kept(Generic[Key]):
    def __init__(self) -> None:
        self._tasks: dict[Key, asyncio.Task[None]] = {}

    def keep(self, wanted: Mapping[Key, Work]) -> None:
        """These run, those that have ended begin anew, and no others run."""
        for key in [key for key in self._tasks if key not in wanted or self._tasks[key].done()]:
            self._tasks.pop(key).cancel()
        for key in [key for key in wanted if key not in self._tasks]:
            self._tasks[key] = asyncio.create_task(wanted[key]())

    async def stop(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
