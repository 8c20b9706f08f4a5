"""Giving a group's trees what they are to send: extents, cuts, and the digests of what is sent."""

from __future__ import annotations

import asyncio
import logging
import time

from . import pace
from .crew import Crew
from .digests import Digests
from .requests import Assign, Cut, Digest
from .schedule import Scheduler
from .tasks import Tasks
from .transfer import Transfer
from .tree_queue import Extent

log = logging.getLogger("datacast.master")

TICK_S = 0.1
DIGEST_DELAY_S, LATE = 0.05, 1.5
RELEASE_S = 0.1
"""Links fail together: a lost tree that has links again by then keeps what it has."""


class Feeding:
    """Carries out what the scheduler decides."""

    def __init__(self, transfer: Transfer, crew: Crew, tasks: Tasks, digests: Digests) -> None:
        self._t, self._crew, self._tasks, self._digests = transfer, crew, tasks, digests
        self.takeovers = 0
        self._given: dict[int, list[Extent]] = {}
        """By tree; kept where another root may have to give them."""
        self._releases: dict[int, float] = {}
        """Trees that are lost, and since when."""

    def feed(self, look_s: float) -> None:
        """Assign, take over, forward digests. `look_s`: between two looks at the members."""
        t, now = self._t, time.monotonic()
        assert t.scheduler
        delay_s = self._digest_delay_s(look_s)
        self._digests.patient = self._with_looks and delay_s > look_s
        if self._digests and self._digests.due(now, delay_s, t.blocks):
            while self._digests:
                self._crew.tell(Digest(tuple(self._digests.take())))
        t.scheduler.gone(frozenset(m.name for m in self._crew.receivers if m.final))
        extents = t.scheduler.assign(now)
        if t.several:
            for extent in extents:
                self._given.setdefault(extent.tree, []).append(extent)
        if extents:
            self._crew.tell(Assign(tuple([(e.tree, e.seq, e.first, e.count) for e in extents])))
        self._release(now)
        cut = t.scheduler.steal(now)
        if cut:
            self.takeovers += 1
            log.info("group %s: tree %d is cut at %d", t.id, cut.tree, cut.seq)
            self._tasks.spawn(self.cut(cut.tree, cut.seq))

    def tick_s(self, look_s: float) -> float:
        """Until the trees want looking at again."""
        if self._releases:
            return TICK_S
        return min(self._digest_delay_s(look_s), pace.TICK * look_s) if self._digests else pace.TICK * look_s

    def _digest_delay_s(self, look_s: float) -> float:
        """Every block's digest costs an order to all members: while there are pieces to give out they go together, with
        the next look; on their own only where that is late."""
        scheduler = self._t.scheduler
        if look_s <= pace.POLL_S and not (isinstance(scheduler, Scheduler) and scheduler.pooled > 0):
            return DIGEST_DELAY_S
        return LATE * look_s if self._with_looks else look_s

    @property
    def _with_looks(self) -> bool:
        """Not where members fetch: what one of them has got the others should know before it is gone."""
        return isinstance(self._t.scheduler, Scheduler)

    def digests(self) -> Digest | None:
        """To be told with a look."""
        return Digest(tuple(self._digests.take())) if self._digests and self._with_looks else None

    def bounded(self, rates: dict[str, int | None]) -> None:
        """Deal out by what the trees may send."""
        t = self._t
        if t.scheduler is None or t.plan is None:
            return
        piece_bits = 8 * t.plan.frame_bytes
        for tree, bps in rates.items():
            t.scheduler.bound(int(tree), None if bps is None else bps / piece_bits, time.monotonic())
        t.wake.set()

    # ---- trees that are lost ----
    def lost(self, tree: int, for_good: bool) -> None:
        """It has no links of its own. for_good: by another plan, so nothing comes back, and nobody should wait."""
        t, now = self._t, time.monotonic()
        assert t.scheduler
        t.scheduler.lose(tree)
        self._releases[tree] = now - RELEASE_S if for_good else now
        if for_good:
            t.scheduler.slow_down(tree, known.rate if (known := t.source_trees.get(str(tree))) else None)

    def revived(self, tree: int) -> None:
        assert self._t.scheduler
        self._releases.pop(tree, None)
        self._t.scheduler.revive(tree, time.monotonic())

    def _release(self, now: float) -> None:
        """Give what lost trees would still have sent to the others, one cut at a time."""
        scheduler = self._t.scheduler
        assert scheduler
        queues = scheduler.trees
        if not any(queue.usable for queue in queues.values()):
            return
        for tree in sorted(self._releases):
            if scheduler.cutting:
                return
            if queues[tree].cut_at is not None or now - self._releases[tree] < RELEASE_S:
                continue
            del self._releases[tree]
            cut = scheduler.release(tree, now)
            if cut:
                self._tasks.spawn(self.cut(cut.tree, cut.seq))

    async def cut(self, tree: int, seq: int) -> None:
        """Tell all where a tree ends, and wait until its root knows."""
        t, index = self._t, self._crew.entries
        root = self._crew.members[t.root_of.get(tree, self._crew.source.name)]
        await self._crew.tell(Cut(((tree, seq),)))
        while root.position <= index and root.sends:
            await asyncio.sleep(TICK_S)  # its agent is out of touch
        assert t.scheduler
        t.scheduler.cut_done(time.monotonic())
        t.wake.set()

    # ---- a root is gone ----
    def end(self, trees: list[int]) -> tuple[set[int], set[int]]:
        """These send no more, and their root cannot be asked how far it got. Returns the blocks given to them: those
        that some receiver may not have got, and those that all who are at work have."""
        scheduler = self._t.scheduler
        assert scheduler
        unsure, sure = set[int](), set[int]()
        for tree in trees:
            low = self._low(tree)
            for extent in self._given.pop(tree, ()):
                (unsure if extent.seq + extent.count > low else sure).update(self._blocks(extent))
            queue = scheduler.trees[tree]
            scheduler.lose(tree)
            queue.extents.clear()
            queue.end = queue.sent
        self._crew.tell(Cut(tuple([(tree, 0) for tree in trees])))
        return unsure, sure - unsure

    def _blocks(self, extent: Extent) -> range:
        return range(extent.first // self._t.block, -(-(extent.first + extent.count) // self._t.block))

    def _low(self, tree: int) -> int:
        """Nobody lacks anything below that number."""
        t = self._t
        there = [m for m in self._crew.receivers if not m.final and m.name != t.root_of[tree] and not m.aside]
        return 0 if t.finale else min((m.low(tree) for m in there), default=0)
