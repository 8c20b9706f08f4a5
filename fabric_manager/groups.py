"""Groups: accepted here, written to the store, given to workers. What becomes of them machine.py says; this carries it
out, one event of a group after another."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import posixpath
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakValueDictionary

from msgspec import structs

from datacast.services import framing
from datacast.services.problems import NO_LEADER, Problem
from datacast.services.store import Conflict, Lost, StoreError

from . import hub, machine, requests
from .admission import Admission, Caps
from .api import GroupSpec, orders, reports
from .api.reports import ReportAnswer
from .api.topology import Change, Topology
from .balance import Balance
from .carried import Carried
from .cordons import Cordons
from .divider import Divider
from .fabric import Fabric
from .keys import GROUPS, TREE_IDS, Kept, TreeIds, under, unwritten
from .machine import Assigned, Cancel, Event, GiveUp, Join, Leave, OwnerLost, Place, Recall, Reported, Resume, Tell
from .rate_caps import RateCaps
from .record import Record, change, dump, load
from .sets import Sets
from .site_groups import SiteGroups
from .streams import in_turn
from .totals import Totals
from .wiring import Wiring
from .workers import Worker, Workers

log = logging.getLogger("datacast.fabric_manager")

TREE_IDS_PER_GROUP = 16
KEEP_GROUPS = 1000
"""Finished groups that are remembered."""
AGENTS_WAIT_S = 8.0
"""Groups of a fabric manager before: how long their members' agents are waited for, once this one has begun."""
AGENTS_RETURN_S, LOOK_S = 5.0, 0.02
"""So long a request waits for agents that look for this fabric manager."""
DISOWN_TRIES = 60
ORDER_AGAIN_S = 0.2


@dataclass
class Held:
    """A record as the store has it, but for progress since."""

    record: Record
    revision: int
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    unsure: bool = False
    """A write was answered with an error: what the store has must be looked up."""
    accepted_ns: int = 0
    counted: int = 0
    """Bytes of it in the totals."""


class Groups:
    """`publish` gets `group` events, a summary each."""

    def __init__(
        self, fabric: Fabric, kept: Kept, publish: Callable[[hub.Event], None], caps: Caps | None = None
    ) -> None:
        self.fabric, self.kept, self._publish = fabric, kept, publish
        self.admission = Admission(caps)
        self.sets = Sets(fabric, kept)
        self.cordons = Cordons(fabric, kept, publish, self._groups_of)
        self.site_groups = SiteGroups(kept)
        self.wiring = Wiring(fabric, kept, self._rewired, self._groups_of)
        self._keyed: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.tree_ids = TreeIds(kept)
        self.totals = Totals()
        self.workers = Workers(self._lost, self._came)
        self.balance = Balance(
            self.workers, self.unfinished, lambda record: self._lose(record, "another worker had less to do", True)
        )
        self.carried = Carried(fabric.graph)
        self.divider = Divider(fabric, self.tell, self._refuse)
        self.rate_caps = RateCaps(fabric, kept, self.divider.cap)
        self._groups: dict[str, Held] = {}
        self._live: dict[str, Held] = {}
        """Those that have not ended."""
        self._waiting: set[str] = set()
        """Those that want a worker, and there is none, or their agents are not there yet."""
        self._inherited: set[str] = set()
        """Groups of a fabric manager before of which nothing has been heard yet."""
        self._losing: set[str] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._began = self._return_s = 0.0

    async def begin(self) -> None:
        """With what the store holds. Raises StoreError."""
        self._began = time.monotonic()
        entries = await self.kept.store.list("")  # once: all wait for it when a leader is followed
        if under(TREE_IDS, entries):  # there was a fabric manager before
            self._return_s = self._began + AGENTS_RETURN_S
        self.workers.begin()
        self._spawn(self.divider.run())
        for part in (self.wiring, self.sets, self.cordons, self.rate_caps, self.site_groups):
            part.begin(entries)
        self.divider.rewire()
        for entry in under(GROUPS, entries):
            held = self._groups[entry.key] = Held(load(entry.value), entry.revision)
            if not machine.final(held.record):
                self._live[held.record.id] = held
                self._inherited.add(held.record.id)
                self.admission.follow(held.record, False)
                if held.record.owner is None and held.record.state != "queued":
                    self._waiting.add(held.record.id)

    async def stop(self) -> None:
        """Groups go on without this one."""
        self.kept.deposed = True
        self.workers.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # ---- asking ----
    def get(self, group: str) -> Record:
        return self._held(group).record

    def all(self, state: str | None = None) -> list[Record]:
        """Oldest first."""
        records = [held.record for held in self._groups.values() if state is None or held.record.state == state]
        return sorted(records, key=lambda record: record.created_ns)

    def unfinished(self) -> list[Record]:
        """Groups that have not ended, as far as is known."""
        return [held.record for held in self._live.values()]

    def records(self) -> list[Record]:
        """All that are remembered."""
        return [held.record for held in self._groups.values()]

    def _held(self, group: str) -> Held:
        held = self._groups.get(group)
        if held is None:
            raise Problem(
                404,
                "group_not_found",
                f"there is no group {group!r}",
                what=group,
                remedy="`datacast groups` lists the groups there are",
            )
        return held

    # ---- what is asked for ----
    async def create(self, spec: GroupSpec, accepted_ns: int, by: str = "", key: str | None = None) -> Record:
        """Check, store, and give to a worker. `by`: whose request it is; `key`: their own name for it: with the same
        one the same request is carried out once, and answered with the group that it made. Raises Problem."""
        if key is None:
            return await self._create(spec, accepted_ns, by, "")
        digest = hashlib.sha256(repr(spec).encode()).hexdigest()[:16]
        named = f"{by}/{key}"
        async with self._keyed.setdefault(named, asyncio.Lock()):  # others wait for the answer to the same one only
            known = next((h.record for h in self._groups.values() if h.record.request_key[17:] == named), None)
            if known is None:
                return await self._create(spec, accepted_ns, by, f"{digest} {named}")
        if known.request_key[:16] != digest:
            raise Problem(
                422, "key_reused", f"the Idempotency-Key {key!r} was another request's", what=key,
                remedy="give every request a key of its own",
            )  # fmt: skip
        return known

    async def _create(self, spec: GroupSpec, accepted_ns: int, by: str, key: str) -> Record:
        await self._agents_return(spec)
        receivers = requests.receivers_of(self.fabric, self.sets.all(), spec)
        if not isinstance(spec.receivers, list):  # a set, or all: as many as take part
            receivers = [name for name in receivers if self.cordons.reason(name) is None] or receivers
        if spec.url is not None:
            spec = requests.with_fetchers(self.fabric, spec, receivers)
        else:
            requests.check_source_path(spec.source_path)
        spec = requests.with_shards(spec, receivers)
        spec = requests.with_left(spec, lambda name: held.record if (held := self._groups.get(name)) else None)
        dest = requests.check_dest_path(spec.dest_path or posixpath.basename(spec.source_path.partition("?")[0]))
        now = time.time_ns()
        spec = replace(spec, receivers=receivers, receiver_set=None, dest_path=dest)
        self.cordons.check(list(dict.fromkeys([*spec.roots, *receivers])))
        made = Record(
            id=self._new_id(key), spec=spec, created_ns=now, updated_ns=now, requested_by=by, request_key=key
        )  # fmt: skip
        record = machine.new(made).record
        worker = self.workers.pick()
        # Given out at once it costs one write.
        begins = worker is not None and self.admission.fits(record, time.monotonic())
        held = Held(record, 0, accepted_ns=accepted_ns)
        effects: tuple[machine.Effect, ...] = ()
        if begins and worker:
            outcome = machine.apply(record, Assigned(worker.name, worker.lease), now)
            held.record, effects = outcome.record, outcome.effects
            worker.groups.add(record.id)
        self.admission.begin(record, time.monotonic()) if begins else self.admission.follow(record, False)
        self._groups[record.id] = self._live[record.id] = held
        async with held.lock:
            try:
                held.revision = await self.kept.put(GROUPS + record.id, dump(held.record), 0)
            except StoreError as error:
                del self._groups[record.id], self._live[record.id]
                self.admission.follow(record, True)
                if worker:
                    worker.groups.discard(record.id)
                if isinstance(error, Conflict) and (there := await self._made_before(record.id, key)):
                    self._groups[record.id] = there
                    await self._caught_up(there, record)
                    return there.record
                self._spawn(self._disown(record.id))
                raise unwritten(error) from error
            await self._carry_out(held, effects)
        log.info("group %s: %s:%s to %d receivers", record.id, spec.source, spec.source_path, len(receivers))
        return held.record  # one that does not begin at once is looked at with the next sweep

    async def _agents_return(self, spec: GroupSpec) -> None:
        """Those of the fabric manager before come within a moment: nobody is told meanwhile that a host has none."""
        named = [*spec.roots, *(spec.receivers if isinstance(spec.receivers, list) else self.fabric.members())]
        nodes = [self.fabric.nodes[name] for name in named if name in self.fabric.nodes]
        while time.monotonic() < self._return_s and not all(node.registered for node in nodes):
            await asyncio.sleep(LOOK_S)
        if self.kept.deposed:  # it has let its agents go, and nobody is told that hosts have none
            raise unwritten(Lost("this fabric manager leads no more"))

    async def _disown(self, group: str) -> None:
        """The caller was told that it could not be written; where it was all the same, it goes."""
        for _ in range(DISOWN_TRIES):
            await asyncio.sleep(1.0)
            with contextlib.suppress(StoreError):
                entry = await self.kept.store.get(GROUPS + group)
                if entry is not None and group not in self._groups:  # nobody has asked for it again
                    await self.kept.delete(GROUPS + group, entry.revision)
                return

    def _new_id(self, key: str) -> str:
        """The same for the same key: a request that is made again finds what the first one has written after all."""
        group = f"g-{hashlib.sha256(key.encode()).hexdigest()[:8]}"
        while not key or group in self._groups:
            group, key = f"g-{os.urandom(4).hex()}", key or "any"
        return group

    async def _made_before(self, group: str, key: str) -> Held | None:
        """What the store has under a new group's id, if the same request has put it there."""
        with contextlib.suppress(StoreError):
            entry = await self.kept.store.get(GROUPS + group)
            if entry is not None and key and (record := load(entry.value)).request_key == key:
                return Held(record, entry.revision)
        return None

    async def cancel(self, group: str) -> Record:
        """Tell the master to end it; a finished group stays as it is."""
        return await self._do(group, Cancel())

    async def forget(self, group: str) -> Record:
        """One that has ended; returns what it was. Raises Problem."""
        held = self._held(group)
        async with held.lock:
            if not machine.final(held.record):
                raise Problem(
                    409, "not_ended", f"group {group} is {held.record.state}", what=group,
                    remedy=f"POST /groups/{group}/cancel ends it",
                )  # fmt: skip
            try:
                await self.kept.delete(GROUPS + group, held.revision)
            except StoreError as error:
                raise unwritten(error) from error
            self._groups.pop(group, None)
        return held.record

    async def resume(self, group: str) -> Record:
        """Start a group again that has failed or reached a part of its receivers. Raises Problem."""
        record = self.get(group)
        if record.state in ("failed", "partial"):
            missing = [name for name in record.receivers if name not in record.done]
            if not any(self.fabric.nodes[name].registered for name in record.spec.roots):
                raise requests.no_agent(record.spec.source)
            if not any(self.fabric.nodes[name].registered for name in missing):
                raise requests.no_agent(missing[0] if missing else record.spec.source)
        return await self._do(group, Resume())

    async def add_receiver(self, group: str, host: str, dest_path: str | None = None) -> Record:
        """`dest_path`: where this one wants it, if elsewhere than the others. Raises Problem."""
        record = self.get(group)
        requests.check_host(self.fabric, "host", host)
        requests.check_late(record.spec, host)
        if not self.fabric.nodes[host].registered:
            raise requests.no_agent(host)
        return await self._do(group, Join(host, None if dest_path is None else requests.check_dest_path(dest_path)))

    async def remove_receiver(self, group: str, host: str) -> Record:
        """Raises Problem."""
        return await self._do(group, Leave(host))

    def tell(self, group: str, message: orders.ToMaster) -> None:
        """A message for the group's master; one without a master has nobody to tell."""
        record = self.get(group)
        worker = self.workers.find(record.lease)
        if worker:
            worker.put(structs.replace(message, group=group, epoch=record.epoch))

    # ---- what masters tell ----
    async def reports(self, lease: str, told: list[bytes]) -> list[ReportAnswer]:
        """A worker's: an answer to each, with code `stale` when the group is another's now, `store` if it could not be
        written and must come again."""
        return await in_turn(self._report(lease, raw) for raw in told)

    async def _report(self, lease: str, text: bytes) -> ReportAnswer:
        try:
            report = framing.read_json(reports.reader, text)
        except framing.FramingError as error:
            log.warning("a malformed report of a worker: %s", error)
            return ReportAnswer(code="invalid", error=str(error))
        trees = report.progress.trees
        for tree, figures in trees.items():
            if figures.arcs:
                trees[tree] = structs.replace(figures, arcs=self.carried.shared(figures.arcs))
        try:
            return ReportAnswer(state=(await self._do(report.group, Reported(report, lease))).state)
        except Problem as problem:
            return ReportAnswer(code="stale" if problem.status == 404 else problem.code, error=problem.message)

    # ---- one event after another ----
    async def _do(self, group: str, event: Event) -> Record:
        """Raises Problem: it does not fit, or could not be written. Then nothing has changed."""
        held = self._held(group)
        async with held.lock:
            if held.unsure:
                await self._look_up(held)
            outcome = machine.apply(held.record, event, time.time_ns())
            if outcome.durable:
                try:
                    held.revision = await self.kept.put(GROUPS + group, dump(outcome.record), held.revision)
                except StoreError as error:
                    held.unsure = True
                    raise unwritten(error) from error
            before, held.record = held.record, outcome.record
            if held.record.state != before.state:
                why = f" ({held.record.progress.error.message})" if held.record.progress.error else ""
                log.info("group %s: %s%s", group, held.record.state, why)
            if isinstance(event, Assigned | Reported):
                self._inherited.discard(group)
            if isinstance(event, Assigned):
                worker = self.workers.find(event.lease)
                if worker:
                    worker.groups.add(group)
            await self._carry_out(held, outcome.effects)
            if machine.final(held.record):
                self._ended(held)
            elif machine.final(before):
                self._live[group] = held
                self._admit()
            return held.record

    async def _look_up(self, held: Held) -> None:
        try:
            entry = await self.kept.store.get(GROUPS + held.record.id)
        except StoreError as error:
            raise unwritten(error) from error
        held.unsure = False
        if entry is not None and entry.revision != held.revision:
            before, held.record, held.revision = held.record, load(entry.value), entry.revision
            await self._caught_up(held, before)

    async def _caught_up(self, held: Held, before: Record) -> None:
        """A write had happened although it was answered with an error: what follows from it is made up for."""
        await self._carry_out(held, ())
        if machine.final(held.record):
            if not machine.final(before):
                self._ended(held)
            return
        self._live[held.record.id] = held
        if held.record.owner is not None:
            self._hand_over(held)
        elif held.record.state == "queued":
            self._admit()
        else:
            self._waiting.add(held.record.id)

    async def _carry_out(self, held: Held, effects: tuple[machine.Effect, ...]) -> None:
        record = held.record
        for effect in effects:
            if isinstance(effect, Place):
                if record.state != "queued":
                    self._waiting.add(record.id)
                self._spawn(self._place_waiting())
            elif isinstance(effect, Recall):
                for worker in self.workers.all():
                    if record.id in worker.groups and worker.lease != record.lease:
                        worker.groups.discard(record.id)
                        if not machine.final(record):
                            # Nobody's: whoever has it still, in this epoch, too, lets go.
                            over = record.epoch + (record.owner is None)
                            worker.put(orders.Drop(group=record.id, epoch=over))
            elif isinstance(effect, Tell):
                self.tell(record.id, effect.message)
            else:
                await self._order(held)
        self.admission.follow(record, machine.final(record))
        if load := self.carried.follow(record, machine.final(record)):
            for worker in self.workers.all():
                worker.put(orders.Load(arcs=load))
        self.divider.follow(record, machine.final(record))
        self._publish(change(record))

    def _rewired(self, change: Change) -> None:
        self._publish(change)
        if isinstance(change, Topology):
            self.divider.rewire()

    def _groups_of(self, host: str) -> list[str]:
        """Those that have not ended and that it is a member of."""
        return [r.id for r in self.unfinished() if host == r.spec.source or host in r.receivers]

    def _ended(self, held: Held) -> None:
        group = held.record.id
        held.counted = self.totals.ended(held.record, held.counted)
        self._live.pop(group, None)
        self._waiting.discard(group)
        for worker in self.workers.all():
            worker.groups.discard(group)
        self._spawn(self._forget_oldest())
        self._admit()

    async def _forget_oldest(self) -> None:
        """The oldest finished groups beyond what is kept."""
        ended = [held for held in self._groups.values() if machine.final(held.record)]
        ended.sort(key=lambda held: held.record.created_ns)
        for held in ended[: max(0, len(ended) - KEEP_GROUPS)]:
            self._groups.pop(held.record.id, None)
            try:
                await self.kept.delete(GROUPS + held.record.id, held.revision)
            except StoreError as error:
                log.warning("group %s cannot be forgotten: %s", held.record.id, error)

    # ---- workers ----
    async def _order(self, held: Held) -> None:
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
            await self._order(held)

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
            self.divider.again(held.record.id)
        self._admit()
        self._spawn(self._place_waiting())

    def _hand_over(self, held: Held) -> None:
        """All that its owner must know, who may know it already."""
        record = held.record
        worker = self.workers.find(record.lease)
        if worker is None:
            return  # its lease has ended: _lost or sweep sees to it
        worker.groups.add(record.id)
        self._spawn(self._order(held))
        self.tell(record.id, orders.Members(receivers=record.receivers, dest_paths=record.dest_paths))
        if record.state == "cancelling":
            self.tell(record.id, orders.Cancel())

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
                    if problem.code == NO_LEADER:
                        return
                    log.error("group %s: %s", record.id, problem)
                await asyncio.sleep(1.0)
        finally:
            self._losing.discard(record.id)

    def _admit(self) -> None:
        """Those that wait in the queue and may begin."""
        now = time.monotonic()
        begins = self.admission.next(now) if self.workers.pick() is not None else []
        for record in begins:
            self.admission.begin(record, now)
            self._waiting.add(record.id)
        if begins:
            self._spawn(self._place_waiting())

    def sweep(self) -> None:
        """Call ten times a second."""
        if self.kept.deposed:
            return
        self.workers.sweep()
        if not self.workers.returning():
            leases = {worker.lease for worker in self.workers.all()}
            for held in self._live.values():
                if held.record.owner is not None and held.record.lease not in leases:
                    self._lose(held.record, "its worker did not come back")
        self._admit()
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
            worker.groups.discard(record.id)
            if problem.status != 409 and problem.code != NO_LEADER:
                log.error("group %s: %s", record.id, problem)
                self._waiting.add(record.id)

    def _refuse(self, group: str, message: str) -> None:
        """Its deadline cannot be met."""
        self._spawn(self._do(group, GiveUp("deadline", message)))

    def _agents_there(self, record: Record) -> bool:
        """All, or they were waited for long enough: everything may have been gone."""
        if time.monotonic() - self._began > AGENTS_WAIT_S:
            return True
        nodes = self.fabric.nodes
        return all(name in nodes and nodes[name].registered for name in (*record.spec.roots, *record.receivers))

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
