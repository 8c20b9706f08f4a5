"""What others may import from the fabric manager: the shapes of its HTTP API and the client.

Times are Unix nanoseconds (`_ns`), rates bit/s (`_bps`), sizes bytes. Only this module is imported across services.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from annotated_types import Ge, Gt, Le, MaxLen, MinLen
from pydantic import StringConstraints

from datacast.services import framing, ranges
from datacast.services.problems import JsonClient, segment
from datacast.services.tls import PLAIN, Security

from .reports import MasterReport, ReportAnswer

DEFAULT_URL = "http://127.0.0.1:7501"
DEFAULT_SIGNALLING = "127.0.0.1:7500"
ENV_URL = "DATACAST_FABRIC_MANAGER"
BREATH_S = 0.001
"""So long a worker writes reports without others getting their turn."""


def machine_name() -> str:
    """As a part of a worker's name."""
    return re.sub("[^A-Za-z0-9-]", "-", socket.gethostname())[:32]


def child_name() -> str:
    """How the name of a worker begins that this machine's fabric manager has started."""
    return f"child-{machine_name()}-"


# States of a group (fabric_manager/machine.py moves between them). The last four are final.
GroupState = Literal["queued", "starting", "running", "cancelling", "done", "partial", "failed", "cancelled"]
FINAL_STATES = ("done", "partial", "failed", "cancelled")

SHA256 = StringConstraints(pattern=r"^[0-9a-f]{64}$")
Name = Annotated[str, MinLen(1), MaxLen(128)]
Path = Annotated[str, MinLen(1), MaxLen(4096)]
ByteRange = Annotated[str, StringConstraints(pattern=ranges.PATTERN)]
"""FIRST-LAST in bytes, both counted in; FIRST- to the end; K/N: the K-th of N parts."""
PlannerName = Literal["datacast", "stable", "fpfr", "balanced", "depth-first", "dijkstra", "max-bottleneck"]


@dataclass(frozen=True, kw_only=True)
class GroupOptions:
    """How a group is delivered. What is None is derived from the links (master/plan.py says how)."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}

    trees: Annotated[int, Ge(1), Le(64)] | None = None
    """Most trees to use; None: as many as the network holds."""
    delivery: Literal["stable", "together"] | None = None
    """`stable`: each receiver at its own rate; `together`: all at the slowest one's. None: stable where
    their links differ, and where a receiver turns out slower than the others."""
    planner: PlannerName | None = None
    """Whose trees with rates (planners/README.md); None: datacast's."""
    cache_bytes: Annotated[int, Ge(0), Le(1 << 30)] | None = None
    """C, content store per tree at every branch node; 0: the node's default."""
    credits: Annotated[int, Ge(1), Le(4096)] | None = None
    """w, interests a receiver may have out per tree."""
    cc: Annotated[str, MinLen(1), MaxLen(32)] | None = None
    """Rate control by name: `steady` (the default), or `datacast`, the paper's."""
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
    lease_ms: Annotated[int, Ge(1000), Le(600_000)] = 20000
    """Members drop a group of which they have heard nothing for so long."""
    member_timeout_ms: Annotated[int, Ge(500), Le(600_000)] = 15000
    """A receiver that does not answer for so long, while nobody else is served, has failed."""
    aside_ms: Annotated[int, Ge(0), Le(600_000)] = 2000
    """A receiver that was away, or is behind the others, for so long is served when the others are done; 0: never."""
    quorum: Annotated[int, Ge(1), Le(8192)] | None = None
    """Start when so many receivers are ready; those without an agent are served later. None: all must have one."""


@dataclass(frozen=True, kw_only=True)
class PartSpec:
    """A file of a folder that is fetched: the bytes of a URL, or `data`."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}

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

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}

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
    fetchers: Annotated[int, Ge(1), Le(32)] | Literal["all"] | Annotated[list[Name], MaxLen(32)] | None = None
    """Of `url`: how many receivers fetch, or which; None: eight at most."""
    origin_policy: Literal["steal", "robber", "mob", "non-steal", "flat"] = "steal"
    """Of `url`: who fetches what (origins/README.md)."""
    receivers: Annotated[list[Name], MaxLen(8192)] | Literal["all"] | None = None
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
    labels: Annotated[dict[Annotated[str, MinLen(1), MaxLen(64)], Annotated[str, MaxLen(256)]], MaxLen(32)] = field(
        default_factory=dict
    )
    """The caller's own: to find groups by."""
    scatter: bool = False
    """Each receiver wants another part of the file, all parts equal to a block: in the order of `receivers`."""
    shards: Annotated[dict[Name, Annotated[list[ByteRange], MaxLen(64)]], MaxLen(8192)] = field(default_factory=dict)
    """Which ranges of the file receivers want; who is not named wants all of it. Widened to whole blocks."""
    options: GroupOptions = field(default_factory=GroupOptions)

    @property
    def roots(self) -> list[str]:
        """The hosts that trees begin at."""
        return [name for name in (self.source, *self.other_sources) if name]


@dataclass(frozen=True, kw_only=True)
class LinkSpec:
    """A cable of a node that is added. Ports are numbered without gaps: None is the next free one."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}

    to: Name
    port: Annotated[int, Ge(0), Le(65534)] | None = None
    to_port: Annotated[int, Ge(0), Le(65534)] | None = None
    rate_bps: Annotated[int, Ge(1000), Le(10**13)] | None = None
    mtu: Annotated[int, Ge(256), Le(65535)] | None = None


@dataclass(frozen=True, kw_only=True)
class NodeSpec:
    """A host or switch that joins the fabric while it runs."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}

    kind: Literal["host", "switch"]
    links: Annotated[list[LinkSpec], MinLen(1), MaxLen(1024)]
    forwards: bool | None = None
    """Passes frames on; None: a switch does, a host does when it has several links."""


class FabricManagerClient(JsonClient):
    """Client of the fabric manager's HTTP API, for masters and the controller."""

    service = "fabric manager"
    role = "fabric-manager"
    remedy = "start datacast-fabric-manager (or a lab: datacast lab up), or give its address"

    def __init__(self, url: str | None = None, timeout: float = 10.0, security: Security = PLAIN) -> None:
        default = DEFAULT_URL if security.identity is None else DEFAULT_URL.replace("http", "https", 1)
        super().__init__(url or os.environ.get(ENV_URL) or default, timeout, security)
        self.lease = ""
        """Of a worker: shown with every report."""

    async def health(self) -> dict[str, Any]:
        return await self.request("GET", "/healthz")

    async def topology(self) -> dict[str, Any]:
        return await self.request("GET", "/topology")

    async def create_group(
        self, spec: dict[str, Any], accepted_ns: int | None = None, by: str = "", key: str | None = None
    ) -> dict[str, Any]:
        """`accepted_ns`: when the request arrived at the caller; `by`: whose it is; `key`: their name for it."""
        headers = {"x-datacast-by": by} if by else {}
        if accepted_ns:
            headers["x-datacast-accepted-ns"] = str(accepted_ns)
        if key is not None:
            headers["idempotency-key"] = key
        return await self.request("POST", "/groups", spec, headers=headers)

    async def plan(self, spec: dict[str, Any], size: int | None = None) -> dict[str, Any]:
        """What a group would get now."""
        return await self.request("POST", "/plan", spec, params=None if size is None else {"size": size})

    async def groups(self, state: str | None = None, **filters: Any) -> list[dict[str, Any]]:
        """Oldest first, at most a thousand; `after`: the last one of the page before."""
        params = {key: value for key, value in {"state": state, **filters}.items() if value is not None}
        return await self.request("GET", "/groups", params=params or None)

    async def totals(self) -> dict[str, Any]:
        """Figures over all groups."""
        return await self.request("GET", "/totals")

    async def hosts(self) -> list[dict[str, Any]]:
        return await self.request("GET", "/hosts")

    async def cordon(self, host: str, reason: str) -> dict[str, Any]:
        return await self.request("PUT", f"/hosts/{segment(host)}/cordon", {"reason": reason})

    async def uncordon(self, host: str) -> dict[str, Any]:
        return await self.request("DELETE", f"/hosts/{segment(host)}/cordon")

    async def cordon_switch(self, switch: str, reason: str) -> dict[str, Any]:
        return await self.request("PUT", f"/switches/{segment(switch)}/cordon", {"reason": reason})

    async def uncordon_switch(self, switch: str) -> dict[str, Any]:
        return await self.request("DELETE", f"/switches/{segment(switch)}/cordon")

    async def caps(self) -> dict[str, Any]:
        return await self.request("GET", "/caps")

    async def cap(self, host: str | None, most_bps: int) -> dict[str, Any]:
        """`host` None: what all sources together send."""
        return await self.request("PUT", _cap(host), {"most_bps": most_bps})

    async def uncap(self, host: str | None) -> dict[str, Any]:
        return await self.request("DELETE", _cap(host))

    async def group(self, group: str) -> dict[str, Any]:
        return await self.request("GET", f"/groups/{segment(group)}")

    async def cancel_group(self, group: str) -> dict[str, Any]:
        return await self.request("POST", f"/groups/{segment(group)}/cancel")

    async def forget_group(self, group: str) -> dict[str, Any]:
        return await self.request("DELETE", f"/groups/{segment(group)}")

    async def resume_group(self, group: str) -> dict[str, Any]:
        """Start a group again that has not reached all; receivers go on from what they have verified."""
        return await self.request("POST", f"/groups/{segment(group)}/resume")

    async def offer(self, group: str, pieces: list[tuple[int, int]]) -> None:
        """Of an object of another site: (first, count) of the pieces that members may ask for now."""
        await self.request("POST", f"/groups/{segment(group)}/offers", {"pieces": pieces})

    async def fetched(self, group: str) -> str:
        """Of an object of another site: the pieces that members have (origins/exchange.py); "": not told yet."""
        return str((await self.request("GET", f"/groups/{segment(group)}/fetched"))["fetched"])

    async def add_receiver(self, group: str, host: str, dest_path: str | None = None) -> dict[str, Any]:
        body = {"host": host} if dest_path is None else {"host": host, "dest_path": dest_path}
        return await self.request("POST", f"/groups/{segment(group)}/receivers", body)

    async def remove_receiver(self, group: str, host: str) -> dict[str, Any]:
        return await self.request("DELETE", f"/groups/{segment(group)}/receivers/{segment(host)}")

    async def add_node(self, name: str, spec: dict[str, Any]) -> dict[str, Any]:
        return await self.request("PUT", f"/topology/nodes/{segment(name)}", spec)

    async def remove_node(self, name: str) -> None:
        await self.request("DELETE", f"/topology/nodes/{segment(name)}")

    def orders(self, worker: str, pid: int) -> AsyncIterator[str]:
        """A worker's, each as text (orders.py)."""
        return self.texts(f"/workers/{segment(worker)}/orders", {"pid": pid}, self._lease())

    async def report(self, worker: str, reports: list[MasterReport]) -> list[ReportAnswer]:
        """Of a worker's groups; renews its lease. An answer to each. Others get their turn while they are written: a
        megabyte takes long enough for news of a link to wait."""
        texts, breath = [], time.monotonic()
        for report in reports:
            texts.append(framing.text(report))
            if time.monotonic() - breath > BREATH_S:
                await asyncio.sleep(0)
                breath = time.monotonic()
        path, body = f"/workers/{segment(worker)}/reports", b"\n".join(texts)
        told = await self.request("POST", path, body, headers=self._lease())
        return msgspec.convert(told["answers"], list[ReportAnswer])

    async def leave(self, worker: str) -> None:
        """The worker ends: its groups are free."""
        await self.request("POST", f"/workers/{segment(worker)}/leave", {}, headers=self._lease())

    def _lease(self) -> dict[str, str]:
        return {"x-datacast-lease": self.lease}

    async def tree_ids(self, count: int) -> list[int]:
        """Reserve ids that no other tree has or will have."""
        return (await self.request("POST", "/trees", {"count": count}))["ids"]

    async def sets(self) -> dict[str, list[str]]:
        return await self.request("GET", "/sets")

    async def get_set(self, name: str) -> dict[str, Any]:
        return await self.request("GET", f"/sets/{segment(name)}")

    async def put_set(self, name: str, hosts: list[str]) -> dict[str, Any]:
        return await self.request("PUT", f"/sets/{segment(name)}", {"hosts": hosts})

    async def delete_set(self, name: str) -> None:
        await self.request("DELETE", f"/sets/{segment(name)}")

    async def site_groups(self) -> dict[str, str]:
        """What the controller has put there, by id."""
        return await self.request("GET", "/site-groups")

    async def put_site_group(self, group: str, text: str) -> None:
        await self.request("PUT", f"/site-groups/{segment(group)}", {"text": text})

    async def delete_site_group(self, group: str) -> None:
        await self.request("DELETE", f"/site-groups/{segment(group)}")

    def events(
        self, topics: list[str], group: str | None = None, since: str | None = None
    ) -> AsyncIterator[dict[str, Any]]:
        """Topics: `topology` (a `topology` snapshot first, then `link` and `node`), `groups` (`groups`, the summaries
        of all, then `group`). `since`: the `event` of the last one heard; then what was missed, where that is known."""
        params: dict[str, Any] = {"topics": ",".join(topics)}
        if since is not None:
            params["since"] = since
        if group:
            params["group"] = group
        return self.lines("/events", params)

    def topology_changes(self) -> AsyncIterator[str]:
        """Events of the topology, each as text (topology.py)."""
        return self.texts("/events", {"topics": "topology"})


def _cap(host: str | None) -> str:
    return "/caps/fabric" if host is None else f"/caps/hosts/{segment(host)}"
