"""/site: what controllers ask each other, and this site's agents. /sites: who is known, for people."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from datacast.controller.api.records import KnownSite
from datacast.controller.asked import ASKED
from datacast.controller.responses import problems
from datacast.services.connection import CERTIFICATE, PEER
from datacast.services.problems import Problem
from datacast.services.service import answer
from datacast.services.sites_file import SiteError

from .records import Progress, SiteGroup

if TYPE_CHECKING:
    from .coordinator import Coordinator

PREFIX = "/site/"
SITE = "datacast.site"
"""In a request's scope: the site that asks; "" is a host of this one."""
STREAMS_SITE, STREAMS_HOSTS = 64, 256
"""Objects' ranges on their way to one site, and to this site's hosts."""
GroupId = Annotated[str, Path(pattern=r"^s-[0-9a-f]{16}$")]


class Streamed(StreamingResponse):
    """A range. `end` is called once whatever becomes of it: whoever goes before the first byte never starts `body`."""

    def __init__(self, body: AsyncIterator[bytes], end: Callable[[], Awaitable[None]], headers: dict[str, str]) -> None:
        super().__init__(body, 206, headers, "application/octet-stream")
        self._end = end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._end()


def admit(coordinator: Coordinator | None, scope: Any) -> str:
    """Whose request for /site/… it is, by its certificate; puts the site into the scope. Raises Problem."""
    shown, peer = scope.get(CERTIFICATE), scope.get(PEER)
    if coordinator is None:
        raise Problem(404, "no_sites", "this controller knows no other sites", remedy="start it with --sites")
    if shown is None or peer is None:
        raise Problem(
            401, "no_certificate", f"{scope['path']} takes a certificate that names a role", what=scope["path"]
        )
    site = coordinator.peers.directory.whose(shown)
    if site is None or site not in ("", *coordinator.peers.all):
        raise Problem(403, "unknown_site", f"{peer} is of an authority that is not known here", what=str(peer))
    if peer.role != ("agent" if site == "" else "controller"):
        raise Problem(
            403, "denied", f"{peer}{' of ' + site if site else ''} may not ask for {scope['path']}", what=str(peer)
        )
    scope[SITE] = site
    return f"site {site}" if site else f"host {peer.names[0]}"


def router(known: Coordinator | None) -> APIRouter:
    routes = APIRouter(tags=["sites"], default_response_class=JSONResponse, dependencies=ASKED)
    streams: dict[str, int] = {}

    @routes.get(
        "/sites", responses={200: {"model": list[KnownSite]}, **problems()}, summary="Sites that are known here"
    )
    async def sites() -> Response:
        now = time.monotonic()
        rows = [
            KnownSite(
                name=peer.name, url=peer.url, there=peer.there, problem=peer.problem or peer.shut,
                heard_s=None if peer.heard is None else round(now - peer.heard, 1),
            )
            for peer in (known.peers.all.values() if known else ())
        ]  # fmt: skip
        return answer(rows)

    if known is None:
        return routes
    coordinator = known

    def site_of(request: Request) -> str:
        """Raises Problem: a host of this site asks what only sites may."""
        site: str = request.scope[SITE]
        if not site:
            raise Problem(403, "denied", "this is for other sites' controllers", what=request.url.path)
        return site

    @routes.get("/site/here", include_in_schema=False)
    async def here(request: Request) -> Response:
        """A connection is open, and stays so (peers.py)."""
        site_of(request)
        return Response(status_code=204)

    between = APIRouter(prefix="/site", include_in_schema=False, dependencies=[Depends(coordinator.ready)])

    @between.get("/orders")
    async def orders(request: Request, wait: Annotated[float, Query(ge=0, le=30)] = 0.0) -> JSONResponse:
        found = await coordinator.orders(site_of(request), wait)
        return JSONResponse(found.model_dump(mode="json"))

    @between.post("/groups/{group}/progress")
    async def progress(request: Request, group: GroupId, told: Progress) -> JSONResponse:
        found = await coordinator.heard(group, site_of(request), told)
        return JSONResponse({"cancel": found.cancelled, "why": found.lost.model_dump() if found.lost else None})

    @between.get("/groups/{group}/held")
    async def held(
        request: Request,
        group: GroupId,
        version: Annotated[int, Query(ge=0)] = 0,
        wait: Annotated[float, Query(ge=0, le=30)] = 0.0,
    ) -> JSONResponse:
        found = await coordinator.held(group, site_of(request), version, wait)
        return JSONResponse(found.model_dump(mode="json"))

    @between.get("/objects/{group}")
    async def object_range(
        request: Request,
        group: GroupId,
        folder: Annotated[str | None, Query(description="with which the object's address says that it is one")] = None,
    ) -> Response:
        site: str = request.scope[SITE]
        found = coordinator.offered(group, site) if site else coordinator.groups.get(group)
        if found is None or found.fetched or (not site and found.parent is None):
            raise Problem(404, "not_found", f"no object {group} is offered to you", what=group)
        if request.headers.get("if-match", found.etag) != found.etag:
            raise Problem(412, "changed", f"the object of {group} is another one", what=group)
        if found.size == 0:  # there is no range of it; whoever asks learns that it is empty
            return Response(status_code=416, headers={"content-range": "bytes */0"})
        from .gateway import parse_range  # not loaded where there are no other sites

        first, last = parse_range(request.headers.get("range"), found.size)
        if streams.get(site, 0) >= (STREAMS_SITE if site else STREAMS_HOSTS):
            raise Problem(429, "too_many_streams", "too many ranges at once", what=group, remedy="wait for some to end")
        return await _ranged(found, site, first, last)

    async def _ranged(group: SiteGroup, site: str, first: int, last: int) -> StreamingResponse:
        gateway = coordinator.gateway
        source = gateway.to_site(group, first, last) if site else gateway.to_host(group, first, last)
        streams[site] = streams.get(site, 0) + 1
        try:
            head = await anext(source)
        except BaseException as error:
            streams[site] -= 1
            if isinstance(error, SiteError):
                raise _problem(error) from error
            raise

        async def body() -> AsyncIterator[bytes]:
            try:
                yield head
                async for chunk in source:
                    yield chunk
            except SiteError as error:  # the answer breaks off: whoever asked goes on from there
                raise ConnectionAbortedError(error.message) from error

        async def end() -> None:
            streams[site] -= 1
            await source.aclose()

        headers = {
            "content-range": f"bytes {first}-{last}/{group.size}",
            "content-length": str(last - first + 1),
            "etag": group.etag,
            "accept-ranges": "bytes",
        }
        return Streamed(body(), end, headers)

    routes.include_router(between)
    return routes


def _problem(error: SiteError) -> Problem:
    status = {"not_yet": 503, "site_away": 503, "no_agent": 503, "changed": 412, "not_found": 404}.get(error.code, 502)
    return Problem(status, error.code, error.message, what=error.what)
