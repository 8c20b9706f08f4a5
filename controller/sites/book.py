"""The groups of several sites that this site knows, and what of them outlasts this process."""

from __future__ import annotations

import contextlib
import time
from typing import Any

from pydantic import ValidationError

from datacast.fabric_manager.api import FabricManagerClient
from datacast.services.problems import Problem

from .peers import Peers
from .records import Progress, SiteGroup

LIVE_MAX = 1024
"""Groups that have not ended."""


class Book:
    def __init__(self, client: FabricManagerClient, peers: Peers) -> None:
        self._client, self._peers = client, peers
        self.groups: dict[str, SiteGroup] = {}
        self._saved: dict[str, str] = {}

    async def load(self) -> None:
        """What another process knew. Raises Problem."""
        for group_id, text in (await self._client.site_groups()).items():
            with contextlib.suppress(ValidationError):
                self.groups[group_id] = group = SiteGroup.model_validate_json(text)
                self._saved[group_id] = _mark(group)

    def room(self) -> None:
        """Raises Problem: there is none for one more."""
        if sum(not group.progress().final for group in self.groups.values()) >= LIVE_MAX:
            raise Problem(429, "too_many_groups", f"{LIVE_MAX} groups of several sites are running", remedy="wait")

    async def take_up(self, group: SiteGroup) -> None:
        """It is known from now on, to sites that have a part in it as soon as it is written down. Raises Problem."""
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
        if (known := self.groups.get(group.id)) is None:
            return  # it was forgotten meanwhile
        if not self.saved(known):
            await self._client.put_site_group(known.id, known.model_dump_json())
            first = not self.written(known)
            self._saved[known.id] = _mark(known)
            for site in known.parts if first else ():
                self.wake(site)

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
        await self._client.delete_site_group(group.id)
        self.groups.pop(group.id, None)
        self._saved.pop(group.id, None)


def _mark(group: SiteGroup) -> str:
    """What must outlast this process."""
    states = [group.own.state, *(part.progress.state for part in group.parts.values())]
    return f"{states} {group.local} {group.cancelled} {group.told} {group.others}"
