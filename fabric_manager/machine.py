"""The life of a group, as one pure function: a record and an event in, the next record and what is to be done out.

    queued -> starting -> running -> done | partial | failed
                 |           |
                 +-----------+-> cancelling -> cancelled

This is the only place where states are named and changed. A group without an owner waits for a worker (`Place`); each
worker that gets it begins another epoch, and what is said in the name of an earlier one is refused (`Stale`). When a
worker's lease ends its groups lose their owner and keep their state: another one goes on from what was told.

The store is written before anything is done about an outcome that is `durable`; the others are progress only, which a
restart may forget.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import Literal

from msgspec import structs

from datacast.core.lists import few
from datacast.services.problems import Problem

from .api import FINAL_STATES, GroupSpec, GroupState, orders
from .api.reports import GroupFailure, MasterReport, Progress, ReceiverFigures
from .record import Record

RECEIVER_ENDS = ("done", "failed", "cancelled")
FRUITLESS_MAX, SILENT = 20, 4
"""So many masters in a row that got nowhere have a reason that lies elsewhere: the group fails. One that never told of
the group counts for so many of those that did: it may be the group that ends them."""


# ---- events ----
@dataclass(frozen=True)
class Assigned:
    """A worker gets the group."""

    worker: str
    lease: str


@dataclass(frozen=True)
class Reported:
    """Its master tells of it; `lease` shows whose it is."""

    report: MasterReport
    lease: str


@dataclass(frozen=True)
class OwnerLost:
    """The lease of the worker that had it under `epoch` has ended."""

    epoch: int
    how: str
    planned: bool = False
    """It was told to end."""


@dataclass(frozen=True)
class Cancel:
    pass


@dataclass(frozen=True)
class Resume:
    pass


@dataclass(frozen=True)
class Join:
    host: str
    dest_path: str | None = None


@dataclass(frozen=True)
class Leave:
    host: str


@dataclass(frozen=True)
class GiveUp:
    """It cannot be placed, or not be what was asked for."""

    code: str
    message: str


Event = Assigned | Reported | OwnerLost | Cancel | Resume | Join | Leave | GiveUp


# ---- effects ----
@dataclass(frozen=True)
class Place:
    """It has no owner, and needs one."""


@dataclass(frozen=True)
class Order:
    """The owner is to run it."""


@dataclass(frozen=True)
class Recall:
    """Its worker runs it no more."""

    worker: str


@dataclass(frozen=True)
class Tell:
    """A message for the group's master."""

    message: orders.ToMaster


Effect = Place | Order | Recall | Tell


@dataclass(frozen=True)
class Outcome:
    record: Record
    effects: tuple[Effect, ...] = ()
    durable: bool = True


class Stale(Problem):
    """Said in the name of a master that has been followed by another, or of none."""

    def __init__(self, record: Record, epoch: int) -> None:
        text = f"epoch {epoch} of group {record.id} is over: it is at {record.epoch}"
        if record.state in FINAL_STATES:
            text = f"group {record.id} has ended ({record.state})"
        super().__init__(409, "stale", text, what=record.id, remedy="stop working on the group")


def interrupted(record: Record) -> GiveUp:
    source = record.spec.source
    return GiveUp(
        "interrupted",
        f"the transfer was interrupted, and the source {source} has no agent; start it and resume the group: receivers "
        "go on from what they have",
    )


def final(record: Record) -> bool:
    return record.state in FINAL_STATES


def new(record: Record) -> Outcome:
    """A group that nobody has had."""
    return Outcome(record.with_receivers(record.receivers), (Place(),))


def apply(record: Record, event: Event, now_ns: int) -> Outcome:
    """Raises Problem where the event does not fit the state."""
    outcome = _HANDLERS[type(event)](record, event)  # type: ignore[operator]
    if outcome.record is record:
        return outcome
    after = replace(outcome.record, updated_ns=now_ns)
    if final(after) and not final(record):
        after = replace(after, finished_ns=now_ns, owner=None, lease=None)
    return replace(outcome, record=after)


# ---- owners ----
def _assigned(record: Record, event: Assigned) -> Outcome:
    if final(record) or record.owner is not None:
        raise Stale(record, record.epoch)
    state: GroupState = "starting" if record.state == "queued" else record.state
    after = replace(
        record,
        state=state,
        epoch=record.epoch + 1,
        owner=event.worker,
        lease=event.lease,
        assigned_fraction=record.progress.fraction,
    )
    return Outcome(after, (Order(),))


def _owner_lost(record: Record, event: OwnerLost) -> Outcome:
    if final(record) or record.owner is None or record.epoch != event.epoch:
        return Outcome(record, durable=False)
    lost = record.owner
    after = replace(record, owner=None, lease=None, progress=structs.replace(record.progress, slow=None))
    if record.state == "cancelling":
        text = "cancelled; its master was gone, the members' leases end it"
        return _end(after, "cancelled", "cancelled", text)
    fruitless = record.fruitless
    if record.progress.fraction > record.assigned_fraction:
        fruitless = 0
    elif not event.planned:
        fruitless += 1 if record.told_epoch == record.epoch else SILENT
    if fruitless >= FRUITLESS_MAX:
        text = (
            f"several masters in a row ended before anything had come of them, the last because {event.how}; "
            "the members' leases end the transfer. Resume the group when the reason is gone"
        )
        return _end(after, "failed", "master_died", text)
    return Outcome(replace(after, fruitless=fruitless), (Recall(lost), Place()))


def _give_up(record: Record, event: GiveUp) -> Outcome:
    if final(record):
        return Outcome(record, durable=False)
    if record.owner is not None:  # its master lets the members go, and tells how it has ended
        return Outcome(record, (Tell(orders.Cancel(code=event.code, message=event.message)),), durable=False)
    return _end(record, "failed", event.code, event.message)


def _end(record: Record, state: Literal["failed", "cancelled"], code: str, message: str) -> Outcome:
    """Without a master: nobody else says how its receivers and trees have ended."""
    error, known = GroupFailure(code=code, message=message), record.progress
    receivers = {
        name: r if r.state in RECEIVER_ENDS else structs.replace(r, state=state, error=error, rate_bps=0)
        for name, r in known.receivers.items()
    }
    trees = {n: structs.replace(t, state="idle") if t.state == "running" else t for n, t in known.trees.items()}
    progress = structs.replace(known, error=error, slow=None, rate_bps=0, receivers=receivers, trees=trees)
    return Outcome(replace(record, state=state, progress=progress))


# ---- what masters tell ----
def _reported(record: Record, event: Reported) -> Outcome:
    report = event.report
    if final(record) or report.epoch != record.epoch or event.lease != record.lease:
        raise Stale(record, report.epoch)
    state: GroupState = report.state
    if state not in FINAL_STATES and (record.state == "cancelling" or state == "starting"):
        state = record.state  # a master begins with what another has left running
    progress = _merged(record, report)
    known = progress.receivers  # of who has left and joined again it may know the first only
    unheard = [n for n in record.receivers if n in known and known[n].state in ("waiting", "cancelled")]
    if state == "done" and unheard:
        text = f"{few(unheard)} joined when the others were done; resume the group"
        error = GroupFailure(code="joined_late", message=text)
        state, progress = "partial", structs.replace(progress, error=error)
    after = replace(record, state=state, progress=progress, told_epoch=record.epoch)
    durable = (
        state != record.state
        or after.done.keys() != record.done.keys()
        # What is sent next changes all the time; what a master needs after a loss of power does not.
        or (progress.adopt is None) != (record.adopt is None)
        or bool(progress.adopt and record.adopt and progress.adopt.first_ns != record.adopt.first_ns)
    )
    if report.renew and state == "running" and after.adopt is not None:
        return _owner_lost(after, OwnerLost(after.epoch, "new trees are needed", planned=True))
    effects: tuple[Effect, ...] = (Recall(record.owner),) if record.owner and state in FINAL_STATES else ()
    return Outcome(after, effects, durable)


def _merged(record: Record, report: MasterReport) -> Progress:
    """Only of receivers that there should be, or were: nobody else can join by a report."""
    before, told = record.progress, report.progress
    named = {*record.receivers, *before.receivers}
    receivers = {sys.intern(name): figures for name, figures in told.receivers.items() if name in named}
    trees = {} if report.whole else dict(before.trees)
    for tree, figures in told.trees.items():
        if figures.arcs is None and tree in before.trees:
            figures = structs.replace(figures, arcs=before.trees[tree].arcs)
        trees[tree] = figures
    return structs.replace(
        told,
        receivers={**before.receivers, **receivers},
        trees=trees,
        adopt=told.adopt or before.adopt,
        size=before.size if told.size is None else told.size,
        reactions=told.reactions or before.reactions,
    )


# ---- what people ask for ----
def _cancel(record: Record, event: Cancel) -> Outcome:
    if final(record):
        return Outcome(record, durable=False)
    if record.owner is None:
        text = "cancelled while no master had it; the members' leases end it"
        return _end(record, "cancelled", "cancelled", text if record.epoch else "cancelled before a master had it")
    again = record.state == "cancelling"
    return Outcome(replace(record, state="cancelling"), (Tell(orders.Cancel()),), durable=not again)


def _resume(record: Record, event: Resume) -> Outcome:
    if record.state not in ("failed", "partial"):
        raise Problem(
            409,
            "not_resumable",
            f"group {record.id} is {record.state}; only one that failed or is partial can be resumed",
            what=record.id,
            remedy="a group that runs goes on by itself; for one that is done or cancelled start a new one",
        )
    known, done = record.progress, record.done
    adopt = known.adopt
    if adopt:  # what was sent, and when, says nothing about receivers that were started again
        pieces = -(-adopt.size // adopt.payload)
        adopt = structs.replace(adopt, first_ns=None, rest=[(0, pieces)] if pieces else [])
    progress = Progress(
        size=known.size,
        receivers={name: r for name, r in known.receivers.items() if name in done},
        reactions=known.reactions,
        adopt=adopt,
    )
    after = replace(record, state="queued", progress=progress, finished_ns=None, fruitless=0)
    return Outcome(after.with_receivers(record.receivers), (Place(),))


def _join(record: Record, event: Join) -> Outcome:
    _must_run(record)
    after, there = record, record.dest_paths.get(event.host, record.spec.dest_path)
    if event.dest_path not in (None, there) and _is_served(record, event.host):
        raise Problem(
            409, "is_receiver", f"{event.host} receives group {record.id} already, as {there}", what=event.host,
            remedy="leave its path out, or remove it first",
        )  # fmt: skip
    if event.dest_path is not None:
        after = replace(after, dest_paths={**record.dest_paths, event.host: event.dest_path})
    if event.host not in record.receivers:
        known = {**after.progress.receivers, event.host: ReceiverFigures()}  # what it was when it left it is no more
        after = replace(after, progress=structs.replace(after.progress, receivers=known))
        after = after.with_receivers([*record.receivers, event.host])
    return Outcome(after, (Tell(orders.Join(host=event.host, dest_path=event.dest_path)),))


def _is_served(record: Record, host: str) -> bool:
    """By a master, which has told it where the file is to be; or it has it."""
    figures = record.progress.receivers.get(host)
    ended = figures is not None and figures.state in ("failed", "cancelled")
    return record.epoch > 0 and host in record.receivers and not ended


def _leave(record: Record, event: Leave) -> Outcome:
    _must_run(record)
    if event.host not in record.receivers:
        raise Problem(
            404,
            "no_receiver",
            f"{event.host} is no receiver of group {record.id}",
            what=event.host,
            remedy=f"its receivers are {few(record.receivers, 16)}",
        )
    names = [name for name in record.receivers if name != event.host]
    if not names:  # nobody is left who could be done
        return _cancel(record, Cancel())
    after = replace(record, spec=_without_fetcher(record, event.host)).with_receivers(names)
    return Outcome(after, (Tell(orders.Leave(host=event.host)),))


def _without_fetcher(record: Record, host: str) -> GroupSpec:
    """Of a URL: it fetches no more. Raises Problem: nobody else would."""
    spec = record.spec
    if spec.url is None or host not in spec.roots:
        return spec
    others = [name for name in spec.roots if name != host]
    if not others:
        raise Problem(
            409, "last_fetcher", f"of group {record.id} {host} alone fetches, for the others too", what=host,
            remedy="cancel the group, and start one with other fetchers",
        )  # fmt: skip
    return replace(spec, source=others[0], other_sources=others[1:])


def _must_run(record: Record) -> None:
    if record.state not in ("queued", "starting", "running"):
        raise Problem(
            409,
            "ended",
            f"group {record.id} is {record.state}: receivers join and leave one that runs",
            what=record.id,
            remedy="start a new group for them",
        )


_HANDLERS = {
    Assigned: _assigned,
    Reported: _reported,
    OwnerLost: _owner_lost,
    Cancel: _cancel,
    Resume: _resume,
    Join: _join,
    Leave: _leave,
    GiveUp: _give_up,
}
