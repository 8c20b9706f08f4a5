"""What containerd asks a mirror: the part of the distribution API that reads, by digest.

A name's meaning (a tag) is the registry's to tell, so that an image is never an old one: hosts.toml gives this mirror
the capability `pull` alone. What is not here is answered with 404, and containerd goes to the registry.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from .ondemand import OnDemand
from .store import DIGEST, Store

log = logging.getLogger("datacast.mirror")

MANIFEST_MAX = 4 << 20
NAME = re.compile(r"[a-z0-9]+(?:[._/-]+[a-z0-9]+)*")
OTHER = "application/octet-stream"


def _error(status: int, code: str, message: str) -> JSONResponse:
    return JSONResponse({"errors": [{"code": code, "message": message}]}, status_code=status)


def _media_type(path: Path) -> str:
    """Of a manifest or an index, as it says itself."""
    try:
        if path.stat().st_size <= MANIFEST_MAX:
            told = json.loads(path.read_bytes())
            kind = told.get("mediaType") if isinstance(told, dict) else None
            if isinstance(kind, str) and re.fullmatch(r"[\w.+/-]{1,128}", kind):
                return kind
            if isinstance(told, dict) and "manifests" in told:
                return "application/vnd.oci.image.index.v1+json"
    except (OSError, ValueError, RecursionError):
        pass
    return "application/vnd.oci.image.manifest.v1+json"


def make_app(store: Store, on_demand: OnDemand | None) -> Starlette:
    async def base(request: Request) -> Response:
        return JSONResponse({}, headers={"docker-distribution-api-version": "registry/2.0"})

    async def manifest(request: Request) -> Response:
        digest = request.path_params["reference"]
        if not DIGEST.fullmatch(digest):
            return _error(404, "MANIFEST_UNKNOWN", "tags are the registry's to tell")
        path = await asyncio.to_thread(store.find, digest)
        if path is None:
            return _error(404, "MANIFEST_UNKNOWN", f"{digest} is not on this host")
        kind = await asyncio.to_thread(_media_type, path)
        return FileResponse(path, media_type=kind, headers={"docker-content-digest": digest})

    async def blob(request: Request) -> Response:
        digest, name = request.path_params["digest"], request.path_params["name"]
        if not DIGEST.fullmatch(digest) or len(name) > 255 or not NAME.fullmatch(name):
            return _error(400, "DIGEST_INVALID", "no name and digest")
        log.info("%s of %s is asked for", digest, name)
        path = await asyncio.to_thread(store.find, digest)
        if path is None and on_demand is not None and request.method == "GET":
            path = await on_demand.fetch(request.query_params.get("ns", ""), name, digest)
        log.info("%s of %s: %s", digest, name, path or "is not on this host")
        if path is None:
            return _error(404, "BLOB_UNKNOWN", f"{digest} is not on this host")
        return FileResponse(path, media_type=OTHER, headers={"docker-content-digest": digest})

    return Starlette(
        routes=[
            Route("/v2/", base),
            Route("/v2/{name:path}/manifests/{reference}", manifest),
            Route("/v2/{name:path}/blobs/{digest}", blob),
        ]
    )
