"""What the store holds, read ahead by whoever follows a leader.

To read the records of a thousand groups that have ended takes up to a second, and one that leads answers nobody before
it has read all. These records change no more. So a follower reads what has changed since it looked last, and when it
leads that is little.
"""

from __future__ import annotations

import asyncio
import logging

from datacast.services.store import Entry, Store, StoreError

from .held import Held
from .keys import GROUPS
from .record import load

log = logging.getLogger("datacast.fabric_manager")

LOOK_S = 3.0


class Replica:
    """No more than the store itself has: what is gone there is gone here."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.entries: dict[str, Entry] = {}
        """By key, but for groups' records."""
        self.groups: dict[str, Held] = {}
        """By id."""

    async def follow(self) -> None:
        """What changes from now on, until it is cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self.refresh()
            except StoreError as error:
                log.warning("what the store holds cannot be read ahead: %s", error)

    async def refresh(self) -> None:
        """As the store is now, where nobody writes meanwhile; else the next one finds what this one missed. Raises
        StoreError."""
        there = await self._store.revisions("")
        known = {key: entry.revision for key, entry in self.entries.items()}
        known |= {GROUPS + group: held.revision for group, held in self.groups.items()}
        for key in known.keys() - there.keys():
            if key.startswith(GROUPS):
                del self.groups[key.removeprefix(GROUPS)]
            else:
                del self.entries[key]
        new = {key: revision for key, revision in there.items() if known.get(key) != revision}
        if not new:
            return
        for entry in await self._store.list("", min(new.values())):
            if not entry.key.startswith(GROUPS):
                self.entries[entry.key] = entry
            elif known.get(entry.key) != entry.revision:
                self.groups[entry.key.removeprefix(GROUPS)] = Held(load(entry.value, entry.key), entry.revision)
                await asyncio.sleep(0)  # it answers others, and hears how the leader is
