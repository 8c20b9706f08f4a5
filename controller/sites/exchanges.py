"""The exchange between sites: each asks those that have a group what they have of it, reads ahead what sharing.py has
chosen, over some connections to each, and lets its own hosts ask for that.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from datacast.core.errors import DatacastError
from datacast.fabric_manager.api import FabricManagerClient
from datacast.origins.exchange import packed, touched
from datacast.origins.ranges import piece_bytes
from datacast.services.problems import Problem
from datacast.services.sites_file import SiteError

from . import wants
from .kept import Kept, Work
from .peers import Peers
from .records import Held, SiteGroup
from .sharing import LINES_MOST, ROOM, Sharing

log = logging.getLogger("datacast.sites")

AGAIN_S, AGAIN_MOST_S = 0.25, 2.0
LOOK_S, OFFER_S, NEWS_S = 0.05, 0.1, 0.25
EARLY = 16 << 20
"""Bytes of a new group that are begun while its hosts are made ready."""
ROOM_ALL, ROOM_LEAST = 256 << 20, 1 << 20
"""Bytes that are kept of all groups, and of one at least."""
REPEAT_S = 1.0
"""The same offers: another master may have the group by then."""


class Exchanges:
    """`groups`: that are known here. `sharing`: of each that comes from other sites, also read by whoever asks them
    (gateway.py)."""

    def __init__(
        self, client: FabricManagerClient, peers: Peers, groups: dict[str, SiteGroup], sharing: dict[str, Sharing]
    ) -> None:
        self._client, self._peers, self._groups, self._sharing = client, peers, groups, sharing
        self._starting: dict[str, SiteGroup] = {}
        self._kept: Kept[tuple[str, ...]] = Kept()

    def origins(self, group: SiteGroup) -> list[str]:
        """Sites that may have it and can be asked."""
        names = [group.parent, *group.others] if group.parent else []
        known = self._peers.all
        return [name for name in dict.fromkeys(names) if name in known and known[name].url is not None]

    # ---- all the time ----
    @contextlib.contextmanager
    def starting(self, group: SiteGroup) -> Iterator[None]:
        """Its first bytes come while its own hosts are still made ready."""
        self._starting[group.id] = group
        self.keep()
        try:
            yield
        finally:
            del self._starting[group.id]

    def keep(self) -> None:
        """Follow what must be followed, and nothing else."""
        wanted: dict[tuple[str, ...], Work] = {}
        groups = self._starting | self._groups
        for group in groups.values():
            if group.parent is None or group.fetched or group.finished_ns or group.size == 0:
                continue
            origins = self.origins(group)
            self._begin(group, origins)
            wanted |= {(group.id, site): partial(self._follow, group.id, site) for site in origins}
            if group.own.final or (group.local is None and group.id not in self._starting):
                continue
            for site in origins:
                for number in range(LINES_MOST):
                    line = f"{site}/{number}"
                    wanted[group.id, site, line] = partial(self._line, group.id, site, line, group.etag)
            if group.local is not None:
                wanted[group.id, group.local, ""] = partial(self._offer, group.id, group.local)
        self._kept.keep(wanted)
        for name in [name for name in self._sharing if name not in groups or groups[name].finished_ns]:
            self._sharing.pop(name)
        for sharing in self._sharing.values():
            sharing.store.limit = max(ROOM_LEAST, min(ROOM, ROOM_ALL // len(self._sharing)))

    def _begin(self, group: SiteGroup, origins: list[str]) -> None:
        if group.id in self._sharing:
            return
        early = EARLY if group.id in self._starting else 0  # after a new start hosts may have all of it
        wanted = wants.of_site(group.spec, group.size)
        alone = not group.others
        sharing = Sharing(group.size, hash(group.id + self._peers.directory.name), early, wanted, alone)
        if len(group.path) == 1 and group.parent in origins:  # the source is there: it has all of it
            sharing.told(group.parent, packed(np.ones(sharing.total, bool)))
        elif early and group.parent in origins:
            sharing.will_have(group.parent)
        self._sharing[group.id] = sharing

    async def stop(self) -> None:
        await self._kept.stop()

    async def _line(self, group_id: str, site: str, line: str, etag: str) -> None:
        """One connection: it brings one run after another."""
        trip = 0.0
        while sharing := self._sharing.get(group_id):
            if not sharing.take(line, trip):
                await sharing.news(NEWS_S)
                continue
            began = time.monotonic()
            try:
                while request := sharing.ask(line):
                    asked, at = time.monotonic(), request[0]
                    async with contextlib.aclosing(self._peers.stream(site, group_id, *request, etag)) as stream:
                        async for chunk in stream:
                            if at == request[0]:
                                waited = time.monotonic() - asked
                                trip = min(trip or waited, waited)
                            at += len(chunk)
                            if not sharing.came(line, chunk):
                                break
                            while not sharing.may_read(line):
                                await sharing.news(NEWS_S)
                sharing.ended(line, time.monotonic() - began)
            except SiteError as error:
                sharing.broke(line)
                if sharing.fails(site, error.code):
                    log.info("group %s: %s", group_id, error.message)
                await asyncio.sleep(AGAIN_S)
            except BaseException:
                sharing.broke(line)
                raise

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
                sharing.told(site, told.held, told.begun, told.heads)
                version, rest = told.version, AGAIN_S
            except (SiteError, Problem, DatacastError) as error:  # it may not have the order yet
                log.debug("group %s: %s", group_id, error)
                if not isinstance(error, SiteError):
                    sharing.away(site)
                elif sharing.fails(site, error.code):
                    log.info("group %s: %s", group_id, error.message)
                version = 0
                await asyncio.sleep(rest)
                rest = min(AGAIN_MOST_S, 2 * rest)

    async def _offer(self, group_id: str, local: str) -> None:
        """Say what may be asked for, and hear what has come."""
        at, before = 0.0, list[tuple[int, int]]()
        while sharing := self._sharing.get(group_id):
            await asyncio.sleep(OFFER_S)
            try:
                now, offers = time.monotonic(), sharing.offers()
                if offers != before or now - at > REPEAT_S:
                    await self._client.offer(local, offers)
                    at, before = now, offers
                if there := await self._client.fetched(local):
                    sharing.have(there)
            except DatacastError as error:
                log.info("group %s: %s", group_id, error)
                await asyncio.sleep(AGAIN_S)

    # ---- for other sites ----
    async def held(self, now: Callable[[], SiteGroup], site: str, version: int, wait: float) -> Held:
        """Of a group as it is at each moment, for this site; waits until there is another version."""
        end = time.monotonic() + wait
        while True:
            told = self._held(now(), site)
            if told.version != version or time.monotonic() >= end:
                return told
            await asyncio.sleep(LOOK_S)

    def _held(self, group: SiteGroup, site: str) -> Held:
        """What only sites below want is passed on to them, and told of to nobody else."""
        total = -(-group.size // piece_bytes(group.size)) if group.size else 0
        every = packed(np.ones(total, bool))
        none = packed(np.zeros(total, bool))
        below = site in group.parts
        if group.parent is None or group.has_all:
            rows = None if below or group.parent is None else wants.of_site(group.spec, group.size)
            there = every if rows is None else packed(touched(rows, group.size, piece_bytes(group.size)))
            return Held(version=1, held=there)
        sharing = self._sharing.get(group.id)
        if sharing is None:
            return Held(version=2, held=none)
        held = sharing.passed_on() if group.passes_on else sharing.held(below)
        return Held(version=2 + sharing.version, held=held, begun=sharing.begun(), heads=sharing.heads())
