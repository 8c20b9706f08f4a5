"""One group from the order to the last receiver: stat, plan, open, assign, watch, close.

The master signals over a tree of the members (crew.py), asks for their status a few times a second (which renews their
leases), and feeds the trees (feeding.py). Data does not depend on it for longer than the lease: a master that is gone
ends the transfer by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

from datacast.core.errors import DatacastError
from datacast.core.lists import few
from datacast.fabric_manager.api import FabricManagerClient, orders
from datacast.fabric_manager.api.reports import MasterReport

from . import opening, pace
from .agents import Agents
from .answers import Results, StatAnswer
from .attendance import Attendance
from .bounds import Bounds
from .crew import Crew
from .digests import Digests
from .errors import GroupError
from .events import AnyEvent
from .feeding import Feeding
from .fetching import Fetching
from .figures import Figures
from .holders import Holders
from .members import Member
from .plan import PlanError
from .planning import Planning
from .reaction import Reactions
from .requests import STAT, Destination, SourceFile
from .roots import Files, Roots
from .slow_receivers import SlowReceivers
from .tasks import Tasks
from .telling import Telling
from .transfer import Transfer
from .view import REGISTER_S, View
from .visits import Away

log = logging.getLogger("datacast.master")

LAST_S = 2.0
"""The last figures are worth a moment, no more: a common tree that wants mending then need not be mended."""


ON_REQUEST = "cancelled on request"


class Cancelled(DatacastError):
    """Somebody asked to end the group."""


class Group:
    """`await run()` returns the final state; `changed` is called when there is something to report at once. It makes
    the parts, leads them through the group's life, and answers for them to the worker."""

    def __init__(
        self,
        order: orders.StartOrder,
        view: View,
        client: FabricManagerClient,
        agents: Agents,
        *,
        received_ns: int,
        changed: Callable[[], None] = lambda: None,
        gate: asyncio.Lock | None = None,
    ) -> None:
        """`gate`: held while trees are computed."""
        t = self.transfer = Transfer(order, view, client, changed)
        self._stop_reason: Cancelled | GroupError | None = None
        self._inbox: list[orders.Join | orders.Leave | orders.Members] = []
        """Receivers that come and go, and that was not carried out yet: one after another, while the group is open."""
        self._open = False
        self._look_s = pace.POLL_S
        """Between two looks at the members."""
        self._tasks = Tasks(t.id, lambda error: self.cancel(GroupError("internal", repr(error))))
        self.crew = Crew(
            t.id,
            view,
            agents,
            timeout_s=t.options.member_timeout_ms / 1000,
            opening=lambda: opening.for_all(t, self._fetching.objects if self._fetching else None),
            own_opening=lambda member: opening.for_one(t, member),
            on_event=self._heard,
            wake=t.wake.set,
            spawn=self._tasks.spawn,
            away=Away(
                may_return=lambda member: self._attendance.may_return(member),
                may_wait=lambda member: self._attendance.may_wait(member),
                set_aside=lambda member, why: self._attendance.set_aside(member, why),
                on_status=lambda member, result: self._figures.receiver_in(member, result, None),
                returns=lambda member: self._roots.returns(member) if self._roots else None,
            ),
            epoch=order.epoch,
        )
        digests = Digests()
        self._holders = Holders(t, self.crew) if t.in_parts else None
        self._planning = Planning(t, self.crew, gate or asyncio.Lock(), self._holders)
        self.feeding = Feeding(t, self.crew, self._tasks, digests)
        self._bounds = Bounds(self.crew, t.several, self.feeding.bounded)
        self._reactions = Reactions(
            t, self.crew, self._tasks, self.feeding, lambda change: self._attendance.absent(change)
        )
        self._attendance = Attendance(t, self.crew, self._tasks, self._reactions)
        self._slow = SlowReceivers(t, self.crew, self._bounds, self._reactions, self._attendance)
        self._fetching = Fetching(t, self.crew, self._tasks) if t.spec.url is not None else None
        self._roots: Roots | None = None
        if t.several:
            pieces = self._fetching or self._holders or Files(t)
            self._roots = Roots(t, self.crew, self._tasks, self.feeding, digests, self._attendance, pieces)
        self._figures = Figures(
            t,
            self.crew,
            digests,
            resumed=self._reactions.resumed,
            vouched=self._fetching.held_by
            if self._fetching
            else self._roots.agreed
            if self._roots
            else lambda _, rows: rows,
            not_fetched=self._fetching.not_fetched if self._fetching else lambda *_: None,
        )
        self._telling = Telling(t, self.crew, self.feeding, received_ns, self._fetching)

    # ---- for the worker ----
    @property
    def id(self) -> str:
        return self.transfer.id

    @property
    def epoch(self) -> int:
        return self.transfer.order.epoch

    @property
    def members(self) -> int:
        """How many it has."""
        return len(self.crew.members)

    @property
    def news(self) -> bool:
        """There is something to report."""
        return self.transfer.news

    def report(self, whole: bool) -> MasterReport:
        return self._telling.report(whole)

    def say_less(self) -> None:
        self._telling.say_less()

    def cancel(self, reason: Cancelled | GroupError) -> None:
        self._stop_reason = self._stop_reason or reason
        self.transfer.wake.set()

    async def drop(self) -> None:
        """Leave it as it stands, to another master: nobody is told anything. After `run` was cancelled."""
        self._reactions.unwatch()
        await self._tasks.end()
        self.crew.hang_up()
        self.transfer.view.counted(self.id)

    def on_control(self, message: orders.ToMaster) -> None:
        """From the fabric manager."""
        match message:
            case orders.Cancel(code=why, message=text):
                self.cancel(GroupError(why, text) if why else Cancelled(ON_REQUEST))
            case orders.Rates(rates=rates):
                self._tasks.spawn(self._take_bounds(rates))
            case orders.Offers(pieces=pieces) if self._fetching:
                self._fetching.offered(pieces)
            case orders.Join() | orders.Leave() | orders.Members():
                self._inbox.append(message)
                if self._open and len(self._inbox) == 1:
                    self._tasks.spawn(self._empty_inbox())

    def _heard(self, event: AnyEvent) -> None:
        """From a member, over a connection that other groups have, too: what breaks here ends this one only."""
        try:
            self._figures.on_event(event)
        except Exception as error:
            log.exception("group %s: an event of %s: %s", self.id, event.n, event)
            self.cancel(GroupError("internal", f"what {event.n} told could not be dealt with: {error!r}", event.n))

    async def _take_bounds(self, rates: dict[str, int | None]) -> None:
        await self.transfer.view.steps.next()  # all groups may hear of their shares at once
        await self._bounds.take(rates)

    async def run(self) -> str:
        t = self.transfer
        try:
            await self._until_stopped(self._prepare())
            if t.state == "running":
                self._open = True
                if self._inbox:
                    self._tasks.spawn(self._empty_inbox())
                t.tell_now()
                await self._transfer()
                while not self._served():  # one joined in the last look
                    await self._transfer()
            self._conclude()
        except Cancelled as reason:
            t.ended("cancelled", "cancelled", reason.message)
        except (GroupError, PlanError) as error:
            t.ended("failed", error.code, error.message)
        except DatacastError as error:
            t.ended("failed", "error", str(error))
        except Exception as error:
            log.exception("group %s", t.id)
            t.ended("failed", "internal", f"{type(error).__name__}: {error}")
        for member in self.crew.receivers:
            if not member.final:
                member.state, member.error = ("cancelled" if t.state == "cancelled" else "failed"), t.error
        # An earlier master may have died before it could tell when data began.
        t.first_ns = t.first_ns or min((m.t_first_ns for m in self.crew.receivers if m.t_first_ns), default=None)
        self._open = False
        self._telling.end()
        self._reactions.unwatch()
        await self._tasks.end()
        t.over = True
        return t.state

    async def part(self) -> None:
        """Let the members forget the group. Only when the fabric manager has written down how it ended: until then
        there may be another master, and receivers that were done would fetch the file again."""
        await self._tasks.end()
        # Receivers keep what they have when it may be wanted again: not of a cancelled group, nor of a file that is
        # another one now.
        error = self.transfer.error
        again = self.transfer.state in ("failed", "partial") and (error is None or error.code != "changed")
        await self.crew.close(error.message if error else "done", keep=again)

    def _conclude(self) -> None:
        """All receivers are done or have failed."""
        t, receivers = self.transfer, self.crew.receivers
        failed = [m for m in receivers if m.state == "failed"]
        if all(m.state == "cancelled" for m in receivers):
            raise Cancelled("every receiver has left")
        if failed:
            reasons = few((f"{m.name}: {m.error.message}" for m in failed if m.error), by="; ")
            message = f"{len(failed)} of {len(receivers)} receivers failed: {reasons}"
            t.ended("partial" if any(m.state == "done" for m in receivers) else "failed", "receivers_failed", message)
        else:
            t.state = "done"

    async def _until_stopped(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work`; a cancel ends it at once."""
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                if self._stop_reason:
                    raise self._stop_reason
                wake = asyncio.ensure_future(self.transfer.wake.wait())
                try:
                    await asyncio.wait((task, wake), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    wake.cancel()
                self.transfer.wake.clear()
            task.result()
        finally:  # also when this was dropped: it must not go on speaking to members
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    # ---- start ----
    async def _prepare(self) -> None:
        t, order = self.transfer, self.transfer.order
        try:
            await t.view.at(order.version, 10.0)
        except TimeoutError:
            raise GroupError("no_topology", "the fabric manager's topology did not arrive within 10 s") from None
        self._telling.mark("topology")
        again = order.again
        served_later = again or t.options.quorum is not None
        await t.view.registered(t.spec.roots, [] if served_later else order.receivers, self.crew.timeout_s)
        self.crew.join(
            t.spec.roots,
            order.receivers,
            wait=served_later,
            done=order.done,
        )
        if again and self._served():
            return  # the master before saw the last of them end, and could not tell
        await self.crew.connect()
        if again and not order.adopt:
            await self.crew.forget()
        await self._stat()
        self._telling.mark("stat")
        if self._served():
            return  # the last of them said so while it was asked
        self._reactions.watch()  # what fails while it is planned is looked at when it runs
        await self._planning.make()
        await self._planning.lay_out()
        self._reactions.note_links()
        if self._fetching:
            self._fetching.begin(self._planning.roots)
        self._telling.mark("trees")
        t.tell_now()  # others plan around them, and links are divided
        if order.adopt:
            for name, result in (await self.crew.adopt()).items():
                if result.ok and result.state == "done" and name in self.crew.members:
                    self._figures.done(self.crew.members[name], result.t_done_ns)
        else:
            await self.crew.open()
        self._check_quorum()
        self._telling.mark("open")
        t.state = "running"
        self._look_s = self._pace(None)
        self._tasks.spawn(self._bounds.say())  # ahead of the first pieces
        if self._holders:
            self._holders.deal(self._look_s, time.monotonic())
        self.feeding.feed(self._look_s)
        self._telling.mark("assign")
        self._reactions.others |= self._planning.in_pieces
        self._reactions.kick()

    def _check_quorum(self) -> None:
        """Of a group that begins: one that another master goes on with has had it, whoever has failed since."""
        quorum = self.transfer.options.quorum
        ready = sum(m.opened or m.state == "done" for m in self.crew.receivers)
        if quorum is not None and self.transfer.order.adopt is None and ready < quorum:
            raise GroupError("quorum", f"{ready} receivers are ready, the quorum is {quorum}")

    async def _stat(self) -> None:
        t, path, adopt = self.transfer, self.transfer.spec.source_path, self.transfer.order.adopt
        parts = {
            m.name: SourceFile(t.path(m.name), t.spec.unfinished.get(m.name, ""))
            if m.role == "source"
            else Destination(t.dest(m.name))
            for m in self.crew.in_touch()
        }
        results = await self.crew.first(STAT, parts)
        t.cut = t.cut or cut_before(self.crew.receivers, results)
        if self._fetching:
            t.size = await self._fetching.stat()
            t.bundle = self._fetching.objects.folder
            self._check_size(path, t.size)
            if adopt and t.size != adopt.size:
                raise GroupError("changed", f"{path} is not the object any more that the group was started with", path)
            return
        sizes: dict[str, int] = {}
        for member in self.crew.roots:
            told = results.of(member.name)
            if told.size is None:
                raise GroupError("bad_answer", f"source {member.name} told no size of {path}")
            sizes[member.name] = t.size = told.size
            t.bundle = t.bundle or told.bundle is not None
            if self._holders:
                self._holders.told(member, told)
            t.files[member.name] = told.file
        if len(set(sizes.values())) > 1:
            told_sizes = ", ".join(f"{size} bytes at {name}" for name, size in sizes.items())
            raise GroupError("sources_differ", f"{path} is not the same file at all sources: {told_sizes}", path)
        if t.bundle and t.spec.sha256:
            raise GroupError("bad_sha256", f"{path} is a directory: a SHA-256 is of a file", path)
        self._check_size(path, t.size)
        if adopt and (t.size != adopt.size or (t.file and t.file != adopt.file)):
            raise GroupError("changed", f"{path} is not the file any more that the group was started with", path)

    def _check_size(self, path: str, size: int | None) -> None:
        expected = self.transfer.spec.size
        if expected is not None and expected != size:
            raise GroupError("size", f"{path} has {size} bytes, expected were {expected}", path)

    # ---- receivers come and go ----
    async def _empty_inbox(self) -> None:
        dest_paths = self.transfer.dest_paths
        while self._inbox:
            match message := self._inbox[0]:
                case orders.Join(host=host, dest_path=path):
                    if path is not None:
                        dest_paths[host] = path
                    # It has registered; the news of that come another way.
                    await self.transfer.view.registered([host], [], REGISTER_S)
                    await self._attendance.join(host)
                case orders.Leave(host=host):
                    await self._attendance.leave(host)
                case orders.Members():  # what was missed
                    dest_paths |= message.dest_paths
                    await self._attendance.should_be(message.receivers)
            del self._inbox[0]

    # ---- the transfer ----
    def _served(self) -> bool:
        return all(m.final for m in self.crew.receivers)

    async def _transfer(self) -> None:
        wake = self.transfer.wake
        poll = self._tasks.spawn(self._poll_loop())
        while not self._served():
            wake.clear()  # before anything is looked at: what comes while members are asked counts
            if self._stop_reason:
                raise self._stop_reason
            self.crew.check_source()
            now = time.monotonic()
            if self._roots:
                self._roots.look(now)
            if self._fetching:
                self._fetching.deal(now)
            if self._holders:
                self._holders.deal(self._look_s, now)
            await self._attendance.serve_those_aside()
            self.feeding.feed(self._look_s)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.feeding.tick_s(self._look_s)):
                    await wake.wait()
            await self.transfer.view.steps.next()
        poll.cancel()
        with contextlib.suppress(GroupError, TimeoutError):
            async with asyncio.timeout(LAST_S):
                self._figures.status_in((await self.crew.status()).read(), time.monotonic())

    def _pace(self, left_s: float | None) -> float:
        left_s = self.transfer.ideal_s if left_s is None else left_s
        others = self.transfer.view.crowd - self.members
        return pace.between(left_s, self.transfer.options.lease_ms / 1000, self.crew.timeout_s, others)

    async def _poll_loop(self) -> None:
        began = time.monotonic()
        while True:
            started = time.monotonic()
            try:
                await self._take_status(started)
                await self._bounds.check(self.transfer.source_trees)
            except GroupError as error:
                log.warning("group %s: %s", self.id, error)
            await self.transfer.view.looks.next()
            now = time.monotonic()
            self._slow.look(self._attendance.look(now), now)
            self._reactions.kick()
            self.transfer.news = True
            left_s = pace.left_s(self.transfer.size, self.crew.receivers, now - began)
            self._slow.renew(left_s, now)
            self._look_s = self._pace(left_s)
            await self._until_next_look(started)

    async def _take_status(self, asked: float) -> None:
        """Apart, so that nothing holds what all members said until the next look. Raises GroupError."""
        said = await self.crew.status(self.feeding.digests)
        await self.transfer.view.looks.next()
        self._figures.status_in(said.read(), asked)

    async def _until_next_look(self, last: float) -> None:
        """Sooner where a receiver seems to be slow, or the source says that a tree is."""
        now, paces = time.monotonic(), self.transfer.paces
        wait = pace.CURIOUS_S if paces is not None and paces.curious(now) else self._look_s
        if paces is not None and paces.settling(now):
            wait = min(wait, pace.POLL_S)
        if paces is not None and paces.hasty(now):
            wait = pace.HASTY_S
        await asyncio.sleep(max(0.02, pace.HASTY_S - (now - last)))
        slowed = self.transfer.slowed
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(last + wait - time.monotonic()):
                await slowed.wait()
        if slowed.is_set() and paces is not None:
            paces.slowed(time.monotonic())
        slowed.clear()


def cut_before(receivers: list[Member], results: Results[StatAnswer]) -> tuple[int, int] | None:
    """By a master of which nothing was told. What receivers have kept counts only where the file is cut so again."""
    told = [results.of(member.name) for member in receivers]
    cuts = Counter((one.piece, one.per_block) for one in told if one.piece and one.per_block)
    return cuts.most_common(1)[0][0] if cuts else None
