"""The console: pages that a browser runs, and the session that lets it ask the REST API.

A token becomes a cookie that scripts cannot read. It holds the token itself: nothing is kept here, so any controller
serves any session, and a revoked token ends it. Requests by cookie that change something must come from this site
(access.py).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

from annotated_types import MaxLen, MinLen
from fastapi import APIRouter, Body, Request, Response
from fastapi import Path as InPath
from fastapi.responses import FileResponse, JSONResponse
from starlette.requests import cookie_parser

from datacast.fabric_manager.api import FabricManagerClient
from datacast.services.problems import Problem
from datacast.services.tokens import TokenFile

from .asked import ASKED

COOKIE = "datacast"
COOKIE_S = 12 * 3600
HEADERS = {
    "content-security-policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}
DOCS_HEADERS = {**HEADERS, "content-security-policy": f"{HEADERS['content-security-policy']}; img-src 'self' data:"}
"""Its style has pictures in it."""
TYPES = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}


def folder() -> Path | None:
    """Where its files lie: of the source tree's build, or of the installed package."""
    tree = Path(__file__).resolve().parents[1] / "build" / "console"
    for path in (os.environ.get("DATACAST_CONSOLE"), tree, Path(sys.prefix) / "share" / "datacast" / "console"):
        if path and (Path(path) / "index.html").is_file():
            return Path(path)
    return None


def files(root: Path | None) -> dict[str, Path]:
    """What may be had, by name: nothing else is ever opened."""
    if root is None:
        return {}
    return {path.relative_to(root).as_posix(): path for path in root.rglob("*") if path.suffix in TYPES}


def cookie_of(headers: dict[str, str]) -> str:
    """The token of a request's cookie; empty: none. Others, of whatever form, are those of other ports."""
    return cookie_parser(headers.get("cookie", "")).get(COOKIE, "")


def router(client: FabricManagerClient, tokens: TokenFile | None) -> APIRouter:
    known = files(folder())
    here = APIRouter(include_in_schema=False, dependencies=ASKED)

    def file(name: str, headers: dict[str, str] = HEADERS) -> Response:
        path = known.get(name)
        if path is None:
            raise Problem(
                404,
                "not_found",
                f"the console has no file {name}" if known else "the console is not built",
                what=name,
                remedy="" if known else "make build",
            )
        return FileResponse(path, media_type=TYPES[path.suffix], headers=headers)

    @here.get("/")
    async def index() -> Response:
        return file("index.html")

    @here.get("/docs")
    async def docs() -> Response:
        """The REST API for people. It may ask for what the signed-in one may, so no script of it is anybody else's."""
        return file("docs.html", DOCS_HEADERS)

    @here.get("/console/layout")
    async def layout() -> JSONResponse:
        """Where every node stands on the map."""
        import networkx as nx  # and NumPy, which nothing else here needs

        from datacast import topologies

        found = await client.topology()
        g = nx.Graph(topology=found.spec)  # what was taken away leaves gaps between ports: no topology of a file
        for node in found.nodes:
            g.add_node(node.name, kind=node.kind)
        g.add_edges_from((link.u, link.v) for link in found.links)
        return JSONResponse({name: [round(x, 5), round(y, 5)] for name, (x, y) in topologies.places(g).items()})

    @here.post("/console/session", status_code=204)
    async def sign_in(request: Request, token: Annotated[str, MinLen(1), MaxLen(512), Body(embed=True)]) -> Response:
        if tokens is not None and tokens.find(token) is None:
            raise Problem(401, "unauthorized", "this token is not known, revoked or expired", what="token")
        response = Response(status_code=204)
        response.set_cookie(
            COOKIE,
            token,
            max_age=COOKIE_S,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
            path="/",
        )
        return response

    @here.delete("/console/session", status_code=204)
    async def sign_out() -> Response:
        response = Response(status_code=204)
        response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
        return response

    @here.get("/console/{name:path}")
    async def page(name: Annotated[str, InPath(max_length=128)]) -> Response:
        return file(name)

    return here
