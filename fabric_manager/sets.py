"""Named sets of hosts. Every method raises Problem for what is not there or cannot be."""

from __future__ import annotations

import json

from datacast.services.problems import Problem
from datacast.services.store import Entry, StoreError

from .api.records import HostSet
from .fabric import Fabric
from .keys import SETS, Kept, under, unwritten
from .requests import check_hosts, problem

SETS_MAX = 4096


class Sets:
    def __init__(self, fabric: Fabric, kept: Kept) -> None:
        self.fabric, self.kept = fabric, kept
        self._sets: dict[str, tuple[list[str], int]] = {}
        """Hosts and the revision, by name."""
        self._making: set[str] = set()
        """Names of those that are being written."""

    def begin(self, entries: list[Entry]) -> None:
        """With what the store holds."""
        self._sets = {entry.key: (json.loads(entry.value), entry.revision) for entry in under(SETS, entries)}

    async def put(self, name: str, hosts: list[str]) -> HostSet:
        if not hosts:
            raise problem("no_receivers", "hosts", "a set needs at least one host", name, "name hosts")
        check_hosts(self.fabric, "hosts", hosts)
        names = self._sets.keys() | self._making
        if name not in names and len(names) >= SETS_MAX:
            remedy = "`datacast sets list` shows them, `datacast sets delete` makes room"
            text = f"there are {SETS_MAX} sets, that is the most"
            raise Problem(429, "too_many_sets", text, what=name, remedy=remedy)
        _, revision = self._sets.get(name, ([], 0))
        self._making.add(name)
        try:
            self._sets[name] = hosts, await self.kept.overwrite(SETS + name, json.dumps(hosts), revision)
        except StoreError as error:
            raise unwritten(error, name) from error
        finally:
            self._making.discard(name)
        return HostSet(name=name, hosts=hosts)

    def all(self) -> dict[str, list[str]]:
        return {name: hosts for name, (hosts, _) in sorted(self._sets.items())}

    def get(self, name: str) -> HostSet:
        if name not in self._sets:
            raise _none(name)
        return HostSet(name=name, hosts=self._sets[name][0])

    async def delete(self, name: str) -> None:
        if name not in self._sets:
            raise _none(name)
        try:
            await self.kept.remove(SETS + name, self._sets[name][1])
        except StoreError as error:
            raise unwritten(error, name) from error
        self._sets.pop(name, None)


def _none(name: str) -> Problem:
    remedy = "`datacast sets list` shows them"
    return Problem(404, "set_not_found", f"there is no set {name!r}", what=name, remedy=remedy)
