"""A worker: one process that runs the masters of many groups.

It asks the fabric manager for orders over one stream, and tells of all its groups in one report a few times a second,
which renews its lease. Without a fabric manager its groups go on, and end; what is to be told waits for the next one. A
group that the fabric manager says is another's now is dropped where it stands: its members listen to the other.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import sys
import time
from dataclasses import dataclass
from typing import Any

from datacast.core.errors import DatacastError
from datacast.fabric_manager.api import FabricManagerClient, orders
from datacast.fabric_manager.api.reports import MasterReport, ReportAnswer
from datacast.services.problems import NO_LEADER, Problem

from . import pace
from .agents import Agents
from .group import ON_REQUEST, Cancelled, Group
from .report import in_parts, weight
from .view import View

log = logging.getLogger("datacast.master")

AT_ONCE_S = 0.005
GATHER_S, BREATH_S = 0.5, 0.001
"""So long a report is put together at most, however many groups have news: it renews the lease. In between others get
their turn, each time that so much was spent on it."""
RENEW_S = 1.0
"""Nothing new for so long, or a report that takes longer, is no reason to lose the lease: an empty report goes."""
RETRY_S, RETRY_MAX_S = 0.05, 0.2
LEAVE_S = 5.0
"""A fabric manager that does not answer for so long sees that this worker is gone."""
REPORTS_MAX, WEIGHT_MAX = 512, 4096
"""In one request: reports, and what they hold (report.weight), some megabytes. A busy worker waits for each request's
answer for as long as all its groups take for one turn each: few requests bring all of them."""
OVER_MAX = 1024


@dataclass
class Running:
    """A group's master as a task."""

    group: Group
    task: asyncio.Task[Any]
    whole: bool = True
    """The next report tells all."""

    @property
    def ended(self) -> bool:
        return self.task.done()


class Worker:
    """`await run()` until cancelled."""

    def __init__(self, client: FabricManagerClient, view: View, name: str) -> None:
        self.client, self.view, self.name = client, view, name
        client.lease = client.lease or secrets.token_hex(16)
        self.agents = Agents(client.security)
        self.groups: dict[str, Running] = {}
        self.idle = asyncio.Event()
        """Has no group."""
        self.idle.set()
        self._told = 0.0
        """When it said last that it lives."""
        self._due = asyncio.Event()
        self._gate = asyncio.Lock()
        """Trees take tens of milliseconds of processor in a large fabric: between those of two groups reports go out,
        or this worker would be taken to hang."""
        self._parting: set[asyncio.Task[None]] = set()
        """Of groups that have ended, and of which that is known."""
        self._over: dict[str, int] = {}
        """The last of these, with their epochs: an order may have been on its way."""

    async def run(self, pid: int) -> None:
        """Follows the orders and tells. Where one of these breaks all end: a worker that renews its lease and tells
        nothing would keep its groups for ever."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._report_loop())
            tasks.create_task(self._renew())
            await self.view.at(0)
            tasks.create_task(self.agents.keep(self.view.addresses))
            await self._follow(pid)

    async def leave(self) -> None:
        """The groups go to other workers."""
        await asyncio.gather(*map(self.drop, tuple(self.groups)))
        await asyncio.gather(*self._parting, return_exceptions=True)
        try:
            async with asyncio.timeout(LEAVE_S):
                await self.client.leave(self.name)
        except (Problem, TimeoutError) as error:
            log.info("nobody was told that this worker leaves: %s", error)

    # ---- orders ----
    async def _follow(self, pid: int) -> None:
        delay, breath = RETRY_S, time.monotonic()
        while True:
            try:
                async for text in self.client.orders(self.name, pid):
                    delay = RETRY_S
                    try:
                        await self._on_order(orders.read(text))
                    except (ValueError, DatacastError) as error:
                        log.error("an order that makes no sense (%r): %.200s", error, text)
                    if time.monotonic() - breath > BREATH_S:
                        await asyncio.sleep(0)  # shares of hundreds of groups come together; news of a link do not wait
                        breath = time.monotonic()
            except Problem as problem:
                log.info("orders: %s", problem)
            await asyncio.sleep(delay)
            delay = min(2 * delay, RETRY_MAX_S)

    async def _on_order(self, order: orders.AnyOrder) -> None:
        match order:
            case orders.StartOrder():
                await self._start(order)
            case orders.Load():
                self.view.carried(order.arcs, order.whole)
            case orders.Owned():
                for name, running in tuple(self.groups.items()):
                    if order.groups.get(name) != running.group.epoch and not running.ended:
                        await self.drop(name)
                for running in self.groups.values():
                    running.whole = True  # this fabric manager may know less than the one before
                self._due.set()
            case orders.Drop():
                there = self.groups.get(order.group)
                if there and there.group.epoch < order.epoch:
                    await self.drop(order.group)
            case orders.ToMaster():
                there = self.groups.get(order.group)
                if there and there.group.epoch == order.epoch:
                    there.group.on_control(order)

    async def _start(self, order: orders.StartOrder) -> None:
        received_ns = time.time_ns()
        if order.epoch <= self._over.get(order.group, 0):
            return
        there = self.groups.get(order.group)
        if there is not None:
            if there.group.epoch >= order.epoch:
                return  # told again, because the stream began anew
            await self.drop(order.group)
        order.receivers[:] = map(sys.intern, order.receivers)  # a host has one name, in however many groups it is
        group = Group(
            order, self.view, self.client, self.agents, received_ns=received_ns, changed=self._due.set, gate=self._gate
        )
        task = asyncio.create_task(group.run())
        self.groups[order.group] = Running(group, task)
        self.idle.clear()
        task.add_done_callback(lambda _: self._due.set())

    async def drop(self, name: str) -> None:
        """As if this process were killed: nobody is told anything."""
        running = self.groups.pop(name, None)
        if running is None:
            return
        log.warning("group %s: epoch %d is another's now, dropped", name, running.group.epoch)
        running.task.cancel()
        await asyncio.gather(running.task, return_exceptions=True)
        await running.group.drop()
        self._look_idle()

    # ---- reports ----
    async def _report_loop(self) -> None:
        while True:
            started = time.monotonic()
            try:
                await self.report()
            except Problem as problem:
                log.info("reports: %s", problem)
                for running in self.groups.values():
                    running.whole = True
                self._due.clear()
                await asyncio.sleep(pace.REPORT_S)
                continue
            left = pace.reports_s(len(self.groups)) - (time.monotonic() - started)
            try:
                # Not wait_for: in Python 3.11 it forgets that it was cancelled when both happen at once.
                async with asyncio.timeout(max(AT_ONCE_S, left)):
                    await self._due.wait()
            except TimeoutError:
                continue
            # What happens together is told together.
            await asyncio.sleep(AT_ONCE_S)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(RENEW_S / 2)
            if time.monotonic() - self._told > RENEW_S:
                try:
                    await self.client.report(self.name, [])
                    self._told = time.monotonic()
                except Problem as problem:
                    log.info("lease: %s", problem)

    async def report(self) -> None:
        """What is new of every group. Raises Problem when it could not be told."""
        self._due.clear()
        self.view.crowd = sum(running.group.members for running in self.groups.values())
        batch: list[tuple[Running, bool, MasterReport]] = []
        heavy, began = 0, time.monotonic()
        breath = began
        for running in [r for r in self.groups.values() if r.whole or r.ended or r.group.news]:
            over, whole, running.whole = running.ended, running.whole, False
            parts = in_parts(running.group.report(whole))
            for body in parts:
                heavy += weight(body)
                if batch and (heavy > WEIGHT_MAX or len(batch) == REPORTS_MAX):
                    await self._tell(batch)
                    batch, heavy = [], weight(body)
                batch.append((running, over and body is parts[-1], body))
            if time.monotonic() - breath > BREATH_S:
                await asyncio.sleep(0)  # what a link does is answered between two groups' reports
                breath = time.monotonic()
            if breath - began > GATHER_S:
                await self._tell(batch)
                batch, heavy, began = [], 0, time.monotonic()
        if batch:
            await self._tell(batch)

    async def _tell(self, batch: list[tuple[Running, bool, MasterReport]]) -> None:
        began = time.monotonic()
        answers = await self.client.report(self.name, [body for _, _, body in batch])
        self._told = max(self._told, began)
        for (running, over, body), answer in zip(batch, answers, strict=True):
            if not answer.code and (over or body.progress.trees):
                self.view.counted(running.group.id)
            await self._answered(running, answer, over)

    async def _answered(self, running: Running, answer: ReportAnswer, over: bool) -> None:
        name = running.group.id
        code = answer.code
        if code == "stale":
            if self.groups.get(name) is running:
                await self.drop(name)
        elif code == NO_LEADER:
            running.whole = True
        elif code:
            log.error("group %s: its report was not taken: %s", name, answer.error)
            running.whole = True
            if code == "invalid":
                running.group.say_less()
        elif over:
            if self.groups.get(name) is not running:
                return  # it was resumed meanwhile: its members are another master's
            del self.groups[name]
            self._over[name] = running.group.epoch
            if len(self._over) > OVER_MAX:
                del self._over[next(iter(self._over))]
            parting = asyncio.create_task(running.group.part())
            self._parting.add(parting)
            parting.add_done_callback(self._parted)
        elif answer.state == "cancelling":
            running.group.cancel(Cancelled(ON_REQUEST))

    def _parted(self, parting: asyncio.Task[None]) -> None:
        self._parting.discard(parting)
        self._look_idle()

    def _look_idle(self) -> None:
        if not self.groups and not self._parting:
            self.idle.set()
