"""Nodes that are added to the fabric, and taken away, while all runs. Kept in the store, on top of the topology's file.

A node that is taken away keeps its place (its ports at the neighbours), so that it may come back there: the ports of a
node are numbered without gaps. Its links are down, nobody can register for it, and it is no host of any new group.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable

from pydantic import TypeAdapter

from datacast.core.lists import few
from datacast.services.problems import Problem
from datacast.services.store import Entry, StoreError

from .api import NodeSpec
from .api.topology import Change, NodeState
from .fabric import Fabric
from .keys import NODES, Kept, under, unwritten
from .told import FabricError

NODES_MAX = 65_536
_spec: TypeAdapter[NodeSpec] = TypeAdapter(NodeSpec)


class Wiring:
    """`publish` gets the changes, and the whole topology where it has grown. `busy(name)`: groups that the node is a
    member of."""

    def __init__(
        self,
        fabric: Fabric,
        kept: Kept,
        publish: Callable[[Change], None],
        busy: Callable[[str], list[str]],
    ) -> None:
        self.fabric, self.kept, self._publish, self._busy = fabric, kept, publish, busy
        self._changing = asyncio.Lock()
        """Two that come at once would take the same port of a neighbour."""

    def begin(self, entries: list[Entry]) -> None:
        """With what the store holds; what no longer fits the topology is left out."""
        rows = [(json.loads(entry.value), entry) for entry in under(NODES, entries)]
        for row, entry in sorted(rows, key=lambda pair: pair[0]["at_ns"]):
            name = entry.key
            if name not in self.fabric.nodes and row["spec"]:
                try:
                    self.fabric.add(name, _spec.validate_python(row["spec"]))
                except (FabricError, ValueError):
                    continue
            if row["removed"] and name in self.fabric.nodes:
                self.fabric.remove(name, None)

    async def put(self, name: str, spec: NodeSpec) -> NodeState:
        """A new node, or one that was taken away comes back where it was. Raises Problem."""
        async with self._changing:
            return await self._put(name, spec)

    async def _put(self, name: str, spec: NodeSpec) -> NodeState:
        node = self.fabric.nodes.get(name)
        if node is not None and not node.removed:
            raise Problem(
                409, "exists", f"{name} is part of the fabric already", what=name, remedy="take it away first"
            )
        if len(self.fabric.nodes) >= NODES_MAX:
            raise Problem(409, "limit", f"the fabric has {NODES_MAX} nodes, that is the most", what=name)
        if node is not None:
            self._check_place(name, spec)
        try:
            added = self.fabric.numbered(name, spec) if node is None else None
        except FabricError as error:
            raise Problem(
                422,
                error.code,
                error.message,
                what=error.what,
                remedy="`datacast topology --links` shows what is there",
            ) from error
        await self._keep(name, added, removed=False)
        now = time.time_ns()
        if added is not None:
            self.fabric.add(name, added)
            self._publish(self.fabric.snapshot())
        else:
            for change in self.fabric.restore(name, now):
                self._publish(change)
        return self.fabric.node(name)

    def _check_place(self, name: str, spec: NodeSpec) -> None:
        """One that comes back has the cables that it had; what is not said of them is as it was. Raises Problem."""
        place = self.fabric.place(name)
        there = {link.to: link for link in place.links}
        same = sorted(link.to for link in spec.links) == sorted(there) and spec.kind == place.kind
        if not same or spec.forwards not in (None, place.forwards):
            raise _has_a_place(name, f"a {place.kind} with cables to {few(list(there), 16)}")
        for link in spec.links:
            for what in ("port", "to_port", "rate_bps", "mtu"):
                asked, known = getattr(link, what), getattr(there[link.to], what)
                if asked not in (None, known):
                    was = "unknown" if known is None else known
                    raise _has_a_place(name, f"at {link.to} with {what} {was}, not {asked}")

    async def delete(self, name: str) -> None:
        """Raises Problem."""
        async with self._changing:
            await self._delete(name)

    async def _delete(self, name: str) -> None:
        node = self.fabric.nodes.get(name)
        if node is None or node.removed:
            raise Problem(
                404, "unknown_node", f"the fabric has no node {name!r}", what=name,
                remedy="`datacast topology` lists the nodes",
            )  # fmt: skip
        if groups := self._busy(name):
            raise _busy(name, groups)
        for change in self.fabric.remove(name, time.time_ns()):  # first: no group takes it while that is written
            self._publish(change)
        try:
            await self._keep(name, None, removed=True)
        except Problem:
            for change in self.fabric.restore(name, time.time_ns(), anew=False):
                self._publish(change)
            raise

    async def _keep(self, name: str, spec: NodeSpec | None, removed: bool) -> None:
        """`spec`: None leaves what is kept of it as it is."""
        try:
            entry = await self.kept.store.get(NODES + name)
            before = json.loads(entry.value) if entry else None
            row = {
                "at_ns": before["at_ns"] if before else time.time_ns(),
                "spec": _spec.dump_python(spec, mode="json") if spec else before and before["spec"],
                "removed": removed,
            }
            await self.kept.put(NODES + name, json.dumps(row), entry.revision if entry else 0)
        except StoreError as error:
            raise unwritten(error, name) from error


def _has_a_place(name: str, had: str) -> Problem:
    return Problem(
        409, "has_a_place", f"{name} was {had}, and its ports there are kept for it", what=name,
        remedy="add it as it was, or under another name",
    )  # fmt: skip


def _busy(name: str, groups: list[str]) -> Problem:
    return Problem(
        409, "busy", f"{name} is a member of {few(groups)}", what=name, remedy=f"`datacast drain {name}` waits for them"
    )
