"""What the members tell of themselves: events, and answers to `status`."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from typing import Any

from .crew import Crew
from .digests import Digests, is_digest
from .members import NOTHING, Counts, Member, counted
from .schedule import ALL, Scheduler
from .signalling import Results
from .transfer import Transfer

log = logging.getLogger("datacast.master")

Rows = list[list[Any]]
BLOCKS_MAX = 64
"""Runs of blocks of a receiver that are shown."""


class Figures:
    """Keeps the members' figures, and tells the scheduler and the other parts what they say."""

    def __init__(
        self,
        transfer: Transfer,
        crew: Crew,
        digests: Digests,
        *,
        resumed: Callable[[str, int, int], None],
        vouched: Callable[[Member, Rows], Rows],
        not_fetched: Callable[[Member, dict[str, Any]], None],
    ) -> None:
        """`resumed(member, tree, t_ns)`: its first data over a changed route. `vouched(root, rows)`: of the digests it
        tells those that receivers may be told. `not_fetched`: a root cannot fetch what it was ordered to."""
        self._t, self._crew, self._digests = transfer, crew, digests
        self._resumed, self._vouched, self._not_fetched = resumed, vouched, not_fetched
        self._polled_at = 0.0
        self._like = NOTHING
        """What a receiver has told last, whose names the next one's have."""

    # ---- events ----
    def on_event(self, event: dict[str, Any]) -> None:
        t = self._t
        member = self._crew.members.get(str(event.get("n")))
        if event.get("group") != t.id or member is None:
            return
        kind, now = event.get("event"), time.monotonic()
        member.heard = now
        if kind == "first" and member.sends:
            t.first_ns = t.first_ns or event.get("t_ns")
        if kind == "first" and member.role == "source":
            pass
        elif kind == "first":
            member.t_first_ns = member.t_first_ns or event.get("t_ns")
        elif kind == "progress" and t.scheduler:
            tree = int(event["tree"])
            t.scheduler.sent(tree, int(event["seq"]), now)
            if isinstance(t.scheduler, Scheduler) and not t.scheduler.hungry(tree, now):
                return  # nothing follows from it
        elif kind == "digests":
            before = len(self._digests)
            self._digests_in(member, event.get("blocks"), now)
            if before and not self._digests.due(now, math.inf, t.blocks):
                return  # they go out together, when the first has waited for long enough
        elif kind == "done" and member.role == "receiver":
            self.done(member, event.get("t_ns"))
        elif kind == "failed":
            member.fail(str(event.get("code", "error")), str(event.get("error", "failed")))
        elif kind == "not_fetched" and member.sends:
            self._not_fetched(member, event)
        elif kind == "bad_block":
            member.bad_blocks += 1
            if event.get("forgotten") and t.scheduler:
                t.scheduler.again(int(event["block"]), frozenset({member.name}))
        elif kind == "slowed" and member.sends:
            t.slowed.set()
        elif kind == "resumed":
            self._resumed(member.name, int(event["tree"]), int(event["t_ns"]))
        t.news = t.news or kind not in ("progress", "digests", "slowed")
        t.wake.set()

    def _digests_in(self, member: Member, rows: Any, now: float) -> None:
        """Only roots have read the file; and a bad row among good ones would be refused by every receiver."""
        if not member.sends or not isinstance(rows, list):
            log.warning(
                "group %s: digests of %s dropped: %s",
                self._t.id,
                member.name,
                "no list" if member.sends else "it is not the source",
            )
            return
        blocks = self._t.blocks if self._t.plan else 0
        good = [row for row in rows if is_digest(row, blocks)]
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
    def status_in(self, results: Results, asked: float) -> None:
        """`asked`: when."""
        now = time.monotonic()
        elapsed = now - self._polled_at if self._polled_at else None
        self._polled_at = now
        for name, result in results.items():
            member = self._crew.members.get(name)
            if member is None or member.suspect or not self._crew.noticed(member, result):
                continue
            if member.role == "receiver":
                self.receiver_in(member, result, elapsed)
            sends = result.get("trees" if member.role == "source" else "sends")
            self._source_in(sends, now, elapsed, asked)
            if member.role == "source" and self._not_begun(name, sends):
                self._crew.rewire()
            if result.get("state") == "failed":
                member.fail(str(result.get("code", "error")), str(result.get("error", "failed")))
                self._t.wake.set()
        self._skipped(now)

    def _skipped(self, now: float) -> None:
        """What all receivers have passed, because they hold it, the source is never asked for."""
        scheduler = self._t.scheduler
        working = [m for m in self._crew.receivers if not m.final and not m.aside]
        if not scheduler or not working or any(m.suspect for m in working):
            return
        for tree, queue in scheduler.trees.items():
            root = self._t.root_of.get(tree)
            there = working if queue.reach == ALL else [m for m in working if m.name in queue.reach]
            if self._t.several:
                there = [m for m in there if m.name != root]
            passed = [seq for seq in Counts.column((m.trees for m in there), tree, "seq") if isinstance(seq, int)]
            if there and len(passed) == len(there):
                scheduler.sent(tree, min(passed), now)

    def _not_begun(self, name: str, told: Any) -> bool:
        """Whether trees that begin at this member are unknown to it, though it was told: nothing would ever come over
        them."""
        return isinstance(told, dict) and any(str(tree) not in told for tree in self._t.roots_trees(name))

    def _source_in(self, trees: Any, now: float, elapsed: float | None, asked: float) -> None:
        t = self._t
        for tree, figures in (trees or {}).items():
            seq = figures.get("seq")
            if not isinstance(seq, int):
                continue
            # By numbers, not by packets: a tree with several children at the source sends one packet to each. Nor by
            # how far it is: after a cut numbers leave a gap.
            count = figures.get("numbers")
            before = t.source_trees.get(tree, {}).get("numbers", 0)
            rate = max(0, count - before) / elapsed if elapsed and isinstance(count, int) else None
            t.source_trees[tree] = {**counted(figures), "packet_rate": rate or 0.0}
            if t.scheduler:
                t.scheduler.status(int(tree), seq, rate, now, asked)

    def receiver_in(self, member: Member, result: dict[str, Any], elapsed: float | None) -> None:
        """A receiver's status. `elapsed`: since the one before, where that is known."""
        held = int(result.get("bytes", 0))
        unwritten = result.get("unwritten", 0)
        member.unwritten = min(held, unwritten) if type(unwritten) is int and unwritten > 0 else 0
        if elapsed:
            member.rate_bps = 0.5 * member.rate_bps + 0.5 * max(0, held - member.last_bytes) * 8 / elapsed
        member.bytes = member.last_bytes = held
        blocks = result.get("blocks")
        if isinstance(blocks, str):
            member.blocks = blocks[:BLOCKS_MAX]
        member.trees = self._like = Counts(result.get("trees"), self._like)
        member.blocks_ok = int(result.get("blocks_ok", member.blocks_ok))
        member.bad_blocks = max(member.bad_blocks, int(result.get("bad_blocks", 0)))
        member.t_first_ns = member.t_first_ns or result.get("t_first_ns") or None
        if member.state == "open":
            member.state = "running"
        if result.get("state") == "done":
            self.done(member, result.get("t_done_ns"))
