"""What every request of the REST API is held to, and how a part's routes become the app's."""

from __future__ import annotations

from fastapi import APIRouter, Depends, FastAPI, Security
from fastapi.security import HTTPBearer

from datacast.services.service import known_query

BEARER = HTTPBearer(auto_error=False, description="as `datacast token create` printed it; access.py checks it")
ASKED = [Security(BEARER), Depends(known_query)]


def add_routes(app: FastAPI, part: APIRouter) -> None:
    """As they are. FastAPI finds all out once more of a router that it includes, when the first request comes: that one
    took a sixth of a second of a processor."""
    assert part.dependencies == app.router.dependencies
    app.router.routes += part.routes
