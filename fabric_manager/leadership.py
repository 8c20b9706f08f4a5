"""Which of several fabric managers leads: who holds the key `leader`, under a lease of the store.

The others watch the key, and send whoever asks them to the leader. What a leader writes after its lease has ended the
store refuses, because the key it guards with is gone. It takes the key again when nobody has led since: the key `led`,
which has no lease, still says so, and is what that is guarded with. Else it leads no more, and ends.

A lease takes its time to end. So a follower reads a stream of the leader's as well: when that ends, and the leader's
machine says that nobody listens there any more, the process is gone, and the key is taken at once. Were that wrong, the
one before would be deposed, no more: a key that was taken has another revision.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from datacast.services.problems import NO_LEADER, Problem, Unreachable
from datacast.services.service import problem_response
from datacast.services.store import Conflict, Entry, Guard, Lost, Store, StoreError
from datacast.services.tls import PLAIN, Security

from .api import FabricManagerClient
from .keys import LEADER, LED

log = logging.getLogger("datacast.fabric_manager")

LEASE_S = 5.0
"""Only for a machine that is gone or hangs: the end of a process is seen at once (`_heed`). Data flows meanwhile. A
shorter one ends while everybody is alive, and only waits for a processor."""
RETRY_S = 0.2
AGAIN_MAX = 5
"""Leases that end before the key is written with them: one that has no processor for so long is not there."""
HEED_S = 0.05
SURE_S = 0.02
LEADING = "/leading"
"""A stream of the leader's, for as long as it leads."""


class Leadership:
    """`url`: where this one is asked over HTTP, and `security` how it asks another."""

    def __init__(self, store: Store, url: str, security: Security = PLAIN) -> None:
        self.store, self.url, self._security = store, url, security
        # A process that listens at the same address of the same machine is this one's predecessor, and gone.
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        self._name = f"{boot} {url}"
        self.leader: str | None = None
        """Where the leader is asked."""
        self.lost = asyncio.Event()
        self._lease: int | None = None
        self._heard = time.monotonic()
        """When the store was asked that said last that this one leads."""
        self._guard: Guard | None = None
        self._led = 0
        """The revision of `led` since this one leads."""
        self._taking = asyncio.Lock()
        self._gone: str | None = None
        """What the key held of a leader whose process has ended."""
        self._reached: set[str] = set()
        """Addresses where a leader was heard: those do lead to it."""
        self._renewing: asyncio.Task[None] | None = None

    async def campaign(self, meanwhile: Callable[[], Coroutine[Any, Any, None]] | None = None) -> Guard:
        """Until this one leads. `meanwhile`: what is done as long as another one does."""
        while True:
            try:
                guard = await self._try()
                if guard is not None:
                    return guard
                await self._follow(meanwhile)
            except StoreError as error:
                log.warning("%s", error)
                await asyncio.sleep(RETRY_S)

    async def _try(self) -> Guard | None:
        entry = await self.store.get(LEADER)
        held = json.loads(entry.value) if entry else {}
        if entry is not None and held.get("name") != self._name and entry.value != self._gone:
            self.leader = held.get("url")
            return None
        revision = await self._take(entry, None)
        if revision is None:
            return None
        try:
            last = await self.store.get(LED)
            seen = last.revision if last else 0
            self._led = await self.store.put(LED, self._name, seen, guard=Guard(LEADER, revision))
        except (Conflict, Lost):
            return None
        self.leader, self._guard, self._heard = self.url, Guard(LEADER, revision), time.monotonic()
        if isinstance(before := held.get("lease"), int):  # were its owner there, it hears of it
            with contextlib.suppress(StoreError):
                await self.store.revoke(before)
        self._renewing = asyncio.create_task(self._renew())
        return self._guard

    async def _take(self, entry: Entry | None, guard: Guard | None) -> int | None:
        """The key, with a new lease, where it is still as `entry`: its revision."""
        lease = await self.store.grant(LEASE_S)
        value = json.dumps({"name": self._name, "url": self.url, "lease": lease})
        try:
            revision = await self.store.put(LEADER, value, entry.revision if entry else 0, lease=lease, guard=guard)
        except (Conflict, Lost):
            await self.store.revoke(lease)
            return None
        self._lease = lease
        return revision

    async def again(self) -> Guard | None:
        """The lease has ended, as the store says: a guard where nobody else has led since, and this one leads on.
        Raises StoreError."""
        refused = self._guard
        async with self._taking:
            if self.lost.is_set() or self._guard is not refused:
                return None if self.lost.is_set() else self._guard
            for _ in range(AGAIN_MAX):
                entry = await self.store.get(LEADER)
                if entry is not None and json.loads(entry.value).get("name") != self._name:
                    break
                revision = await self._take(entry, Guard(LED, self._led))
                if revision is not None:
                    log.warning("the lease to lead had ended, and nobody else has led: this fabric manager leads on")
                    self._guard = Guard(LEADER, revision)
                    return self._guard
                led = await self.store.get(LED)
                if led is None or led.revision != self._led:
                    break  # another has led; else the new lease had ended before the key was written
            self.lose()
            return None

    async def _follow(self, meanwhile: Callable[[], Coroutine[Any, Any, None]] | None) -> None:
        """Until there is no leader. Raises StoreError."""
        gone = asyncio.Event()
        ends: list[Coroutine[Any, Any, Any]] = [self._watch(gone), gone.wait(), self._absent()]
        tasks = [asyncio.create_task(end) for end in ends]
        beside = [asyncio.create_task(meanwhile())] if meanwhile else []
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (*tasks, *beside):
                task.cancel()
            await asyncio.gather(*tasks, *beside, return_exceptions=True)

    async def _absent(self) -> None:
        """Until the key is not there. It may have gone before the watch began, which says nothing of that."""
        while await self.store.get(LEADER) is not None:
            await asyncio.sleep(LEASE_S)

    async def _watch(self, gone: asyncio.Event) -> None:
        heeding: asyncio.Task[None] | None = None
        try:
            async for change in self.store.watch(LEADER):
                if change.key != LEADER:
                    continue
                if heeding:
                    heeding.cancel()
                if change.value is None:
                    self.leader = None
                    return
                self.leader = json.loads(change.value).get("url")
                log.info("%s leads", self.leader)
                heeding = asyncio.create_task(self._heed(change.value, gone))
        finally:
            if heeding:
                heeding.cancel()
                await asyncio.gather(heeding, return_exceptions=True)

    async def _heed(self, value: str, gone: asyncio.Event) -> None:
        """Sets `gone` when the process of the leader that the key names has ended. Whoever leads listens; that nobody
        does says so where this process was ever answered at that address, or it is of this machine."""
        heard = self.leader in self._reached or json.loads(value)["name"].split()[0] == self._name.split()[0]
        async with FabricManagerClient(self.leader, security=self._security) as client:
            while True:
                try:
                    async for _ in client.texts(LEADING):
                        heard = True
                        self._reached.add(self.leader or "")
                except Unreachable as problem:
                    if heard and problem.refused:
                        log.warning("%s led, and is gone", self.leader)
                        self._gone = value
                        gone.set()
                        return
                except Problem as problem:
                    log.info("%s", problem)
                await asyncio.sleep(HEED_S)

    async def sure(self) -> bool:
        """Does it lead? Once it stood still for longer than its lease, that is what the store says: another may lead
        since, and have all agents."""
        while self._renewing and not self._renewing.done() and not self.lost.is_set():
            if time.monotonic() - self._heard < LEASE_S:
                return True
            await asyncio.sleep(SURE_S)  # it renews meanwhile, or loses
        return False

    async def _renew(self) -> None:
        failing = False
        while not self.lost.is_set():
            await asyncio.sleep(LEASE_S / 5)
            asked = time.monotonic()
            # No longer than the lease: whoever leads next waits for agents that are held here. A store that is embedded
            # has no answer while this process has no processor, and then hears at once of whoever took the key.
            patience = None if self.store.embedded else max(LEASE_S / 5, self._heard + LEASE_S - asked)
            try:
                async with asyncio.timeout(patience):
                    if self._lease is not None:
                        await self.store.renew(self._lease)
                self._heard, failing = asked, False
                continue
            except Lost:
                with contextlib.suppress(StoreError):
                    if await self.again():
                        self._heard, failing = asked, False
                        continue
            except TimeoutError:
                log.warning("the store does not say whether this fabric manager leads")
            except StoreError as error:
                log.warning("%s", error)
            if self.store.embedded and not failing:  # before, it stood still
                self._heard = asked
            failing = True
            if time.monotonic() - self._heard >= LEASE_S:  # nobody says whether it still leads
                self.lose()

    def lose(self) -> None:
        """The lease has ended, or the key is another's."""
        if not self.lost.is_set():
            log.error("this fabric manager leads no more: its lease has ended")
            self.leader = None
            self.lost.set()

    async def resign(self) -> None:
        """Another may lead at once."""
        if self._renewing:
            self._renewing.cancel()
            await asyncio.gather(self._renewing, return_exceptions=True)
        if self._lease is not None and not self.lost.is_set():
            with contextlib.suppress(StoreError):
                await self.store.revoke(self._lease)


class Front:
    """What answers HTTP: the leader's app, or else where the leader is (307)."""

    def __init__(self) -> None:
        self.app: ASGIApp | None = None
        self.leadership: Leadership | None = None

    def end(self) -> None:
        """This one leads no more, and does not know who does."""
        self.app = self.leadership = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sure = self.app is not None and self.leadership is not None and await self.leadership.sure()
        if sure and self.app is not None:
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await self._elsewhere(scope)(scope, receive, send)

    def _elsewhere(self, scope: Scope) -> Response:
        leader = self.leadership.leader if self.leadership else None
        if leader is None:
            text = "no fabric manager leads now"
            return problem_response(Problem(503, NO_LEADER, text, remedy="ask again in a moment"))
        query = scope["query_string"].decode("latin-1")
        # As it came: a header takes no other names than those of its own, nor ends of lines.
        where = f"{leader}{scope['raw_path'].decode('latin-1')}{'?' + query if query else ''}"
        return JSONResponse({"leader": leader}, status_code=307, headers={"location": where})
