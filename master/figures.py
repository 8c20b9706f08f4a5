"""What the members tell of themselves, events and status, and what is told of them to the fabric manager."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from typing import TYPE_CHECKING, Any

from .crew import Crew
from .members import Member
from .plan import Plan
from .report import Told, numbers, progress_json, trees_json
from .signalling import Results

if TYPE_CHECKING:
    from collections.abc import Callable


log = logging.getLogger("datacast.master")

SHA256 = re.compile("[0-9a-fA-F]{64}")


class Figures:
    """A part of Group, which sets these."""

    id: str
    state: str
    error: dict[str, str] | None
    size: int | None
    block: int
    first_ns: int | None
    crew: Crew
    plan: Plan | None
    scheduler: Any
    tree_ids: list[int]
    reactions: list[dict[str, Any]]
    final: dict[str, Any] | None
    over: bool
    epoch: int
    told: Told
    news: bool
    _changed: Callable[[], None]
    _resumed: Callable[[str, int, int], None]
    _not_fetched: Callable[[Member, dict[str, Any]], None]
    _agreed: Callable[[Member, list[list[Any]]], list[list[Any]]]

    @property
    def _file(self) -> dict[str, int]:
        raise NotImplementedError

    _digests: list[list[Any]]
    _digests_since: float
    _source_trees: dict[str, dict[str, Any]]
    _polled_at: float
    root_of: dict[int, str]
    _wake: asyncio.Event

    # ---- events ----
    def _on_event(self, event: dict[str, Any]) -> None:
        member = self.crew.members.get(str(event.get("n")))
        if event.get("group") != self.id or member is None:
            return
        kind, now = event.get("event"), time.monotonic()
        member.heard = now
        if kind == "first" and member.sends:
            self.first_ns = self.first_ns or event.get("t_ns")
        if kind == "first" and member.role == "source":
            pass
        elif kind == "first":
            member.t_first_ns = member.t_first_ns or event.get("t_ns")
        elif kind == "progress" and self.scheduler:
            self.scheduler.sent(int(event["tree"]), int(event["seq"]), now)
        elif kind == "digests":
            self._digests_in(member, event.get("blocks"), now)
        elif kind == "done" and member.role == "receiver":
            self._member_done(member, event.get("t_ns"))
        elif kind == "failed":
            member.fail(str(event.get("code", "error")), str(event.get("error", "failed")))
        elif kind == "not_fetched" and member.sends:
            self._not_fetched(member, event)
        elif kind == "bad_block":
            member.bad_blocks += 1
            if event.get("forgotten") and self.scheduler:
                self.scheduler.again(int(event["block"]), frozenset({member.name}))
        elif kind == "resumed":
            self._resumed(member.name, int(event["tree"]), int(event["t_ns"]))
        self.news = self.news or kind not in ("progress", "digests")
        self._wake.set()

    def _blocks(self) -> int:
        assert self.plan and self.size is not None
        return -(-self.size // (self.plan.payload * self.block))

    def _digests_in(self, member: Member, rows: Any, now: float) -> None:
        """Only roots have read the file; and a bad row among good ones would be refused by every receiver."""
        if not member.sends or not isinstance(rows, list):
            log.warning(
                "group %s: digests of %s dropped: %s",
                self.id,
                member.name,
                "no list" if member.sends else "it is not the source",
            )
            return
        blocks = self._blocks() if self.plan else 0
        good = [row for row in rows if _is_digest(row, blocks)]
        if len(good) < len(rows):
            log.warning("group %s: %d malformed digests of %s dropped", self.id, len(rows) - len(good), member.name)
        self._digests_since = self._digests_since if self._digests else now
        self._digests += self._agreed(member, good)

    def _member_done(self, member: Member, t_ns: int | None) -> None:
        if not member.final:
            member.state, member.t_done_ns = "done", t_ns or time.time_ns()
            member.sha256_ok, member.suspect = True, False
            member.bytes = self.size or 0
            self._wake.set()
            self._changed()

    # ---- status ----
    def _status_in(self, results: Results, asked: float) -> None:
        now = time.monotonic()
        elapsed = now - self._polled_at if self._polled_at else None
        self._polled_at = now
        for name, result in results.items():
            member = self.crew.members.get(name)
            if member is None or member.suspect or not self.crew.noticed(member, result):
                continue
            if member.role == "receiver":
                self._receiver_figures(member, result, elapsed)
            sends = result.get("trees" if member.role == "source" else "sends")
            self._source_figures(sends, now, elapsed, asked)
            if member.role == "source" and self._not_begun(name, sends):
                self.crew.rewire()
            if result.get("state") == "failed":
                member.fail(str(result.get("code", "error")), str(result.get("error", "failed")))
                self._wake.set()
        self._skipped(now)

    def _skipped(self, now: float) -> None:
        """What all receivers have passed, because they hold it, the source is never asked for."""
        working = [m for m in self.crew.receivers if not m.final and not m.aside]
        if not self.scheduler or not working or any(m.suspect for m in working):
            return
        for tree, queue in self.scheduler.trees.items():
            there = [m for m in working if queue.reaches(m.name) and self.root_of.get(tree) != m.name]
            passed = [m.trees.get(str(tree), {}).get("seq") for m in there]
            if there and all(isinstance(seq, int) for seq in passed):
                self.scheduler.sent(tree, min(passed), now)

    def _not_begun(self, name: str, told: Any) -> bool:
        """Whether trees that begin at this member are unknown to it, though it was told: nothing would ever come over
        them."""
        own = [tree for tree, root in self.root_of.items() if root == name]
        return isinstance(told, dict) and any(str(tree) not in told for tree in own)

    def _source_figures(self, trees: Any, now: float, elapsed: float | None, asked: float) -> None:
        for tree, figures in (trees or {}).items():
            seq = figures.get("seq")
            if not isinstance(seq, int):
                continue
            # By numbers, not by packets: a tree with several children at the source sends one packet to each. Nor by
            # how far it is: after a cut numbers leave a gap.
            count = figures.get("numbers")
            before = self._source_trees.get(tree, {}).get("numbers", 0)
            rate = max(0, count - before) / elapsed if elapsed and isinstance(count, int) else None
            self._source_trees[tree] = {**numbers(figures), "packet_rate": rate or 0.0}
            if self.scheduler:
                self.scheduler.status(int(tree), seq, rate, now, asked)

    def _receiver_figures(self, member: Member, result: dict[str, Any], elapsed: float | None) -> None:
        held = int(result.get("bytes", 0))
        unwritten = result.get("unwritten", 0)
        member.unwritten = min(held, unwritten) if type(unwritten) is int and unwritten > 0 else 0
        if elapsed:
            member.rate_bps = 0.5 * member.rate_bps + 0.5 * max(0, held - member.last_bytes) * 8 / elapsed
        member.bytes = member.last_bytes = held
        member.trees = {tree: numbers(told) for tree, told in (result.get("trees") or {}).items()}
        member.blocks_ok = int(result.get("blocks_ok", member.blocks_ok))
        member.bad_blocks = max(member.bad_blocks, int(result.get("bad_blocks", 0)))
        member.t_first_ns = member.t_first_ns or result.get("t_first_ns") or None
        if member.state == "open":
            member.state = "running"
        if result.get("state") == "done":
            self._member_done(member, result.get("t_done_ns"))

    # ---- reports ----
    def _trees(self) -> dict[str, Any]:
        if self.plan is None or self.scheduler is None:
            return {}
        return trees_json(self.plan, self.tree_ids, self.scheduler, self._source_trees, self.crew.receivers)

    def report(self, whole: bool) -> dict[str, Any]:
        """A MasterReport: what is new since the report before, or all."""
        # What it will end as is told with the final report only.
        state = self.state if self.over or self.state == "starting" else "running"
        self.news = False
        body = progress_json(state, self.error, self.size, self.crew.receivers, self._trees(), self.final)
        body["reactions"] = self.reactions[-20:]
        if self.scheduler and self.plan and self.state == "running":
            body["adopt"] = {
                "first_ns": self.first_ns,
                "size": self.size,
                "file": self._file,
                "payload": self.plan.payload,
                "per_block": self.block,
                "rest": self.scheduler.rest(),
            }
        return self.told.report(self.id, self.epoch, body, self.crew.receivers, self.first_ns, whole)

    def say_less(self) -> None:
        """The fabric manager cannot read what is told: the state alone will do."""
        self.told.bare = True


def _is_digest(row: Any, blocks: int) -> bool:
    """[block, sha256 in hex]"""
    if not isinstance(row, list) or len(row) != 2:
        return False
    block, digest = row
    return type(block) is int and 0 <= block < blocks and isinstance(digest, str) and bool(SHA256.fullmatch(digest))
