"""What workers tell the fabric manager of their groups (docs/signalling.md, "Workers"): a form for each.

Times are Unix nanoseconds (`_ns`), rates bit/s (`_bps`). What a report leaves out is as it is by default.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

import msgspec
from msgspec import Meta
from pydantic_core import core_schema

from datacast.origins.ranges import PIECES_MAX
from datacast.services.described import Described

INT_MAX = (1 << 63) - 1
CODE_MAX, MESSAGE_MAX = 64, 8192
Count = Annotated[int, Meta(ge=0, le=INT_MAX)]
Part = Annotated[float, Meta(ge=0, le=1)]
Name = Annotated[str, Meta(min_length=1, max_length=128)]
TreeId = Annotated[str, Meta(pattern="^(0|[1-9][0-9]{0,9})$")]
ReceiverState = Literal["waiting", "open", "running", "aside", "done", "failed", "cancelled"]
TreeState = Literal["running", "idle", "lost"]
ReportState = Literal["starting", "running", "done", "partial", "failed", "cancelled"]


class Reason(Described, msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """`code` for machines."""

    code: Annotated[str, Meta(max_length=CODE_MAX)]
    message: Annotated[str, Meta(max_length=MESSAGE_MAX)]

    @classmethod
    def cut(cls, code: str, message: str) -> Self:
        """As long as it may be: agents and origins say what they like, and a report that holds more is refused."""
        return cls(code=code[:CODE_MAX], message=message[:MESSAGE_MAX])


class GroupFailure(Reason, frozen=True, kw_only=True):
    """Why a group or a receiver of it has failed; `code` for machines."""


class Slowness(Reason, frozen=True, kw_only=True):
    """Why a group is slow, or waits, and goes on all the same; `code` for machines."""


class ReceiverFigures(Described, msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """How a receiver is doing; `finish_s` from the source's first data packet."""

    state: ReceiverState = "waiting"
    error: GroupFailure | None = None
    bytes: Count = 0
    fraction: Part = 0.0
    rate_bps: Count = 0
    finish_s: float | None = None
    goodput_mbps: float | None = None
    sha256_ok: bool | None = None
    unwritten: Count = 0
    """Bytes that arrived and are not in its file yet: its disk is behind."""
    blocks: Annotated[str, Meta(max_length=64)] = ""
    """The file in up to 64 equal runs of blocks, of each the whole ones in fifteenths, a hexadecimal digit each. Of
    groups with more than 64 receivers it is told of the 64 that are furthest behind."""
    blocks_ok: Count = 0
    bad_blocks: Count = 0
    """That came with a wrong digest, and were asked for again."""
    duplicates: Count = 0
    retransmissions: Count = 0
    interests: Count = 0
    t_first_ns: int | None = None
    t_done_ns: int | None = None
    trees: Annotated[dict[TreeId, dict[str, float | int]], Meta(max_length=1024)] | None = None
    """What its agent says of each tree; told when the group has ended."""


class TreeFigures(Described, msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A tree of a group: its arcs, and what the source sends over it."""

    state: TreeState = "idle"
    depth: Count = 0
    links: Count = 0
    links_needed: Annotated[float, Meta(ge=0)] = 0.0
    """Of these, those towards receivers that waited for its pieces, on the average."""
    arcs: Annotated[Sequence[tuple[Name, Name]], Meta(max_length=1 << 17)] | None = None
    """In a report None: as they were told before."""
    most_bps: Count = 0
    """What it could send alone; 0: nobody said."""
    interest: Part = 0.0
    """Bits that go the other way for each bit of data."""
    rate_bps: Count = 0
    bucket_bps: Count = 0
    """At which its source gives out tokens now."""
    pieces: Count = 0
    """Of the file, that were given to it."""
    seq: Count = 0
    """How far its source is."""
    new_packets: Count = 0
    dup_packets: Count = 0
    interests: Count = 0
    merged: Count = 0
    duplicates: Count = 0
    retransmissions: Count = 0


class Adopt(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What another master needs to go on with a group."""

    size: Count
    file: dict[Annotated[str, Meta(max_length=16)], int]
    """What tells the source's file from another: mtime_ns, inode."""
    payload: Annotated[int, Meta(ge=1, le=65_535)]
    per_block: Annotated[int, Meta(ge=1)]
    rest: Annotated[list[tuple[Count, Count]], Meta(max_length=1 << 16)]
    """(first, count) of all pieces, those that were not sent yet first."""
    first_ns: int | None = None


class Reaction(Described, msgspec.Struct, kw_only=True, gc=False):
    """What a master did about links or cache appliances that failed or came back, or about other receivers. Trees are
    told by id, times are Unix nanoseconds."""

    links: list[tuple[str, str, bool]] = []
    """Both ends, and whether it is up."""
    appliances: list[tuple[str, bool]] = []
    """The switch, and whether its cache is there."""
    reported_ns: int | None = None
    """When an agent or a switch told of the first of them."""
    received_ns: int | None = None
    """By the master."""
    recomputed_ns: int = 0
    signalled_ns: int | None = None
    """All members concerned have their new routes."""
    resumed_ns: int | None = None
    """The first of them got data over one."""
    all_resumed_ns: int | None = None
    changed: list[int] = []
    """Trees with other routes."""
    lost: list[int] = []
    """Trees that have no links of their own any more."""
    revived: list[int] = []
    """Trees that have some again."""
    unnamed: list[int] = []
    """Trees that are new, and have no id yet: places in the plan."""
    cut_off: list[str] = []
    """Receivers that no tree reaches any more."""
    back: list[str] = []
    """Receivers that links reach again."""
    members: list[str] = []
    """Those that got routes; of many, as they are told, the first."""
    members_more: int = 0
    waiting: dict[str, int] = {}
    """By member: routes over which nothing had come yet."""


class TreesInShort(Described, msgspec.Struct, frozen=True, gc=False, kw_only=True):
    count: int
    depth: int
    links: list[int]


class Planned(Described, msgspec.Struct, frozen=True, gc=False, kw_only=True):
    planned_bps: int
    bound_bps: int
    """What its own links could bring it."""


class GroupReport(Described, msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """What a group has come to. `start_s` counts from the request to the source's first data packet (None: that was
    another master's), `finish_s` from that to the last receiver that is done."""

    start_s: float | None
    start_ms: dict[str, float]
    """The steps of that."""
    finish_s: float | None
    ideal_s: float | None
    """Of the trees that the group was planned with."""
    finish_over_ideal: float | None
    duplicate_ratio: float
    size: int | None
    takeovers: int
    """How often a tree that was done took over from a slower one."""
    reactions: list[Reaction]
    trees: TreesInShort
    new_packets: Count
    dup_packets: Count
    refetched_bytes: Count | None = None
    """Of a URL: what was ordered from it again, as who had asked for it was slow or gone. No more left it twice."""
    # As far as it was planned:
    payload: int | None = None
    """Bytes of a data packet."""
    labels: int | None = None
    """Deepest stack of a data frame."""
    mtu: int | None = None
    plain_branches: list[str] | None = None
    """Switches without a cache where trees branch."""
    per_block: int | None = None
    """Packets of a block."""
    rates: dict[str, Planned] | None = None
    """By receiver, where each has its own."""
    transport: list[dict[str, int | str]] | None = None
    """With what each tree began."""


class Progress(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """What a group's masters have told of it."""

    size: Count | None = None
    fraction: Part = 0.0
    rate_bps: Count = 0
    error: GroupFailure | None = None
    slow: Slowness | None = None
    receivers: Annotated[dict[Name, ReceiverFigures], Meta(max_length=16384)] = {}
    trees: Annotated[dict[TreeId, TreeFigures], Meta(max_length=1024)] = {}
    report: GroupReport | None = None
    reactions: Annotated[list[Reaction], Meta(max_length=64)] = []
    adopt: Adopt | None = None
    fetched: Annotated[str, Meta(max_length=PIECES_MAX // 4)] = ""
    """Of an object of another site: the pieces that members have fetched (origins/exchange.py: packed)."""
    looks: Count = 0
    """So often the present master has measured rates, each time since it looked at the members before."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> core_schema.CoreSchema:
        """A record that holds one is written and read by pydantic."""
        return core_schema.no_info_plain_validator_function(
            lambda value: value if isinstance(value, cls) else msgspec.convert(value, cls),
            serialization=core_schema.plain_serializer_function_ser_schema(msgspec.to_builtins),
        )


class MasterReport(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """A master's word on its group. `progress` holds the receivers and trees that have changed since the report before,
    or, when `whole`, all of them."""

    group: Name
    epoch: Annotated[int, Meta(ge=1)]
    state: ReportState
    progress: Progress
    whole: bool = False
    renew: bool = False
    """Its tree ids are nearly used up: another master is to go on with new ones."""


reader: msgspec.json.Decoder[MasterReport] = msgspec.json.Decoder(MasterReport)


class ReportAnswer(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """To a report: the group's state, or why the report was not taken."""

    state: str = ""
    code: str = ""
    error: str = ""


class ReportAnswers(msgspec.Struct, frozen=True):
    answers: list[ReportAnswer]
