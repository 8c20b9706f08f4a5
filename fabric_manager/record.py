"""What is known of a group: one record, kept in the store, written by compare-and-swap (docs/decisions).

Records are never changed, only followed by another one: machine.py makes those, and nobody else does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from msgspec import UNSET, structs
from pydantic import TypeAdapter, ValidationError

from datacast.services.store import VALUE_MAX, StoreError
from datacast.services.validation import first_error

from .api import GroupSpec, GroupState
from .api.records import GroupChange, GroupRecord, GroupSummary, Receiver, Tree
from .api.reports import Adopt, Progress, ReceiverFigures
from .keys import packed, unpacked

WHY_MAX = 160
"""Letters of a receiver's error, where there is no room for more."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """`epoch` counts the masters that the group has had: what an earlier one says is refused, here and by every agent.
    `owner` is the worker whose task the master is, and `lease` what that worker shows to prove it; None: nobody's."""

    id: str
    spec: GroupSpec
    """As it was asked for, its receivers by name: those there should be now."""
    dest_paths: dict[str, str] = field(default_factory=dict)
    """Of receivers that want it elsewhere than the others."""
    state: GroupState = "queued"
    epoch: int = 0
    owner: str | None = None
    lease: str | None = None
    progress: Progress = field(default_factory=Progress)
    created_ns: int = 0
    updated_ns: int = 0
    finished_ns: int | None = None
    requested_by: str = ""
    """Whose token it was."""
    request_key: str = ""
    """The caller's own name for the request, so that it is not carried out twice (Groups.create)."""
    fruitless: int = 0
    """Masters in a row that were lost before anything had come of them, as machine.py counts them."""
    told_epoch: int = 0
    """Of the last master that has told of it."""
    assigned_fraction: float = 0.0
    """Of the progress, when the present master got the group."""

    @property
    def receivers(self) -> list[str]:
        assert isinstance(self.spec.receivers, list)
        return self.spec.receivers

    @property
    def done(self) -> dict[str, int | None]:
        """Receivers that have the file, and since when."""
        return {name: r.t_done_ns for name, r in self.progress.receivers.items() if r.state == "done"}

    @property
    def adopt(self) -> Adopt | None:
        """What another master needs to go on."""
        return self.progress.adopt

    def with_receivers(self, names: list[str]) -> Record:
        known = self.progress.receivers
        receivers = {**known, **{name: ReceiverFigures() for name in names if name not in known}}
        return replace(
            self,
            spec=replace(self.spec, receivers=names),
            progress=structs.replace(self.progress, receivers=receivers),
        )


_adapter: TypeAdapter[Record] = TypeAdapter(Record)


def dump(record: Record) -> str:
    """As the store keeps it: of a group of thousands so much less of each receiver as it takes to have room there. What
    a group has come to must be written, and figures of each tree at each receiver need not outlast a process."""
    text = packed(_adapter.dump_json(record, exclude_defaults=True))
    for short in (_without_trees, _bare):
        if len(text) <= VALUE_MAX:
            break
        known = record.progress
        receivers = {name: short(figures) for name, figures in known.receivers.items()}
        kept = replace(record, progress=structs.replace(known, receivers=receivers))
        text = packed(_adapter.dump_json(kept, exclude_defaults=True))
    return text


def _without_trees(figures: ReceiverFigures) -> ReceiverFigures:
    return structs.replace(figures, trees=None)


def _bare(figures: ReceiverFigures) -> ReceiverFigures:
    """What counts: how it has ended, when, and in few words why."""
    error = figures.error and structs.replace(figures.error, message=figures.error.message[:WHY_MAX])
    return ReceiverFigures(
        state=figures.state, error=error, bytes=figures.bytes, fraction=figures.fraction, sha256_ok=figures.sha256_ok,
        t_done_ns=figures.t_done_ns,
    )  # fmt: skip


def load(text: str, key: str = "") -> Record:
    """Of that key. Raises StoreError: no record, or one of a newer version."""
    try:
        return _adapter.validate_json(unpacked(text))
    except ValidationError as error:
        text = f"the store holds what is no group's record{f' under {key}' if key else ''}: {first_error(error)[1]}"
        raise StoreError(text, what=key) from error


def told(record: Record, shares: Mapping[int, float]) -> GroupRecord:
    """As the API tells it. `shares`: what its trees may send beside other groups, by id."""
    progress, spec = record.progress, record.spec
    waiting = {name: Receiver() for name in record.receivers}
    receivers = {
        name: Receiver(**{**structs.asdict(figures), "trees": figures.trees or {}})
        for name, figures in progress.receivers.items()
    }
    trees = {
        number: Tree(
            **structs.asdict(figures), share_bps=round(shares[int(number)]) if int(number) in shares else UNSET
        )
        for number, figures in progress.trees.items()
    }
    return GroupRecord(
        id=record.id,
        state=record.state,
        epoch=record.epoch,
        worker=record.owner,
        created_ns=record.created_ns,
        updated_ns=record.updated_ns,
        finished_ns=record.finished_ns,
        source=spec.source,
        source_path=spec.source_path,
        other_sources=spec.other_sources,
        source_paths=spec.source_paths,
        holds=spec.holds,
        unfinished=spec.unfinished,
        dest_path=spec.dest_path,
        options=spec.options,
        shards=spec.shards,
        sha256=spec.sha256,
        weight=spec.weight,
        priority=spec.priority,
        most_bps=spec.most_bps,
        deadline_s=spec.deadline_s,
        labels=spec.labels,
        requested_by=record.requested_by,
        size=progress.size,
        fraction=progress.fraction,
        rate_bps=progress.rate_bps,
        error=progress.error,
        slow=progress.slow,
        trees=trees,
        report=progress.report,
        reactions=progress.reactions,
        receivers={**waiting, **receivers},
    )


S = TypeVar("S", bound=GroupSummary)


def summary(record: Record, form: type[S]) -> S:
    """In the form of lists, or of events."""
    progress, spec = record.progress, record.spec
    states = [r.state for r in progress.receivers.values()]
    return form(
        id=record.id,
        state=record.state,
        epoch=record.epoch,
        worker=record.owner,
        source=spec.source,
        source_path=spec.source_path,
        other_sources=spec.other_sources,
        dest_path=spec.dest_path,
        labels=spec.labels,
        priority=spec.priority,
        requested_by=record.requested_by,
        created_ns=record.created_ns,
        updated_ns=record.updated_ns,
        finished_ns=record.finished_ns,
        size=progress.size,
        fraction=progress.fraction,
        rate_bps=progress.rate_bps,
        error=progress.error,
        slow=progress.slow,
        receivers=len(states),
        receivers_done=states.count("done"),
        receivers_failed=states.count("failed"),
        trees=len(progress.trees),
    )


def change(record: Record) -> GroupChange:
    """As an event."""
    return summary(record, GroupChange)
