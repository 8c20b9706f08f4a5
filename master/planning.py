"""A group's plan as it begins, and what is made of it: a forest that repairs its trees, a scheduler that feeds them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING

from datacast.core.trees import ArcLoad, Network
from datacast.fabric_manager.api.reports import GroupFailure
from datacast.services.ranges import RangeProblem

from . import pace
from .collective import Collective
from .crew import Crew
from .errors import GroupError
from .fetching import block_bytes
from .forest import Forest
from .grove import Grove, ideal_s, joined, plan_roots
from .holders import Holders
from .paces import Paces
from .plan import RATE_UNKNOWN, Plan, PlanError, make_plan, make_plan_for, per_block
from .schedule import Scheduler
from .shards import Shards
from .stable import RatedForest
from .transfer import Transfer

if TYPE_CHECKING:
    import networkx as nx

log = logging.getLogger("datacast.master")

SHARD_BLOCK = 64 << 10
"""Bytes of a block where ranges go to some: a range is as many whole blocks."""
LINKS_S = 1.0
"""So long a group that begins waits for links that are down towards some of its members."""


class Planning:
    """`await make()` once; the transfer has its plan then."""

    def __init__(self, transfer: Transfer, crew: Crew, gate: asyncio.Lock, holders: Holders | None = None) -> None:
        """`gate`: held while trees are computed. `holders`: where sources have parts."""
        self._t, self._crew, self._gate, self._holders = transfer, crew, gate, holders
        self._plans: dict[str, Plan] = {}
        """Of each root."""
        self._graph: nx.Graph | None = None
        self._network: Network | None = None
        """The fabric that they are over. What the view has may be another one since."""

    async def make(self) -> None:
        """Raises GroupError, PlanError."""
        t = self._t
        assert t.size is not None
        waiting = [m for m in self._crew.receivers if not m.final]
        names = [m.name for m in waiting if not m.aside] or [m.name for m in waiting]
        # Those of an earlier master are this group's own.
        load = t.view.load_without([(u, v) for u, v, n in t.order.own for _ in range(n)])
        plan = t.plan = await self._patient(names, load)
        if plan.plain:
            log.warning(
                "group %s: %s has no cache appliance and only forwards: more traffic from above it",
                t.id,
                ", ".join(plan.plain),
            )
        for name, why in plan.cut_off.items():  # perhaps for a moment only: it fails when it stays away
            log.warning("group %s: %s is served when the others are done: %s", t.id, name, why)
            self._crew.members[name].aside = True

    async def lay_out(self) -> None:
        """Ids for the trees, and what feeds and mends them."""
        t = self._t
        assert t.plan and t.size is not None
        adopt = t.order.adopt
        t.tree_ids = t.order.tree_ids[: len(t.plan.trees)]
        missing = len(t.plan.trees) - len(t.tree_ids)
        if missing > 0:
            t.tree_ids += await t.client.tree_ids(missing)
        block = t.options.block_bytes
        if t.spec.url is not None:
            block = block or block_bytes(t.size)
        elif t.spec.shards or t.in_parts:
            block = block or SHARD_BLOCK
        t.block = t.cut[1] if t.cut else per_block(t.size, t.plan.payload, block)
        self._deal_shards()
        ids = iter(t.tree_ids)
        t.root_of = {next(ids): root for root, plan in self._plans.items() for _ in plan.trees}
        if self._holders:
            self._holders.begin()
        names = [m.name for m in self._crew.receivers if not m.final]
        if t.spec.url is not None:
            t.ideal_s = None  # the origin is not known
        elif t.several:
            alone = self._holders.sole_s() if self._holders else 0.0
            t.ideal_s = max(alone, ideal_s(t.plan, self._graph, names, t.size) or 0.0) or None
        else:
            t.ideal_s = t.plan.ideal_s(t.shards.bytes_sent(t.everybody) if t.shards else t.size)
        t.forest = self._forest()
        if t.spec.url is not None or t.in_parts:
            t.scheduler = Collective(
                {root: self._scheduler(t.roots_trees(root), []) for root, plan in self._plans.items() if plan.trees}
            )
        else:
            t.scheduler = self._scheduler(t.tree_ids, list(adopt.rest) if adopt else None)
            if t.aside_s and not t.shards:  # who is to be slow for ranges of its own?
                t.paces = Paces(t.plan.trees[0].transport.cache_bytes // 2, t.aside_s)

    @property
    def roots(self) -> list[str]:
        """Those that have trees."""
        return list(self._plans)

    @property
    def in_pieces(self) -> bool:
        """Some root does not reach everybody."""
        return any(plan.cut_off for plan in self._plans.values())

    async def _patient(self, names: list[str], load: ArcLoad) -> Plan:
        """Links that fail come back, often at once: a host that stands still for a moment loses nobody. With no path to
        anybody that is waited for as long as for a member that is away, and told; PlanError is raised then. Members
        that are cut off after LINKS_S the plan names."""
        t, began = self._t, time.monotonic()
        while True:
            left = began + LINKS_S - time.monotonic()
            try:
                async with self._gate:
                    plan = self._now(names, load)
                    t.view.expect(t.id, [arc for tree in plan.trees for arc in tree.arcs])
                    await asyncio.sleep(0)  # others get their turn before the next group's trees
                lost = {m.name for m in self._crew.roots} - set(self._plans)
                if left <= 0 or not (plan.cut_off or lost):
                    break
            except PlanError as error:
                left = began + self._crew.timeout_s - time.monotonic()
                if error.code != "no_tree" or left <= 0:
                    raise
                if t.error is None:
                    log.warning("group %s: %s: it waits for one", t.id, error.message)
                    message = f"{error.message}; waits for one, {self._crew.timeout_s:g} s at most"
                    t.error = GroupFailure.cut("no_path", message)
                    t.tell_now()
            with contextlib.suppress(TimeoutError):
                await t.view.at(t.view.version + 1, left)
        t.error = None
        for name in lost:
            member = self._crew.members[name]
            if member.role == "receiver":  # it has nothing yet: others fetch, and it is served later
                member.aside, member.sends = True, False
            else:
                member.fail("cut_off", f"no path over links that are up leads from {name} anywhere")
        return plan

    def _now(self, names: list[str], load: ArcLoad) -> Plan:
        """Raises PlanError."""
        t = self._t
        payload = t.cut[0] if t.cut else None
        graph, network = self._graph, self._network = t.view.graph, t.view.network
        if t.several:
            roots = [m.name for m in self._crew.roots]
            self._plans = plan_roots(graph, roots, names, t.options, load, network, payload)
            return joined(self._plans)
        given = graph, t.spec.source, names, t.options, load, network, t.view.plans
        plan = make_plan_for(payload, *given) if payload else make_plan(*given)
        self._plans = {t.spec.source: plan}
        return plan

    def _deal_shards(self) -> None:
        """Who wants what, in blocks. Raises GroupError."""
        t = self._t
        if not t.spec.shards:
            return
        assert t.plan and t.size is not None
        if t.bundle:
            raise GroupError("bad_shards", f"{t.spec.source_path} is a directory: ranges are of a file")
        try:
            t.shards = Shards.of(t.spec.shards, t.size, t.block * t.plan.payload)
        except RangeProblem as error:
            raise GroupError("bad_shards", f"{t.spec.source_path}: {error}") from None
        for member in self._crew.receivers:
            member.wants = t.shards.bytes_of(member.name)

    # ---- what is made of it ----
    def _forest(self) -> Forest | RatedForest | Grove:
        t = self._t
        assert t.plan is not None and self._graph is not None and self._network is not None
        if t.plan.rated is not None:
            return RatedForest(
                self._graph,
                self._network,
                t.spec.source,
                t.plan.rated,
                ids=t.tree_ids,
                payload=t.plan.payload,
                default=RATE_UNKNOWN,
                most=t.options.trees,
                planner=t.options.planner,
            )
        forests = {root: self._one(root, plan) for root, plan in self._plans.items() if plan.trees}
        return Grove(forests, t.in_parts or t.spec.url is not None) if t.several else forests[t.spec.source]

    def _one(self, root: str, plan: Plan) -> Forest:
        t = self._t
        assert plan.found is not None and self._graph is not None
        return Forest(
            self._graph,
            plan.found.network,
            root,
            plan.found,
            list(plan.found_routes),
            ids=t.roots_trees(root),
            payload=plan.payload,
            labels=plan.room,
            around=plan.around,
            most=len(plan.trees) if t.several else t.options.trees,
            load=t.load,
        )

    def _scheduler(self, trees: list[int], pool: list[tuple[int, int]] | None) -> Scheduler:
        t = self._t
        assert t.plan is not None and t.size is not None
        rated, frame = t.plan.rated, t.plan.frame_bytes
        pairs = [(n, planned) for n, planned in zip(t.tree_ids, t.plan.trees, strict=True) if n in trees]
        return Scheduler(
            -(-t.size // t.plan.payload),
            t.block,
            trees,
            min(planned.transport.rate_max_bps for _, planned in pairs) / 8 / frame,
            max_pieces=max(1, pace.extent_bytes(t.size) // t.plan.payload),
            pool=pool,
            rates={tree: planned.transport.rate_max_bps / 8 / frame for tree, planned in pairs}
            if rated or t.several
            else None,
            reach={n: frozenset(planned.routes if rated else t.everybody) - {t.root_of[n]} for n, planned in pairs}
            if rated or t.shards
            else None,
            wants=t.shards.pieces(t.block) if t.shards else None,
        )
