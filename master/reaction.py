"""What a group does about links that fail and come back, and about receivers that come and go (README.md)."""

from __future__ import annotations

import asyncio
import logging
import statistics
import time
from collections.abc import Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from datacast.core import constants as wire
from datacast.services.problems import Problem

from .bounds import Bounds
from .crew import Crew, GroupError
from .forest import Change, Forest, to_json
from .grove import Grove
from .members import Member
from .paces import Paces, Seen
from .plan import RATE_UNKNOWN, Plan, PlannedTree, rated_parts
from .stable import RatedForest

if TYPE_CHECKING:
    from datacast.core.trees import ArcLoad
    from datacast.fabric_manager.api import FabricManagerClient, GroupSpec, StartOrder

    from .view import View

log = logging.getLogger("datacast.master")

TREE_IDS_MAX = 20
"""With more there are no plans for measured rates: agents know 32 trees of a group, a plan may have twelve."""
RELEASE_S = 0.1
"""Links fail together: a lost tree that has links again by then keeps what it has."""


class Reactions:
    """A part of Group, which sets these."""

    id: str
    state: str
    size: int | None
    view: View
    client: FabricManagerClient
    crew: Crew
    forest: Forest | RatedForest | Grove | None
    options: dict[str, Any]
    order: StartOrder
    paces: Paces | None
    plan: Plan | None
    bounds: Bounds
    scheduler: Any
    spec: GroupSpec
    tree_ids: list[int]
    root_of: dict[int, str]
    reactions: list[dict[str, Any]]
    _changes: list[dict[str, Any]]
    _source_trees: dict[str, dict[str, Any]]
    _others: bool
    _finale: bool
    _aside_s: float
    _releases: dict[int, float]
    _reacting: asyncio.Lock
    _wake: asyncio.Event

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        raise NotImplementedError

    def _load(self) -> ArcLoad:
        raise NotImplementedError

    async def _cut(self, cuts: list[list[int]]) -> None:
        raise NotImplementedError

    # ---- links and appliances come and go ----
    def _on_change(self, event: dict[str, Any]) -> None:
        self._changes.append({**event, "received_ns": time.time_ns()})
        self._kick()

    def _kick(self) -> None:
        if self.state == "running" and (self._changes or self._others) and not self._reacting.locked():
            self._spawn(self._react())

    def _wanted(self) -> list[str]:
        """Receivers that the trees must reach."""
        served = self._finale or isinstance(self.forest, RatedForest)
        gone = ("done", "failed", "cancelled") if served else ("failed", "cancelled")
        return [m.name for m in self.crew.receivers if m.state not in gone and not m.aside]

    async def _react(self) -> None:
        """Until nothing is left to react to."""
        async with self._reacting:
            while self._changes or self._others:
                events, self._changes, self._others = self._changes, [], False
                try:
                    await self._react_to(events)
                except GroupError as error:
                    log.warning("group %s: %s", self.id, error)
                    self.crew.rewire()
        self._wake.set()

    async def _react_to(self, events: list[dict[str, Any]]) -> None:
        assert self.forest and self.scheduler
        links = [(e["u"], e["v"], e["up"]) for e in events if e["type"] == "link"]
        appliances = [(e["node"], e["present"]) for e in events if e["type"] == "appliance"]
        entry: dict[str, Any] = {
            "links": [list(link) for link in links],
            "appliances": [list(one) for one in appliances],
            "reported_ns": min((e["t_ns"] for e in events if e.get("t_ns")), default=None),
            "received_ns": min((e["received_ns"] for e in events), default=None),
        }
        before = {number: dict(way.routes) for number, way in self.forest.ways.items()}
        change = self.forest.update(links, self._wanted(), appliances)
        entry["recomputed_ns"] = time.time_ns()
        if change.nothing:
            return
        for tree in change.lost:
            self.scheduler.lose(tree)
            self._releases[tree] = time.monotonic()
            if not links and not appliances:  # only another plan: nothing comes back, and nobody should wait for it
                self._releases[tree] -= RELEASE_S
                self.scheduler.slow_down(tree, self._source_trees.get(str(tree), {}).get("packet_rate"))
        self._take_over_ways()
        routes: dict[str, dict[str, str]] = {}
        for number in change.changed:
            for name, blob in self.forest.ways[number].routes.items():
                if before.get(number, {}).get(name) != blob:
                    routes.setdefault(name, {})[str(number)] = blob.hex()
        entry |= {**to_json(change), "members": sorted(routes), "resumed_ns": None, "all_resumed_ns": None}
        entry["waiting"] = {name: len(trees) for name, trees in routes.items()}
        self.reactions.append(entry)
        signalled = self._spawn(self._signal(entry, change, routes))
        self._note_absences(change, time.monotonic())
        if change.unnamed:
            await signalled
            await self._add_trees(change.unnamed)

    async def _signal(self, entry: dict[str, Any], change: Change, routes: dict[str, dict[str, str]]) -> None:
        """Bring the routes to those concerned. The next change does not wait for a member that does not answer."""
        assert self.forest and self.scheduler
        try:
            await self.crew.reroute(routes)
            entry["signalled_ns"] = time.time_ns()
        except GroupError as error:
            log.warning("group %s: %s", self.id, error)  # the source's agent is away: `open` brings the routes
            self.crew.rewire()
        log.warning("group %s: %s", self.id, {k: entry[k] for k in entry if not k.endswith("_ns")})
        for tree in change.revived:
            if self.forest.ways[tree].slot is not None:  # not lost again meanwhile
                self._releases.pop(tree, None)
                self.scheduler.revive(tree, time.monotonic())

    def _take_over_ways(self) -> None:
        """The plan's trees as they are now, in the order of their ids."""
        assert self.forest and self.plan
        trees = []
        for number, old in zip(self.tree_ids, self.plan.trees, strict=True):
            way = self.forest.ways[number]
            trees.append(replace(old, arcs=way.arcs, depth=way.depth, routes=way.routes))
        self.plan = replace(self.plan, trees=tuple(trees))

    async def _add_trees(self, slots: list[int]) -> None:
        """More trees than ever before: new ids for them."""
        assert self.forest and self.plan and self.scheduler
        try:
            ids = await self.client.tree_ids(len(slots))
        except Problem as problem:
            log.warning("group %s: no ids for new trees: %s", self.id, problem)
            return
        trees: list[PlannedTree] = list(self.plan.trees)
        rated = self._rated_parts() if isinstance(self.forest, RatedForest) else None
        for slot, number in zip(slots, ids, strict=True):
            self.forest.name(slot, number)
            way = self.forest.ways[number]
            like = rated[slot] if rated is not None else trees[0]
            trees.append(replace(like, arcs=way.arcs, depth=way.depth, routes=way.routes))
        self.tree_ids = [*self.tree_ids, *ids]
        self.root_of |= dict.fromkeys(ids, self.crew.source.name)
        self.plan = replace(self.plan, trees=tuple(trees))
        try:
            await self.crew.reopen()
        except GroupError as error:
            log.warning("group %s: %s", self.id, error)
            self.crew.rewire()
        for number, planned in zip(ids, trees[-len(ids) :], strict=True):
            if rated is None:
                self.scheduler.add(number)
                continue
            reach = frozenset(planned.routes)
            self.scheduler.come(reach)
            self.scheduler.add(number, planned.transport.rate_max_bps / 8 / self.plan.frame_bytes, reach)

    def _rated_parts(self) -> list[PlannedTree]:
        assert isinstance(self.forest, RatedForest) and self.plan
        plan = self.forest.plan
        interest = wire.ETHER_LEN + max((route.interest for route in plan.routes), default=0)
        return rated_parts(self.forest.graph, plan, self.options, self._load(), self.plan.frame_bytes, interest)

    def _release(self, now: float) -> None:
        """Give what lost trees would still have sent to the others, one cut at a time."""
        assert self.scheduler
        queues = self.scheduler.trees
        if not any(queue.usable for queue in queues.values()):
            return
        for tree in sorted(self._releases):
            if self.scheduler.cutting:
                return
            if queues[tree].cut_at is not None or now - self._releases[tree] < RELEASE_S:
                continue
            del self._releases[tree]
            cut = self.scheduler.release(tree, now)
            if cut:
                self._spawn(self._cut([[cut.tree, cut.seq]]))

    def _resumed(self, name: str, tree: int, t_ns: int) -> None:
        """A receiver got its first new packet over a changed route."""
        for entry in reversed(self.reactions):
            if tree in entry.get("changed", ()) and name in entry["members"]:
                if t_ns >= entry["recomputed_ns"]:
                    entry["resumed_ns"] = min(entry["resumed_ns"] or t_ns, t_ns)
                    entry["all_resumed_ns"] = max(entry["all_resumed_ns"] or t_ns, t_ns)
                return

    # ---- receivers come and go ----
    def _note_absences(self, change: Change, now: float) -> None:
        for name in change.cut_off:
            member = self.crew.members[name]
            member.away_since = member.away_since or now
        for name in change.back:
            member = self.crew.members[name]
            if member.suspect or member.final:
                continue
            if self._may_return(member):
                member.away_since = None
            else:
                self._set_aside(member, "no link reached it")

    def _others_served(self, member: Member) -> bool:
        """Whether there is somebody whom this one could hold up."""
        others = any(not m.final and not m.aside and m is not member for m in self.crew.receivers)
        able = member.role == "receiver" and not member.sends
        return able and not self._finale and bool(self._aside_s) and others

    def _may_return(self, member: Member) -> bool:
        """One that is far behind would slow the others down with questions about what they had long ago."""
        return not self._others_served(member) or self._behind_s(member) <= self._aside_s

    def _may_wait(self, member: Member) -> bool:
        """One that does not answer can be served later."""
        silent = time.monotonic() - (member.away_since or time.monotonic())
        return self._others_served(member) and silent > self._aside_s

    def _behind_s(self, member: Member) -> float:
        """How long the others, at their rate, have been ahead of it by now."""
        others = [m for m in self.crew.receivers if m is not member and not m.suspect and not m.aside]
        there = [m for m in others if m.state not in ("failed", "cancelled")]
        held = [self.size or 0 if m.state == "done" else m.bytes for m in there]
        rates = [m.rate_bps for m in others if not m.final]
        rate = statistics.median_high(rates) if rates else 0.0
        part = self._planned_part(member, there)
        return (part * statistics.median_high(held) - member.bytes) * 8 / (part * rate) if held and rate else 0.0

    def _planned_part(self, member: Member, others: list[Member]) -> float:
        """What this one gets by plan of what the others get."""
        if not isinstance(self.forest, RatedForest):
            return 1.0
        got = self.forest.plan.got
        rates = [got[m.name] for m in others if got.get(m.name)]
        own = got.get(member.name, 0)
        return own / statistics.median_high(rates) if rates and own else 1.0

    def _set_aside(self, member: Member, why: str) -> None:
        log.warning("group %s: %s is set aside: %s", self.id, member.name, why)
        member.aside = self._others = True
        self._spawn(self.crew.dismiss(member, "served when the others are done", keep=True))
        self._kick()
        self._wake.set()

    async def _serve_those_aside(self) -> None:
        """The others are done: trees for those who were set aside."""
        waiting = [m for m in self.crew.receivers if m.aside and not m.final]
        self._finale = True
        for member in waiting:
            member.aside = False
        self._others = True
        await self._react()
        for member in waiting:
            self.crew.call_back(member)

    def _look_after_members(self) -> None:
        """Those that are cut off for too long fail, those that are far behind are set aside."""
        now = time.monotonic()
        # Without its source everybody is cut off; that is the source's failure, and its time runs.
        off = self.forest.cut_off if self.forest and self.crew.connected else set()
        working = [m for m in self.crew.receivers if not m.final and not m.aside and not m.suspect]
        for member in working:
            if member.name in off:
                member.away_since = member.away_since or now
                if now - member.away_since <= self.crew.timeout_s:
                    continue
                if self._may_wait(member):
                    self._set_aside(member, "no link reaches it")
                else:
                    member.fail("cut_off", f"no link reached {member.name} for {self.crew.timeout_s:g} s")
                    self._others = True
                    self._wake.set()
        self._follow_paces([m for m in working if m.name not in off], now)

    # ---- receivers that are slower than planned ----
    def _follow_paces(self, working: list[Member], now: float) -> None:
        """A receiver that turns out slower than planned gets trees at its own rate, so that it holds nobody up; one
        that stands still gets none."""
        if self.paces is None or self.plan is None or not working or self._reacting.locked():
            return
        asked = self.options.get("delivery") != "together" and self.options.get("planner") is None
        plans = asked and len(self.spec.roots) == 1 and len(self.tree_ids) <= TREE_IDS_MAX
        seen = [self._seen(member, 0.0 if plans else self._behind_s(member)) for member in working]
        if plans and self.paces.look(seen, now):
            share = self.plan.payload / self.plan.frame_bytes
            self._plan_for({name: int(cap / share) for name, cap in self.paces.caps.items()})
        elif not plans:
            self.paces.note(seen, now)
        for name in self.paces.aside(seen, now, plans):
            member = self.crew.members[name]
            if self._others_served(member):
                self._set_aside(member, f"{self._behind_s(member):.1f} s behind the others")
                return

    def _seen(self, member: Member, behind_s: float) -> Seen:
        """`planned`: by the trees there are, as far as other groups leave them room."""
        assert self.plan and self.forest
        share = self.plan.payload / self.plan.frame_bytes
        planned = able = 0.0
        for number, tree in zip(self.tree_ids, self.plan.trees, strict=True):
            way = self.forest.ways[number]
            if way.slot is not None and member.name in way.routes:
                able += tree.transport.rate_max_bps
                planned += min(tree.transport.rate_max_bps, self.bounds.of(number))
        if isinstance(self.forest, RatedForest):
            able = self.forest.plan.bound.get(member.name, 0)
        held = member.bytes - member.unwritten
        return Seen(member.name, held, member.rate_bps, planned * share, able * share, behind_s)

    def _plan_for(self, caps: dict[str, int]) -> None:
        """Trees for what receivers were seen to take, where there can be any."""
        assert self.forest and self.scheduler and self.plan and self.view.network
        forest = self.forest
        if not isinstance(forest, RatedForest):
            rates = {number: planned.rate_bps for number, planned in zip(self.tree_ids, self.plan.trees, strict=True)}
            forest = RatedForest.of(forest, self.view.network, rates, default=RATE_UNKNOWN)
            forest.caps = caps
            if forest.planned(self._wanted()) is None:
                log.warning("group %s: trees with rates cannot be routed, it keeps those it has", self.id)
                return
            self.plan = replace(self.plan, rated=forest.plan)
            self.forest = forest
            self.scheduler.by_name(frozenset(self._wanted()))
        forest.caps = caps
        log.warning("group %s: planning anew, receivers take %s", self.id, caps)
        self._others = True
        self._kick()

    async def join(self, name: str) -> None:
        """A receiver more. When data flows already it is served after the others."""
        known = self.crew.members.get(name)
        if known is not None and known.state not in ("failed", "cancelled"):
            return
        addr = self.view.address(name)
        member = self.crew.members[name] = Member(name, "receiver", addr or "", heard=time.monotonic())
        if not addr:
            member.fail("no_agent", f"host {name} has no agent")
        elif self._finale:
            self._others = True
            await self._react()
            self.crew.suspect(member)
        else:
            member.aside = True
        self._wake.set()

    async def leave(self, name: str) -> None:
        """A receiver less: what it has is dropped."""
        member = self.crew.members.get(name)
        if member is None or member.role != "receiver" or member.final:
            return
        member.state, member.error = "cancelled", {"code": "left", "message": f"{name} left the group"}
        self._others = True
        await self.crew.dismiss(member, "left the group", keep=False)
        self._kick()
        self._wake.set()
