"""The master's copy of the topology, kept current by the fabric manager's event stream."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from datacast.core.errors import DatacastError
from datacast.core.trees import ArcLoad, Network
from datacast.fabric_manager.api import FabricManagerClient, topology
from datacast.fabric_manager.api.topology import LinkChange, NodeChange, Topology, graph_of, update_node
from datacast.planners import rates_of
from datacast.services.framing import FramingError
from datacast.services.problems import Problem
from datacast.services.turns import Turns

from .links import Appliance, Change, Links, Watch
from .plan_cache import PlanCache

log = logging.getLogger("datacast.master")

RETRY_S = 0.1
RETRY_MAX_S = 0.2
REGISTER_S, LOOK_S = 3.0, 0.1
"""Agents come to a fabric manager that has just begun to lead within that; so often is looked for them."""
SMALL = 8
"""Pieces of a tenth of a millisecond, in one turn: together as long as one of the others."""


class View:
    """`graph` is None until the first snapshot; `network` is the same for the tree engine, made ahead of its use.
    Who subscribes gets every later change of a link that concerns it (links.py), and of caches of switches."""

    def __init__(self, client: FabricManagerClient) -> None:
        self.client = client
        self.graph: Any = None
        self.network: Network | None = None
        self.plans = PlanCache()
        self._load: ArcLoad | None = None
        """Trees of all groups on each arc."""
        self._strange: dict[tuple[str, str], int] = {}
        """The same of arcs that the topology does not have, or not yet."""
        self._expected: dict[str, list[tuple[str, str]]] = {}
        """Arcs of trees that were planned here and that the fabric manager has not counted yet, by group."""
        self._addresses: dict[str, str] | None = None
        self.version = 0
        self.crowd = 0
        """Members of all groups that this worker has."""
        self._links = Links()
        self.mends, self.looks = Turns(), Turns()
        """Of groups that mend their trees, and of those that are looked at: these do not wait for each other."""
        self.answers, self.steps, self.visits = Turns(SMALL), Turns(SMALL), Turns(SMALL)
        """Of members to orders, of groups that go on because something has come, and of members out of touch."""
        self._grown = asyncio.Condition()

    def subscribe(self, on_change: Callable[[Change], None]) -> Watch:
        return self._links.watch(on_change)

    async def follow(self) -> None:
        """Runs until cancelled; comes again when the stream ends."""
        delay = RETRY_S
        while True:
            try:
                async for text in self.client.topology_changes():
                    delay = RETRY_S
                    await self._apply(topology.read(text))
                    del text  # a whole fabric perhaps, and the next one may be long in coming
            except FramingError as error:
                log.error("news of the topology that make no sense: %s", error)
            except Problem as problem:
                log.info("topology stream: %s", problem)
            await asyncio.sleep(delay)
            delay = min(2 * delay, RETRY_MAX_S)

    # ---- what groups put on the links ----
    def carried(self, arcs: Iterable[tuple[str, str, int]], whole: bool) -> None:
        """From the fabric manager: so many trees more (or less) on each arc. whole: none but these."""
        if whole:
            self._load, self._strange, self._expected = None, {}, {}
        load = self._counted()
        for u, v, by in arcs:
            self._change(load, u, v, by)

    def expect(self, group: str, arcs: list[tuple[str, str]]) -> None:
        """It has planned trees over these: who plans next should know, long before the fabric manager tells of them."""
        self.counted(group)
        self._expected[group] = arcs
        load = self._counted()
        for u, v in arcs:
            self._change(load, u, v, 1)

    def counted(self, group: str) -> None:
        """The fabric manager knows of them, or the group has ended."""
        if arcs := self._expected.pop(group, None):
            load = self._counted()
            for u, v in arcs:
                self._change(load, u, v, -1)

    def _change(self, load: ArcLoad, u: str, v: str, by: int) -> None:
        try:
            load.change(u, v, by)
        except DatacastError:
            if count := self._strange.pop((u, v), 0) + by:
                self._strange[u, v] = count

    def _counted(self) -> ArcLoad:
        """Of all groups, in the engine's numbers as they are now."""
        assert self.network
        if (load := self._load) is None or load.network is not self.network:
            before = [*(load or {}).items(), *self._strange.items()]
            load = self._load = self.network.load = ArcLoad(self.network)
            self._strange = {}
            for (u, v), by in before:
                self._change(load, u, v, by)
        return load

    def load_without(self, own: Iterable[tuple[str, str]]) -> ArcLoad:
        """Of all groups but one, whose trees use these arcs."""
        load, own = self._counted(), list(own)
        return load.without(own) if own else load

    async def _apply(self, event: topology.AnyEvent) -> None:
        changes: list[Change] = []
        if not isinstance(event, LinkChange):
            self._addresses = None
        if isinstance(event, Topology):
            changes = self._snapshot(event)
        elif self.graph is None or not isinstance(event, LinkChange | NodeChange):
            return
        elif isinstance(event, LinkChange):
            self.graph.edges[event.u, event.v]["up"] = event.up
            if self.network:
                self.network.set_up(event.u, event.v, event.up)
            changes = [event]
        else:
            node = self.graph.nodes[event.name]
            msd, cache = node.get("msd"), node.get("cache")
            update_node(self.graph, event)
            if node.get("msd") != msd:
                self.network = Network(self.graph)
            changes = self._appliance(event.name, cache)
        async with self._grown:
            # A fabric manager that started again counts from the beginning: a snapshot always holds.
            self.version = event.version
            self._grown.notify_all()
        for change in changes:
            self._links.tell(change)

    def _snapshot(self, event: Topology) -> list[Change]:
        """What differs from what was known, as on_change gets it. The tree engine's network stays when only the
        state of links and nodes has changed: running groups hold on to it."""
        before, self.graph = self.graph, graph_of(event)
        self.graph.graph["one_rate"] = len(rates_of(self.graph, 0, down=True)) <= 1
        if before is not None:
            for name, data in self.graph.nodes(data=True):
                # A switch that has not registered again is as it was.
                old = before.nodes.get(name, {})
                data.update({key: old[key] for key in ("msd", "cache") if key in old and key not in data})
        now, same = self.graph, before is not None and _same_wiring(before, self.graph)
        if not same:
            self.network = Network(now)
        if before is None:
            return []
        # Those who know the old graph go on with it, whatever has joined since.
        changes: list[Change] = []
        for u, v, data in now.edges(data=True):
            if before.has_edge(u, v) and before.edges[u, v]["up"] != data["up"]:
                changes.append(LinkChange(version=event.version, u=u, v=v, up=data["up"]))
                before.edges[u, v]["up"] = data["up"]
                if same and self.network:
                    self.network.set_up(u, v, data["up"])
        caches = {name: before.nodes[name].get("cache") for name in now if name in before}
        for name, data in now.nodes(data=True) if same else ():
            before.nodes[name].update(data)
        self.graph = before if same else now
        for name, cache in caches.items():
            changes += self._appliance(name, cache)
        return changes

    def _appliance(self, name: str, before: bool | None) -> list[Change]:
        """The change, if a switch's cache appliance came or went."""
        now = self.graph.nodes[name].get("cache")
        if now == before:
            return []
        if self.network:
            self.network.set_cache(name, now is not False)
        if before is None and now:  # it has said so for the first time, and was taken to have one
            return []
        return [Appliance(name, now is not False)]

    async def at(self, version: int, timeout: float | None = None) -> None:
        """Until everything up to `version` is in. Raises TimeoutError."""

        async def wait() -> None:
            async with self._grown:
                await self._grown.wait_for(lambda: self.graph is not None and self.version >= version)

        async with asyncio.timeout(timeout):
            await wait()

    async def registered(self, roots: Sequence[str], receivers: Sequence[str], timeout: float) -> None:
        """Agents may be starting again, as a master is, or coming to another fabric manager. One of the roots is
        needed; receivers are waited for a moment."""
        now = time.monotonic()
        end, soon = now + timeout, now + min(REGISTER_S, timeout)
        while (now := time.monotonic()) < end:
            source = any(self.address(name) for name in roots)
            if source and (now >= soon or all(map(self.address, receivers))):
                return
            await asyncio.sleep(LOOK_S)

    def address(self, host: str) -> str | None:
        """None also where the topology has it no more."""
        return self.graph.nodes[host].get("addr") if host in self.graph else None

    def alive(self, host: str) -> bool:
        """As far as the fabric manager knows: its agent has registered, and is not silent."""
        return host in self.graph and bool(self.graph.nodes[host].get("alive", True))

    def addresses(self) -> dict[str, str]:
        """Of all agents that are registered: in a large fabric some milliseconds, so they are looked for when a node
        has changed."""
        if self._addresses is None:
            self._addresses = {name: data["addr"] for name, data in self.graph.nodes(data=True) if data.get("addr")}
        return self._addresses


def _same_wiring(a: Any, b: Any) -> bool:
    """Nodes with their abilities, links with their ports."""

    def nodes(graph: Any) -> dict[str, Any]:
        return {n: (d["kind"], d["forwards"], d.get("msd")) for n, d in graph.nodes(data=True)}

    def links(graph: Any) -> dict[Any, Any]:
        return {
            frozenset((u, v)): (d["ports"], d["mtu"], d["rate_bps"], d.get("rates_bps"))
            for u, v, d in graph.edges(data=True)
        }

    return nodes(a) == nodes(b) and links(a) == links(b)
