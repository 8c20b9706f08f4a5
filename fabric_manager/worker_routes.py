"""What workers ask of the fabric manager (docs/signalling.md, "Workers")."""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI, Header, Path, Query, Request, Response

from datacast.services.problems import Problem
from datacast.services.service import answer

from .api.reports import ReportAnswers
from .groups import Groups
from .rights import LEASE_HEADER, only
from .streams import Stream

WorkerName = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Lease = Annotated[str, Header(alias=LEASE_HEADER, pattern=r"^[0-9a-f]{32,64}$")]
REPORTS_MAX = 4096
"""In one request."""


def add_worker_routes(app: FastAPI, groups: Groups) -> None:
    master = [only("master")]

    @app.get("/workers/{name}/orders", dependencies=master)
    async def orders(
        name: WorkerName, lease: Lease, pid: Annotated[int | None, Query(ge=1)] = None
    ) -> Stream:
        worker = groups.placing.workers.connect(name, lease, pid)
        if worker is None or worker.orders is None:
            raise Problem(503, "no_room", "this fabric manager takes no more workers", remedy="ask another one")
        stream = worker.orders
        return Stream(stream, lambda: groups.placing.workers.disconnect(worker, stream))

    @app.post("/workers/{name}/reports", dependencies=master)
    async def reports(name: WorkerName, lease: Lease, request: Request) -> Response:
        """A MasterReport a line: each is read by itself, and news of links gets its turn in between."""
        groups.placing.workers.heard(lease)
        told = (await request.body()).splitlines()
        if len(told) > REPORTS_MAX:
            raise Problem(422, "invalid", f"{len(told)} reports in one request", remedy=f"send at most {REPORTS_MAX}")
        return answer(ReportAnswers(await groups.reports(lease, told)))

    @app.post("/workers/{name}/leave", status_code=200, dependencies=master)
    async def leave(name: WorkerName, lease: Lease) -> Response:
        groups.placing.workers.leave(lease)
        return answer({})
