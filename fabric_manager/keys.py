"""The fabric manager's part of the store: what is kept under which key, and tree ids that are never given twice."""

from __future__ import annotations

import asyncio
import base64
import zlib
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import TypeVar

from datacast.services.problems import NO_LEADER, Problem
from datacast.services.store import Conflict, Entry, Guard, Lost, Store, StoreError, TooLong

T = TypeVar("T")

GROUPS = "groups/"
SETS = "sets/"
CORDONS = "cordons/"
CAPS = "caps/"
NODES = "nodes/"
SITE_GROUPS = "site-groups/"
TREE_IDS = "tree-ids"
LEADER = "leader"
LED = "led"
"""Who led last: it stays when the lease of `leader` has ended."""

TREE_ID_MAX = 0xFFFFFFFF
RESERVE = 4096
"""Tree ids taken from the store at once."""
PLAIN_MAX, PACKED = 32 << 10, "zlib:"
"""Records of thousands of receivers repeat themselves: longer ones are packed."""


def packed(data: bytes) -> str:
    """As the store keeps it."""
    return data.decode() if len(data) <= PLAIN_MAX else PACKED + base64.b64encode(zlib.compress(data, 1)).decode()


def unpacked(text: str) -> str:
    """Raises StoreError."""
    try:
        return zlib.decompress(base64.b64decode(text[len(PACKED) :])).decode() if text.startswith(PACKED) else text
    except (ValueError, zlib.error) as error:
        raise StoreError(f"the store holds what was not packed here: {error}") from error


class Kept:
    """`store`, under `guard` when this process leads by a lease. `again` is asked for another guard when it turns out
    that the lease has ended, and has one when nobody else has led meanwhile."""

    def __init__(self, store: Store, guard: Guard | None = None) -> None:
        self.store, self.guard = store, guard
        self.deposed = False
        self.again: Callable[[], Awaitable[Guard | None]] | None = None
        self._replacing = asyncio.Lock()

    async def _guarded(self, write: Callable[[Guard | None], Awaitable[T]]) -> T:
        guard = self.guard
        try:
            return await write(guard)
        except Lost:
            if self.deposed or self.again is None:
                raise
            if (new := await self.again()) is None:
                self.deposed = True
                raise
            self.guard = new
        return await write(self.guard)

    async def put(self, key: str, value: str, revision: int) -> int:
        """The new revision."""
        return await self._guarded(lambda guard: self.store.put(key, value, revision, guard=guard))

    async def delete(self, key: str, revision: int) -> None:
        await self._guarded(lambda guard: self.store.delete(key, revision, guard=guard))

    async def overwrite(self, key: str, value: str, revision: int) -> int:
        """As put, of what is replaced as a whole: where it has another revision than is known here, a write of this
        process was carried out though its answer was lost, or another request was quicker."""
        async with self._replacing:
            try:
                return await self.put(key, value, revision)
            except Conflict:
                entry = await self.store.get(key)
                return await self.put(key, value, entry.revision if entry else 0)

    async def remove(self, key: str, revision: int) -> None:
        """As delete, likewise."""
        async with self._replacing:
            try:
                await self.delete(key, revision)
            except Conflict:
                if (entry := await self.store.get(key)) is not None:
                    await self.delete(key, entry.revision)


def under(prefix: str, entries: Iterable[Entry]) -> list[Entry]:
    """Those whose keys begin so, without it."""
    return [replace(entry, key=entry.key[len(prefix) :]) for entry in entries if entry.key.startswith(prefix)]


class TreeIds:
    """After 2**32 - 1 they begin again at 1."""

    def __init__(self, kept: Kept) -> None:
        self._kept = kept
        self._lock = asyncio.Lock()
        self._next = self._end = 1

    async def take(self, count: int) -> list[int]:
        """Raises StoreError."""
        async with self._lock:
            if self._end - self._next < count:
                await self._reserve(max(count, RESERVE))
            first = self._next
            self._next += count
            return list(range(first, first + count))

    async def _reserve(self, count: int) -> None:
        entry = await self._kept.store.get(TREE_IDS)
        first = int(entry.value) if entry else 1
        if first + count - 1 > TREE_ID_MAX:
            first = 1
        await self._kept.put(TREE_IDS, str(first + count), entry.revision if entry else 0)
        self._next, self._end = first, first + count


def unwritten(error: StoreError, what: str = "") -> Problem:
    """What is said of a write that did not happen."""
    if isinstance(error, Lost):
        return Problem(503, NO_LEADER, "another fabric manager leads now", remedy="ask again in a moment")
    if isinstance(error, Conflict):
        text = f"another fabric manager has changed it: {error.message}"
        return Problem(409, "conflict", text, what=what or error.what)
    if isinstance(error, TooLong):
        text = f"the record of it is too long: {error.message}"
        return Problem(413, "too_large", text, what=what or error.what, remedy="ask for less at a time")
    return Problem(
        503, "store", f"it could not be written: {error.message}", what=what or error.what,
        remedy="see that the store's disk has room and that the store runs",
    )  # fmt: skip
