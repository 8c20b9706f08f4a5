"""What others may import from the fabric manager: the client of its HTTP API, what it is asked for (specs.py), and what
it answers (records.py, topology.py)."""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import AsyncIterator
from urllib.parse import quote

from datacast.services import framing
from datacast.services.problems import JsonClient, segment
from datacast.services.tls import PLAIN, Security

from .records import (
    Caps,
    Cordon,
    FabricHealth,
    Fetched,
    GroupRecord,
    GroupSummary,
    Host,
    HostSet,
    Plan,
    Totals,
    TreeIds,
)
from .reports import MasterReport, ReportAnswer, ReportAnswers
from .specs import (
    FINAL_STATES,
    Delivery,
    Fetchers,
    GroupOptions,
    GroupSpec,
    GroupState,
    Kind,
    LinkSpec,
    Name,
    NodeSpec,
    OriginPolicy,
    PartSpec,
    Path,
    PlannerName,
    RuleName,
    given,
)
from .topology import LoadedTopology, NodeState

__all__ = [
    "FINAL_STATES",
    "Delivery",
    "FabricManagerClient",
    "Fetchers",
    "GroupOptions",
    "GroupSpec",
    "GroupState",
    "Kind",
    "LinkSpec",
    "Name",
    "NodeSpec",
    "OriginPolicy",
    "PartSpec",
    "Path",
    "PlannerName",
    "RuleName",
]

DEFAULT_URL = "http://127.0.0.1:7501"
DEFAULT_SIGNALLING = "127.0.0.1:7500"
ENV_URL = "DATACAST_FABRIC_MANAGER"
BY_MAX = 256
"""Letters of whose request it is."""
BREATH_S = 0.001
"""So long a worker writes reports without others getting their turn."""


def machine_name() -> str:
    """As a part of a worker's name."""
    return re.sub("[^A-Za-z0-9-]", "-", socket.gethostname())[:32]


def child_name() -> str:
    """How the name of a worker begins that this machine's fabric manager has started."""
    return f"child-{machine_name()}-"


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

    async def health(self) -> FabricHealth:
        return await self.told(FabricHealth, "GET", "/healthz")

    async def topology(self) -> LoadedTopology:
        return await self.told(LoadedTopology, "GET", "/topology")

    async def create_group(
        self, spec: GroupSpec, accepted_ns: int | None = None, by: str = "", key: str | None = None
    ) -> GroupRecord:
        """`accepted_ns`: when the request arrived at the caller; `by`: whose it is; `key`: their name for it."""
        headers = {"x-datacast-by": quote(by[:BY_MAX], errors="replace")} if by else {}
        if accepted_ns:
            headers["x-datacast-accepted-ns"] = str(accepted_ns)
        if key is not None:
            headers["idempotency-key"] = key
        return await self.told(GroupRecord, "POST", "/groups", given(spec), headers=headers)

    async def plan(self, spec: GroupSpec, size: int | None = None) -> Plan:
        """What a group would get now."""
        return await self.told(Plan, "POST", "/plan", given(spec), params=None if size is None else {"size": size})

    async def groups(self, state: str | None = None, **filters: str | int | list[str] | None) -> list[GroupSummary]:
        """Oldest first, at most a thousand; `after`: the last one of the page before."""
        params = {key: value for key, value in {"state": state, **filters}.items() if value is not None}
        return await self.told(list[GroupSummary], "GET", "/groups", params=params or None)

    async def totals(self) -> Totals:
        """Figures over all groups."""
        return await self.told(Totals, "GET", "/totals")

    async def hosts(self) -> list[Host]:
        return await self.told(list[Host], "GET", "/hosts")

    async def cordon(self, host: str, reason: str) -> Cordon:
        return await self.told(Cordon, "PUT", f"/hosts/{segment(host)}/cordon", {"reason": reason})

    async def uncordon(self, host: str) -> Cordon:
        return await self.told(Cordon, "DELETE", f"/hosts/{segment(host)}/cordon")

    async def cordon_switch(self, switch: str, reason: str) -> Cordon:
        return await self.told(Cordon, "PUT", f"/switches/{segment(switch)}/cordon", {"reason": reason})

    async def uncordon_switch(self, switch: str) -> Cordon:
        return await self.told(Cordon, "DELETE", f"/switches/{segment(switch)}/cordon")

    async def caps(self) -> Caps:
        return await self.told(Caps, "GET", "/caps")

    async def cap(self, host: str | None, most_bps: int) -> Caps:
        """`host` None: what all sources together send."""
        return await self.told(Caps, "PUT", _cap(host), {"most_bps": most_bps})

    async def uncap(self, host: str | None) -> Caps:
        return await self.told(Caps, "DELETE", _cap(host))

    async def group(self, group: str) -> GroupRecord:
        return await self.told(GroupRecord, "GET", f"/groups/{segment(group)}")

    async def cancel_group(self, group: str) -> GroupRecord:
        return await self.told(GroupRecord, "POST", f"/groups/{segment(group)}/cancel")

    async def forget_group(self, group: str) -> GroupRecord:
        return await self.told(GroupRecord, "DELETE", f"/groups/{segment(group)}")

    async def resume_group(self, group: str) -> GroupRecord:
        """Start a group again that has not reached all; receivers go on from what they have verified."""
        return await self.told(GroupRecord, "POST", f"/groups/{segment(group)}/resume")

    async def offer(self, group: str, pieces: list[tuple[int, int]]) -> None:
        """Of an object of another site: (first, count) of the pieces that members may ask for now."""
        await self.request("POST", f"/groups/{segment(group)}/offers", {"pieces": pieces})

    async def fetched(self, group: str) -> str:
        """Of an object of another site: the pieces that members have (origins/exchange.py); "": not told yet."""
        return (await self.told(Fetched, "GET", f"/groups/{segment(group)}/fetched")).fetched

    async def add_receiver(self, group: str, host: str, dest_path: str | None = None) -> GroupRecord:
        body = {"host": host} if dest_path is None else {"host": host, "dest_path": dest_path}
        return await self.told(GroupRecord, "POST", f"/groups/{segment(group)}/receivers", body)

    async def remove_receiver(self, group: str, host: str) -> GroupRecord:
        return await self.told(GroupRecord, "DELETE", f"/groups/{segment(group)}/receivers/{segment(host)}")

    async def add_node(self, name: str, spec: NodeSpec) -> NodeState:
        return await self.told(NodeState, "PUT", f"/topology/nodes/{segment(name)}", given(spec))

    async def remove_node(self, name: str) -> None:
        await self.request("DELETE", f"/topology/nodes/{segment(name)}")

    def orders(self, worker: str, pid: int) -> AsyncIterator[str]:
        """A worker's, each as text (orders.py)."""
        return self.texts(f"/workers/{segment(worker)}/orders", {"pid": pid}, self._lease())

    async def report(self, worker: str, reports: list[MasterReport]) -> list[ReportAnswer]:
        """Of a worker's groups; renews its lease. An answer to each. Others get their turn while they are written: a
        megabyte takes long enough for news of a link to wait."""
        import asyncio

        texts, breath = [], time.monotonic()
        for report in reports:
            texts.append(framing.text(report))
            if time.monotonic() - breath > BREATH_S:
                await asyncio.sleep(0)
                breath = time.monotonic()
        path, body = f"/workers/{segment(worker)}/reports", b"\n".join(texts)
        return (await self.told(ReportAnswers, "POST", path, body, headers=self._lease())).answers

    async def leave(self, worker: str) -> None:
        """The worker ends: its groups are free."""
        await self.request("POST", f"/workers/{segment(worker)}/leave", {}, headers=self._lease())

    def _lease(self) -> dict[str, str]:
        return {"x-datacast-lease": self.lease}

    async def tree_ids(self, count: int) -> list[int]:
        """Reserve ids that no other tree has or will have."""
        return (await self.told(TreeIds, "POST", "/trees", {"count": count})).ids

    async def sets(self) -> dict[str, list[str]]:
        return await self.told(dict[str, list[str]], "GET", "/sets")

    async def get_set(self, name: str) -> HostSet:
        return await self.told(HostSet, "GET", f"/sets/{segment(name)}")

    async def put_set(self, name: str, hosts: list[str]) -> HostSet:
        return await self.told(HostSet, "PUT", f"/sets/{segment(name)}", {"hosts": hosts})

    async def delete_set(self, name: str) -> None:
        await self.request("DELETE", f"/sets/{segment(name)}")

    async def site_groups(self) -> dict[str, str]:
        """What the controller has put there, by id."""
        return await self.told(dict[str, str], "GET", "/site-groups")

    async def put_site_group(self, group: str, text: str) -> None:
        await self.request("PUT", f"/site-groups/{segment(group)}", {"text": text})

    async def delete_site_group(self, group: str) -> None:
        await self.request("DELETE", f"/site-groups/{segment(group)}")

    def events(self, topics: list[str], group: str | None = None, since: str | None = None) -> AsyncIterator[str]:
        """Events, each as text. Topics: `topology` (a `topology` snapshot first, then `link` and `node`), `groups`
        (`groups`, the summaries of all, then `group`). `since`: the `event` of the last one heard; then what was
        missed, where that is known."""
        params = {"topics": ",".join(topics)}
        if since is not None:
            params["since"] = since
        if group:
            params["group"] = group
        return self.texts("/events", params)

    def topology_changes(self) -> AsyncIterator[str]:
        """Events of the topology, each as text (topology.py)."""
        return self.texts("/events", {"topics": "topology"})


def _cap(host: str | None) -> str:
    return "/caps/fabric" if host is None else f"/caps/hosts/{segment(host)}"
