"""The store: one disk that all fabric managers write to, over a network that loses answers, and that is away at times.

The rules are those of services/store/base.py; tests/store holds both real drivers to them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from datacast.services.store import Change, Conflict, Entry, Guard, Lost, Store, StoreError
from datacast.services.store.base import own, watch_by_looking

from .network import Network
from .virtual import Process, here

HARD, HARD_S = 0.4, 1.0
"""Of what is asked of a key that is hard to get at so much fails, and it takes up to so long."""
AGAIN_S = 0.7
"""A driver that has no answer then asks again, as etcd's does (TIMEOUT_S)."""


@dataclass
class _Kept:
    entry: Entry
    lease: int | None


class Disk:
    def __init__(self, network: Network) -> None:
        self.network = network
        self.entries: dict[str, _Kept] = {}
        self.leases: dict[int, tuple[float, float]] = {}
        self.revision = 0
        self.away = False
        self.failing = 0.0
        """Probability that a request fails; half of those have been carried out, and half of these the driver asks for
        again."""
        self.hard: str | None = None
        """A key that is hard to get at: what is asked of it takes long, and often fails."""
        self.on_write: list[Callable[[str, str | None, Process], None]] = []

    def end_leases(self) -> None:
        now = self.network.loop.now
        for lease in [lease for lease, (_, ends) in self.leases.items() if ends <= now]:
            self.revoke(lease)

    def revoke(self, lease: int) -> None:
        self.leases.pop(lease, None)
        for key in [key for key, kept in self.entries.items() if kept.lease == lease]:
            del self.entries[key]

    def check(self, key: str, expected: int, lease: int | None, guard: Guard | None) -> None:
        def revision(of: str) -> int:
            kept = self.entries.get(of)
            return kept.entry.revision if kept else 0

        if guard is not None and revision(guard.key) != guard.revision:
            raise Lost(f"{guard.key} is another's now", what=guard.key)
        if lease is not None and lease not in self.leases:
            raise Lost(f"lease {lease} has ended", what=key)
        if (there := revision(key)) != expected:
            raise Conflict(f"{key} has revision {there}, not {expected}", what=key)


class SimulatedStore(Store):
    def __init__(self, disk: Disk) -> None:
        self.disk, self.where, self._process = disk, "sim:", here()

    async def _do(self, work, key="", again=None):
        """`work` in one moment between the question and the answer, wherever the asker is by then. `again`: what it is
        when the driver asks a second time, as the first answer was lost; without it that is the caller's affair."""
        disk = self.disk
        network, rng = disk.network, disk.network.rng
        if not self._process.alive:
            raise StoreError("this process was killed", what=self.where)
        hard = bool(key) and key == disk.hard
        chance = HARD if hard else disk.failing
        fails = chance and rng.random() < chance
        drawn = rng.random() if fails else 1.0
        after = drawn < 0.5
        future = network.loop.create_future()

        def carry_out() -> None:
            if disk.away or (fails and not after):
                answer = StoreError(f"{self.where} does not answer", what=self.where)
            else:
                disk.end_leases()
                try:
                    answer = work()
                except StoreError as error:
                    answer = error
                if after:
                    answer = StoreError(f"{self.where} does not answer", what=self.where)
            network.loop.call_later(network.delay(), lambda: future.done() or future.set_result(answer))

        takes = network.delay() * (3 if rng.random() < 0.1 else 1)
        network.loop.call_later(takes + HARD_S * rng.random() if hard else takes, carry_out)
        answer = await future
        if after and drawn < 0.25 and again is not None:
            await asyncio.sleep(AGAIN_S)
            return await self._do(again, key)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _write(self, work, key, value, expected):
        def again():
            try:
                return work()
            except StoreError as refused:
                kept = self.disk.entries.get(key)
                return own(kept and kept.entry, value, expected, refused)

        return await self._do(work, key, again)

    async def get(self, key: str) -> Entry | None:
        return await self._do(lambda: kept.entry if (kept := self.disk.entries.get(key)) else None, key)

    def _under(self, prefix: str) -> list[Entry]:
        return [self.disk.entries[key].entry for key in sorted(self.disk.entries) if key.startswith(prefix)]

    async def list(self, prefix: str, since: int = 0) -> list[Entry]:
        return await self._do(lambda: [entry for entry in self._under(prefix) if entry.revision >= since])

    async def revisions(self, prefix: str) -> dict[str, int]:
        return await self._do(lambda: {entry.key: entry.revision for entry in self._under(prefix)})

    async def put(
        self, key: str, value: str, expected: int, *, lease: int | None = None, guard: Guard | None = None
    ) -> int:
        def work() -> int:
            self.disk.check(key, expected, lease, guard)
            self.disk.revision += 1
            self.disk.entries[key] = _Kept(Entry(key, value, self.disk.revision), lease)
            for told in self.disk.on_write:
                told(key, value, self._process)
            return self.disk.revision

        return await self._write(work, key, value, expected)

    async def delete(self, key: str, expected: int, *, guard: Guard | None = None) -> None:
        def work() -> None:
            self.disk.check(key, expected, None, guard)
            self.disk.entries.pop(key, None)
            for told in self.disk.on_write:
                told(key, None, self._process)

        await self._write(work, key, None, expected)

    async def grant(self, ttl_s: float) -> int:
        def work() -> int:
            self.disk.revision += 1
            self.disk.leases[self.disk.revision] = (ttl_s, self.disk.network.loop.now + ttl_s)
            return self.disk.revision

        return await self._do(work)

    async def renew(self, lease: int) -> None:
        def work() -> None:
            if lease not in self.disk.leases:
                raise Lost(f"lease {lease} has ended", what=str(lease))
            ttl, _ = self.disk.leases[lease]
            self.disk.leases[lease] = (ttl, self.disk.network.loop.now + ttl)

        await self._do(work)

    async def revoke(self, lease: int) -> None:
        await self._do(lambda: self.disk.revoke(lease))

    def watch(self, prefix: str) -> AsyncIterator[Change]:
        return watch_by_looking(self, prefix)

    async def close(self) -> None:
        pass
