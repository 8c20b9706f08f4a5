"""The exchange between sites: each asks those that have a group what they have of it, and lets its own hosts ask for
what sharing.py has chosen. One that can ask a single site only lets them ask for anything, from the front.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import numpy as np

from datacast.core.errors import DatacastError
from datacast.fabric_manager.api import FabricManagerClient
from datacast.origins.exchange import packed
from datacast.origins.ranges import piece_bytes
from datacast.services.problems import Problem
from datacast.services.sites_file import SiteError

from .peers import Peers
from .records import Held, SiteGroup
from .sharing import Sharing

log = logging.getLogger("datacast.sites")

AGAIN_S, AGAIN_MOST_S = 0.25, 2.0
LOOK_S, OFFER_S = 0.05, 0.1
REPEAT_S = 1.0
"""The same offers: another master may have the group by then."""


class Exchanges:
    """`sharing`: of each group that comes from other sites, also read by whoever asks them (gateway.py)."""

    def __init__(self, client: FabricManagerClient, peers: Peers, sharing: dict[str, Sharing]) -> None:
        self._client, self._peers, self._sharing = client, peers, sharing
        self._tasks: dict[tuple[str, ...], asyncio.Task[None]] = {}

    def origins(self, group: SiteGroup) -> list[str]:
        """Sites that may have it and can be asked."""
        names = [group.parent, *group.others] if group.parent else []
        known = self._peers.all
        return [name for name in dict.fromkeys(names) if name in known and known[name].url is not None]

    # ---- all the time ----
    def keep(self, groups: dict[str, SiteGroup]) -> None:
        """Follow what must be followed, and nothing else."""
        wanted: dict[tuple[str, ...], Callable[[], Coroutine[Any, Any, None]]] = {}
        for group in groups.values():
            if group.parent is None or group.fetched or group.finished_ns or group.size == 0:
                continue
            self._sharing.setdefault(group.id, Sharing(group.size, seed=hash(group.id + self._peers.directory.name)))
            origins = self.origins(group)
            several = len(origins) > 1
            if several or group.local is None:
                wanted |= {(group.id, site): partial(self._follow, group.id, site) for site in origins}
            if group.local is not None and not group.own.final:
                wanted[group.id, group.local, str(several)] = partial(self._offer, group.id, group.local, several)
        for key in [key for key in self._tasks if key not in wanted or self._tasks[key].done()]:
            self._tasks.pop(key).cancel()
        for key in [key for key in wanted if key not in self._tasks]:
            self._tasks[key] = asyncio.create_task(wanted[key]())
        for name in [name for name in self._sharing if name not in groups or groups[name].finished_ns]:
            self._sharing.pop(name)

    async def stop(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _follow(self, group_id: str, site: str) -> None:
        """What it has of the group."""
        version, rest = 0, AGAIN_S
        while True:
            sharing = self._sharing.get(group_id)
            if sharing is None:
                return
            if site not in sharing.origins:
                version = 0
            try:
                told = await self._peers.held(site, group_id, version)
                sharing.told(site, told.held, told.begun)
                version, rest = told.version, AGAIN_S
            except (SiteError, Problem, DatacastError) as error:  # it may not have the order yet
                log.debug("group %s: %s", group_id, error)
                sharing.away(site)
                version = 0
                await asyncio.sleep(rest)
                rest = min(AGAIN_MOST_S, 2 * rest)

    async def _offer(self, group_id: str, local: str, several: bool) -> None:
        """Say what may be asked for, and hear what has come."""
        at, before = 0.0, list[tuple[int, int]]()
        while sharing := self._sharing.get(group_id):
            await asyncio.sleep(OFFER_S)
            try:
                now, offers = time.monotonic(), sharing.offers(time.monotonic()) if several else before
                if several and (offers != before or now - at > REPEAT_S):
                    await self._client.offer(local, offers)
                    at, before = now, offers
                sharing.have(await self._client.fetched(local) or packed(np.zeros(sharing.total, bool)))
            except DatacastError as error:
                log.info("group %s: %s", group_id, error)
                await asyncio.sleep(AGAIN_S)

    # ---- for other sites ----
    async def held(self, now: Callable[[], SiteGroup], version: int, wait: float) -> Held:
        """Of a group as it is at each moment; waits until there is another version."""
        end = time.monotonic() + wait
        while True:
            told = self._held(now())
            if told.version != version or time.monotonic() >= end:
                return told
            await asyncio.sleep(LOOK_S)

    def _held(self, group: SiteGroup) -> Held:
        total = -(-group.size // piece_bytes(group.size)) if group.size else 0
        every = packed(np.ones(total, bool))
        none = packed(np.zeros(total, bool))
        if group.parent is None or group.own.state == "done":
            return Held(version=1, held=every, begun=none)
        sharing = self._sharing.get(group.id)
        if sharing is None:
            return Held(version=2, held=none, begun=none)
        held = sharing.passed_on() if group.local is None else sharing.held()
        return Held(version=2 + sharing.version, held=held, begun=sharing.begun())
