"""What the controller remembers of groups that reach beyond this site: kept here, because it keeps nothing itself. What
stands in a record is its own affair (controller/sites/records.py)."""

from __future__ import annotations

import asyncio

from datacast.services.problems import Problem
from datacast.services.store import Entry, StoreError

from .keys import SITE_GROUPS, Kept, packed, under, unpacked, unwritten

KEPT_MAX = 4096
TEXT_MAX = 4 << 20


class SiteGroups:
    """Every method raises Problem for what is not there or cannot be."""

    def __init__(self, kept: Kept) -> None:
        self.kept = kept
        self._records: dict[str, tuple[str, int]] = {}
        """Text and revision, by id."""
        self._writing = asyncio.Lock()
        """One at a time: who takes a record away while it is being made has it gone."""

    def begin(self, entries: list[Entry]) -> None:
        """With what the store holds."""
        self._records = {entry.key: (unpacked(entry.value), entry.revision) for entry in under(SITE_GROUPS, entries)}

    def all(self) -> dict[str, str]:
        return {group: text for group, (text, _) in sorted(self._records.items())}

    async def put(self, group: str, text: str) -> None:
        if len(text) > TEXT_MAX:
            raise Problem(413, "too_large", f"the record of {group} has more than {TEXT_MAX} bytes", what=group)
        async with self._writing:
            await self._put(group, text)

    async def _put(self, group: str, text: str) -> None:
        if group not in self._records and len(self._records) >= KEPT_MAX:
            raise Problem(
                429, "too_many_groups", f"{KEPT_MAX} groups of several sites are remembered", what=group,
                remedy="forget some that have ended: DELETE /groups/{group}",
            )  # fmt: skip
        _, revision = self._records.get(group, ("", 0))
        try:
            self._records[group] = text, await self.kept.overwrite(SITE_GROUPS + group, packed(text.encode()), revision)
        except StoreError as error:
            raise unwritten(error, group) from error

    async def delete(self, group: str) -> None:
        async with self._writing:
            await self._delete(group)

    async def _delete(self, group: str) -> None:
        if group not in self._records:
            raise Problem(404, "group_not_found", f"there is no group {group!r} of several sites", what=group)
        try:
            await self.kept.remove(SITE_GROUPS + group, self._records[group][1])
        except StoreError as error:
            raise unwritten(error, group) from error
        self._records.pop(group, None)
