"""The REST API. It keeps nothing: groups live in the fabric manager, so a controller may be restarted at any time."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal

from annotated_types import MaxLen, MinLen
from fastapi import Body, FastAPI, Path, Query, Request, Response, Security
from fastapi.responses import JSONResponse, StreamingResponse
from fastapi.security import HTTPBearer

from datacast.fabric_manager.api import FabricManagerClient, GroupSpec, GroupState, Name
from datacast.fabric_manager.api import Path as FilePath
from datacast.services.problems import Problem
from datacast.services.service import install_problem_handlers
from datacast.services.tokens import TokenFile

from .access import Access
from .metrics import CONTENT_TYPE, RequestMetrics, fabric_metrics, render

if TYPE_CHECKING:
    from datacast.controller.southbound.service import Switches

PROBLEM_SCHEMA = {
    "type": "object",
    "required": ["status", "code", "detail", "what", "remedy"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string", "description": "for machines, such as unknown_host"},
        "detail": {"type": "string", "description": "what went wrong"},
        "what": {"type": "string", "description": "the thing at fault: a host, a field, a group"},
        "remedy": {"type": "string", "description": "what helps"},
        "fields": {
            "type": "array",
            "items": {"type": "object", "properties": {"field": {"type": "string"}, "message": {"type": "string"}}},
        },
    },
}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    texts = {
        401: "No token, or one that is not known",
        403: "The token's role does not reach so far",
        404: "Not there",
        409: "Cannot be done now",
        408: "The body did not come",
        413: "The body is too large",
        422: "The request is not valid; `fields` names the culprits",
        429: "Too many requests, groups or streams",
        503: "The fabric manager does not answer",
    }
    statuses = (*statuses, 401, 403, 408, 413, 429)
    return {
        status: {"description": texts[status], "content": {"application/problem+json": {"schema": PROBLEM_SCHEMA}}}
        for status in statuses
    }


BEARER = HTTPBearer(auto_error=False, description="as `datacast token create` printed it; access.py checks it")
STREAMS_MAX = 256
"""Streams of events at once."""

GroupId = Annotated[str, Path(description="as POST /groups returned it", examples=["g-1f3a5b7c"], max_length=64)]
SetName = Annotated[str, Path(description="name of a set of hosts", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Hosts = Annotated[list[Name], MinLen(1), MaxLen(8192)]

EXAMPLE = {
    "source": "00",
    "receivers": ["02", "10", "21", "23", "31", "33"],
    "source_path": "/srv/image.raw",
    "dest_path": "image.raw",
    "options": {"trees": 2, "cache_bytes": 131072},
}


def make_app(
    client: FabricManagerClient,
    switches: Switches | None = None,
    tokens: TokenFile | None = None,
    rate: float = 0,
) -> FastAPI:
    """`switches`: those that this controller programs, None where they need no programming. `tokens`: None where
    everybody who reaches the address may do everything. `rate`: requests a second of one token, 0: any number."""
    from datacast.controller.southbound import rest

    app = FastAPI(
        title="Datacast",
        version="1",
        description="Reliable group data delivery: one source, many receivers, "
        "the same file, over edge-disjoint Steiner trees.",
        dependencies=[Security(BEARER)],
        openapi_tags=[{"name": "groups"}, {"name": "sets"}, {"name": "fabric"}, {"name": "service"}],
    )
    install_problem_handlers(app)
    app.include_router(rest.router(switches, problems(404, 422), problems()))
    own = RequestMetrics()
    streams: set[object] = set()
    app.add_middleware(Access, tokens=tokens, rate=rate)

    @app.middleware("http")
    async def measure(request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
        request.state.accepted_ns = time.time_ns()
        started = time.perf_counter()
        response = await answer(request)
        route = getattr(request.scope.get("route"), "path", "unknown")
        own.requests.labels(route, request.method if route != "unknown" else "any", response.status_code).inc()
        own.seconds.labels(route).observe(time.perf_counter() - started)
        return response

    @app.post(
        "/groups",
        status_code=201,
        tags=["groups"],
        responses=problems(409, 422, 503),
        response_class=JSONResponse,
        summary="Start a group: deliver a file from one host to many",
    )
    async def create(request: Request, spec: Annotated[GroupSpec, Body(examples=[EXAMPLE])]) -> JSONResponse:
        from dataclasses import asdict

        group = await client.create_group(asdict(spec), request.state.accepted_ns)
        return JSONResponse(group, status_code=201, headers={"location": f"/groups/{group['id']}"})

    @app.get(
        "/groups",
        tags=["groups"],
        responses=problems(422, 503),
        response_class=JSONResponse,
        summary="All groups, oldest first, without their per-receiver figures",
    )
    async def listing(
        state: Annotated[GroupState | None, Query(description="only groups in this state")] = None,
    ) -> JSONResponse:
        return JSONResponse(await client.groups(state))

    @app.get(
        "/groups/{group}",
        tags=["groups"],
        responses=problems(404, 422, 503),
        response_class=JSONResponse,
        summary="One group: progress, rate, duplicates, retransmissions and state per receiver and per tree",
    )
    async def one(group: GroupId) -> JSONResponse:
        return JSONResponse(await client.group(group))

    @app.delete(
        "/groups/{group}",
        status_code=202,
        tags=["groups"],
        responses=problems(404, 422, 503),
        response_class=JSONResponse,
        summary="Cancel a group; one that has ended stays as it is",
    )
    async def cancel(group: GroupId) -> JSONResponse:
        return JSONResponse(await client.cancel_group(group), status_code=202)

    @app.post(
        "/groups/{group}/resume",
        status_code=202,
        tags=["groups"],
        responses=problems(404, 409, 422, 503),
        response_class=JSONResponse,
        summary="Start a group again that has failed or reached some receivers; they go on from what they have",
    )
    async def resume(group: GroupId) -> JSONResponse:
        return JSONResponse(await client.resume_group(group), status_code=202)

    @app.post(
        "/groups/{group}/receivers",
        status_code=202,
        tags=["groups"],
        responses=problems(404, 409, 422, 503),
        response_class=JSONResponse,
        summary="One receiver more; it is served when the others are done",
    )
    async def add_receiver(
        group: GroupId,
        host: Annotated[Name, Body(examples=["32"])],
        dest_path: Annotated[FilePath | None, Body(description="where this one wants it; else as the others")] = None,
    ) -> JSONResponse:
        return JSONResponse(await client.add_receiver(group, host, dest_path), status_code=202)

    @app.delete(
        "/groups/{group}/receivers/{host}",
        status_code=202,
        tags=["groups"],
        responses=problems(404, 409, 422, 503),
        response_class=JSONResponse,
        summary="One receiver less; what it has is dropped",
    )
    async def remove_receiver(
        group: GroupId, host: Annotated[str, Path(description="a host's name", max_length=128)]
    ) -> JSONResponse:
        return JSONResponse(await client.remove_receiver(group, host), status_code=202)

    @app.get(
        "/sets", tags=["sets"], responses=problems(503), response_class=JSONResponse, summary="Named sets of hosts"
    )
    async def sets() -> JSONResponse:
        return JSONResponse(await client.sets())

    @app.get(
        "/sets/{name}", tags=["sets"], responses=problems(404, 422, 503), response_class=JSONResponse, summary="One set"
    )
    async def get_set(name: SetName) -> JSONResponse:
        return JSONResponse(await client.get_set(name))

    @app.put(
        "/sets/{name}",
        tags=["sets"],
        responses=problems(422, 503),
        response_class=JSONResponse,
        summary="Make or replace a set",
    )
    async def put_set(
        name: SetName, hosts: Annotated[Hosts, Body(embed=True, examples=[["02", "10"]])]
    ) -> JSONResponse:
        return JSONResponse(await client.put_set(name, hosts))

    @app.delete(
        "/sets/{name}", status_code=204, tags=["sets"], responses=problems(404, 422, 503), summary="Forget a set"
    )
    async def delete_set(name: SetName) -> Response:
        await client.delete_set(name)
        return Response(status_code=204)

    @app.get(
        "/topology",
        tags=["fabric"],
        responses=problems(503),
        response_class=JSONResponse,
        summary="Nodes with their agents, links with their state and what they carry",
    )
    async def topology() -> JSONResponse:
        found = await client.topology()
        if switches is not None:
            found["discovered"] = switches.discovered()
        return JSONResponse(found)

    @app.get(
        "/events",
        tags=["fabric"],
        response_class=StreamingResponse,
        responses={
            200: {"description": "server-sent events: `group`, `link`, `node`", "content": {"text/event-stream": {}}},
            **problems(422, 503),
        },
        summary="Changes as they happen (server-sent events)",
    )
    async def events(
        topic: Annotated[Literal["all", "groups", "topology"], Query()] = "all",
        group: Annotated[str | None, Query(description="only this group", max_length=64)] = None,
    ) -> StreamingResponse:
        topics = (
            ["groups"]
            if topic == "groups" or group
            else ["topology"]
            if topic == "topology"
            else ["groups", "topology"]
        )
        if len(streams) >= STREAMS_MAX:
            raise Problem(429, "too_many_streams", f"{STREAMS_MAX} streams are open, that is the most")
        stream, number = client.events(topics, group), object()
        first = await anext(stream)  # fails here, with a proper status, when there is no fabric manager

        async def sse() -> AsyncIterator[bytes]:
            streams.add(number)
            try:
                yield b"retry: 1000\n\n"
                async for event in stream:
                    if event["type"] == "ping":
                        yield b": ping\n\n"
                    else:
                        yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
            except Problem as problem:
                # The status is out already: say why the stream ends.
                yield f"event: error\ndata: {json.dumps({'type': 'error', **problem.to_json()})}\n\n".encode()
            finally:
                streams.discard(number)

        assert first["type"] == "hello"
        return StreamingResponse(sse(), media_type="text/event-stream", headers={"cache-control": "no-store"})

    @app.get(
        "/metrics",
        tags=["service"],
        response_class=Response,
        responses={200: {"content": {"text/plain": {}}}, **problems()},
        summary="Prometheus metrics",
    )
    async def metrics() -> Response:
        try:
            health, groups = await client.health(), await client.groups()
            details = [await client.group(g["id"]) for g in groups if g["state"] == "running"]
        except Problem:
            health, groups, details = None, [], []
        return Response(render(own.registry, fabric_metrics(health, groups, details)), media_type=CONTENT_TYPE)

    @app.get(
        "/healthz",
        openapi_extra={"security": [{}]},
        tags=["service"],
        responses=problems(503),
        response_class=JSONResponse,
        summary="200 when this and the fabric manager answer",
    )
    async def healthz() -> JSONResponse:
        return JSONResponse({"status": "ok", "fabric_manager": await client.health()})

    return app
