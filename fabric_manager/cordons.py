"""Hosts that take part in no new group, and switches that no tree uses: kept in the store, so that they stay so.

Groups that run on a cordoned host go on. The links of a cordoned switch count as down for whoever plans trees, while
they carry what is on its way: groups that run move away from it without loss.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from datacast.core.lists import few
from datacast.services.problems import Problem
from datacast.services.store import Entry, StoreError

from .api.topology import Change
from .fabric import Fabric
from .keys import CORDONS, Kept, under, unwritten
from .requests import check_host, problem


class Cordons:
    """`publish` gets changes of the topology; `busy(host)`: groups that run and have it as a member."""

    def __init__(
        self,
        fabric: Fabric,
        kept: Kept,
        publish: Callable[[Change], None],
        busy: Callable[[str], list[str]],
    ) -> None:
        self.fabric, self.kept, self._publish, self._busy = fabric, kept, publish, busy
        self._nodes: dict[str, tuple[str, int]] = {}
        """Reason and the revision, by host or switch."""

    def begin(self, entries: list[Entry]) -> None:
        """With what the store holds."""
        self._nodes = {entry.key: (entry.value, entry.revision) for entry in under(CORDONS, entries)}
        for name, (reason, _) in self._nodes.items():
            if name in self.fabric.nodes and self.fabric.nodes[name].kind == "switch":
                self.fabric.drain(name, reason)

    def reason(self, name: str) -> str | None:
        """None: it takes part."""
        known = self._nodes.get(name)
        if known:
            return known[0]
        cut = self._switches_of(name)
        return f"cut off: no tree uses {', '.join(cut)}" if cut else None

    def _switches_of(self, host: str, drained: str = "") -> list[str]:
        """Its switches, where none is left that trees may use; `drained` as if it were."""
        nodes = self.fabric.nodes
        if host not in nodes or nodes[host].kind != "host":
            return []
        around = [nodes[name] for name in self.fabric.graph.neighbors(host)]
        off = [node.name for node in around if node.drained is not None or node.name == drained]
        return off if len(off) == len(around) else []

    async def put(self, host: str, reason: str) -> None:
        """Raises Problem."""
        check_host(self.fabric, "host", host)
        await self._keep(host, reason)

    async def put_switch(self, name: str, reason: str) -> None:
        """Raises Problem: it is none, or a host that a group has is on no other."""
        self._check_switch(name)
        self._check_free(name)
        known = name in self._nodes
        await self._keep(name, reason)
        try:
            self._check_free(name)
        except Problem:  # a group has begun while that was written
            if not known:
                await self.delete(name)
            raise
        self._drain(name, reason)

    def _check_free(self, switch: str) -> None:
        """Raises Problem: a host that a group has is on no other."""
        for host in self.fabric.graph.neighbors(switch):
            if self._switches_of(host, switch) and (groups := self._busy(host)):
                raise Problem(
                    409, "busy", f"{host} has no other switch than {switch}, and is a member of {few(groups)}",
                    what=host, remedy=f"`datacast drain {host}` waits for them",
                )  # fmt: skip

    def _check_switch(self, name: str) -> None:
        node = self.fabric.nodes.get(name)
        if node is None or node.removed:
            text, remedy = f"the topology has no switch {name!r}", "`datacast topology` lists them"
            raise problem("unknown_switch", "switch", text, name, remedy)
        if node.kind != "switch":
            text, remedy = f"{name} is a {node.kind}, not a switch", "PUT /hosts/{name}/cordon is for hosts"
            raise problem("not_a_switch", "switch", text, name, remedy)

    def _drain(self, name: str, reason: str | None) -> None:
        for change in self.fabric.drain(name, reason, time.time_ns()):
            self._publish(change)

    async def _keep(self, name: str, reason: str) -> None:
        _, revision = self._nodes.get(name, ("", 0))
        try:
            self._nodes[name] = reason, await self.kept.overwrite(CORDONS + name, reason, revision)
        except StoreError as error:
            raise unwritten(error, name) from error

    async def delete(self, name: str) -> None:
        """Of a host or a switch. Raises Problem."""
        if name not in self._nodes:
            remedy = "`datacast hosts` shows who is"
            raise Problem(404, "not_cordoned", f"{name} is not cordoned", what=name, remedy=remedy)
        try:
            await self.kept.remove(CORDONS + name, self._nodes[name][1])
        except StoreError as error:
            raise unwritten(error, name) from error
        self._nodes.pop(name, None)
        if name in self.fabric.nodes and self.fabric.nodes[name].kind == "switch":
            self._drain(name, None)

    def check(self, names: list[str]) -> None:
        """Raises Problem: one of them takes part in no new group."""
        for name in names:
            if (reason := self.reason(name)) is not None:
                why = f": {reason}" if reason else ""
                raise Problem(
                    409, "cordoned", f"host {name} takes part in no new group{why}", what=name,
                    remedy="leave it out, or `datacast uncordon` it",
                )  # fmt: skip
