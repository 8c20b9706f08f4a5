"""Hosts that take part in no new group: kept in the store, so that they stay so. Groups that run go on."""

from __future__ import annotations

from datacast.services.problems import Problem
from datacast.services.store import StoreError

from .fabric import Fabric
from .keys import CORDONS, Kept, unwritten
from .requests import check_host


class Cordons:
    def __init__(self, fabric: Fabric, kept: Kept) -> None:
        self.fabric, self.kept = fabric, kept
        self._hosts: dict[str, tuple[str, int]] = {}
        """Reason and the revision, by host."""

    async def begin(self) -> None:
        """With what the store holds. Raises StoreError."""
        entries = await self.kept.store.list(CORDONS)
        self._hosts = {entry.key[len(CORDONS) :]: (entry.value, entry.revision) for entry in entries}

    def reason(self, host: str) -> str | None:
        """None: it takes part."""
        known = self._hosts.get(host)
        return known[0] if known else None

    async def put(self, host: str, reason: str) -> None:
        """Raises Problem."""
        check_host(self.fabric, "host", host)
        _, revision = self._hosts.get(host, ("", 0))
        try:
            self._hosts[host] = reason, await self.kept.put(CORDONS + host, reason, revision)
        except StoreError as error:
            raise unwritten(error, host) from error

    async def delete(self, host: str) -> None:
        """Raises Problem."""
        try:
            await self.kept.delete(CORDONS + host, self._hosts[host][1])
        except StoreError as error:
            raise unwritten(error, host) from error
        self._hosts.pop(host, None)

    def check(self, names: list[str]) -> None:
        """Raises Problem: one of them takes part in no new group."""
        for name in names:
            if name in self._hosts:
                why = f": {self._hosts[name][0]}" if self._hosts[name][0] else ""
                raise Problem(
                    409, "cordoned", f"host {name} takes part in no new group{why}", what=name,
                    remedy="leave it out, or `datacast uncordon` it",
                )  # fmt: skip
