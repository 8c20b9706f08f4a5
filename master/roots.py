"""A group with several roots, hosts that its trees begin at: what is done when one of them goes (README.md)."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from . import pace
from .crew import Crew
from .forest import Forest
from .grove import Agreement, Differ, Grove
from .members import Member
from .schedule import Extent, Scheduler

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from datacast.core.trees import ArcLoad
    from datacast.fabric_manager.api import GroupSpec

    from .plan import Plan
    from .stable import RatedForest
    from .view import View

log = logging.getLogger("datacast.master")

PATIENCE_S = 2.0
"""A root that does not answer for so long sends no more; the others take over what it had to send."""
REACH = 1 << 15
"""Numbers of a tree that a receiver may be waiting for below the next one it will ask for; more than
DC_RECEIVER_REACH."""


class Roots:
    """A part of Group, which sets these."""

    id: str
    crew: Crew
    scheduler: Any
    forest: Forest | RatedForest | Grove | None
    block: int
    root_of: dict[int, str]
    """By tree id."""
    _agreement: Agreement
    _digests: list[list[Any]]
    _digests_since: float
    _given: dict[int, list[Extent]]
    _wake: asyncio.Event
    _several: bool
    spec: GroupSpec
    view: View
    plan: Plan | None
    size: int | None
    options: dict[str, Any]
    tree_ids: list[int]
    _load: Callable[[], ArcLoad]
    _held_by: Callable[[Member, list[list[Any]]], list[list[Any]]]
    _lost_root: Callable[[str, set[int]], None]

    def _sources(self) -> set[str]:
        return {m.name for m in self.crew.roots if m.role == "source"}

    def _agreed(self, member: Member, rows: list[list[Any]]) -> list[list[Any]]:
        """Of a source's digests those that may be told to the receivers."""
        if self.spec.url is not None:
            return self._held_by(member, rows)
        if not self._several:
            return rows
        try:
            return self._agreement.told(member.name, [(row[0], row[1]) for row in rows], self._sources())
        except Differ as differ:
            for source in self.crew.roots:
                source.fail("sources_differ", differ.message)
            self._wake.set()
            return []

    def _look_after_roots(self) -> None:
        """One that does not answer, or has failed, sends no more where there are others."""
        now = time.monotonic()
        for member in self.crew.roots:
            away = now - (member.away_since or now)
            if member.suspect and away > PATIENCE_S and len(self.crew.roots) > 1:
                if member.role == "source":
                    member.fail("unreachable", f"its agent did not answer for {PATIENCE_S:g} s")
                member.sends = False
        sending = {m.name for m in self.crew.roots}
        if sending:
            for name in sorted(set(self.root_of.values()) - sending):
                self._root_gone(name)

    def _root_gone(self, name: str) -> None:
        assert self.scheduler and isinstance(self.forest, Grove)
        trees = sorted(tree for tree, root in self.root_of.items() if root == name)
        log.warning("group %s: %s sends no more, the others take over", self.id, name)
        blocks = {block for tree in trees for block in self._unsure(tree)}
        for tree in trees:
            del self.root_of[tree]
            queue = self.scheduler.trees[tree]
            self.scheduler.lose(tree)
            queue.extents.clear()
            queue.end = queue.sent
        self.forest.drop(name)
        self.crew.tell("cut", {"trees": [[tree, 0] for tree in trees]})
        if rows := self._agreement.left(self._sources()):
            self._digests_since = self._digests_since if self._digests else time.monotonic()
            self._digests += rows
        if self.spec.url is not None:
            self._lost_root(name, blocks)
        else:
            for block in sorted(blocks):
                self.scheduler.again(block)
        self._wake.set()

    def _unsure(self, tree: int) -> set[int]:
        """Blocks given to a tree that some receiver may not have got over it."""
        working = [m for m in self.crew.receivers if not m.final and m.name != self.root_of[tree]]
        passed = [m.trees.get(str(tree), {}).get("seq") for m in working]
        low = min((int(seq) for seq in passed if seq is not None), default=0) - REACH
        if any(seq is None for seq in passed):
            low = 0
        blocks: set[int] = set()
        for extent in self._given.get(tree, ()):
            if extent.seq + extent.count > low:
                blocks |= set(range(extent.first // self.block, -(-(extent.first + extent.count) // self.block)))
        return blocks

    # ---- made at the start ----
    def _make_scheduler(self, trees: list[int], pool: list[tuple[int, int]] | None) -> Scheduler:
        assert self.plan is not None and self.size is not None
        rated, frame = self.plan.rated, self.plan.frame_bytes
        pairs = [(n, planned) for n, planned in zip(self.tree_ids, self.plan.trees, strict=True) if n in trees]
        return Scheduler(
            -(-self.size // self.plan.payload),
            self.block,
            trees,
            min(planned.transport.rate_max_bps for _, planned in pairs) / 8 / frame,
            max_pieces=max(1, pace.extent_bytes(self.size) // self.plan.payload),
            pool=pool,
            rates={tree: planned.transport.rate_max_bps / 8 / frame for tree, planned in pairs}
            if rated or self._several
            else None,
            reach={tree: frozenset(planned.routes) for tree, planned in pairs} if rated else None,
        )

    def _make_one(self, root: str, plan: Plan) -> Forest:
        assert plan.found is not None
        return Forest(
            self.view.graph,
            plan.found.network,
            root,
            plan.found,
            list(plan.found_routes),
            ids=[tree for tree in self.tree_ids if self.root_of[tree] == root],
            payload=plan.payload,
            labels=plan.room,
            around=plan.around,
            most=len(plan.trees) if self._several else self.options.get("trees"),
            load=self._load,
        )
