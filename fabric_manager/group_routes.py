"""What the controller asks about groups."""

from __future__ import annotations

import time
from typing import Annotated
from urllib.parse import unquote

from annotated_types import Ge, Le, MaxLen, MinLen
from fastapi import Body, FastAPI, Header, Query, Response

from datacast.origins.ranges import PIECES_MAX
from datacast.services.service import answer

from .api import BY_MAX, GroupSpec, Name, orders
from .api import Path as FilePath
from .api.records import Cordon, Disk, Fetched, GroupSummary, Host, MasterOf
from .fabric import Fabric
from .groups import Groups
from .record import Record, summary, told
from .rights import only

PAGE_MAX = 1000
Count = Annotated[int, Ge(0), Le(1 << 63)]
Key = Annotated[str | None, Header(alias="idempotency-key", pattern=r"^[!-~]{1,256}$")]
By = Annotated[str, Header(alias="x-datacast-by", max_length=3 * 4 * BY_MAX)]
"""Written as in a URL: a header takes neither all letters nor ends of lines."""
Bps = Annotated[int, Ge(1000), Le(10**15), Body(embed=True)]
Label = Annotated[str, MinLen(1), MaxLen(330)]


def add_group_routes(app: FastAPI, fabric: Fabric, groups: Groups) -> None:
    controller = [only("controller")]

    def record_of(record: Record, status: int = 200) -> Response:
        return answer(told(record, groups.divider.share_of(record.id)), status)

    @app.post("/groups", status_code=201, dependencies=controller)
    async def create(
        spec: GroupSpec,
        x_datacast_accepted_ns: Annotated[int | None, Header()] = None,
        idempotency_key: Key = None,
        x_datacast_by: By = "",
    ) -> Response:
        by = unquote(x_datacast_by)
        record = await groups.create(spec, x_datacast_accepted_ns or time.time_ns(), by, idempotency_key)
        return record_of(record, 201)

    @app.post("/plan", dependencies=controller)
    async def plan(spec: GroupSpec, size: Annotated[int | None, Query(ge=0)] = None) -> Response:
        return answer(await groups.plan(spec, size))

    @app.get("/groups", dependencies=controller)
    async def listing(
        state: str | None = None,
        source: str | None = None,
        requested_by: str | None = None,
        label: Annotated[list[Label], Query(max_length=32)] = [],  # noqa: B006 - FastAPI's own form
        after: str | None = None,
        limit: Annotated[int, Ge(1), Le(PAGE_MAX)] = PAGE_MAX,
    ) -> Response:
        wanted = [text.partition("=")[::2] for text in label]
        start = groups.get(after) if after else None
        rows: list[GroupSummary] = []
        for record in groups.all(state):
            if start and (record.created_ns, record.id) <= (start.created_ns, start.id):
                continue
            if source not in (None, record.spec.source) or requested_by not in (None, record.requested_by):
                continue
            if any(record.spec.labels.get(name) != value for name, value in wanted):
                continue
            rows.append(summary(record, GroupSummary))
            if len(rows) == limit:
                break
        return answer(rows)

    @app.get("/groups/{group}", dependencies=controller)
    async def one(group: str) -> Response:
        return record_of(groups.get(group))

    @app.get("/groups/{group}/master", dependencies=controller)
    async def master_of(group: str) -> Response:
        """The worker that runs it, and its process id on its machine."""
        record = groups.get(group)
        worker = groups.placing.workers.find(record.lease)
        return answer(MasterOf(worker=record.owner, epoch=record.epoch, pid=worker.pid if worker else None))

    @app.post("/groups/{group}/cancel", dependencies=controller)
    async def cancel(group: str) -> Response:
        return record_of(await groups.cancel(group))

    @app.delete("/groups/{group}", dependencies=controller)
    async def forget(group: str) -> Response:
        record = await groups.forget(group)
        return record_of(record)

    @app.post("/groups/{group}/resume", dependencies=controller)
    async def resume(group: str) -> Response:
        return record_of(await groups.resume(group))

    @app.post("/groups/{group}/offers", dependencies=controller)
    async def offer(
        group: str, pieces: Annotated[list[tuple[Count, Count]], MaxLen(PIECES_MAX), Body(embed=True)]
    ) -> Response:
        groups.tell(group, orders.Offers(pieces=pieces))
        return answer({})

    @app.get("/groups/{group}/fetched", dependencies=controller)
    async def fetched(group: str) -> Response:
        return answer(Fetched(groups.get(group).progress.fetched))

    @app.post("/groups/{group}/receivers", dependencies=controller)
    async def add_receiver(
        group: str, host: Annotated[Name, Body()], dest_path: Annotated[FilePath | None, Body()] = None
    ) -> Response:
        return record_of(await groups.add_receiver(group, host, dest_path))

    @app.delete("/groups/{group}/receivers/{host}", dependencies=controller)
    async def remove_receiver(group: str, host: str) -> Response:
        return record_of(await groups.remove_receiver(group, host))

    @app.get("/hosts", dependencies=controller)
    async def hosts() -> Response:
        busy: dict[str, list[str]] = {}
        caps = groups.rate_caps.hosts
        for record in groups.unfinished():
            for name in dict.fromkeys((*record.spec.roots, *record.receivers)):
                busy.setdefault(name, []).append(record.id)
        return answer(
            [
                Host(
                    name=node.name,
                    registered=node.registered,
                    alive=node.alive,
                    cordoned=groups.cordons.reason(node.name),
                    most_bps=caps.get(node.name),
                    groups=busy.get(node.name, []),
                    version=node.version,
                    clock_ms=node.clock_ms,
                    certificate_until=node.certificate_until,
                    disks=[
                        Disk(path=path, free_bytes=free, size_bytes=size)
                        for path, (free, size) in zip(node.dest_roots, node.disks, strict=False)
                    ],
                )
                for node in fabric.nodes.values()
                if node.kind == "host" and not node.removed
            ]
        )

    @app.get("/caps", dependencies=controller)
    async def rate_caps() -> Response:
        return answer(groups.rate_caps.told())

    @app.put("/caps/fabric", dependencies=controller)
    async def cap_fabric(most_bps: Bps) -> Response:
        await groups.rate_caps.put(None, most_bps)
        return answer(groups.rate_caps.told())

    @app.delete("/caps/fabric", dependencies=controller)
    async def uncap_fabric() -> Response:
        await groups.rate_caps.delete(None)
        return answer(groups.rate_caps.told())

    @app.put("/caps/hosts/{host}", dependencies=controller)
    async def cap_host(host: str, most_bps: Bps) -> Response:
        await groups.rate_caps.put(host, most_bps)
        return answer(groups.rate_caps.told())

    @app.delete("/caps/hosts/{host}", dependencies=controller)
    async def uncap_host(host: str) -> Response:
        await groups.rate_caps.delete(host)
        return answer(groups.rate_caps.told())

    @app.put("/hosts/{host}/cordon", dependencies=controller)
    async def cordon(host: str, reason: Annotated[str, MaxLen(256), Body(embed=True)] = "") -> Response:
        await groups.cordons.put(host, reason)
        return answer(Cordon(name=host, cordoned=reason))

    @app.delete("/hosts/{host}/cordon", dependencies=controller)
    async def uncordon(host: str) -> Response:
        await groups.cordons.delete(host)
        return answer(Cordon(name=host, cordoned=None))

    @app.put("/switches/{switch}/cordon", dependencies=controller)
    async def cordon_switch(switch: str, reason: Annotated[str, MaxLen(256), Body(embed=True)] = "") -> Response:
        await groups.cordons.put_switch(switch, reason)
        return answer(Cordon(name=switch, cordoned=reason))

    @app.delete("/switches/{switch}/cordon", dependencies=controller)
    async def uncordon_switch(switch: str) -> Response:
        await groups.cordons.delete(switch)
        return answer(Cordon(name=switch, cordoned=None))
