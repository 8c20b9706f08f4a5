"""What is asked for: groups, and nodes that join. Checked by pydantic where a request comes in.

Times are seconds or as they say, rates bit/s (`_bps`), sizes bytes.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Gt, Le, MaxLen, MinLen
from pydantic import ConfigDict, StringConstraints

from datacast.services import ranges

# States of a group (fabric_manager/machine.py moves between them). The last four are final.
GroupState = Literal["queued", "starting", "running", "cancelling", "done", "partial", "failed", "cancelled"]
FINAL_STATES = ("done", "partial", "failed", "cancelled")
RECEIVERS_MAX, LABELS_MAX = 8192, 32
"""Of a group."""

S3 = "s3://"
SHA256 = StringConstraints(pattern=r"^[0-9a-f]{64}$")
Name = Annotated[str, MinLen(1), MaxLen(128)]
Path = Annotated[str, MinLen(1), MaxLen(4096)]
LabelName = Annotated[str, MinLen(1), MaxLen(64)]
ByteRange = Annotated[str, StringConstraints(pattern=ranges.PATTERN)]
"""FIRST-LAST in bytes, both counted in; FIRST- to the end; K/N: the K-th of N parts."""
Fetchers = Annotated[int, Ge(1), Le(32)] | Literal["all"] | Annotated[list[Name], MaxLen(32)] | None
Kind = Literal["host", "switch"]
Delivery = Literal["stable", "together"]
OriginPolicy = Literal["steal", "robber", "mob", "non-steal", "flat"]
RuleName = Literal["steady", "datacast"]
PlannerName = Literal["datacast", "stable", "fpfr", "balanced", "depth-first", "dijkstra", "max-bottleneck"]


@dataclass(frozen=True, kw_only=True)
class GroupOptions:
    """How a group is delivered. What is None is derived from the links (master/plan.py says how)."""

    __pydantic_config__: ClassVar[ConfigDict] = {"extra": "forbid"}

    trees: Annotated[int, Ge(1), Le(64)] | None = None
    """Most trees to use; None: as many as the network holds."""
    delivery: Delivery | None = None
    """`stable`: each receiver at its own rate; `together`: all at the slowest one's. None: stable where
    their links differ, and where a receiver turns out slower than the others."""
    planner: PlannerName | None = None
    """Whose trees with rates (planners/README.md); None: datacast's."""
    cache_bytes: Annotated[int, Ge(0), Le(1 << 30)] | None = None
    """C, content store per tree at every branch node; 0: the node's default."""
    credits: Annotated[int, Ge(1), Le(4096)] | None = None
    """w, interests a receiver may have out per tree."""
    cc: RuleName | None = None
    """Rate control: `steady` (the default), or `datacast`, the paper's."""
    delta_bps: Annotated[int, Ge(1), Le(10**12)] | None = None
    """Added to the rate every interval without a duplicate interest."""
    interval_us: Annotated[int, Ge(1), Le(10**7)] | None = None
    """T, in microseconds."""
    rate_bps: Annotated[int, Ge(1000), Le(10**12)] | None = None
    """Most that one tree may send; None: the slowest link of the trees."""
    rate_init_bps: Annotated[int, Ge(1000), Le(10**12)] | None = None
    """Rate a tree starts with."""
    burst: Annotated[int, Ge(1), Le(4096)] | None = None
    """Depth of the token bucket in packets."""
    rto_min_ms: Annotated[int, Ge(1), Le(60_000)] | None = None
    """Floor of the retransmission timeout."""
    payload: Annotated[int, Ge(64), Le(65_000)] | None = None
    """Payload bytes of a data packet; None: what the MTU and the longest segment allow."""
    block_bytes: Annotated[int, Ge(1024), Le(1 << 30)] | None = None
    """Size of the blocks that carry a checksum each."""
    lease_ms: Annotated[int, Ge(1000), Le(600_000)] = 30000
    """Members drop a group of which they have heard nothing for so long."""
    member_timeout_ms: Annotated[int, Ge(500), Le(600_000)] = 15000
    """A receiver that does not answer for so long, while nobody else is served, has failed."""
    aside_ms: Annotated[int, Ge(0), Le(600_000)] = 2000
    """A receiver that was away, or is behind the others, for so long is served when the others are done; 0: never."""
    quorum: Annotated[int, Ge(1), Le(RECEIVERS_MAX)] | None = None
    """Start when so many receivers are ready; those without an agent are served later. None: all must have one."""


@dataclass(frozen=True, kw_only=True)
class PartSpec:
    """A file of a folder that is fetched: the bytes of a URL, or `data`."""

    __pydantic_config__: ClassVar[ConfigDict] = {"extra": "forbid"}

    path: Annotated[str, MinLen(1), MaxLen(1023)]
    """Beneath the destination."""
    size: Annotated[int, Ge(0), Le(1 << 53)]
    url: Annotated[str, MaxLen(2048)] = ""
    data: Annotated[str, MaxLen(64 << 10)] = ""
    """Base64, of small files that come with the request."""
    sha256: Annotated[str, SHA256] | Literal[""] = ""
    """What it must have, at every receiver."""


@dataclass(frozen=True, kw_only=True)
class GroupSpec:
    """A request to deliver one file. Exactly one of `receivers` and `receiver_set`."""

    __pydantic_config__: ClassVar[ConfigDict] = {"extra": "forbid"}

    source: Annotated[str, MaxLen(128)] = ""
    """Host that has the file; with `url` the first that fetches."""
    source_path: Annotated[str, MaxLen(4096)] = ""
    """Absolute path at the source; with `url` that."""
    other_sources: Annotated[list[Name], MaxLen(31)] = field(default_factory=list)
    """More hosts that have the same file at the same path: they send together, and stand in for each other."""
    source_paths: Annotated[dict[Name, Path], MaxLen(32)] = field(default_factory=dict)
    """Where the file lies at a source, if not at `source_path`."""
    holds: Annotated[dict[Name, Annotated[list[ByteRange], MaxLen(64)]], MaxLen(32)] = field(default_factory=dict)
    """Of sources that have parts of the file: which ranges. Whole blocks in them count, the file has its whole length,
    and who is not named has all of it."""
    unfinished: Annotated[dict[Name, Name], MaxLen(32)] = field(default_factory=dict)
    """Sources that have what they had received when a group broke off, and that group."""
    url: Annotated[str, MinLen(1), MaxLen(2048)] | None = None
    """In place of a source: an object that receivers fetch, https://, http:// or s3://BUCKET/KEY. What a host may
    fetch, and with which credentials, its agent's file says (--origins)."""
    parts: Annotated[list[PartSpec], MaxLen(512)] = field(default_factory=list)
    """In place of one object: the files of a folder, each with its URL. `url` is then a name for people: of an image
    (oci://…), or a repository (hf://…)."""
    fetchers: Fetchers = None
    """Of `url`: how many receivers fetch, or which; None: eight at most."""
    origin_policy: OriginPolicy = "steal"
    """Of `url`: who fetches what (origins/README.md)."""
    receivers: Annotated[list[Name], MaxLen(RECEIVERS_MAX)] | Literal["all"] | None = None
    """Hosts, or "all": every host with an agent but the source."""
    receiver_set: Name | None = None
    """A named set of hosts; the source is left out when it is in it."""
    dest_path: Path | None = None
    """Path at the receivers; a relative one is inside the agent's folder. None: the file's name."""
    sha256: Annotated[str, SHA256] | None = None
    """What the whole file must have: checked at every receiver before the file gets its name."""
    weight: Annotated[int, Ge(1), Le(1000)] = 100
    """Of its share where it shares links with other groups: 200 gets twice what 100 gets."""
    priority: Literal["normal", "background"] = "normal"
    """`background` takes what the others leave."""
    most_bps: Annotated[int, Ge(1000), Le(10**13)] | None = None
    """Most that all its trees together may send; None: no bound."""
    deadline_s: Annotated[float, Gt(0), Le(10**7)] | None = None
    """It is wanted whole so many seconds after the request; refused where the links cannot give that: at once when
    `size` is given, else when the source has told it."""
    size: Annotated[int, Ge(0), Le(1 << 53)] | None = None
    """Of the file, where the caller knows it; one of another size is not sent."""
    labels: Annotated[dict[LabelName, Annotated[str, MaxLen(256)]], MaxLen(LABELS_MAX)] = field(default_factory=dict)
    """The caller's own: to find groups by."""
    scatter: bool = False
    """Each receiver wants another part of the file, all parts equal to a block: in the order of `receivers`."""
    shards: Annotated[dict[Name, Annotated[list[ByteRange], MaxLen(64)]], MaxLen(RECEIVERS_MAX)] = field(
        default_factory=dict
    )
    """Which ranges of the file receivers want; who is not named wants all of it. Widened to whole blocks."""
    options: GroupOptions = field(default_factory=GroupOptions)

    @property
    def name(self) -> str:
        """What the file is called, without the query of a URL. S3 has none: what follows a ? is of the key."""
        named = self.source_path if self.url is None else self.url
        return posixpath.basename(named if self.url is None or named.startswith(S3) else named.partition("?")[0])

    @property
    def roots(self) -> list[str]:
        """The hosts that trees begin at."""
        return [name for name in (self.source, *self.other_sources) if name]


@dataclass(frozen=True, kw_only=True)
class LinkSpec:
    """A cable of a node that is added. Ports are numbered without gaps: None is the next free one."""

    __pydantic_config__: ClassVar[ConfigDict] = {"extra": "forbid"}

    to: Name
    port: Annotated[int, Ge(0), Le(65534)] | None = None
    to_port: Annotated[int, Ge(0), Le(65534)] | None = None
    rate_bps: Annotated[int, Ge(1000), Le(10**13)] | None = None
    mtu: Annotated[int, Ge(256), Le(65535)] | None = None


@dataclass(frozen=True, kw_only=True)
class NodeSpec:
    """A host or switch that joins the fabric while it runs."""

    __pydantic_config__: ClassVar[ConfigDict] = {"extra": "forbid"}

    kind: Kind
    links: Annotated[list[LinkSpec], MinLen(1), MaxLen(1024)]
    forwards: bool | None = None
    """Passes frames on; None: a switch does, a host does when it has several links."""


def given(asked: GroupSpec | GroupOptions | PartSpec | NodeSpec | LinkSpec) -> dict[str, object]:
    """As JSON, without what is as it is by default: nothing depends on a service knowing that."""
    return dict(_given(asked))


def _given(asked: Any) -> Iterator[tuple[str, object]]:
    for member in fields(asked):
        value = getattr(asked, member.name)
        default = member.default if member.default_factory is MISSING else member.default_factory()
        if value != default:
            yield member.name, _plain(value)


def _plain(value: Any) -> object:
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return dict(_given(value)) if is_dataclass(value) else value
