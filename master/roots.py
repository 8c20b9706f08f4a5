"""A group with several roots, hosts that its trees begin at: what is done when one goes, or is back (README.md)."""

from __future__ import annotations

import logging
import time
from typing import Protocol

from .attendance import Attendance
from .collective import Collective
from .crew import Crew
from .digests import Digests, Row
from .feeding import Feeding
from .grove import Agreement, Differ, Grove
from .members import Member
from .schedule import Scheduler
from .tasks import Tasks
from .transfer import Transfer

log = logging.getLogger("datacast.master")

KNOCK_S = 1.0
"""Between two looks whether a root that is gone is there again."""


class Pieces(Protocol):
    """Who has what, when a root goes or comes back."""

    def lost_root(self, name: str) -> None:
        """It sends no more, and fetches no more."""

    def again(self, blocks: set[int]) -> None:
        """Some receiver may lack them, and they went over trees that have ended."""

    def holds(self, block: int, name: str) -> bool:
        """Has this source that block?"""

    def needs(self, name: str) -> bool:
        """Would one that was gone have something to do?"""

    def root_back(self, name: str) -> None:
        """It sends again."""


class Files:
    """Of sources: each has all of it. One that was gone has failed."""

    def __init__(self, transfer: Transfer) -> None:
        self._t = transfer

    def lost_root(self, name: str) -> None:
        pass

    def again(self, blocks: set[int]) -> None:
        assert isinstance(self._t.scheduler, Scheduler)
        for block in sorted(blocks):
            self._t.scheduler.again(block)

    def holds(self, block: int, name: str) -> bool:
        return True

    def needs(self, name: str) -> bool:
        return False

    def root_back(self, name: str) -> None:
        raise NotImplementedError(f"source {name} has failed")


class Roots:
    """Looks after them, and holds what one says of the file against what the others say."""

    def __init__(
        self,
        transfer: Transfer,
        crew: Crew,
        tasks: Tasks,
        feeding: Feeding,
        digests: Digests,
        attendance: Attendance,
        pieces: Pieces,
    ) -> None:
        self._t, self._crew, self._tasks, self._feeding, self._digests = transfer, crew, tasks, feeding, digests
        self._attendance, self._pieces = attendance, pieces
        self._agreement = Agreement(pieces.holds)
        self._trees: dict[str, list[int]] = {}
        """Of roots that are gone."""
        self._passed: set[int] = set()
        """Blocks that went over ended trees to all who were at work then, and not to those who come later."""
        self._knocked = 0.0
        self._mute: dict[str, float] = {}
        """Roots that no tree leads from, and since when."""
        self._returning: set[str] = set()
        """Roots that are back and could not be opened yet: that is tried twice a second, and said once."""

    def _sources(self) -> set[str]:
        return {m.name for m in self._crew.roots if m.role == "source"}

    def agreed(self, member: Member, rows: list[Row]) -> list[Row]:
        """Of a source's digests those that may be told to the receivers."""
        try:
            return self._agreement.told(member.name, rows, self._sources())
        except Differ as differ:
            for source in self._crew.roots:
                source.fail("sources_differ", differ.message)
            self._t.wake.set()
            return []

    def look(self, now: float) -> None:
        """One that has failed, or is gone, sends no more where there are others."""
        for member in self._crew.roots:
            if len(self._crew.roots) > 1 and self._is_gone(member, now):
                if member.role == "source":
                    member.fail("unreachable", "its agent does not answer, and is gone")
                member.sends = False
        self._give_up_mute(now)
        self._returning -= {m.name for m in self._crew.roots if not m.suspect}
        sending = {m.name for m in self._crew.roots}
        if sending:
            for name in sorted(set(self._t.root_of.values()) - sending):
                self._gone(name)
        if self._t.finale and self._passed:
            late, self._passed = self._passed, set()
            self._pieces.again(late)
        self._knock(now)

    def _is_gone(self, member: Member, now: float) -> bool:
        """It does not answer, and the fabric manager has lost its agent as well, or it is away for as long as a member
        may be. One that is only slow to answer keeps what it has: its trees go on without being asked."""
        if not member.suspect:
            return False
        away = now - (member.away_since or now)
        return not self._t.view.alive(member.name) or away > self._crew.timeout_s

    def _give_up_mute(self, now: float) -> None:
        """Where each has parts nobody else is given what one was to send while it is there."""
        t, patience = self._t, self._crew.timeout_s
        mute = t.forest.mute if isinstance(t.scheduler, Collective) and isinstance(t.forest, Grove) else ()
        self._mute = {name: self._mute.get(name, now) for name in mute}
        for member in self._crew.roots:
            if now - self._mute.get(member.name, now) > patience:
                member.fail("cut_off", f"no tree led from {member.name} to any receiver for {patience:g} s")

    def _level(self, name: str) -> int:
        return logging.DEBUG if name in self._returning else logging.WARNING

    def _gone(self, name: str) -> None:
        t = self._t
        assert isinstance(t.forest, Grove)
        log.log(self._level(name), "group %s: %s sends no more, the others take over", t.id, name)
        trees = self._trees[name] = sorted(t.roots_trees(name))
        unsure, sure = self._feeding.end(trees)
        self._passed |= sure
        for tree in trees:
            del t.root_of[tree]
        t.forest.rest(name)
        if rows := self._agreement.left(self._sources()):
            self._digests.put(rows, time.monotonic())
        self._pieces.lost_root(name)
        self._pieces.again(unsure)
        t.wake.set()

    # ---- one is back ----
    def _knock(self, now: float) -> None:
        """At those that the fabric manager knows again."""
        if not self._trees or now - self._knocked < KNOCK_S:
            return
        self._knocked = now
        for name in self._trees:
            member = self._crew.members[name]
            if member.aside and self._may_send(member):
                self._tasks.spawn(self._ask(member))
            elif not member.suspect and self._may_send(member):
                self._crew.visits.suspect(member)  # it answered too early; now it is opened again

    def _may_send(self, member: Member) -> bool:
        """Again, and there is something to do."""
        there = member.name in self._trees and not member.final and self._t.view.alive(member.name)
        return there and self._pieces.needs(member.name)

    async def _ask(self, member: Member) -> None:
        if await self._crew.visits.answers(member) and member.aside and not member.final:
            self._attendance.call_back(member)

    def returns(self, member: Member) -> None:
        """It answers, and will be opened again. An agent that was started again holds only what it had verified: its
        trees begin anew. They keep their ids, for numbers go on where they had ended."""
        t = self._t
        if member.role != "receiver" or member.final or t.state != "running":
            return
        if not member.opened and self._passed:  # and lost what it had and had not verified
            late, self._passed = self._passed, set()
            self._pieces.again(late)
        if member.sends and not member.opened:
            member.sends = False
            self._gone(member.name)
        if not member.sends and self._may_send(member):
            assert isinstance(t.forest, Grove)
            log.log(self._level(member.name), "group %s: %s is back, and fetches again", t.id, member.name)
            self._returning.add(member.name)
            member.sends = True
            t.root_of |= dict.fromkeys(self._trees.pop(member.name), member.name)
            for tree in t.forest.wake(member.name):
                self._feeding.revived(tree)
            self._pieces.root_back(member.name)
            t.wake.set()
