"""Groups: accepted here, and written to the store. What becomes of them machine.py says; this carries it out, one event
of a group after another. Which worker has them: placing.py."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from weakref import WeakValueDictionary

from msgspec import structs

from datacast.services import framing
from datacast.services.problems import Problem
from datacast.services.store import Conflict, Lost, StoreError

from . import hub, machine, requests
from .admission import Admission, Caps
from .api import GroupSpec, orders, reports
from .api.records import GroupForgotten, Plan
from .api.reports import ReportAnswer
from .api.topology import Change, Topology
from .carried import Carried
from .cordons import Cordons
from .divider import Divider
from .dry_run import DryRun
from .fabric import Fabric
from .held import Held
from .keys import GROUPS, TREE_IDS, Kept, under, unwritten
from .machine import Assigned, Cancel, Event, GiveUp, Join, Leave, Place, Recall, Reported, Resume, Tell
from .placing import Placing
from .rate_caps import RateCaps
from .record import Record, change, dump, load
from .replica import Replica
from .sets import Sets
from .site_groups import SiteGroups
from .streams import in_turn
from .totals import Totals
from .wiring import Wiring

log = logging.getLogger("datacast.fabric_manager")

KEEP_GROUPS = 1000
"""Finished groups that are remembered."""
LIVE_MAX = 4096
"""Groups that run or wait: each is looked at whenever one may begin."""
AGENTS_RETURN_S, LOOK_S = 5.0, 0.02
"""So long a request waits for agents that look for this fabric manager."""
DISOWN_TRIES = 60
PLANS = 2
"""Requests for a plan, or with a deadline, that are computed at once: whoever asks for many holds up those who ask
likewise, and no worker that waits for a thread."""


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
        self.totals = Totals()
        self.carried = Carried(fabric.graph)
        self.divider = Divider(fabric, self.tell, self._refuse)
        self.rate_caps = RateCaps(fabric, kept, self.divider.cap)
        self._groups: dict[str, Held] = {}
        self._live: dict[str, Held] = {}
        """Those that have not ended."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self.placing = Placing(
            fabric, kept, self._live, self.admission, self.carried, self._do, self._spawn, self.divider.again
        )
        self._joining: list[tuple[str, str]] = []
        """Group and host, while it is written that the one is a receiver of the other."""
        self._return_s = 0.0
        self._plans = ThreadPoolExecutor(PLANS, "plans")

    async def begin(self, replica: Replica) -> None:
        """With what the store holds. Raises StoreError."""
        await replica.refresh()
        entries = [*replica.entries.values()]
        if under(TREE_IDS, entries):  # there was a fabric manager before
            self._return_s = time.monotonic() + AGENTS_RETURN_S
        self._spawn(self.divider.run())
        for part in (self.wiring, self.sets, self.cordons, self.rate_caps, self.site_groups):
            part.begin(entries)
        self.divider.rewire()
        self._groups = replica.groups
        for held in self._groups.values():
            if not machine.final(held.record):
                self._live[held.record.id] = held
                self.placing.inherit(held.record)
        self.placing.begin()  # not before: workers are answered from now on

    async def stop(self) -> None:
        """Groups go on without this one."""
        self.kept.deposed = True
        self._plans.shutdown(wait=False, cancel_futures=True)
        self.placing.workers.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # ---- asking ----
    def get(self, group: str) -> Record:
        return self._held(group).record

    def all(self, state: str | None = None) -> list[Record]:
        """Oldest first."""
        records = [held.record for held in self._groups.values() if state is None or held.record.state == state]
        return sorted(records, key=lambda record: (record.created_ns, record.id))

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
        named = f"{by} {key}"  # a key has no space, whatever a token is called
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

    def _room(self) -> None:
        """Raises Problem: there is none for one more."""
        if len(self._live) >= LIVE_MAX:
            raise Problem(
                429, "too_many_groups", f"{LIVE_MAX} groups run or wait, that is the most", what="groups",
                remedy="wait until some have ended, or cancel some",
            )  # fmt: skip

    async def _create(self, spec: GroupSpec, accepted_ns: int, by: str, key: str) -> Record:
        await self._agents_return(self._members_of(spec))
        if spec.deadline_s is not None and spec.size is not None:
            dry = self._dry_run(spec)
            await asyncio.get_running_loop().run_in_executor(self._plans, dry.check_deadline)
        self._room()  # from here on nobody else comes between
        receivers = requests.receivers_of(self.fabric, self.sets.all(), spec)
        if not isinstance(spec.receivers, list):  # a set, or all: as many as take part
            receivers = [name for name in receivers if self.cordons.reason(name) is None] or receivers
        if spec.url is not None:
            spec = requests.with_fetchers(self.fabric, spec, receivers)
        else:
            requests.check_source_path(spec.source_path)
        spec = requests.with_shards(spec, receivers)
        spec = requests.with_left(spec, lambda name: held.record if (held := self._groups.get(name)) else None)
        dest = requests.check_dest_path(spec.dest_path or spec.name)
        now = time.time_ns()
        spec = replace(spec, receivers=receivers, receiver_set=None, dest_path=dest)
        self.cordons.check(list(dict.fromkeys([*spec.roots, *receivers])))
        made = Record(
            id=self._new_id(key), spec=spec, created_ns=now, updated_ns=now, requested_by=by, request_key=key
        )  # fmt: skip
        record = machine.new(made).record
        held = Held(record, 0, accepted_ns=accepted_ns)
        effects: tuple[machine.Effect, ...] = ()
        if worker := self.placing.pick(record):  # given out at once it costs one write
            outcome = machine.apply(record, Assigned(worker.name, worker.lease), now)
            held.record, effects = outcome.record, outcome.effects
        self._groups[record.id] = self._live[record.id] = held
        async with held.lock:
            try:
                held.revision = await self.kept.put(GROUPS + record.id, dump(held.record), 0)
            except StoreError as error:
                there, why = None, error
                if isinstance(error, Conflict):  # while this one stands in its place nobody disowns it
                    try:
                        there = await self._made_before(record.id, key)
                    except StoreError as unread:
                        why = unread
                del self._groups[record.id], self._live[record.id]
                self.admission.follow(record, True)
                if worker:
                    worker.groups.discard(record.id)
                if there is not None:
                    self._groups[record.id] = there
                    await self._caught_up(there, record)
                    return there.record
                self._spawn(self._disown(record.id))
                raise unwritten(why) from why
            await self._carry_out(held, effects)
        log.info("group %s: %s:%s to %d receivers", record.id, spec.source, spec.source_path, len(receivers))
        return held.record  # one that does not begin at once is looked at with the next sweep

    async def plan(self, spec: GroupSpec, size: int | None) -> Plan:
        """What it would get now. Raises Problem."""
        await self._agents_return(self._members_of(spec))
        dry = self._dry_run(spec)
        return await asyncio.get_running_loop().run_in_executor(self._plans, dry.plan, size)

    def _dry_run(self, spec: GroupSpec) -> DryRun:
        return DryRun(self.fabric, self.sets.all(), self.divider, spec)

    def _members_of(self, spec: GroupSpec) -> list[str]:
        """Hosts that a request is about, as far as they are known."""
        if isinstance(spec.receivers, list):
            return [*spec.roots, *spec.receivers]
        if spec.receiver_set is not None:
            return [*spec.roots, *self.sets.all().get(spec.receiver_set, [])]
        return [node.name for node in self.fabric.nodes.values() if node.kind == "host" and not node.removed]

    async def _agents_return(self, names: list[str]) -> None:
        """Those of the fabric manager before come within a moment: nobody is told meanwhile that a host has none, and
        none of all is left out."""
        nodes = [self.fabric.nodes[name] for name in names if name in self.fabric.nodes]
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
        """What the store has under a new group's id, if the same request has put it there. Raises StoreError: nobody
        knows, or what was there has been taken away meanwhile."""
        entry = await self.kept.store.get(GROUPS + group)
        if entry is None:
            raise StoreError(f"group {group} is being taken away", what=group)
        if key and (record := load(entry.value)).request_key == key:
            return Held(record, entry.revision)
        return None

    async def cancel(self, group: str) -> Record:
        """Tell the master to end it; a finished group stays as it is."""
        return await self._do(group, Cancel())

    async def forget(self, group: str) -> Record:
        """One that has ended; returns what it was. Raises Problem."""
        async with self._alone(group) as held:
            if not machine.final(held.record):
                raise Problem(
                    409, "not_ended", f"group {group} is {held.record.state}", what=group,
                    remedy=f"`datacast cancel {group}` ends it, or POST /groups/{group}/cancel",
                )  # fmt: skip
            try:
                await self.kept.remove(GROUPS + group, held.revision)
            except StoreError as error:
                raise unwritten(error) from error
            self._drop(group)
        return held.record

    def _drop(self, group: str) -> None:
        if self._groups.pop(group, None):
            self._publish(GroupForgotten(id=group))

    async def resume(self, group: str) -> Record:
        """Start a group again that has failed or reached a part of its receivers. Raises Problem."""
        record = self.get(group)
        if record.state in ("failed", "partial"):
            self._room()
            done = record.done
            missing = [name for name in record.receivers if name not in done]
            await self._agents_return([*record.spec.roots, *missing])
            there = {name for name, node in self.fabric.nodes.items() if node.registered}
            if missing:  # else all have it, and nobody said so
                if there.isdisjoint(record.spec.roots):
                    raise requests.no_agent(record.spec.source)
                if there.isdisjoint(missing):
                    raise requests.no_agent(missing[0])
        return await self._do(group, Resume())

    async def add_receiver(self, group: str, host: str, dest_path: str | None = None) -> Record:
        """`dest_path`: where this one wants it, if elsewhere than the others. Raises Problem."""
        await self._agents_return([host])
        record = self.get(group)
        requests.check_host(self.fabric, "host", host)
        requests.check_late(record.spec, host)
        if host not in record.receivers:
            requests.check_number(len(record.receivers) + 1)
            self.cordons.check([host])
        if not self.fabric.nodes[host].registered:
            raise requests.no_agent(host)
        event = Join(host, None if dest_path is None else requests.check_dest_path(dest_path))
        self._joining.append((group, host))  # from here on nobody takes it away
        try:
            return await self._do(group, event)
        finally:
            self._joining.remove((group, host))

    async def remove_receiver(self, group: str, host: str) -> Record:
        """Raises Problem."""
        return await self._do(group, Leave(host))

    def tell(self, group: str, message: orders.ToMaster) -> None:
        """A message for the group's master; one without a master has nobody to tell."""
        self.placing.tell(self.get(group), message)

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
        except Exception as error:  # of one group: its worker tells of others with it, and they go on
            log.exception("group %s: a report", report.group)
            return ReportAnswer(code="internal", error=repr(error))

    # ---- one event after another ----
    @contextlib.asynccontextmanager
    async def _alone(self, group: str) -> AsyncIterator[Held]:
        """Nobody else changes it meanwhile, and it is as the store has it. Raises Problem."""
        held = self._held(group)
        async with held.lock:
            self._held(group)  # it may have been forgotten meanwhile
            if held.unsure:
                await self._look_up(held)
            yield held

    async def _do(self, group: str, event: Event) -> Record:
        """Raises Problem: it does not fit, or could not be written. Then nothing has changed."""
        async with self._alone(group) as held:
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
                self.placing.heard(group)
            if isinstance(event, Assigned):
                self.placing.given(group, event.lease)
            await self._carry_out(held, outcome.effects)
            if machine.final(held.record):
                self._ended(held)
            elif machine.final(before):
                self._live[group] = held
                self.placing.admit()
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
        self.placing.found(held)

    async def _carry_out(self, held: Held, effects: tuple[machine.Effect, ...]) -> None:
        record = held.record
        for effect in effects:
            if isinstance(effect, Place):
                self.placing.wanted(record)
            elif isinstance(effect, Recall):
                self.placing.recall(record)
            elif isinstance(effect, Tell):
                self.tell(record.id, effect.message)
            else:
                await self.placing.order(held)
        self.admission.follow(record, machine.final(record))
        if load := self.carried.follow(record, machine.final(record)):
            for worker in self.placing.workers.all():
                worker.put(orders.Load(arcs=load))
        self.divider.follow(record, machine.final(record))
        self._publish(change(record))

    def _rewired(self, change: Change) -> None:
        self._publish(change)
        if isinstance(change, Topology):
            self.divider.rewire()

    def _groups_of(self, host: str) -> list[str]:
        """Those that have not ended and that it is a member of, or will be in a moment."""
        joining = {group for group, name in self._joining if name == host}
        return [r.id for r in self.unfinished() if r.id in joining or host in r.spec.roots or host in r.receivers]

    def _ended(self, held: Held) -> None:
        group = held.record.id
        held.counted = self.totals.ended(held.record, held.counted)
        self._live.pop(group, None)
        self._spawn(self._forget_oldest())
        self.placing.ended(group)

    async def _forget_oldest(self) -> None:
        """Those that ended first, beyond what is kept."""
        ended = [held for held in self._groups.values() if machine.final(held.record)]
        ended.sort(key=lambda held: held.record.finished_ns or 0)
        for held in ended[: max(0, len(ended) - KEEP_GROUPS)]:
            async with held.lock:  # it may just be resumed
                if not machine.final(held.record) or self._groups.get(held.record.id) is not held:
                    continue
                self._drop(held.record.id)
                try:
                    await self.kept.remove(GROUPS + held.record.id, held.revision)
                except StoreError as error:
                    log.warning("group %s cannot be forgotten: %s", held.record.id, error)

    def _refuse(self, group: str, message: str) -> None:
        """Its deadline cannot be met."""
        self._spawn(self._do(group, GiveUp("deadline", message)))

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
