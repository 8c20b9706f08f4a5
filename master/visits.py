"""Members that are out of touch: each is visited over a connection of its own until it has everything again, is set
aside, or has failed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import requests
from .agents import Line
from .answers import StatusAnswer
from .events import AnyEvent
from .members import Member
from .signalling import Branch, Connection, SignallingError, Visit

if TYPE_CHECKING:
    from .crew import Crew

log = logging.getLogger("datacast.master")

VISIT_S = 0.5
LIMIT_S = 0.1


@dataclass(frozen=True)
class Away:
    """What the rest of a group says of such members, and hears."""

    may_return: Callable[[Member], bool]
    """One that is back may go on with the others."""
    may_wait: Callable[[Member], bool]
    """It has been away for long enough to be set aside."""
    set_aside: Callable[[Member, str], None]
    on_status: Callable[[Member, StatusAnswer], None]
    """Of one that is back."""
    returns: Callable[[Member], None]
    """Called before it is opened again."""


class Visits:
    """Of one group's crew."""

    def __init__(self, crew: Crew, away: Away) -> None:
        self._crew, self._away = crew, away
        self._under_way: dict[str, Member] = {}
        """One that joins again is another member, and is visited although the visit of the one before has not ended."""

    def suspect(self, member: Member) -> None:
        """Take it out of the common tree until it has everything again."""
        if member.over or member.suspect or self._crew.closed:
            return
        log.warning("group %s: %s is out of touch", self._crew.group, member.name)
        member.suspect = True
        self._crew.rewire()
        member.away_since = member.away_since or member.heard or time.monotonic()
        if self._under_way.get(member.name) is not member:
            self._under_way[member.name] = member
            self._crew.spawn(self._visit(member))
        self._crew.wake()

    async def _visit(self, member: Member) -> None:
        """Until a member is back or has failed."""
        reason = ""
        try:
            while member.suspect and not member.over and not member.aside:
                try:
                    async with self._at(member) as visit:
                        await self._recover(member, visit)
                except SignallingError as error:
                    if not reason or not error.silent:  # what was heard once says more than that nothing is heard now
                        reason = error.message
                    if self._away.may_wait(member):
                        self._away.set_aside(member, "it does not answer")
                    elif time.monotonic() - member.heard > self._crew.timeout_s:
                        why = f"{member.name} did not answer for {self._crew.timeout_s:g} s: {reason}"
                        member.fail("unreachable", why)
                        self._crew.wake()
                if member.suspect and not member.over and not member.aside:
                    await asyncio.sleep(VISIT_S)
        finally:
            if self._under_way.get(member.name) is member:
                del self._under_way[member.name]

    async def _recover(self, member: Member, visit: Visit) -> None:
        member.addr = visit.connection.address
        me = Branch(member.name, member.addr)
        stranger = self._crew.again and not member.met
        if self._crew.adopted or not stranger:
            result = (await visit.ask(requests.STATUS, me)).read().of(member.name)
            if result.code == "no_group":  # its agent was started again
                member.opened, member.position = False, 0
            elif member.role == "receiver" and result.ok and (not stranger or result.state == "done"):
                member.opened = True  # it may not be known that it is done
                self._away.on_status(member, result)
        if member.over:  # it had been out of touch, not idle
            member.suspect = False
            self._crew.rewire()
            return
        self._away.returns(member)
        if not self._away.may_return(member):
            self._away.set_aside(member, "it is far behind the others")
            return
        if stranger:
            await visit.ask(requests.CLOSE, me, self._crew.closing("another master has taken over", keep=True))
        member.met = self._crew.began = True
        part = Branch(member.name, member.addr, self._crew.own_opening(member))
        opened = (await visit.ask(requests.OPEN, part, self._crew.opening())).read().of(member.name)
        if opened.code in ("busy", "walking", "unreachable", "overtaken"):  # with what it has of the file
            raise SignallingError(opened.error, what=member.name)
        if not opened.ok:
            member.refused(opened)
            self._crew.wake()
            return
        member.opened = True
        if await self.replay(member, visit):
            member.suspect, member.heard, member.away_since = False, time.monotonic(), None
            self._crew.rewire()
            log.warning("group %s: %s is back", self._crew.group, member.name)

    async def replay(self, member: Member, over: Line | Visit, waits: bool = True) -> bool:
        """Entries of the log that a member has not acknowledged, one after another. False when it broke off. `waits`:
        for one that has no room for more, until it has received some."""
        me = Branch(member.name, member.addr)
        reached, since = member.position, None  # since when it has lacked orders that it had
        while member.position < len(self._crew.log) and not member.over:
            if member.position > reached:
                reached, since = member.position, None
            if all(m.final for m in self._crew.receivers):
                return False  # nobody asks for more: a source at its limit would never take the rest
            entry = self._crew.log[index := member.position]
            try:
                result = (await over.ask(requests.op_of(entry), me, entry)).read().of(member.name)
                if result.code == "limit" and not member.aside:
                    if waits and await self._has_moved(member, over, me):
                        continue
                    return False
            except SignallingError as error:
                log.info("group %s: %s: %s", self._crew.group, member.name, error)
                return False
            if self._crew.acknowledged(member, index, result):
                continue
            if result.code != "gap":
                return False
            if since is None:
                since = time.monotonic()
                continue
            if not waits:
                return False
            if time.monotonic() - since > self._crew.timeout_s:
                member.fail("gap", "it says again and again that it lacks orders before")
                self._crew.wake()
                return False
            await asyncio.sleep(LIMIT_S)  # one may still be on its way
        return True

    async def _has_moved(self, member: Member, over: Line | Visit, me: Branch) -> bool:
        """A moment later. One that stands still, far behind the others, is served when they are done. Raises
        SignallingError."""
        await asyncio.sleep(LIMIT_S)
        result = (await over.ask(requests.STATUS, me)).read().of(member.name)
        if not result.ok:
            return False
        member.heard, before = time.monotonic(), member.bytes
        if member.role == "receiver":
            self._away.on_status(member, result)
            if member.bytes == before and not self._away.may_return(member):
                self._away.set_aside(member, "it stands still")
                return False
        return True

    async def answers(self, member: Member) -> bool:
        """Whether one that was set aside can be reached again."""
        try:
            async with self._at(member) as visit:
                said = await visit.ask(requests.PING, Branch(member.name, visit.connection.address))
                return said.read().of(member.name).ok
        except SignallingError:
            return False

    async def dismiss(self, member: Member, reason: str, keep: bool) -> None:
        """`close` for one member."""
        opened, member.opened, member.position = member.opened, False, 0
        if not opened:
            return
        try:
            async with self._at(member) as visit:
                await visit.ask(requests.CLOSE, Branch(member.name, member.addr), self._crew.closing(reason, keep))
        except SignallingError as error:
            log.info("group %s: %s: %s", self._crew.group, member.name, error)

    def call_back(self, member: Member) -> None:
        """Serve one that was set aside."""
        member.aside, member.away_since, member.heard = False, None, time.monotonic()
        member.suspect = False
        self.suspect(member)

    def _events_of(self, name: str) -> Callable[[AnyEvent], None]:
        """A member that is visited was handed nobody else, and tells of itself alone."""

        def on_event(event: AnyEvent) -> None:
            if event.n == name:
                self._crew.on_event(event)
            else:
                log.warning("group %s: %s tells of %.64s, whom it was not handed", self._crew.group, name, event.n)

        return on_event

    @contextlib.asynccontextmanager
    async def _at(self, member: Member) -> AsyncIterator[Visit]:
        """Over a connection of its own, to a member that is out of touch. Raises SignallingError."""
        await self._crew.view.visits.next()
        addr = self._crew.view.address(member.name) or member.addr
        security, turns, epoch = self._crew.view.client.security, self._crew.view.visits, self._crew.epoch
        own = self._events_of(member.name)
        connection = Connection(addr, own, name=member.name, security=security, epoch=epoch, turns=turns)
        try:
            await connection.connect(VISIT_S)
            yield Visit(connection, self._crew.group)
        finally:
            await connection.close()
