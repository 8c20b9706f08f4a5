"""Receivers that come and go: who is served with the others, who when they are done, and who has failed."""

from __future__ import annotations

import logging
import statistics
import time

from datacast.fabric_manager.api.reports import GroupFailure

from .crew import Crew
from .forest import Change
from .members import LEFT, Member
from .reaction import Reactions
from .stable import RatedForest
from .tasks import Tasks
from .transfer import Transfer

log = logging.getLogger("datacast.master")


class Attendance:
    """Sets members aside and calls them back; the trees then follow."""

    def __init__(self, transfer: Transfer, crew: Crew, tasks: Tasks, reactions: Reactions) -> None:
        self._t, self._crew, self._tasks, self._reactions = transfer, crew, tasks, reactions
        self._off: dict[str, float] = {}
        """Whom no tree reaches, and since when."""

    # ---- who may go on with the others ----
    def others_served(self, member: Member) -> bool:
        """Whether there is somebody whom this one could hold up."""
        others = any(not m.final and not m.aside and m is not member for m in self._crew.receivers)
        able = member.role == "receiver" and not member.sends
        return able and not self._t.finale and bool(self._t.aside_s) and others

    def may_return(self, member: Member) -> bool:
        """One that is far behind would slow the others down with questions about what they had long ago."""
        return not self.others_served(member) or self.behind_s(member) <= self._t.aside_s

    def may_wait(self, member: Member) -> bool:
        """One that does not answer can be served later."""
        silent = time.monotonic() - (member.away_since or time.monotonic())
        return self.others_served(member) and silent > self._t.aside_s

    def behind_s(self, member: Member) -> float:
        """How long the others, at their rate, have been ahead of it by now. Their rate is no less than it was on the
        average: where all have nearly come to a stop, as on a busy machine, a small distance takes long, too."""
        if self._t.shards:
            return 0.0  # others are elsewhere in the file
        others = [m for m in self._crew.receivers if m is not member and not m.suspect and not m.aside]
        there = [m for m in others if m.state not in ("failed", "cancelled")]
        held = [self._t.size or 0 if m.state == "done" else m.bytes for m in there]
        rates = [m.rate_bps for m in others if not m.final]
        rate = max(statistics.median_high(rates) if rates else 0.0, self._mean_bps(held))
        part = self._planned_part(member, there)
        return (part * statistics.median_high(held) - member.bytes) * 8 / (part * rate) if held and rate else 0.0

    def _mean_bps(self, held: list[int]) -> float:
        """Of those that hold so many bytes, since data began."""
        since = (time.time_ns() - self._t.first_ns) / 1e9 if self._t.first_ns else 0.0
        return statistics.median_high(held) * 8 / since if held and since > 0 else 0.0

    def _planned_part(self, member: Member, others: list[Member]) -> float:
        """What this one gets by plan of what the others get."""
        if not isinstance(self._t.forest, RatedForest):
            return 1.0
        got = self._t.forest.plan.got
        rates = [got[m.name] for m in others if got.get(m.name)]
        own = got.get(member.name, 0)
        return own / statistics.median_high(rates) if rates and own else 1.0

    # ---- set aside, and served later ----
    def set_aside(self, member: Member, why: str) -> None:
        log.warning("group %s: %s is set aside: %s", self._t.id, member.name, why)
        member.aside = self._reactions.others = True
        self._tasks.spawn(self._crew.visits.dismiss(member, "served when the others are done", keep=True))
        self._reactions.kick()
        self._t.wake.set()

    def absent(self, change: Change) -> None:
        """Receivers that no tree reaches any more, or again."""
        now = time.monotonic()
        for name in change.cut_off:
            member = self._crew.members[name]
            member.away_since = member.away_since or now
        for name in change.back:
            member = self._crew.members[name]
            if member.suspect or member.final:
                continue
            if self.may_return(member):
                member.away_since = None
            else:
                self.set_aside(member, "it was cut off")

    def look(self, now: float) -> list[Member]:
        """Those that are cut off for too long fail, or are set aside. Returns who is at work, and reached."""
        # Without its source everybody is cut off; that is the source's failure, and its time runs.
        forest = self._t.forest
        self._off = {name: self._off.get(name, now) for name in (forest.cut_off if forest else ())}
        off = self._off if self._crew.connected else {}
        treeless = forest.treeless if forest else set()
        there = [m for m in self._crew.receivers if not m.final and not m.aside]
        for member in there:
            if member.name in off and (not member.suspect or self._answers(member)):
                member.away_since = since = member.away_since or now
                if now - (max(since, off[member.name]) if member.suspect else since) <= self._crew.timeout_s:
                    continue
                why = f"no {'tree' if member.name in treeless else 'link'} reached {member.name}"
                if self.may_wait(member):
                    self.set_aside(member, why)
                else:
                    member.fail("cut_off", f"{why} for {self._crew.timeout_s:g} s")
                    self._reactions.others = True
                    self._t.wake.set()
        return [m for m in there if not m.suspect and m.name not in off]

    @staticmethod
    def _answers(member: Member) -> bool:
        """One that is out of touch: it has no room for what it missed, and gets none without links."""
        return member.away_since is not None and member.heard > member.away_since

    async def serve_those_aside(self) -> None:
        """Once all others are done: trees for those who were set aside."""
        if self._t.finale or not all(m.final or m.aside for m in self._crew.receivers):
            return
        waiting = [m for m in self._crew.receivers if m.aside and not m.final]
        if waiting and not self._t.tree_ids:  # whoever fetched did so alone
            if not self._t.renew:
                self._t.renew = True
                self._t.tell_now()
            return
        self._t.finale = True
        for member in waiting:
            member.aside = False
        self._come(waiting)
        self._reactions.others = True
        await self._reactions.react()
        for member in waiting:
            self._crew.visits.call_back(member)

    def _come(self, members: list[Member]) -> None:
        """Pieces that one waited for alone are given up when it fails or leaves: who has joined again needs them."""
        if self._t.scheduler is not None:
            self._t.scheduler.come(frozenset(m.name for m in members))

    def call_back(self, member: Member) -> None:
        """One that was set aside goes on with the others."""
        member.aside = False
        self._reactions.others = True
        self._reactions.kick()
        self._crew.visits.call_back(member)

    # ---- other receivers are asked for ----
    async def join(self, name: str) -> None:
        """A receiver more. When data flows already it is served after the others."""
        known = self._crew.members.get(name)
        if known is not None and known.state not in ("failed", "cancelled"):
            return
        addr = self._t.view.address(name)
        member = self._crew.members[name] = Member(name, "receiver", addr or "", heard=time.monotonic())
        member.wants = self._t.shards.bytes_of(name) if self._t.shards else None
        if not addr:
            member.fail("no_agent", f"host {name} has no agent")
        elif self._t.forest is not None and not self._t.forest.knows(name):
            log.warning("group %s: no tree of this master reaches %s: another plans for it, too", self._t.id, name)
            member.aside = self._t.renew = True
            self._t.tell_now()
        elif self._t.finale:
            self._come([member])
            self._reactions.others = True
            await self._reactions.react()
            self._crew.visits.suspect(member)
        else:
            member.aside = True
        self._t.wake.set()

    async def leave(self, name: str) -> None:
        """A receiver less: what it has is dropped."""
        member = self._crew.members.get(name)
        if member is None or member.role != "receiver" or member.final:
            return
        member.state, member.error = "cancelled", GroupFailure(code=LEFT, message=f"{name} left the group")
        member.sends = False  # what it has fetched and not sent yet another fetches, or sends
        self._reactions.others = True
        await self._crew.visits.dismiss(member, "left the group", keep=False)
        self._reactions.kick()
        self._t.wake.set()

    async def should_be(self, names: list[str]) -> None:
        """All the receivers that are asked for: what came while this master could not hear it."""
        known = [m.name for m in self._crew.receivers if m.state != "cancelled"]
        for name in names:
            if name not in known:
                await self.join(name)
        for name in known:
            if name not in names:
                await self.leave(name)
