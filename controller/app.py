"""The REST API. It keeps nothing: groups live in the fabric manager, so a controller may be restarted at any time."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated, Literal
from weakref import WeakSet

import msgspec
from annotated_types import MaxLen, MinLen
from fastapi import Body, FastAPI, Header, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, StreamingResponse
from msgspec import structs

from datacast.fabric_manager.api import FabricManagerClient, Name, NodeSpec
from datacast.fabric_manager.api.records import HostSet
from datacast.fabric_manager.api.topology import NodeState
from datacast.services.problems import Problem
from datacast.services.service import answer, install_problem_handlers
from datacast.services.tokens import TokenFile
from datacast.services.version import installed

from . import console, group_rest
from .access import Access, check_token
from .api.records import Health, Topology
from .asked import ASKED, add_routes
from .audit import Audit
from .metrics import CONTENT_TYPE, AuditMetrics, Fabric, FabricMetrics, Measured, RequestMetrics, render
from .responses import problems
from .sites import rest as sites_rest

if TYPE_CHECKING:
    from datacast.controller.sites.coordinator import Coordinator
    from datacast.controller.southbound.service import Switches

EVENTS = "server-sent events: `groups` and `topology` as they stand, then `group`, `forgotten`, `link`, `node`"
STREAMS_MAX = 256
"""Streams of events at once."""
LOOK_S = 1.0
"""Between looks at whether the token of a stream is good yet, at least. Something comes every few seconds: pings, when
all is still."""

SetName = Annotated[str, Path(description="name of a set of hosts", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Hosts = Annotated[list[Name], MinLen(1), MaxLen(8192)]
NodeName = Annotated[str, Path(description="name of a host or switch", min_length=1, max_length=64)]


class _Head(msgspec.Struct):
    """What is looked at in an event that is passed on."""

    type: str
    event: str = ""


_head: msgspec.json.Decoder[_Head] = msgspec.json.Decoder(_Head)


def make_app(
    client: FabricManagerClient,
    switches: Switches | None = None,
    tokens: TokenFile | None = None,
    rate: float = 0,
    audit: Audit | None = None,
    sites: Coordinator | None = None,
    until: float | None = None,
) -> FastAPI:
    """`switches`: those that this controller programs, None where they need no programming. `tokens`: None where
    everybody who reaches the address may do everything. `rate`: requests a second of one token, 0: any number.
    `audit`: where it is written who changed what. `sites`: groups may reach to other sites. `until`: when the
    certificate of REST ends, where it has one of its own."""
    from datacast.controller.southbound import rest

    app = FastAPI(
        title="Datacast",
        version="1",
        description="Reliable group data delivery: one source, many receivers, "
        "the same file, over edge-disjoint Steiner trees.",
        dependencies=ASKED,
        docs_url=None,  # the console has it: FastAPI's own page takes its scripts from elsewhere
        redoc_url=None,
        openapi_tags=[{"name": "groups"}, {"name": "sets"}, {"name": "fabric"}, {"name": "service"}],
    )
    install_problem_handlers(app)
    add_routes(app, rest.router(switches))
    add_routes(app, console.router(client, tokens))
    own = RequestMetrics()
    if audit is not None:
        own.registry.register(AuditMetrics(audit))
    streams: WeakSet[AsyncIterator[str]] = WeakSet()
    app.add_middleware(Access, tokens=tokens, rate=rate, audit=audit, sites=sites)
    app.add_middleware(Measured, own=own)
    add_routes(app, sites_rest.router(sites))

    add_routes(app, group_rest.router(client, sites))

    @app.get(
        "/sets",
        tags=["sets"],
        responses={200: {"model": dict[str, list[str]]}, **problems(503)},
        response_class=JSONResponse,
        summary="Named sets of hosts",
    )
    async def sets() -> Response:
        return answer(await client.sets())

    @app.get(
        "/sets/{name}",
        tags=["sets"],
        responses={200: {"model": HostSet}, **problems(404, 422, 503)},
        response_class=JSONResponse,
        summary="One set",
    )
    async def get_set(name: SetName) -> Response:
        return answer(await client.get_set(name))

    @app.put(
        "/sets/{name}",
        tags=["sets"],
        responses={200: {"model": HostSet}, **problems(422, 503)},
        response_class=JSONResponse,
        summary="Make or replace a set",
    )
    async def put_set(name: SetName, hosts: Annotated[Hosts, Body(embed=True, examples=[["02", "10"]])]) -> Response:
        return answer(await client.put_set(name, hosts))

    @app.delete(
        "/sets/{name}", status_code=204, tags=["sets"], responses=problems(404, 422, 503), summary="Forget a set"
    )
    async def delete_set(name: SetName) -> Response:
        await client.delete_set(name)
        return Response(status_code=204)

    @app.get(
        "/topology",
        tags=["fabric"],
        responses={200: {"model": Topology}, **problems(503)},
        response_class=JSONResponse,
        summary="Nodes with their agents, links with their state and what they carry",
    )
    async def topology() -> Response:
        found = await client.topology()
        found = structs.replace(found, services={**found.services, "controller": installed()})
        if switches is None:
            return answer(found)
        return answer(Topology(**structs.asdict(found), discovered=await run_in_threadpool(switches.discovered)))

    @app.put(
        "/topology/nodes/{node}",
        tags=["fabric"],
        responses={200: {"model": NodeState}, **problems(409, 422, 503)},
        response_class=JSONResponse,
        summary="Add a host or a switch while all runs; one that was taken away comes back where it was",
    )
    async def add_node(
        node: NodeName, spec: Annotated[NodeSpec, Body(examples=[{"kind": "host", "links": [{"to": "s0.0"}]}])]
    ) -> Response:
        return answer(await client.add_node(node, spec))

    @app.delete(
        "/topology/nodes/{node}",
        status_code=204,
        tags=["fabric"],
        responses=problems(404, 409, 422, 503),
        summary="Take a host or a switch away while all runs; its place is kept",
    )
    async def remove_node(node: NodeName) -> Response:
        await client.remove_node(node)
        return Response(status_code=204)

    @app.get(
        "/events",
        tags=["fabric"],
        response_class=StreamingResponse,
        responses={
            200: {"description": EVENTS, "content": {"text/event-stream": {}}},
            **problems(422, 503),
        },
        summary="Changes as they happen (server-sent events)",
    )
    async def events(
        request: Request,
        topic: Annotated[Literal["all", "groups", "topology"], Query()] = "all",
        group: Annotated[str | None, Query(description="only this group", max_length=64)] = None,
        last_event_id: Annotated[
            str | None, Header(description="id of the last event heard: what was missed follows", max_length=64)
        ] = None,
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
        stream = client.events(topics, group, last_event_id)
        streams.add(stream)  # as long as anybody holds it
        first = await anext(stream, None)  # fails here, with a proper status, when there is no fabric manager
        if first is None:
            raise Problem(503, "ending", "the stream has ended before it began", remedy="ask again in a moment")

        async def sse() -> AsyncIterator[bytes]:
            looked = time.monotonic()
            try:
                yield b"retry: 1000\n\n"
                async for text in stream:
                    if time.monotonic() > looked + LOOK_S:
                        looked = time.monotonic()
                        check_token(request.scope)
                    head = _head.decode(text)
                    if head.type == "ping":
                        yield b": ping\n\n"
                    else:
                        number_of = f"id: {head.event}\n" if head.event else ""
                        yield f"{number_of}event: {head.type}\ndata: {text}\n\n".encode()
            except Problem as problem:
                # The status is out already: say why the stream ends.
                yield f"event: error\ndata: {json.dumps({**problem.to_json(), 'type': 'error'})}\n\n".encode()
            finally:
                streams.discard(stream)

        assert _head.decode(first).type == "hello"
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
            fabric = Fabric(await client.health(), await client.totals(), await client.hosts())
        except Problem:
            fabric = None
        return Response(render(own, FabricMetrics(fabric, client.security.until, until)), media_type=CONTENT_TYPE)

    @app.get(
        "/healthz",
        openapi_extra={"security": [{}]},
        tags=["service"],
        responses={200: {"model": Health}, **problems(503)},
        response_class=JSONResponse,
        summary="200 when this and the fabric manager answer",
    )
    async def healthz() -> Response:
        return answer(Health(fabric_manager=await client.health()))

    return app
