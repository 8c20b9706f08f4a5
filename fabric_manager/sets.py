"""Named sets of hosts. Every method raises Problem for what is not there or cannot be."""

from __future__ import annotations

from typing import Any

from datacast.services.problems import Problem

from .fabric import Fabric
from .requests import check_hosts, problem
from .store import Store


class Sets:
    def __init__(self, fabric: Fabric, store: Store) -> None:
        self.fabric, self.store = fabric, store

    def put(self, name: str, hosts: list[str]) -> dict[str, Any]:
        if not hosts:
            raise problem("no_receivers", "hosts", "a set needs at least one host", name, "name hosts")
        check_hosts(self.fabric, "hosts", hosts)
        self.store.put_set(name, hosts)
        return {"name": name, "hosts": hosts}

    def all(self) -> dict[str, list[str]]:
        return self.store.sets()

    def get(self, name: str) -> dict[str, Any]:
        sets = self.store.sets()
        if name not in sets:
            raise _none(name)
        return {"name": name, "hosts": sets[name]}

    def delete(self, name: str) -> None:
        if not self.store.delete_set(name):
            raise _none(name)


def _none(name: str) -> Problem:
    return Problem(404, "set_not_found", f"there is no set {name!r}", what=name, remedy="GET /sets lists them")
