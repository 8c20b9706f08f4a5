"""The shapes of the REST API's answers, for its description (/openapi.json). Times are Unix nanoseconds (`_ns`), rates
bit/s (`_bps`), sizes bytes."""

from __future__ import annotations

from typing import Any, Literal, Optional

from pydantic import BaseModel, Field, create_model

from datacast.fabric_manager.api import GroupOptions, GroupState


class Failure(BaseModel):
    code: str
    message: str


class Receiver(BaseModel):
    state: str
    fraction: float = 0.0
    rate_bps: int = 0
    bytes: int = 0
    finish_s: float | None = Field(default=None, description="from the source's first data packet")
    goodput_mbps: float | None = None
    sha256_ok: bool | None = None
    unwritten: int = Field(default=0, description="bytes that arrived and are not in its file yet")
    blocks: str = Field(
        default="",
        description="the file in up to 64 runs of blocks, of each the whole ones in fifteenths, a hexadecimal digit; "
        "of more than 64 receivers it is told of the 64 that are furthest behind",
    )
    blocks_ok: int = 0
    bad_blocks: int = Field(default=0, description="that came with a wrong digest, and were asked for again")
    duplicates: int = 0
    retransmissions: int = 0
    interests: int = 0
    t_first_ns: int | None = None
    t_done_ns: int | None = None
    trees: dict[str, dict[str, float | int]] = Field(
        default={}, description="what its agent counted of each tree; when the group has ended"
    )
    error: Failure | None = None


class Tree(BaseModel):
    state: str
    depth: int
    links: int
    links_needed: float = Field(default=0.0, description="towards receivers that waited for its pieces, on the average")
    rate_bps: int
    arcs: list[tuple[str, str]] | None = None
    share_bps: int | None = Field(default=None, description="what it may send, beside the other groups")
    most_bps: int = Field(default=0, description="what it could send alone; 0: nobody said")
    bucket_bps: int = Field(default=0, description="at which its source gives out tokens now")
    interest: float = Field(default=0.0, description="bits that go the other way for each bit of data")
    pieces: int = Field(default=0, description="of the file that were given to it")
    seq: int = Field(default=0, description="how far its source is")
    new_packets: int = 0
    dup_packets: int = 0
    interests: int = 0
    merged: int = 0
    duplicates: int = 0
    retransmissions: int = 0


class Reaction(BaseModel):
    """What a group did about links or cache appliances that failed or came back, or about other receivers."""

    links: list[tuple[str, str, bool]] = Field(description="both ends, and whether it is up")
    appliances: list[tuple[str, bool]] = Field(default=[], description="the switch, and whether its cache is there")
    reported_ns: int | None = Field(default=None, description="when an agent or a switch told of the first of them")
    received_ns: int | None = Field(default=None, description="by the group's master")
    recomputed_ns: int
    signalled_ns: int | None = Field(default=None, description="all members concerned have their new routes")
    resumed_ns: int | None = Field(default=None, description="the first of them got data over one")
    all_resumed_ns: int | None = None
    changed: list[int] = Field(default=[], description="trees with other routes")
    lost: list[int] = Field(default=[], description="trees that have no links of their own any more")
    revived: list[int] = Field(default=[], description="trees that have again")
    unnamed: list[int] = Field(default=[], description="trees that are new")
    cut_off: list[str] = Field(default=[], description="receivers that no tree reaches any more")
    back: list[str] = Field(default=[], description="receivers that links reach again")
    members: list[str] = Field(default=[], description="those that got routes, the first 64 of them")
    members_more: int = Field(default=0, description="that many others")
    waiting: dict[str, int] = Field(default={}, description="by member: routes over which nothing had come yet")


class Transport(BaseModel):
    """With what parameters a tree began."""

    id: int
    cc: str
    rate_init_bps: int
    rate_max_bps: int
    delta_bps: int
    interval_us: int
    burst: int
    credits: int
    batch: int
    rto_min_ms: int
    cache_bytes: int
    packet_bytes: int
    patience_ms: int


class Planned(BaseModel):
    planned_bps: int
    bound_bps: int = Field(description="what its own links could bring it")


class TreesInShort(BaseModel):
    count: int
    depth: int
    links: list[int]


class Report(BaseModel):
    """What a group has come to; written when it has ended."""

    start_s: float | None = Field(description="from the request to the source's first data packet")
    start_ms: dict[str, float] = Field(description="the steps of that")
    finish_s: float | None = Field(description="from then to the last receiver")
    ideal_s: float | None = Field(description="the file over what the trees' links carry")
    finish_over_ideal: float | None
    duplicate_ratio: float
    size: int | None
    takeovers: int = Field(description="how often a tree that was done took over from a slower one")
    reactions: list[Reaction]
    trees: TreesInShort
    new_packets: int
    dup_packets: int
    payload: int | None = Field(default=None, description="bytes of a data packet")
    labels: int | None = Field(default=None, description="deepest stack of a data frame")
    mtu: int | None = None
    plain_branches: list[str] = Field(default=[], description="switches without a cache where trees branch")
    per_block: int | None = Field(default=None, description="packets of a block")
    rates: dict[str, Planned] = Field(default={}, description="by receiver, where each has its own")
    transport: list[Transport] = []


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


class SitePart(BaseModel):
    state: str
    fraction: float
    rate_bps: int
    error: Failure | None


class GroupRecord(_Group):
    """A group with all its figures."""

    options: GroupOptions
    source_paths: dict[str, str] = Field(default={}, description="of sources that have it not at source_path")
    holds: dict[str, list[str]] = Field(default={}, description="what sources have that do not have all of it")
    unfinished: dict[str, str] = Field(
        default={}, description="sources that have what they had received of a group that broke off, and that group"
    )
    shards: dict[str, list[str]] = Field(default={}, description="what receivers want that do not want all of it")
    weight: int
    most_bps: int | None
    deadline_s: float | None
    sha256: str | None = None
    receivers: dict[str, Receiver]
    trees: dict[str, Tree]
    report: Report | None
    reactions: list[Reaction]
    local: str | None = Field(default=None, description="of a group that reaches other sites: the part of it here")
    sites: dict[str, SitePart] | None = Field(default=None, description="of such a group: by site")


class GroupSummary(_Group):
    """A group without its figures per receiver and per tree."""

    receivers: int
    receivers_done: int
    receivers_failed: int
    trees: int
    sites: list[str] | None = Field(default=None, description="of a group that reaches other sites: which")


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
    addr: str | None = Field(default=None, description="where its agent takes signalling")
    pid: int | None = None
    msd: int | None = Field(default=None, description="the deepest label stack it can handle")
    cache: bool | None = Field(default=None, description="can be a waypoint; null: as the topology says")
    dest_roots: list[str] = Field(default=[], description="folders in which its agent receives files")
    attributes: dict[str, Any] = Field(default={}, description="what else the topology's file says of it")
    control: str | None = None
    removed: bool = False
    drained: str | None = Field(default=None, description="why no tree uses this switch; null: they may")


class Carried(BaseModel):
    """A tree of a group over one direction of a link."""

    source: str = Field(alias="from")
    to: str
    group: str
    tree: int


class Link(BaseModel):
    u: str
    v: str
    u_port: int
    v_port: int
    up: bool
    rate_bps: int | None
    mtu: int
    rates_bps: dict[str, int] | None = Field(default=None, description="by the end where a direction begins")
    carries: list[Carried]


class Defaults(BaseModel):
    """Of links that say nothing else."""

    rate_bps: int | None
    mtu: int
    queue_packets: int


class Discovered(BaseModel):
    """A link that the controller's switches have found."""

    u: str
    u_port: int
    v: str
    v_port: int


class Topology(BaseModel):
    version: int
    spec: str
    defaults: Defaults
    attributes: dict[str, Any] = Field(default={}, description="of the whole, as its builder or file set them")
    nodes: list[Node]
    links: list[Link]
    discovered: list[Discovered] | None = Field(default=None, description="links that discovery found")


class WorkerRow(BaseModel):
    name: str
    pid: int | None
    groups: int


class FabricHealth(BaseModel):
    status: Literal["ok"]
    topology: str
    version: int = Field(description="of the topology: one more with each change")
    hosts: int
    agents: int = Field(description="hosts whose agent is there")
    switches: int
    switches_registered: int
    links_down: int
    workers: list[WorkerRow]
    streams: int = Field(description="that read events now")
    reports: dict[str, int] = Field(description="of agents and switches, by kind")


class Health(BaseModel):
    status: Literal["ok"]
    fabric_manager: FabricHealth
