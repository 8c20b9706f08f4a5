"""The interface of the store's drivers, and what it promises.

A key has a value (text) and a revision, which differs after every write. Nothing is written without saying which
revision is replaced (0: the key must not exist), so two writers never overwrite each other unseen. What a method has
answered is on the disk; what it could not write is an error. A lease is a promise to be heard of: keys written under
one go when it is not renewed in time. A guard is a key that must still have a revision for a write to happen: whoever
was deposed meanwhile writes nothing any more. A driver that asks again because no answer came may find its own write
there: that is no conflict.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from dataclasses import dataclass

from datacast.core.errors import DatacastError, UsageError

VALUE_MAX = 1 << 20
"""Bytes of one value: what etcd takes in one request (1.5 MiB), with room for the rest of it."""
WATCH_S = 0.05


class StoreError(DatacastError):
    """The store cannot be opened, read or written."""


class WhereError(StoreError, UsageError):
    """No store can be there."""


class TooLong(StoreError):
    """A value that no store takes: to ask again does not help."""


class Conflict(StoreError):
    """The key has another revision than was said: somebody else has written it."""


class Lost(StoreError):
    """The guard does not hold any more, or the lease has ended."""


@dataclass(frozen=True)
class Entry:
    key: str
    value: str
    revision: int


@dataclass(frozen=True)
class Guard:
    """A write happens only while `key` has `revision`."""

    key: str
    revision: int


@dataclass(frozen=True)
class Change:
    """What a watch sees. `value` None: the key is gone."""

    key: str
    value: str | None
    revision: int


class Store(ABC):
    """Every method raises StoreError when the store does not do it."""

    where: str
    """For messages."""
    embedded = False
    """A part of this process, on this machine's disk: what it is asked it answers in the end, whoever else uses it."""

    @abstractmethod
    async def get(self, key: str) -> Entry | None: ...

    @abstractmethod
    async def list(self, prefix: str, since: int = 0) -> list[Entry]:
        """In the order of the keys. `since`: those that were written with this revision or a later one."""

    @abstractmethod
    async def revisions(self, prefix: str) -> dict[str, int]:
        """As list, but for the values: by key."""

    @abstractmethod
    async def put(
        self, key: str, value: str, expected: int, *, lease: int | None = None, guard: Guard | None = None
    ) -> int:
        """The new revision. `expected` 0: the key must not exist. Raises Conflict, and Lost for the guard or lease."""

    @abstractmethod
    async def delete(self, key: str, expected: int, *, guard: Guard | None = None) -> None:
        """Raises Conflict, and Lost for the guard."""

    @abstractmethod
    async def grant(self, ttl_s: float) -> int:
        """A lease that ends `ttl_s` after its last renewal, or a little later."""

    @abstractmethod
    async def renew(self, lease: int) -> None:
        """Raises Lost when it has ended."""

    @abstractmethod
    async def revoke(self, lease: int) -> None:
        """It ends now, and its keys with it."""

    @abstractmethod
    def watch(self, prefix: str) -> AsyncIterator[Change]:
        """What is there, then what changes, until the caller has enough. Raises StoreError when it breaks off: then
        watch anew."""

    @abstractmethod
    async def close(self) -> None: ...


def own(there: Entry | None, value: str | None, expected: int, refused: StoreError) -> int:
    """Of a write that was refused when it was asked for again, and of which nobody knows whether the first try was
    carried out: its revision, where `there` is what was to be written (`value`; None: nothing) in place of `expected`.
    Else raises what was said. Of two who write the same over the same revision both may be told that it is theirs."""
    revision = there.revision if there else 0
    if revision != expected and (there and there.value) == value:
        return revision
    raise refused


async def watch_by_looking(store: Store, prefix: str) -> AsyncIterator[Change]:
    """`Store.watch` where nothing tells of changes: look again and again."""
    known: dict[str, Entry] = {}
    while True:
        there = {entry.key: entry for entry in await store.list(prefix)}
        for key, entry in there.items():
            if key not in known or known[key].revision != entry.revision:
                yield Change(key, entry.value, entry.revision)
        for key, entry in known.items():
            if key not in there:
                yield Change(key, None, entry.revision)
        known = there
        await asyncio.sleep(WATCH_S)


def checked(value: str) -> bytes:
    """Raises TooLong."""
    data = value.encode()
    if len(data) > VALUE_MAX:
        raise TooLong(f"a value of {len(data)} bytes exceeds {VALUE_MAX}, the most that the store takes")
    return data
