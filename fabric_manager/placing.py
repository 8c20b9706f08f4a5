"""Which worker has which group: groups are given to workers, taken back where a worker's lease has ended, and wait
where there is none, or no room for them yet."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from msgspec import structs

from datacast.services.problems import NO_LEADER, Problem
from datacast.services.store import StoreError

from . import machine
from .admission import Admission
from .api import orders
from .balance import Balance
from .carried import Carried
from .fabric import Fabric
from .held import Held
from .keys import Kept, TreeIds
from .machine import Assigned, Event, OwnerLost
from .record import Record
from .workers import Worker, Workers

log = logging.getLogger("datacast.fabric_manager")

TREE_IDS_PER_GROUP = 16
AGENTS_WAIT_S = 8.0
"""Groups of a fabric manager before: how long their members' agents are waited for, once this one has begun."""
ORDER_AGAIN_S = 0.2


class Placing:
    """`live`: groups that have not ended. `do(group, event)` carries an event out; `spawn` runs a coroutine for as long
    as this fabric manager leads; `again(group)` is called when a group's worker may have missed what it was told."""

    def __init__(
        self,
        fabric: Fabric,
        kept: Kept,
        live: dict[str, Held],
        admission: Admission,
        carried: Carried,
        do: Callable[[str, Event], Awaitable[Record]],
        spawn: Callable[[Coroutine[Any, Any, Any]], None],
        again: Callable[[str], None],
    ) -> None:
        self.fabric, self.kept, self.admission, self.carried = fabric, kept, admission, carried
        self._live, self._do, self._spawn, self._again = live, do, spawn, again
        self.tree_ids = TreeIds(kept)
        self.workers = Workers(self._lost, self._came)
        self.balance = Balance(
            self.workers,
            lambda: [held.record for held in live.values()],
            lambda record: self._lose(record, "another worker had less to do", True),
        )
        self._waiting: set[str] = set()
        """Those that want a worker, and there is none, or their agents are not there yet."""
        self._inherited: set[str] = set()
        """Groups of a fabric manager before of which nothing has been heard yet."""
        self._losing: set[str] = set()
        self._began = 0.0

    def begin(self) -> None:
        self._began = time.monotonic()
        self.workers.begin()

    def inherit(self, record: Record) -> None:
        """One of a fabric manager before, which has not ended."""
        self._inherited.add(record.id)
        self.admission.follow(record, False)
        if record.owner is None and record.state != "queued":
            self._waiting.add(record.id)

    # ---- what becomes of a group ----
    def pick(self, record: Record) -> Worker | None:
        """For a new one, which has it from now on; None: it waits."""
        worker = self.workers.pick()
        if worker is None or not self.admission.fits(record, time.monotonic()):
            self.admission.follow(record, False)
            return None
        worker.groups.add(record.id)
        self.admission.begin(record, time.monotonic())
        return worker

    def heard(self, group: str) -> None:
        """It has been given out here, or its master has told of it."""
        self._inherited.discard(group)

    def given(self, group: str, lease: str) -> None:
        if worker := self.workers.find(lease):
            worker.groups.add(group)

    def wanted(self, record: Record) -> None:
        """It is nobody's, and somebody should have it as soon as it has its turn."""
        if record.state != "queued":
            self._waiting.add(record.id)
        self._spawn(self._place_waiting())

    def recall(self, record: Record) -> None:
        """Whoever has it and should not lets go."""
        for worker in self.workers.all():
            if record.id in worker.groups and worker.lease != record.lease:
                worker.groups.discard(record.id)
                if not machine.final(record):
                    # Nobody's: whoever has it still, in this epoch, too, lets go.
                    over = record.epoch + (record.owner is None)
                    worker.put(orders.Drop(group=record.id, epoch=over))

    def found(self, held: Held) -> None:
        """A write had happened although it was answered with an error: what follows from it is made up for."""
        if held.record.owner is not None:
            self._hand_over(held)
        elif held.record.state == "queued":
            self.admit()
        else:
            self._waiting.add(held.record.id)

    def ended(self, group: str) -> None:
        self._waiting.discard(group)
        for worker in self.workers.all():
            worker.groups.discard(group)
        self.admit()

    # ---- orders ----
    def tell(self, record: Record, message: orders.ToMaster) -> None:
        """A group without a master has nobody to tell."""
        if worker := self.workers.find(record.lease):
            worker.put(structs.replace(message, group=record.id, epoch=record.epoch))

    async def order(self, held: Held) -> None:
        """To the owner, to run it."""
        record = held.record
        worker = self.workers.find(record.lease)
        if worker is None:
            return  # its lease has ended meanwhile: _lost comes, or has come
        try:
            tree_ids = await self.tree_ids.take(TREE_IDS_PER_GROUP)
        except StoreError as error:
            log.error("group %s: %s", record.id, error)
            self._spawn(self._order_again(held, record.epoch))
            return
        if machine.final(held.record) or held.record.epoch != record.epoch:
            return  # meanwhile
        record = held.record  # who has joined or left since was told to nobody, where this is the first it hears
        order = orders.StartOrder(
            group=record.id,
            epoch=record.epoch,
            spec=record.spec,
            dest_paths=record.dest_paths,
            tree_ids=tree_ids,
            version=self.fabric.version,
            accepted_ns=held.accepted_ns or time.time_ns(),
            own=self.carried.own(record.id),
            adopt=record.adopt if record.epoch > 1 else None,
            reactions=record.progress.reactions,
            done=record.done if record.epoch > 1 else {},
        )
        held.accepted_ns = 0
        worker.put(order)

    async def _order_again(self, held: Held, epoch: int) -> None:
        await asyncio.sleep(ORDER_AGAIN_S)
        if held.record.owner is not None and held.record.epoch == epoch:
            await self.order(held)

    def _hand_over(self, held: Held) -> None:
        """All that its owner must know, who may know it already."""
        record = held.record
        worker = self.workers.find(record.lease)
        if worker is None:
            return  # its lease has ended: _lost or sweep sees to it
        worker.groups.add(record.id)
        self._spawn(self.order(held))
        self.tell(record, orders.Members(receivers=record.receivers, dest_paths=record.dest_paths))
        if record.state == "cancelling":
            self.tell(record, orders.Cancel())

    # ---- workers come and go ----
    def _came(self, worker: Worker) -> None:
        """It has a stream again, and hears what it has; then groups that waited get it."""
        mine = [held for held in self._live.values() if held.record.lease == worker.lease]
        worker.groups = {held.record.id for held in mine}
        worker.put(orders.Load(arcs=self.carried.all(), whole=True))
        worker.put(orders.Owned(groups={held.record.id: held.record.epoch for held in mine}))
        for held in mine:
            if not held.revision:  # it is being written: its order goes out when it is, or never
                continue
            self._hand_over(held)
            self._again(held.record.id)
        self.admit()
        self._spawn(self._place_waiting())

    def _lost(self, worker: Worker, how: str, planned: bool) -> None:
        for held in [held for held in self._live.values() if held.record.lease == worker.lease]:
            self._lose(held.record, how, planned)

    def _lose(self, record: Record, how: str, planned: bool = False) -> None:
        if record.id not in self._losing:
            self._losing.add(record.id)
            self._spawn(self._owner_lost(record, how, planned))

    async def _owner_lost(self, record: Record, how: str, planned: bool) -> None:
        """Until it is written."""
        try:
            while True:
                try:
                    await self._do(record.id, OwnerLost(record.epoch, how, planned))
                    return
                except Problem as problem:
                    if problem.code == NO_LEADER or problem.status == 404:
                        return
                    log.error("group %s: %s", record.id, problem)
                await asyncio.sleep(1.0)
        finally:
            self._losing.discard(record.id)

    # ---- those that wait ----
    def admit(self) -> None:
        """Those that wait in the queue and may begin."""
        now = time.monotonic()
        begins = self.admission.next(now) if self.workers.pick() is not None else []
        for record in begins:
            self.admission.begin(record, now)
            self._waiting.add(record.id)
        if begins:
            self._spawn(self._place_waiting())

    def _unattended(self) -> dict[str, list[Record]]:
        """Those whose worker is not here, by its name."""
        leases = {worker.lease for worker in self.workers.all()}
        found: dict[str, list[Record]] = {}
        for held in self._live.values():
            if held.record.owner is not None and held.record.lease not in leases:
                found.setdefault(held.record.owner, []).append(held.record)
        return found

    def coming(self) -> set[str]:
        """Workers of a fabric manager before that are not here yet."""
        return set(filter(self.workers.may_return, self._unattended()))

    def sweep(self) -> None:
        """Call ten times a second."""
        if self.kept.deposed:
            return
        self.workers.sweep()
        for owner, records in self._unattended().items():
            if not self.workers.may_return(owner):
                for record in records:
                    self._lose(record, "its worker did not come back")
        self.admit()
        self.balance.look(time.monotonic(), bool(self._waiting or self._losing))
        if self._waiting:
            self._spawn(self._place_waiting())

    async def _place_waiting(self) -> None:
        """Give those that wait to workers, as far as their agents are there."""
        placed = []
        for group in sorted(self._waiting):
            held = self._live.get(group)
            if held is None or held.record.owner is not None:
                self._waiting.discard(group)
            elif group not in self._inherited or self._agents_there(held.record):
                worker = self.workers.pick()
                if worker is None:
                    break
                self._waiting.discard(group)
                worker.groups.add(group)  # the next one is picked knowing it
                placed.append(self._place(held.record, worker))
        await asyncio.gather(*placed)

    async def _place(self, record: Record, worker: Worker) -> None:
        sources = [self.fabric.nodes.get(name) for name in record.spec.roots]
        lost = record.id in self._inherited and not any(source and source.registered for source in sources)
        try:
            await self._do(record.id, machine.interrupted(record) if lost else Assigned(worker.name, worker.lease))
        except Problem as problem:
            held = self._live.get(record.id)
            if held is None or held.record.lease != worker.lease:  # else an earlier try was written after all
                worker.groups.discard(record.id)
            if problem.code not in ("stale", NO_LEADER):
                log.error("group %s: %s", record.id, problem)
                self._waiting.add(record.id)

    def _agents_there(self, record: Record) -> bool:
        """All, or they were waited for long enough: everything may have been gone."""
        if time.monotonic() - self._began > AGENTS_WAIT_S:
            return True
        nodes = self.fabric.nodes
        return all(name in nodes and nodes[name].registered for name in (*record.spec.roots, *record.receivers))
