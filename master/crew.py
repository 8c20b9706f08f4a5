"""Talking to the members of one group: the common tree, the numbered log, and members that do not answer.

Requests go over a tree of the members, the source's agent first; of several roots one that answers. What must be
carried out in order (`assign`, `cut`, `digest`) is put on a log and numbered; it is sent without waiting for earlier
acknowledgements, and every member's place in the log is known. A member that does not answer leaves the common tree, so
that it holds nobody up, and is visited over a connection of its own; when it is back it gets what it missed. When it
stays away it has failed (visits.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from datacast.core.errors import DatacastError
from datacast.core.lists import few
from datacast.fabric_manager.api.reports import GroupFailure

from . import requests
from .agents import Agents, Line
from .answers import A, Answer, Results, StatusAnswer
from .branches import Branches
from .errors import GroupError
from .events import AnyEvent
from .members import Log, Member
from .requests import B, Close, Digest, Entry, Op, Opening, P, ReceiverPart, Reroute, Routes, SourcePart
from .signalling import Said, SignallingError, parts_of, until_walked
from .view import View
from .visits import VISIT_S, Away, Visits

log = logging.getLogger("datacast.master")

REQUEST_S = 2.0
PROMPT_S = 0.6
"""For what members answer at once while the group runs: one that does not leaves the common tree, because the orders,
status and new routes of all wait for it."""
REOPEN_MAX = 8
"""A member that still has no idea of a tree then has failed."""


class Crew:
    """`opening()` gives what is the same for all of `open`, `own_opening(member)` the member's own part. `on_event`
    gets every event, `wake` is called when something changed, `spawn` runs a coroutine for as long as the group.
    `away`: what the rest of the group says of members that are out of touch (visits.py).
    `epoch`: how many masters the group has had with this one; members number its log anew."""

    def __init__(
        self,
        group: str,
        view: View,
        agents: Agents,
        *,
        timeout_s: float,
        opening: Callable[[], Opening],
        own_opening: Callable[[Member], SourcePart | ReceiverPart],
        on_event: Callable[[AnyEvent], None],
        wake: Callable[[], None],
        spawn: Callable[[Coroutine[Any, Any, Any]], asyncio.Task[Any]],
        away: Away,
        epoch: int,
    ) -> None:
        self.group, self.view, self.timeout_s, self.epoch = group, view, timeout_s, epoch
        self.members: dict[str, Member] = {}
        self._what_to_open, self.own_opening = opening, own_opening
        self.on_event, self.wake, self.spawn = on_event, wake, spawn
        self.again, self.adopted, self.began = epoch > 1, False, False
        """Members may know the group from another master; its file, cut as here; some of them know this one."""
        self.log = Log()
        self._agents = agents
        self._root: Line | None = None
        self._lead: Member | None = None
        self._routed, self._under_way, self._looked = 0, 0, -1
        """Number of the last `open` or `reroute`; orders not acknowledged yet; the entry told with the last look."""
        self._branches = Branches(view, self.members)
        self._handed = set[str]()
        """Members that the source's agent was asked about over this connection: it tells events of these alone."""
        self._rewire = self.closed = False
        self.visits = Visits(self, away)

    # ---- who there is ----
    def join(
        self,
        roots: Sequence[str],
        receivers: Sequence[str],
        wait: bool = False,
        done: dict[str, int | None] | None = None,
    ) -> None:
        """Addresses from the topology. Raises GroupError when no root has an agent. Roots that are not among the
        receivers are sources. wait: receivers without an agent are set aside. done: receivers that have the file, and
        since when."""
        for name in dict.fromkeys((*roots, *receivers)):
            addr = self.view.address(name)
            member = self.members[name] = Member(name, "receiver" if name in receivers else "source", addr or "")
            member.sends = name in roots
            if name in (done or {}):
                member.state, member.t_done_ns, member.sha256_ok = "done", (done or {})[name], True
            elif not addr and wait and member.role == "receiver":
                member.aside, member.sends = True, False
            elif not addr:
                member.fail("no_agent", f"host {name} has no agent")
        self.check_source()

    @property
    def roots(self) -> list[Member]:
        return [m for m in self.members.values() if m.sends]

    @property
    def source(self) -> Member:
        """Where requests begin: of several roots one that answers."""
        roots = self.roots
        return next((m for m in roots if not m.suspect), (roots or list(self.members.values()))[0])

    def _may_lead(self, member: Member) -> bool:
        """Is there another root that requests could begin at?"""
        return not self.closed and any(not m.suspect and m is not member for m in self.roots)

    def _pass_over(self, member: Member, error: SignallingError) -> None:
        """A root that does not answer while others do."""
        if member.opened:
            self.visits.suspect(member)
        elif member.role == "source":
            member.fail("unreachable", error.message)
        else:
            member.aside, member.sends = True, False

    @property
    def receivers(self) -> list[Member]:
        return [m for m in self.members.values() if m.role == "receiver"]

    @property
    def connected(self) -> bool:
        """To the source's agent."""
        return self._root is not None and self._root.alive

    def check_source(self) -> None:
        """Raises GroupError when the source has failed, of several all."""
        if not self.roots:
            source = self.source
            away = "its agent does not answer, and no other host sends"
            error = source.error or GroupFailure(code="unreachable", message=away)
            raise GroupError(error.code, f"source {source.name}: {error.message}", source.name)

    def in_touch(self) -> list[Member]:
        """Those in the common tree."""
        members = [m for m in self.members.values() if m.state != "failed" and not m.suspect and not m.aside]
        return [m for m in members if m.opened or not m.over]

    # ---- over the common tree ----
    async def connect(self) -> None:
        """To the source's agent. A master that begins waits for one that says nothing, as it may have no processor, and
        when it takes a group over for one that refuses, too; looks try again by themselves. Raises GroupError."""
        end = time.monotonic() + (0.0 if self.began else self.timeout_s)
        while True:
            source = self._lead = self.source
            source.addr = self.view.address(source.name) or source.addr
            if self._root is not None:  # to another root, perhaps: nobody would ever leave that one
                self._root.leave()
            self._handed = {source.name}
            self._root = Line(self._agents, source.name, source.addr, self.group, self.epoch, self._told, self.wake)
            try:
                await self._root.connect(REQUEST_S)
                return
            except SignallingError as error:
                if self._may_lead(source):
                    self._pass_over(source, error)
                    continue
                if time.monotonic() > end or not (error.silent or self.again):
                    raise self._source_gone(error) from error
                if error.silent:
                    log.warning("group %s: %s, waiting", self.group, error.message)
            await asyncio.sleep(VISIT_S)

    def _told(self, event: AnyEvent) -> None:
        """Over the common tree."""
        if event.n in self._handed:
            self.on_event(event)
        else:
            log.warning("group %s: the source's agent tells of %.64s, whom it was not handed", self.group, event.n)

    def _source_gone(self, error: SignallingError) -> GroupError:
        assert self._lead
        return GroupError("unreachable", f"source {self._lead.name}: {error.message}", self._lead.name)

    async def request(
        self,
        op: Op[B, P, A],
        members: list[Member],
        body: B | None = None,
        parts: Mapping[str, P] | None = None,
        timeout: float = REQUEST_S,
    ) -> Results[A]:
        """As `_ask`, and the answers read."""
        said = await self._ask(op, members, body, parts, timeout)
        await self.view.answers.next()
        return said.read()

    async def _ask(
        self, op: Op[B, P, A], members: list[Member], body: B | None, parts: Mapping[str, P] | None, timeout: float
    ) -> Said[A]:
        """The source first. Of a large group several messages, each over a tree of some of the members, so that none is
        longer than a frame. Raises GroupError when the source's agent does not answer."""
        root, lead = self._root, self._lead
        assert root and lead
        self._handed.update([m.name for m in members])
        trees = self._branches.to(lead, members, parts)
        patience = max(0.0, REQUEST_S - timeout)
        try:
            if len(trees) == 1:
                return await root.ask(op, trees[0], body, timeout, patience)
            # The source has had each of them, and carried out the first.
            return Said.together(await asyncio.gather(*(root.ask(op, tree, body, timeout, patience) for tree in trees)))
        except SignallingError as error:
            if self._may_lead(lead):
                self._pass_over(lead, error)
            raise self._source_gone(error) from error

    async def insist(
        self,
        op: Op[B, P, A],
        members: list[Member],
        body: B | None = None,
        parts: Mapping[str, P] | None = None,
        timeout: float = REQUEST_S,
    ) -> Results[A]:
        """A request of a master that begins, when no look mends the connection to the source yet: one that breaks is
        made again, and a source that says nothing is asked again. That may have been carried out already. Raises
        GroupError."""
        end = time.monotonic() + self.timeout_s
        while True:
            try:
                return await until_walked(
                    members, lambda some: self.request(op, some, body, parts_of(some, parts), timeout)
                )
            except GroupError as error:
                if time.monotonic() > end:
                    raise
                log.warning("group %s: %s, asking again", self.group, error.message)
            await asyncio.sleep(VISIT_S / 5)
            if not self.connected:
                await self.connect()

    async def first(self, op: Op[B, P, A], parts: Mapping[str, P], body: B | None = None) -> Results[A]:
        """`stat` and the first `open`: a member that refuses has failed, a receiver that does not answer is set aside.
        Raises GroupError when the source has failed, or no receiver is left."""
        asked = self.in_touch()
        results = await self.insist(op, asked, body, parts)
        for member in asked:
            result = results.of(member.name)
            if result.code in ("unreachable", "busy") and member.role == "receiver":
                log.warning("group %s: %s does not answer and is set aside", self.group, member.name)
                member.aside, member.sends = True, False
            elif not result.ok:
                member.refused(result)
        self.check_source()
        if all(m.state == "failed" for m in self.receivers):
            errors = few((f"{m.name}: {m.error.message}" for m in self.receivers if m.error), by="; ")
            first = self.receivers[0].error
            raise GroupError(first.code if first else "error", f"no receiver is left: {errors}")
        return results

    async def open(self) -> None:
        """Raises GroupError as `first`."""
        asked = self.in_touch()
        await self.first(requests.OPEN, self._parts(asked), self.opening())
        now = time.monotonic()
        for member in asked:
            if member.state == "failed" or member.aside:
                continue
            member.opened, member.heard = True, now
            member.met = self.began = True
            if not member.final:  # who has had the file from before says so ahead of its answer
                member.state = "open"

    def opening(self) -> Opening:
        self._routed += 1
        return replace(self._what_to_open(), n=self._routed)

    def closing(self, reason: str, keep: bool) -> Close:
        return Close(reason, keep, self._routed)

    def _parts(self, members: list[Member]) -> dict[str, SourcePart | ReceiverPart]:
        return {m.name: self.own_opening(m) for m in members}

    async def forget(self) -> None:
        """Another master had the group and told nothing of it: its log must not be taken for this one's."""
        asked = self.in_touch()
        results = await self.insist(requests.CLOSE, asked, self.closing("another master begins anew", keep=True))
        for member in asked:
            if results.of(member.name).code != "unreachable":
                member.met = self.began = True
            elif member.role == "receiver":
                member.aside, member.sends = True, False

    async def adopt(self) -> Results[StatusAnswer]:
        """Take over a group that another master began. Returns the members' status; `open` gives them this master's
        trees."""
        self.adopted = True
        asked = self.in_touch()
        results = await self.insist(requests.STATUS, asked)
        now = time.monotonic()
        for member in asked:
            result = results.of(member.name)
            member.heard = now
            if result.ok or result.code == "no_group":
                member.met = self.began = True
            if result.ok:
                member.opened = True
        opened = await self.insist(requests.OPEN, asked, self.opening(), self._parts(asked))
        for member in asked:
            answer = opened.of(member.name)
            if answer.ok:
                member.opened = True
                if not member.final:  # some have said meanwhile that they are done
                    member.state = "open"
            elif member.role == "source":
                member.refused(answer)
            else:
                self.visits.suspect(member)
        self.check_source()
        return results

    async def status(self, digests: Callable[[], Digest | None] = lambda: None) -> Said[StatusAnswer]:
        """Of all in the common tree; mends the tree and the connection to the source first. `digests`: what they are
        to be told with the question. Raises GroupError."""
        try:
            if self._root is None or not self._root.alive or self._lead is not self.source:
                await self.connect()
                self._rewire = True
            if self._rewire:
                await self.reopen()
            members = [m for m in self.in_touch() if m.opened]
            if (entry := digests()) is None:
                return await self._ask(requests.STATUS, members, None, None, PROMPT_S)
            self._looked = len(self.log)
            self.log.add(entry)
            told = requests.asking(entry, len(self.log))
            # A task: what was put on the log before may have to be written yet, by one that was made before.
            return await asyncio.create_task(self._ask(requests.DIGEST_STATUS, members, told, None, PROMPT_S))
        except GroupError as error:
            if self._root:
                await self._root.give_up()
            # Not before: this process may have stood still itself.
            self._check_patience(error)
            raise

    def _check_patience(self, error: GroupError) -> None:
        if time.monotonic() - self.source.heard > self.timeout_s:
            why = getattr(error.__cause__, "message", error.message)
            self.source.fail("unreachable", f"the agent did not answer for {self.timeout_s:g} s: {why}")
            self.wake()
            self.check_source()

    async def reopen(self) -> None:
        """`open` to all in the common tree, which has changed: events must come over it, nobody may miss anything. One
        whose agent was started again since it was asked says so: it is visited, as what is known of it is over."""
        self._rewire, members = False, [m for m in self.in_touch() if m.opened and (m.sends or m.state != "done")]
        assert self._root and self._lead
        lead = self._lead
        results = await self.request(requests.OPEN, members, replace(self.opening(), again=True), self._parts(members))
        for member in members:
            answer = results.of(member.name)
            if answer.code == "no_group":
                member.opened, member.position = False, 0
            if not answer.ok:
                self.visits.suspect(member)
        if not lead.suspect:
            await self.visits.replay(lead, self._root, waits=False)

    async def close(self, reason: str, keep: bool) -> None:
        """Tell all members, as far as they can be reached, and end the connection."""
        self.closed = True  # a late answer must not make anybody open the group again
        if self._root is None:
            return
        members = [m for m in self.members.values() if m.opened and not m.suspect]
        with contextlib.suppress(DatacastError):
            await self.request(requests.CLOSE, members, self.closing(reason[:500], keep))
        self._root.leave()

    def hang_up(self) -> None:
        """Say nothing more to anybody."""
        self.closed = True
        if self._root:
            self._root.leave()

    async def reroute(self, routes: Mapping[str, dict[str, str]], leave: Mapping[str, list[int]]) -> None:
        """New routes for the members concerned, and trees that they leave, and nobody else. One that does not
        acknowledge gets `open` later."""
        members = [m for m in self.in_touch() if m.opened and not m.final and (m.name in routes or m.name in leave)]
        if not members:
            return
        self._routed += 1
        parts = {m.name: Routes(routes.get(m.name, {}), leave.get(m.name, [])) for m in members}
        results = await self.request(requests.REROUTE, members, Reroute(self._routed), parts, PROMPT_S)
        for member in members:
            if results.of(member.name).ok:
                member.heard = time.monotonic()
            else:
                self.visits.suspect(member)

    def rewire(self) -> None:
        """Send `open` to all before the next status."""
        self._rewire = True

    # ---- the log ----
    @property
    def entries(self) -> int:
        return len(self.log)

    def tell(self, entry: Entry) -> asyncio.Task[Any]:
        """Put an entry on the log and send it to all in the common tree."""
        index = len(self.log)
        entry = self.log.add(entry)
        # Counted from here on: a status that was asked for before may be answered before the coroutine first runs.
        self._under_way += 1
        # The request is written when the coroutine first runs; tasks first run in the order they were made.
        members = [m for m in self.in_touch() if m.opened and (m.sends or m.state != "done")]
        return self.spawn(self._deliver(index, entry, members))

    async def _deliver(self, index: int, entry: Entry, members: list[Member]) -> None:
        try:
            results = await self.request(requests.op_of(entry), members, entry, timeout=PROMPT_S)
        except GroupError as error:
            log.warning("group %s: %s", self.group, error)
            return  # seen and mended by the next status
        finally:
            self._under_way -= 1
        for member in members:
            self.acknowledged(member, index, results.of(member.name))

    def acknowledged(self, member: Member, index: int, result: Answer) -> bool:
        """Note a member's answer to an entry. False when it has to be told again, or is out."""
        if result.ok:
            member.heard = time.monotonic()
            # Answers to a look wait for their turn: who has the entry behind the look's own has that one, too.
            if member.position == index or member.position == self._looked == index - 1:
                member.position, member.reopened = index + 1, 0
            return member.position > index
        code = result.code or "error"
        if code == "no_group":
            member.opened, member.position = False, 0
        if code == "gap":  # started again since, or an earlier one is still on its way
            member.position = min(member.position if result.n is None else result.n, index)
        if code == "no_tree" and member.reopened < REOPEN_MAX:
            member.reopened += 1
            code = "gap"
        # limit: it takes more extents when it has received some
        if code in ("unreachable", "no_group", "gap", "limit"):
            self.visits.suspect(member)
        else:
            member.fail(code, f"{requests.op_of(self.log[index]).name}: {result.why}")
            self.wake()
        return False

    def noticed(self, member: Member, result: StatusAnswer) -> bool:
        """A member's answer to `status`. False when it says that something is wrong with it."""
        if not result.ok:
            if result.code == "no_group" and not member.over:
                member.opened, member.position = False, 0
            self.visits.suspect(member)
            return False
        member.heard = time.monotonic()
        if result.n is not None:
            # An acknowledgement may have been lost, but not what it was for.
            member.position = max(member.position, min(result.n, len(self.log)))
        if member.position < len(self.log) and not member.over and not self._under_way:
            self.visits.suspect(member)
        return True
