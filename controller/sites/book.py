"""The groups of several sites that this site knows, and what of them outlasts this process."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

from pydantic import ValidationError

from datacast.fabric_manager.api import FabricManagerClient
from datacast.services.problems import Problem
from datacast.services.validation import first_error

from .peers import Peers
from .records import Progress, SiteGroup

log = logging.getLogger("datacast.sites")

LIVE_MAX, ENDED_MAX = 1024, 1000
"""Groups that have not ended, and that have: the oldest of these are forgotten."""
AGAIN_S = 1.0


class Book:
    def __init__(self, client: FabricManagerClient, peers: Peers) -> None:
        self._client, self._peers = client, peers
        self.groups: dict[str, SiteGroup] = {}
        self._saved: dict[str, str] = {}
        self._withdrawn: set[str] = set()
        """Nobody has been told of these: what the store may have of them all the same goes."""
        self._writing: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """One write of a group at a time: of two on their way the older might come last."""

    async def load(self) -> None:
        """What another process knew. Raises Problem."""
        for group_id, text in (await self._client.site_groups()).items():
            try:
                group = SiteGroup.model_validate_json(text)
            except ValidationError as error:
                log.error("group %s: what is kept of it cannot be read: %s", group_id, first_error(error)[1])
                continue
            self.groups[group_id], self._saved[group_id] = group, _mark(group)

    def room(self) -> None:
        """Raises Problem: there is none for one more."""
        if sum(not group.progress().final for group in self.groups.values()) >= LIVE_MAX:
            raise Problem(429, "too_many_groups", f"{LIVE_MAX} groups of several sites are running", remedy="wait")

    async def take_up(self, group: SiteGroup) -> None:
        """It is known from now on, to sites that have a part in it as soon as it is written down. Raises Problem."""
        self._withdrawn.discard(group.id)
        self.groups[group.id] = group
        await self.save(group)

    def wake(self, site: str) -> None:
        if site in self._peers.all:
            self._peers.all[site].wake.set()

    def put(self, group: SiteGroup, **changes: Any) -> SiteGroup:
        """The group as it is known now, with these changes. One that was forgotten meanwhile stays so."""
        known = self.groups.get(group.id)
        group = (known or group).model_copy(update=changes)
        if group.finished_ns is None and group.progress().final:
            group = group.model_copy(update={"finished_ns": time.time_ns()})
        if known is not None:
            self.groups[group.id] = group
        return group

    async def save(self, group: SiteGroup) -> None:
        """When something has changed that must outlast this process: figures need not. Raises Problem."""
        async with self._alone(group.id):
            known = self.groups.get(group.id)
            if known is None or self.saved(known):  # it may have been forgotten meanwhile
                return
            await self._client.put_site_group(known.id, known.model_dump_json())
            first = not self.written(known)
            if known.id in self.groups:
                self._saved[known.id] = _mark(known)
            for site in known.parts if first else ():
                self.wake(site)

    def _alone(self, group_id: str) -> asyncio.Lock:
        return self._writing.setdefault(group_id, asyncio.Lock())

    def written(self, group: SiteGroup) -> bool:
        """It outlasts this process, though not all that has changed since."""
        return group.id in self._saved

    def saved(self, group: SiteGroup) -> bool:
        return self._saved.get(group.id) == _mark(group)

    def part(self, group: SiteGroup, site: str, progress: Progress) -> SiteGroup:
        group = self.groups.get(group.id, group)
        part = group.parts[site].model_copy(update={"progress": progress})
        return self.put(group, parts={**group.parts, site: part})

    async def forget(self, group: SiteGroup) -> None:
        """Raises Problem."""
        async with self._alone(group.id):
            await self._delete(group.id)
            self._drop(group.id)

    async def _delete(self, group_id: str) -> None:
        try:
            await self._client.delete_site_group(group_id)
        except Problem as error:
            if error.status != 404:  # it has been carried out before, and the answer was lost
                raise

    def _drop(self, group_id: str) -> None:
        self.groups.pop(group_id, None)
        self._saved.pop(group_id, None)

    def withdraw(self, group: SiteGroup) -> None:
        """It is not known any more, at once: whoever asked for it is told that there is none."""
        self._drop(group.id)
        self._withdrawn.add(group.id)

    def untidy(self, over: Callable[[SiteGroup], bool]) -> list[SiteGroup] | None:
        """The oldest groups beyond what is kept of those that are `over`; None: `tidy` has nothing to do."""
        old = list[SiteGroup]()
        if len(self.groups) > ENDED_MAX:
            old = sorted((g for g in self.groups.values() if over(g)), key=lambda g: (g.finished_ns or 0, g.id))
        old = old[: max(0, len(old) - ENDED_MAX)]
        return old if old or self._withdrawn else None

    async def tidy(self, old: list[SiteGroup]) -> None:
        """Forget these, and take what was withdrawn out of the store."""
        try:
            for group_id in tuple(self._withdrawn):
                async with self._alone(group_id):
                    if group_id in self._withdrawn:  # it was not asked for again meanwhile
                        await self._delete(group_id)
                        self._withdrawn.discard(group_id)
            for group in old:
                await self.forget(group)
        except Problem as error:
            log.info("groups of several sites that are to be forgotten: %s", error.message)
            await asyncio.sleep(AGAIN_S)


def _mark(group: SiteGroup) -> str:
    """What must outlast this process."""
    states = [group.own.state, *(part.progress.state for part in group.parts.values())]
    return f"{states} {group.local} {group.cancelled} {group.told} {group.others}"
