"""What the members tell of themselves: events, and answers to `status`."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from datacast.fabric_manager.api.reports import Slowness

from . import events
from .answers import Results, StatusAnswer, TreeCounts
from .crew import Crew
from .digests import Digests, Row, of_blocks
from .members import NOTHING, Counts, Member
from .schedule import Scheduler
from .transfer import SourceTree, Transfer
from .tree_queue import ALL

log = logging.getLogger("datacast.master")


class Figures:
    """Keeps the members' figures, and tells the scheduler and the other parts what they say."""

    def __init__(
        self,
        transfer: Transfer,
        crew: Crew,
        digests: Digests,
        *,
        resumed: Callable[[str, int, int], None],
        vouched: Callable[[Member, list[Row]], list[Row]],
        not_fetched: Callable[[Member, str, str], None],
    ) -> None:
        """`resumed(member, tree, t_ns)`: its first data over a changed route. `vouched(root, rows)`: of the digests it
        tells those that receivers may be told. `not_fetched(root, code, why)`: it
        cannot fetch what it was ordered to."""
        self._t, self._crew, self._digests = transfer, crew, digests
        self._resumed, self._vouched, self._not_fetched = resumed, vouched, not_fetched
        self._polled_at = 0.0
        self._told_at: dict[str, float] = {}
        """When each root told of its trees last: one may have been out of touch since."""
        self._like = NOTHING
        """What a receiver has told last, whose names the next one's have."""

    # ---- events ----
    def on_event(self, event: events.AnyEvent) -> None:
        t = self._t
        member = self._crew.members.get(event.n)
        if event.group != t.id or member is None:
            return
        now = time.monotonic()
        member.heard = now
        match event:
            case events.First(t_ns=t_ns):
                if member.sends:
                    t.first_ns = t.first_ns or t_ns
                if member.role == "receiver":
                    member.t_first_ns = member.t_first_ns or t_ns
            case events.Progress(tree=tree, seq=seq) if t.scheduler and self._begins(tree, member):
                t.scheduler.sent(tree, seq, now)
                if isinstance(t.scheduler, Scheduler) and not t.scheduler.hungry(tree, now):
                    return  # nothing follows from it
            case events.Digests(blocks=rows):
                before = len(self._digests)
                self._digests_in(member, rows, now)
                if (before or self._digests.patient) and not self._digests.urgent(t.blocks):
                    return  # they go out together, when the first has waited for long enough
            case events.Done(t_ns=t_ns) if member.role == "receiver":
                self.done(member, t_ns)
            case events.Failed(code=code, error=error):
                member.fail(code, error)
            case events.NotFetched(code=code, error=error) if member.sends:
                self._not_fetched(member, code, error)
            case events.BadBlock(block=block, forgotten=forgotten):
                member.bad_blocks += 1
                if forgotten and t.scheduler:
                    t.scheduler.again(block, frozenset({member.name}))
            case events.Slowed() if member.sends:
                t.slowed.set()
            case events.Resumed(tree=tree, t_ns=t_ns):
                self._resumed(member.name, tree, t_ns)
        t.news = t.news or not isinstance(event, events.Progress | events.Digests | events.Slowed)
        t.wake.set()

    def _digests_in(self, member: Member, rows: list[Row], now: float) -> None:
        """Only roots have read the file; and a bad row among good ones would be refused by every receiver."""
        if not member.sends:
            log.warning("group %s: digests of %s dropped: it is not the source", self._t.id, member.name)
            return
        good = of_blocks(rows, self._t.blocks if self._t.scheduler else 0)  # before, it is not cut into blocks yet
        if len(good) < len(rows):
            log.warning("group %s: %d malformed digests of %s dropped", self._t.id, len(rows) - len(good), member.name)
        self._digests.put(self._vouched(member, good), now)

    def done(self, member: Member, t_ns: int | None) -> None:
        """It has the file."""
        if not member.final:
            member.state, member.t_done_ns = "done", t_ns or time.time_ns()
            member.sha256_ok, member.suspect = True, False
            member.bytes = member.whole(self._t.size) or 0
            self._t.wake.set()
            self._t.tell_now()

    # ---- status ----
    def status_in(self, results: Results[StatusAnswer], asked: float) -> None:
        """`asked`: when."""
        now = time.monotonic()
        elapsed = now - self._polled_at if self._polled_at else None
        self._polled_at = now
        self._t.looks += elapsed is not None
        for name, result in results.items():
            member = self._crew.members.get(name)
            if member is None or member.suspect or not self._crew.noticed(member, result):
                continue
            if member.role == "receiver":
                self.receiver_in(member, result, elapsed)
            sends = result.trees if member.role == "source" else result.sends
            self._source_in(member, sends, now, asked)
            if member.role == "source" and self._not_begun(name, sends):
                self._crew.rewire()
            if result.state == "failed":
                member.fail(result.code or "error", result.error or "failed")
                self._t.wake.set()
        self._skipped(now)

    def _skipped(self, now: float) -> None:
        """What all receivers hold, the source is never asked for. What they have asked for and not got it has yet to
        send: over a tree with a small share that is as much as they have credits, and seconds of it."""
        scheduler = self._t.scheduler
        working = [m for m in self._crew.receivers if not m.final and not m.aside]
        if not scheduler or not working or any(m.suspect for m in working):
            return
        for tree, queue in scheduler.trees.items():
            root = self._t.root_of.get(tree)
            there = working if queue.reach == ALL else [m for m in working if m.name in queue.reach]
            if self._t.several:
                there = [m for m in there if m.name != root]
            low = [low for low in Counts.column([m.trees for m in there], tree, "low") if low is not None]
            if there and len(low) == len(there):
                scheduler.sent(tree, min(low), now)

    def _not_begun(self, name: str, told: Mapping[str, TreeCounts]) -> bool:
        """Whether trees that begin at this member are unknown to it, though it was told: nothing would ever come over
        them."""
        return any(str(tree) not in told for tree in self._t.roots_trees(name))

    def _begins(self, tree: int, member: Member) -> bool:
        """Only a tree's root knows how far it is. One without a root may be anybody's: nothing is sent of it."""
        return self._t.root_of.get(tree, member.name) == member.name

    def _source_in(self, member: Member, told: Mapping[str, TreeCounts], now: float, asked: float) -> None:
        t = self._t
        if not told:
            return
        elapsed = now - self._told_at[member.name] if member.name in self._told_at else None
        self._told_at[member.name] = now
        for number in t.tree_ids:
            tree = str(number)
            counts = told.get(tree)
            if counts is None or not self._begins(number, member):
                continue
            # By numbers, not by packets: a tree with several children at the source sends one packet to each. Nor by
            # how far it is: after a cut numbers leave a gap.
            before = known.counts.numbers or 0 if (known := t.source_trees.get(tree)) else 0
            count = counts.numbers
            rate = max(0, count - before) / elapsed if elapsed and count is not None else None
            t.source_trees[tree] = SourceTree(counts, rate or 0.0)
            if t.scheduler:
                t.scheduler.status(number, counts.seq, rate, now, asked)

    def receiver_in(self, member: Member, result: StatusAnswer, elapsed: float | None) -> None:
        """A receiver's status. `elapsed`: since the one before, where that is known."""
        size = self._t.size
        held = result.bytes if size is None else min(result.bytes, size)  # else one that errs has all others behind it
        member.unwritten = min(held, result.unwritten)
        if elapsed:
            member.rate_bps = 0.5 * member.rate_bps + 0.5 * max(0, held - member.last_bytes) * 8 / elapsed
        member.bytes = member.last_bytes = held
        member.blocks = result.blocks if isinstance(result.blocks, str) else ""
        member.trees = self._like = Counts(result.trees, self._like)
        member.blocks_ok = result.blocks_ok
        member.resuming = result.resuming
        told = result.origin
        member.refused_for_now = Slowness.cut(told.code, told.error[:1024]) if told else None
        member.bad_blocks = max(member.bad_blocks, result.bad_blocks)
        member.t_first_ns = member.t_first_ns or result.t_first_ns or None
        if member.state == "open":
            member.state = "running"
        if result.state == "done":
            self.done(member, result.t_done_ns)
