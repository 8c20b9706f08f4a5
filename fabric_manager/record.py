"""What is known of a group: one record, kept in the store, written by compare-and-swap (docs/decisions).

Records are never changed, only followed by another one: machine.py makes those, and nobody else does.
"""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import msgspec
from msgspec import structs
from pydantic import TypeAdapter, ValidationError

from datacast.services.store import StoreError
from datacast.services.validation import first_error

from .api import GroupSpec, GroupState
from .api.reports import Adopt, GroupFailure, Progress, ReceiverFigures


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


PLAIN_MAX, PACKED = 32 << 10, "zlib:"
"""Records of thousands of receivers repeat themselves: longer ones are packed."""
_adapter: TypeAdapter[Record] = TypeAdapter(Record)
_spec: TypeAdapter[GroupSpec] = TypeAdapter(GroupSpec)


def dump(record: Record) -> str:
    """As the store keeps it."""
    data = _adapter.dump_json(record, exclude_defaults=True)
    if len(data) <= PLAIN_MAX:
        return data.decode()
    return PACKED + base64.b64encode(zlib.compress(data, 1)).decode()


def load(text: str) -> Record:
    """Raises StoreError: no record, or one of a newer version."""
    try:
        if text.startswith(PACKED):
            text = zlib.decompress(base64.b64decode(text[len(PACKED) :])).decode()
        return _adapter.validate_json(text)
    except (ValueError, zlib.error) as error:
        if not isinstance(error, ValidationError):
            raise StoreError(f"the store holds what is no group's record: {error}") from error
        raise StoreError(f"the store holds what is no group's record: {first_error(error)[1]}") from error


TOLD = ("size", "fraction", "rate_bps", "error", "trees", "report", "reactions")
"""Of the progress, beside the receivers."""


def to_json(record: Record) -> dict[str, Any]:
    """As the API tells it."""
    progress, spec = record.progress, _spec.dump_python(record.spec, mode="json")
    waiting = {name: {"state": "waiting"} for name in record.receivers}
    receivers = {
        name: {
            **structs.asdict(figures),
            "error": msgspec.to_builtins(figures.error),
            "trees": figures.trees or {},
        }
        for name, figures in progress.receivers.items()
    }
    return {
        "id": record.id,
        "state": record.state,
        "epoch": record.epoch,
        "worker": record.owner,
        "created_ns": record.created_ns,
        "updated_ns": record.updated_ns,
        "finished_ns": record.finished_ns,
        "source": spec["source"],
        "source_path": spec["source_path"],
        **{key: spec[key] for key in ("other_sources", "source_paths", "holds", "unfinished")},
        "dest_path": spec["dest_path"],
        "options": spec["options"],
        "shards": spec["shards"],
        **{key: spec[key] for key in ("sha256", "weight", "priority", "most_bps", "deadline_s", "labels")},
        "requested_by": record.requested_by,
        **{key: msgspec.to_builtins(getattr(progress, key)) for key in TOLD},
        "receivers": {**waiting, **receivers},
    }


class GroupSummary(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A group as it is now, without its per-receiver and per-tree figures."""

    id: str
    state: GroupState
    epoch: int
    worker: str | None
    source: str
    source_path: str
    other_sources: list[str]
    dest_path: str | None
    labels: dict[str, str]
    priority: str
    requested_by: str
    created_ns: int
    updated_ns: int
    finished_ns: int | None
    size: int | None
    fraction: float
    rate_bps: int
    error: GroupFailure | None
    receivers: int
    receivers_done: int
    receivers_failed: int
    trees: int


class GroupChange(GroupSummary, frozen=True, kw_only=True, tag_field="type", tag="group"):
    event: str = ""
    """Which event it is, of its fabric manager."""


class AllGroups(msgspec.Struct, frozen=True, gc=False, kw_only=True, tag_field="type", tag="groups"):
    event: str
    groups: list[GroupSummary]


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
        receivers=len(states),
        receivers_done=states.count("done"),
        receivers_failed=states.count("failed"),
        trees=len(progress.trees),
    )
