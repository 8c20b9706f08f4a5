"""What a group does about links and appliances that fail and come back, and about other receivers: its trees change."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace

from datacast.fabric_manager.api.reports import Reaction
from datacast.fabric_manager.api.topology import LinkChange
from datacast.services.problems import Problem

from . import links
from .crew import Crew
from .errors import GroupError
from .feeding import Feeding
from .forest import Change
from .links import Watch
from .plan import PlannedTree, rated_parts
from .schedule import Scheduler
from .stable import RatedForest
from .tasks import Tasks
from .transfer import Transfer
from .tree_queue import turn

log = logging.getLogger("datacast.master")

IDS_AGAIN_S = 0.25
REACTIONS_MAX = 64


class Reactions:
    """One after another; what comes meanwhile is reacted to together."""

    def __init__(
        self,
        transfer: Transfer,
        crew: Crew,
        tasks: Tasks,
        feeding: Feeding,
        absent: Callable[[Change], None],
    ) -> None:
        """`absent`: receivers that no tree reaches any more, or again."""
        self._t, self._crew, self._tasks, self._feeding, self._absent = transfer, crew, tasks, feeding, absent
        self._changes: list[tuple[links.Change, int]] = []
        """And when it was heard of each."""
        self._watch: Watch | None = None
        self._reacting = asyncio.Lock()
        self.others = False
        """The receivers to be served, or what they take, are others than before: `kick`, or the next look, sees it."""

    @property
    def busy(self) -> bool:
        return self._reacting.locked()

    def watch(self) -> None:
        """The topology, from now on."""
        self._watch = self._t.view.subscribe(self.on_change)

    def unwatch(self) -> None:
        if self._watch is not None:
            self._watch.end()

    def on_change(self, change: links.Change) -> None:
        """Of the topology."""
        if isinstance(change, LinkChange) and self._t.paces is not None:
            self._t.paces.flapped(change.u, change.v, time.monotonic())
        self._changes.append((change, time.time_ns()))
        self.kick()

    def kick(self) -> None:
        if self._t.state == "running" and (self._changes or self.others) and not self.busy:
            self._tasks.spawn(self.react())

    def note_links(self) -> None:
        """The trees' links are others than before."""
        assert self._t.forest and self._watch
        self._watch.uses(arc for way in self._t.forest.ways.values() for arc in way.arcs)

    def wanted(self) -> list[str]:
        """Receivers that the trees must reach."""
        served = self._t.finale or isinstance(self._t.forest, RatedForest)
        gone = ("done", "failed", "cancelled") if served else ("failed", "cancelled")
        return [m.name for m in self._crew.receivers if m.state not in gone and not m.aside]

    async def react(self) -> None:
        """Until nothing is left to react to."""
        async with self._reacting:
            while self._changes or self.others:
                changes, self._changes, self.others = self._changes, [], False
                try:
                    await self._react_to([change for change, _ in changes], [at for _, at in changes])
                except GroupError as error:
                    log.warning("group %s: %s", self._t.id, error)
                    self._crew.rewire()
        self._t.wake.set()

    async def _react_to(self, changes: list[links.Change], received_ns: list[int]) -> None:
        t = self._t
        assert t.forest and t.scheduler
        cables = [change for change in changes if isinstance(change, LinkChange)]
        ups = [(change.u, change.v, change.up) for change in cables]
        appliances = [(change.node, change.present) for change in changes if isinstance(change, links.Appliance)]
        entry = Reaction(
            links=ups,
            appliances=appliances,
            reported_ns=min((change.t_ns for change in cables if change.t_ns), default=None),
            received_ns=min(received_ns, default=None),
        )
        assert self._watch
        await asyncio.sleep(0)  # what has come meanwhile is read before
        await t.view.mends.next()
        before = {number: way.routes for number, way in t.forest.ways.items()}
        missed = [(u, v, False) for u, v in self._watch.unread()]
        change = t.forest.update([*missed, *ups], self.wanted(), appliances)
        entry.recomputed_ns = time.time_ns()
        if isinstance(t.forest, RatedForest) and t.forest.refused:
            log.warning("group %s: it had %d trees, and keeps those it has left", t.id, len(t.forest.ways))
        if change.nothing:
            return
        leave = self._leaving(change)
        for tree in change.lost:
            self._feeding.lost(tree, for_good=not ups and not appliances)
        self._take_over_ways()
        self.note_links()
        routes: dict[str, dict[str, str]] = {}
        for number in change.changed:
            for name, blob in t.forest.ways[number].routes.items():
                if before.get(number, {}).get(name) != blob:
                    routes.setdefault(name, {})[str(number)] = blob.hex()
        entry.changed, entry.lost, entry.revived = change.changed, change.lost, change.revived
        entry.unnamed, entry.cut_off, entry.back = change.unnamed, change.cut_off, change.back
        entry.members, entry.waiting = sorted(routes), {name: len(trees) for name, trees in routes.items()}
        t.reactions.append(entry)
        del t.reactions[:-REACTIONS_MAX]
        signalled = self._tasks.spawn(self._signal(entry, change, routes, leave))
        self._absent(change)
        if change.unnamed:
            if routes:
                await signalled
            await self._add_trees(change.unnamed)

    def _leaving(self, change: Change) -> dict[str, list[int]]:
        """Slow receivers leave the trees that end at once: the others have the rest of them without waiting, and what
        a slow one lacks of them comes to it over its new trees."""
        t, leave = self._t, dict[str, list[int]]()
        if not isinstance(t.forest, RatedForest) or not isinstance(t.scheduler, Scheduler):
            return leave
        for tree in change.lost:
            # One whose cap was lifted would wait for a tree that the source still sends at its old pace.
            for name in t.forest.ways[tree].routes.keys() & (t.forest.caps.keys() | t.forest.slow):
                t.forest.left.add(tree)
                leave.setdefault(name, []).append(tree)
        for name, trees in leave.items():
            member = self._crew.members[name]
            t.scheduler.leave(name, {tree: (member.low(tree), member.asked(tree)) for tree in trees})
        return leave

    async def _signal(
        self, entry: Reaction, change: Change, routes: dict[str, dict[str, str]], leave: dict[str, list[int]]
    ) -> None:
        """Bring the routes to those concerned. The next change does not wait for a member that does not answer."""
        t = self._t
        assert t.forest
        try:
            await self._crew.reroute(routes, leave)
            entry.signalled_ns = time.time_ns()
        except GroupError as error:
            log.warning("group %s: %s", t.id, error)  # the source's agent is away: `open` brings the routes
            self._crew.rewire()
        log.warning("group %s: %s", t.id, _in_short(entry))
        for tree in change.revived:
            if t.forest.ways[tree].slot is not None:  # not lost again meanwhile
                self._feeding.revived(tree)

    def _take_over_ways(self) -> None:
        """The plan's trees as they are now, in the order of their ids."""
        t = self._t
        assert t.forest and t.plan and t.scheduler
        trees, now = [], time.monotonic()
        for number, old in zip(t.tree_ids, t.plan.trees, strict=True):
            way = t.forest.ways[number]
            if way.arcs != old.arcs and (queue := t.scheduler.trees.get(number)) is not None:
                turn(old.arcs, queue, now)
            trees.append(replace(old, arcs=way.arcs, depth=way.depth, routes=way.routes))
        t.plan = replace(t.plan, trees=tuple(trees))

    async def _add_trees(self, slots: list[int]) -> None:
        """More trees than ever before: new ids for them."""
        t = self._t
        assert t.forest and t.plan and isinstance(t.scheduler, Scheduler)
        try:
            ids = await t.client.tree_ids(len(slots))
        except Problem as problem:
            log.warning("group %s: no ids for new trees: %s", t.id, problem)
            self._tasks.spawn(self._ask_again())
            return
        trees: list[PlannedTree] = list(t.plan.trees)
        rated = self._rated_parts() if isinstance(t.forest, RatedForest) else None
        for slot, number in zip(slots, ids, strict=True):
            t.forest.name(slot, number)
            way = t.forest.ways[number]
            like = rated[slot] if rated is not None else trees[0]
            trees.append(replace(like, arcs=way.arcs, depth=way.depth, routes=way.routes))
        t.tree_ids = [*t.tree_ids, *ids]
        t.root_of |= dict.fromkeys(ids, self._crew.source.name)
        t.plan = replace(t.plan, trees=tuple(trees))
        self.note_links()
        try:
            await self._crew.reopen()
        except GroupError as error:
            log.warning("group %s: %s", t.id, error)
            self._crew.rewire()
        for number, planned in zip(ids, trees[-len(ids) :], strict=True):
            if rated is None:
                t.scheduler.add(number)
                continue
            reach = frozenset(planned.routes)
            t.scheduler.come(reach)
            t.scheduler.add(number, planned.transport.rate_max_bps / 8 / t.plan.frame_bytes, reach)

    async def _ask_again(self) -> None:
        """A fabric manager that starts again has ids in a moment; without them these trees carry nothing."""
        await asyncio.sleep(IDS_AGAIN_S)
        self.others = True
        self.kick()

    def _rated_parts(self) -> list[PlannedTree]:
        t = self._t
        assert isinstance(t.forest, RatedForest) and t.plan
        return rated_parts(t.forest.graph, t.forest.plan, t.options, t.load(), t.plan.frame_bytes)

    def resumed(self, name: str, tree: int, t_ns: int) -> None:
        """A receiver got its first new packet over a changed route."""
        for entry in reversed(self._t.reactions):
            if tree in entry.changed and name in entry.members:
                if t_ns >= entry.recomputed_ns:
                    entry.resumed_ns = min(entry.resumed_ns or t_ns, t_ns)
                    entry.all_resumed_ns = max(entry.all_resumed_ns or t_ns, t_ns)
                return


def _in_short(entry: Reaction) -> str:
    """For the log: what has changed, and what that is to trees and receivers."""
    said = [f"link {u}-{v} is {'up' if up else 'down'}" for u, v, up in entry.links]
    said += [f"{name} has {'its' if there else 'lost its'} cache appliance" for name, there in entry.appliances]
    for what, trees in (("other routes", entry.changed), ("no links", entry.lost), ("links again", entry.revived)):
        if trees:
            said.append(f"trees with {what}: {', '.join(map(str, trees))}")
    said += [f"no tree reaches {', '.join(entry.cut_off)}"] if entry.cut_off else []
    said += [f"{', '.join(entry.back)} can be reached again"] if entry.back else []
    return f"{'; '.join(said) or 'other receivers'}; {len(entry.members) + entry.members_more} got routes"
