"""Which of several fabric managers leads: who holds the key `leader`, under a lease of the store.

The others watch the key, and send whoever asks them to the leader. A leader that cannot renew its lease in time leads
no more, and ends: what it would still write the store refuses, because the key it guards with is another's.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from pathlib import Path

from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from datacast.services.problems import Problem
from datacast.services.service import problem_response
from datacast.services.store import Conflict, Guard, Lost, Store, StoreError

from .keys import LEADER

log = logging.getLogger("datacast.fabric_manager")

LEASE_S = 2.0
"""etcd gives none shorter than one and a half times its election timeout."""
RETRY_S = 0.2


class Leadership:
    """`url`: where this one is asked over HTTP."""

    def __init__(self, store: Store, url: str) -> None:
        self.store, self.url = store, url
        # A process that listens at the same address of the same machine is this one's predecessor, and gone.
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        self._name = f"{boot} {url}"
        self.leader: str | None = None
        """Where the leader is asked."""
        self.lost = asyncio.Event()
        self._lease: int | None = None
        self._renewing: asyncio.Task[None] | None = None

    async def campaign(self) -> Guard:
        """Until this one leads."""
        while True:
            try:
                guard = await self._try()
                if guard is not None:
                    return guard
                await self._follow()
            except StoreError as error:
                log.warning("%s", error)
                await asyncio.sleep(RETRY_S)

    async def _try(self) -> Guard | None:
        entry = await self.store.get(LEADER)
        held = json.loads(entry.value) if entry else {}
        if entry is not None and held.get("name") != self._name:
            self.leader = held.get("url")
            return None
        lease = await self.store.grant(LEASE_S)
        value = json.dumps({"name": self._name, "url": self.url})
        try:
            revision = await self.store.put(LEADER, value, entry.revision if entry else 0, lease=lease)
        except (Conflict, Lost):
            await self.store.revoke(lease)
            return None
        self.leader, self._lease = self.url, lease
        self._renewing = asyncio.create_task(self._renew(lease))
        return Guard(LEADER, revision)

    async def _follow(self) -> None:
        """Until there is no leader."""
        async for change in self.store.watch(LEADER):
            if change.key != LEADER:
                continue
            if change.value is None:
                self.leader = None
                return
            self.leader = json.loads(change.value).get("url")
            log.info("%s leads", self.leader)

    async def _renew(self, lease: int) -> None:
        heard = time.monotonic()
        while time.monotonic() - heard < LEASE_S:
            await asyncio.sleep(LEASE_S / 5)
            asked = time.monotonic()
            try:
                await self.store.renew(lease)
                heard = asked
            except Lost:
                break
            except StoreError as error:
                log.warning("%s", error)
        log.error("this fabric manager leads no more: its lease has ended")
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

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.app is not None:
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await self._elsewhere(scope)(scope, receive, send)

    def _elsewhere(self, scope: Scope) -> Response:
        leader = self.leadership.leader if self.leadership else None
        if leader is None:
            text = "no fabric manager leads now"
            return problem_response(Problem(503, "no_leader", text, remedy="ask again in a moment"))
        query = scope["query_string"].decode()
        where = f"{leader}{scope['path']}{'?' + query if query else ''}"
        return JSONResponse({"leader": leader}, status_code=307, headers={"location": where})
