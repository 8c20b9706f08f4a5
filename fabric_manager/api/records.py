"""What the fabric manager answers and tells of groups, and of what they may use: a form for each.

Times are Unix nanoseconds (`_ns`), rates bit/s (`_bps`), sizes bytes. The controller passes them on.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from datacast.services.described import Described

from .reports import GroupFailure, GroupReport, Reaction, ReceiverFigures, Slowness, TreeFigures
from .specs import GroupOptions, GroupState


class AnyGroup(Described, msgspec.Struct, frozen=True, gc=False, kw_only=True):
    id: str
    state: GroupState
    epoch: int
    """How many masters it has had."""
    worker: str | None
    """Who runs its master."""
    source: str
    source_path: str
    other_sources: list[str] = []
    """More hosts that have the same file and send it too."""
    dest_path: str | None
    labels: dict[str, str]
    priority: str
    requested_by: str
    """The name of the token it was ordered with."""
    created_ns: int
    updated_ns: int
    finished_ns: int | None
    size: int | None
    fraction: float
    rate_bps: int
    error: GroupFailure | None
    slow: Slowness | None = None
    """While it runs: what its origin refuses for now, and is asked for again."""


class GroupSummary(AnyGroup, frozen=True, kw_only=True):
    """A group as it is now, without its per-receiver and per-tree figures."""

    receivers: int
    receivers_done: int
    receivers_failed: int
    trees: int


class GroupChange(GroupSummary, frozen=True, kw_only=True, tag_field="type", tag="group"):
    event: str = ""
    """Which event it is, of its fabric manager."""


class GroupForgotten(msgspec.Struct, frozen=True, gc=False, kw_only=True, tag_field="type", tag="forgotten"):
    """It had ended, and is known no more."""

    event: str = ""
    id: str


class AllGroups(msgspec.Struct, frozen=True, gc=False, kw_only=True, tag_field="type", tag="groups"):
    event: str
    groups: list[GroupSummary]


class Receiver(ReceiverFigures, frozen=True, kw_only=True, omit_defaults=False):
    trees: dict[str, dict[str, float | int]] = msgspec.field(default_factory=dict)
    """What its agent counted of each tree; when the group has ended."""


class Tree(TreeFigures, frozen=True, kw_only=True):
    share_bps: int | UnsetType = UNSET
    """What it may send, beside the other groups."""


class GroupRecord(AnyGroup, frozen=True, kw_only=True):
    """A group with all its figures."""

    options: GroupOptions
    source_paths: dict[str, str] = {}
    """Of sources that have it not at source_path."""
    holds: dict[str, list[str]] = {}
    """What sources have that do not have all of it."""
    unfinished: dict[str, str] = {}
    """Sources that have what they had received of a group that broke off, and that group."""
    shards: dict[str, list[str]] = {}
    """What receivers want that do not want all of it."""
    weight: int
    most_bps: int | None
    deadline_s: float | None
    sha256: str | None = None
    receivers: dict[str, Receiver]
    trees: dict[str, Tree]
    report: GroupReport | None
    reactions: list[Reaction]


class MasterOf(msgspec.Struct, frozen=True, kw_only=True):
    """The worker that runs a group's master, and its process id on its machine."""

    worker: str | None
    epoch: int
    pid: int | None


class PlannedTree(Described, msgspec.Struct, frozen=True, kw_only=True):
    depth: int
    links: int
    share_bps: int
    arcs: list[tuple[str, str]]


class Gap(Described, msgspec.Struct, frozen=True, kw_only=True):
    part: float
    """Of its bound that the receiver farthest from it lacks; 0: no plan is better."""
    receiver: str | None


class Cut(Described, msgspec.Struct, frozen=True, kw_only=True):
    """Arcs that every way to a receiver crosses, and what they carry at most together."""

    receiver: str
    bps: int
    arcs: list[tuple[str, str]]


class Plan(Described, msgspec.Struct, frozen=True, kw_only=True):
    """What a group would get if it began now."""

    source: str
    receivers: list[str]
    unreachable: list[str]
    rate_bps: int
    size: int | None
    expected_s: float | None
    deadline_met: bool | None
    trees: list[PlannedTree]
    wanted_bytes: dict[str, int]
    """By receiver, where not all want all of the file."""
    receiver_bps: dict[str, int]
    """By receiver: the sum of its trees' shares."""
    bound_bps: dict[str, int]
    """By receiver: what any trees could bring it with no other group there; the same for all where one rate serves
    all."""
    gap: Gap
    """Between what these trees could bring with no other group there and `bound_bps`."""
    cut: Cut | None
    """Why the receiver with the least bound can have no more."""


class HostSet(Described, msgspec.Struct, frozen=True, kw_only=True):
    name: str
    hosts: list[str]


class Disk(Described, msgspec.Struct, frozen=True, kw_only=True):
    """A folder in which files may be received."""

    path: str
    free_bytes: int
    size_bytes: int


class Host(Described, msgspec.Struct, frozen=True, kw_only=True):
    name: str
    registered: bool
    """Its agent is there."""
    alive: bool
    cordoned: str | None
    """Why it takes part in no new group; null: it does."""
    most_bps: int | None
    """What all groups together may send over its links; null: any."""
    groups: list[str]
    """Groups that run and have it as a member."""
    version: str | None
    """Of its agent."""
    clock_ms: float | None
    """How far its clock is behind the fabric manager's."""
    certificate_until: float | None = None
    """When the one that it registered with ends, in seconds since 1970; null: it showed none."""
    disks: list[Disk]


class Caps(Described, msgspec.Struct, frozen=True, kw_only=True):
    """What all groups together may send at most, beside what each may by its own `most_bps`."""

    fabric_bps: int | None
    """All sources together; null: no cap."""
    hosts: dict[str, int]
    """A host over all its links together, and as much towards it."""


class Cordon(Described, msgspec.Struct, frozen=True, kw_only=True):
    name: str
    cordoned: str | None


class WorkerRow(Described, msgspec.Struct, frozen=True, kw_only=True):
    name: str
    pid: int | None
    groups: int


class FabricHealth(Described, msgspec.Struct, frozen=True, kw_only=True):
    status: Literal["ok"] = "ok"
    topology: str | None
    version: int
    """Of the topology: one more with each change."""
    hosts: int
    agents: int
    """Hosts whose agent is there."""
    switches: int
    switches_registered: int
    links_down: int
    workers: list[WorkerRow]
    streams: int
    """That read events now."""
    reports: dict[str, int]
    """Of agents and switches, by kind."""
    certificate_until: float | None = None
    """When the first certificate ends, of the fabric manager and of registered hosts and switches; in seconds since
    1970."""


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """Figures over all groups, for monitoring. Of groups that have ended: since the fabric manager's start."""

    groups: dict[str, int]
    """That are remembered, by state."""
    receivers: dict[str, int]
    """Of groups that run, by state."""
    received_bps: int
    sent_bps: int
    unwritten: int
    ended: dict[str, int]
    """Groups, by state."""
    delivered_bytes: int
    retransmissions: int
    packets: dict[str, int]
    """`new` and `duplicate`, that sources sent."""


class Fetched(msgspec.Struct, frozen=True):
    """Of an object of another site: the pieces that members have (origins/exchange.py: packed)."""

    fetched: str


class TreeIds(msgspec.Struct, frozen=True):
    ids: list[int]
