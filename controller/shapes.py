"""The shapes of the REST API's answers, for its description (/openapi.json). Times are Unix nanoseconds (`_ns`), rates
bit/s (`_bps`), sizes bytes."""

from __future__ import annotations

from typing import Any, Optional

from pydantic import BaseModel, Field, create_model

from datacast.fabric_manager.api import GroupState


class Failure(BaseModel):
    code: str
    message: str


class Receiver(BaseModel):
    state: str
    fraction: float = 0.0
    rate_bps: int = 0
    bytes: int = 0
    finish_s: float | None = None
    sha256_ok: bool | None = None
    unwritten: int = Field(default=0, description="bytes that arrived and are not in its file yet")
    blocks: str = Field(
        default="",
        description="the file in up to 64 runs of blocks, of each the whole ones in fifteenths, a hexadecimal digit; "
        "of more than 64 receivers it is told of the 64 that are furthest behind",
    )
    retransmissions: int = 0
    error: Failure | None = None


class Tree(BaseModel):
    state: str
    depth: int
    links: int
    rate_bps: int
    arcs: list[tuple[str, str]] | None = None
    share_bps: int | None = Field(default=None, description="what it may send, beside the other groups")
    new_packets: int = 0
    dup_packets: int = 0


class _Group(BaseModel):
    id: str
    state: GroupState
    epoch: int = Field(description="how many masters it has had")
    worker: str | None = Field(description="who runs its master")
    source: str
    source_path: str
    other_sources: list[str] = Field(default=[], description="more hosts that have the same file and send it too")
    dest_path: str | None
    priority: str
    labels: dict[str, str]
    requested_by: str = Field(description="the name of the token it was ordered with")
    created_ns: int
    updated_ns: int
    finished_ns: int | None
    size: int | None
    fraction: float
    rate_bps: int
    error: Failure | None


class GroupRecord(_Group):
    """A group with all its figures."""

    options: dict[str, Any]
    shards: dict[str, list[str]] = Field(default={}, description="what receivers want that do not want all of it")
    weight: int
    most_bps: int | None
    deadline_s: float | None
    sha256: str | None = None
    receivers: dict[str, Receiver]
    trees: dict[str, Tree]
    report: dict[str, Any] | None
    reactions: list[dict[str, Any]]


class GroupSummary(_Group):
    """A group without its figures per receiver and per tree."""

    receivers: int
    receivers_done: int
    receivers_failed: int
    trees: int


_ROW: dict[str, Any] = {
    name: (str, ...) if name == "id" else (Optional[field.annotation], None)  # noqa: UP045 (no type to `|`)
    for name, field in GroupSummary.model_fields.items()
}
GroupRow: Any = create_model("GroupRow", __doc__="A GroupSummary, or the part of it that `fields` names.", **_ROW)


class PlannedTree(BaseModel):
    depth: int
    links: int
    share_bps: int
    arcs: list[tuple[str, str]]


class Gap(BaseModel):
    part: float = Field(description="of its bound that the receiver farthest from it lacks; 0: no plan is better")
    receiver: str | None


class Cut(BaseModel):
    """Arcs that every way to a receiver crosses, and what they carry at most together."""

    receiver: str
    bps: int
    arcs: list[tuple[str, str]]


class Plan(BaseModel):
    """What a group would get if it began now."""

    source: str
    receivers: list[str]
    unreachable: list[str]
    rate_bps: int
    size: int | None
    expected_s: float | None
    deadline_met: bool | None
    trees: list[PlannedTree]
    wanted_bytes: dict[str, int] = Field(default={}, description="by receiver, where not all want all of the file")
    receiver_bps: dict[str, int] = Field(default={}, description="by receiver: the sum of its trees' shares")
    bound_bps: dict[str, int] = Field(
        default={},
        description="by receiver: what any trees could bring it with no other group there; the same for all where one "
        "rate serves all",
    )
    gap: Gap = Field(
        default=Gap(part=0.0, receiver=None),
        description="between what these trees could bring with no other group there and `bound_bps`",
    )
    cut: Cut | None = Field(default=None, description="why the receiver with the least bound can have no more")


class HostSet(BaseModel):
    name: str
    hosts: list[str]


class Disk(BaseModel):
    """A folder in which files may be received."""

    path: str
    free_bytes: int
    size_bytes: int


class Host(BaseModel):
    name: str
    registered: bool = Field(description="its agent is there")
    alive: bool
    cordoned: str | None = Field(description="why it takes part in no new group; null: it does")
    most_bps: int | None = Field(
        default=None, description="what all groups together may send over its links; null: any"
    )
    groups: list[str] = Field(description="groups that run and have it as a member")
    version: str | None = Field(default=None, description="of its agent")
    clock_ms: float | None = Field(default=None, description="how far its clock is behind the fabric manager's")
    disks: list[Disk] = []


class Caps(BaseModel):
    """What all groups together may send at most, beside what each may by its own `most_bps`."""

    fabric_bps: int | None = Field(description="all sources together; null: no cap")
    hosts: dict[str, int] = Field(description="a host over all its links together, and as much towards it")


class Cordon(BaseModel):
    name: str
    cordoned: str | None


class Port(BaseModel):
    port: int
    ifname: str | None
    mtu: int | None
    reason: str | None = Field(description="why it is down: carrier, silent (no hello comes), unheard (ours are not)")
    carried: int | None = Field(default=None, description="how long a frame came whole from the neighbour lately")


class Counted(BaseModel):
    """Of a node since it began, by its last heartbeat."""

    forwarded: int
    interests: int
    hits: int = Field(description="interests that its cache answered")
    trees: int
    bytes: int = Field(description="in its cache now")
    drop: dict[str, int] = Field(description="frames by reason")


class Node(BaseModel):
    name: str
    kind: str
    forwards: bool
    alive: bool
    registered: bool
    version: str | None = None
    ports: list[Port] = []
    disks: list[tuple[int, int]] = Field(default=[], description="bytes free and in all, of each of dest_roots")
    clock_ms: float | None = Field(default=None, description="how far its clock is behind the fabric manager's")
    certificate_until: float | None = Field(default=None, description="when it ends, in seconds since 1970")
    counted: Counted | None = None
    addr: str | None = None
    control: str | None = None
    removed: bool = False
    drained: str | None = Field(default=None, description="why no tree uses this switch; null: they may")


class Link(BaseModel):
    u: str
    v: str
    u_port: int
    v_port: int
    up: bool
    rate_bps: int | None
    mtu: int
    carries: list[dict[str, Any]]


class Topology(BaseModel):
    version: int
    spec: str
    defaults: dict[str, Any]
    nodes: list[Node]
    links: list[Link]


class Health(BaseModel):
    status: str
    fabric_manager: dict[str, Any]
