"""What others may import from the fabric manager: the shapes of its HTTP API and the client.

Times are Unix nanoseconds (`_ns`), rates bit/s (`_bps`), sizes bytes. Only this module is imported across services.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Le, MaxLen, MinLen

from datacast.core.errors import DatacastError

if TYPE_CHECKING:
    import httpx

DEFAULT_URL = "http://127.0.0.1:7501"
DEFAULT_SIGNALLING = "127.0.0.1:7500"
ENV_URL = "DATACAST_FABRIC_MANAGER"

# States of a group. The last four are final.
GroupState = Literal["starting", "running", "cancelling", "done", "partial", "failed", "cancelled"]
FINAL_STATES = ("done", "partial", "failed", "cancelled")

Name = Annotated[str, MinLen(1), MaxLen(128)]
Path = Annotated[str, MinLen(1), MaxLen(4096)]


@dataclass(frozen=True, kw_only=True)
class GroupOptions:
    """How a group is delivered. What is None is derived from the links (master/plan.py says how)."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}

    trees: Annotated[int, Ge(1), Le(64)] | None = None
    """Most trees to use; None: as many as the network holds."""
    cache_bytes: Annotated[int, Ge(0), Le(1 << 30)] | None = None
    """C, content store per tree at every branch node; 0: the node's default."""
    credits: Annotated[int, Ge(1), Le(4096)] | None = None
    """w, interests a receiver may have out per tree."""
    cc: Annotated[str, MinLen(1), MaxLen(32)] | None = None
    """Rate control by name; `datacast` is the paper's."""
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
    lease_ms: Annotated[int, Ge(1000), Le(600_000)] = 5000
    """Members drop a group of which they have heard nothing for so long."""
    member_timeout_ms: Annotated[int, Ge(500), Le(600_000)] = 5000
    """A receiver that does not answer for so long has failed."""


@dataclass(frozen=True, kw_only=True)
class GroupSpec:
    """A request to deliver one file. Exactly one of `receivers` and `receiver_set`."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}

    source: Name
    """Host that has the file."""
    source_path: Path
    """Absolute path at the source."""
    receivers: Annotated[list[Name], MaxLen(8192)] | Literal["all"] | None = None
    """Hosts, or "all": every host with an agent but the source."""
    receiver_set: Name | None = None
    """A named set of hosts; the source is left out when it is in it."""
    dest_path: Path | None = None
    """Path at the receivers; a relative one is inside the agent's folder. None: the file's name."""
    options: GroupOptions = field(default_factory=GroupOptions)


@dataclass(frozen=True, kw_only=True)
class StartOrder:
    """What a master gets to start with: one JSON line on its standard input."""

    group: str
    spec: dict[str, Any]
    """As GroupSpec, `receivers` a list."""
    tree_ids: list[int]
    """Ids reserved for its trees; more by `FabricManagerClient.tree_ids`."""
    version: int
    """The topology's version when the group was accepted."""
    accepted_ns: int
    """When the request arrived."""
    load: list[dict[str, Any]] = field(default_factory=list)
    """Arcs that trees of other groups use: {from, to, group, tree}."""


class Problem(DatacastError):
    """An error that crosses HTTP (RFC 9457): status, code for machines, what it is about, and the remedy."""

    def __init__(self, status: int, code: str, message: str, what: str = "", remedy: str = "",
                 fields: list[dict[str, str]] | None = None) -> None:
        super().__init__(message, what=what)
        self.status = status
        self.code = code
        self.remedy = remedy
        self.fields = fields or []

    def to_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {"type": f"urn:datacast:problem:{self.code}", "title": self.code.replace("_", " "),
                                "status": self.status, "detail": self.message, "code": self.code,
                                "what": self.what, "remedy": self.remedy}
        if self.fields:
            body["fields"] = self.fields
        return body

    @classmethod
    def from_json(cls, status: int, body: Any) -> Problem:
        if not isinstance(body, dict):
            return cls(status, "error", f"unexpected answer: HTTP {status}")
        return cls(status, str(body.get("code", "error")), str(body.get("detail", f"HTTP {status}")),
                   str(body.get("what", "")), str(body.get("remedy", "")), body.get("fields") or [])


class Unreachable(Problem):
    """The service does not answer."""


def http_client(url: str, *, timeout: float, service: str) -> httpx.AsyncClient:
    """An httpx client for `http://host:port` or `unix:/path`. Raises Problem when the URL is neither."""
    import httpx

    if url.startswith("unix:"):
        transport = httpx.AsyncHTTPTransport(uds=url[len("unix:"):])
        return httpx.AsyncClient(transport=transport, base_url=f"http://{service}", timeout=timeout)
    if not url.startswith(("http://", "https://")):
        raise Problem(400, "bad_url", f"{url!r} is no address of a {service}", what=url,
                      remedy="give http://host:port or unix:/path")
    # The services are on this machine or on the management network: no proxy of the environment is asked.
    return httpx.AsyncClient(base_url=url, timeout=timeout, trust_env=False)


class JsonClient:
    """JSON over HTTP with this project's problems as exceptions."""

    service = "service"
    remedy = ""

    def __init__(self, url: str, timeout: float = 10.0) -> None:
        self.url = url
        self._http = http_client(url, timeout=timeout, service=self.service.replace(" ", "-"))

    async def __aenter__(self):
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    def _unreachable(self, error: Exception) -> Unreachable:
        return Unreachable(503, "unreachable", f"no {self.service} at {self.url}: {error or type(error).__name__}",
                           what=self.url, remedy=self.remedy)

    async def request(self, method: str, path: str, body: Any = None, params: dict[str, Any] | None = None,
                      headers: dict[str, str] | None = None) -> Any:
        """The decoded answer; raises Problem for an error status and Unreachable when nobody answers."""
        import httpx

        try:
            answer = await self._http.request(
                method, path, params=params, content=None if body is None else json.dumps(body).encode(),
                headers={**({"content-type": "application/json"} if body is not None else {}), **(headers or {})})
        except (httpx.HTTPError, OSError) as error:
            raise self._unreachable(error) from error
        try:
            decoded = answer.json() if answer.content else None
        except ValueError:
            decoded = None
        if answer.status_code >= 400:
            raise Problem.from_json(answer.status_code, decoded)
        return decoded

    async def lines(self, path: str, params: dict[str, Any] | None = None) -> AsyncIterator[dict[str, Any]]:
        """A long-lived stream of JSON lines. Ends when the service ends it; no silence beyond 30 s is accepted."""
        import httpx

        try:
            async with self._http.stream("GET", path, params=params,
                                         timeout=httpx.Timeout(10.0, read=30.0)) as answer:
                if answer.status_code >= 400:
                    await answer.aread()
                    try:
                        decoded = answer.json()
                    except ValueError:
                        decoded = None
                    raise Problem.from_json(answer.status_code, decoded)
                async for line in answer.aiter_lines():
                    if line:
                        yield json.loads(line)
        except (httpx.HTTPError, OSError) as error:
            raise self._unreachable(error) from error


class FabricManagerClient(JsonClient):
    """Client of the fabric manager's HTTP API, for masters and the controller."""

    service = "fabric manager"
    remedy = "start datacast-fabric-manager (or a lab: datacast lab up), or give its address"

    def __init__(self, url: str | None = None, timeout: float = 10.0) -> None:
        super().__init__(url or os.environ.get(ENV_URL) or DEFAULT_URL, timeout)

    async def health(self) -> dict[str, Any]:
        return await self.request("GET", "/healthz")

    async def topology(self) -> dict[str, Any]:
        return await self.request("GET", "/topology")

    async def create_group(self, spec: dict[str, Any], accepted_ns: int | None = None) -> dict[str, Any]:
        """`accepted_ns`: when the request arrived at the caller."""
        return await self.request("POST", "/groups", spec,
                                  headers={"x-datacast-accepted-ns": str(accepted_ns)} if accepted_ns else None)

    async def groups(self, state: str | None = None) -> list[dict[str, Any]]:
        return await self.request("GET", "/groups", params={"state": state} if state else None)

    async def group(self, group: str) -> dict[str, Any]:
        return await self.request("GET", f"/groups/{_quote(group)}")

    async def cancel_group(self, group: str) -> dict[str, Any]:
        return await self.request("DELETE", f"/groups/{_quote(group)}")

    async def put_progress(self, group: str, progress: dict[str, Any]) -> dict[str, Any]:
        """From a group's master: state, members, trees, and at the end the report."""
        return await self.request("PUT", f"/groups/{_quote(group)}/progress", progress)

    async def tree_ids(self, count: int) -> list[int]:
        """Reserve ids that no other tree has or will have."""
        return (await self.request("POST", "/trees", {"count": count}))["ids"]

    async def sets(self) -> dict[str, list[str]]:
        return await self.request("GET", "/sets")

    async def get_set(self, name: str) -> dict[str, Any]:
        return await self.request("GET", f"/sets/{_quote(name)}")

    async def put_set(self, name: str, hosts: list[str]) -> dict[str, Any]:
        return await self.request("PUT", f"/sets/{_quote(name)}", {"hosts": hosts})

    async def delete_set(self, name: str) -> None:
        await self.request("DELETE", f"/sets/{_quote(name)}")

    def events(self, topics: list[str], group: str | None = None) -> AsyncIterator[dict[str, Any]]:
        """Topics: `topology` (a `topology` snapshot first, then `link` and `node`), `groups` (`group`), `control` of one
        group (`cancel`)."""
        params: dict[str, Any] = {"topics": ",".join(topics)}
        if group:
            params["group"] = group
        return self.lines("/events", params)


def _quote(segment: str) -> str:
    from urllib.parse import quote

    return quote(segment, safe="")


def graph_of(topology: dict[str, Any]):
    """The networkx.Graph of a topology answer or event: node attributes `kind`, `forwards`, `alive`, `addr`, `msd`; edge
    attributes `ports` ({node: port}), `up`, `rate_bps`, `mtu`; graph attributes as the builder set them, and `defaults`.
    A host that is not alive does not forward."""
    import networkx as nx

    graph = nx.Graph(**topology.get("attributes", {}))
    graph.graph["defaults"] = topology["defaults"]
    for node in topology["nodes"]:
        graph.add_node(node["name"], **{**node.get("attributes", {}), "kind": node["kind"], "forwards": node["forwards"]})
        update_node(graph, node)
    for link in topology["links"]:
        graph.add_edge(link["u"], link["v"], ports={link["u"]: link["u_port"], link["v"]: link["v_port"]},
                       up=link["up"], rate_bps=link["rate_bps"], mtu=link["mtu"])
    return graph


def update_node(graph: Any, node: dict[str, Any]) -> None:
    """Apply a `node` event (or a node of a topology) to graph_of's graph."""
    graph.nodes[node["name"]].update(alive=node["alive"], addr=node["addr"], registered=node["registered"])
    if node.get("msd") is not None:
        graph.nodes[node["name"]]["msd"] = node["msd"]
