"""The controller answers as it describes, and asks of bodies what the fabric manager asks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from inspect import iscoroutinefunction
from typing import Any, cast
from unittest.mock import MagicMock

import httpx
import pytest
from made_records import group, topology

from datacast.controller.app import make_app
from datacast.fabric_manager.api import FabricManagerClient
from datacast.fabric_manager.http import make_app as make_fabric_app

ORDER = {"source": "h0", "receivers": ["h1"], "source_path": "/srv/file"}
BODIES = {
    "POST /groups": ORDER,
    "POST /plan": ORDER,
    "POST /groups/{group}/receivers": {"host": "h2"},
    "PUT /sets/{name}": {"hosts": ["h1"]},
    "PUT /topology/nodes/{node}": {"kind": "host", "links": [{"to": "s"}]},
    "PUT /caps/fabric": {"most_bps": 10**9},
    "PUT /caps/hosts/{host}": {"most_bps": 10**9},
    "PUT /hosts/{host}/cordon": {"reason": "disk"},
    "PUT /switches/{switch}/cordon": {"reason": "fan"},
}
ANSWERS: dict[str, Any] = {
    "create_group": group(id="g-1", source="h0"),
    "groups": [],
    "topology": topology(spec="star"),
}
"""Those of which more than their being there is looked at."""
LIMITS = ("maxLength", "minLength", "maximum", "minimum", "exclusiveMaximum", "maxItems", "minItems", "maxProperties")
OPEN = ("/console", "/events", "/metrics", "/healthz", "/switches", "/sites", "/site")


class Agreeable:
    """A fabric manager that does all it is told."""

    def __getattr__(self, name: str) -> Any:
        async def done(*_: Any, **__: Any) -> Any:
            return ANSWERS.get(name, {})

        return done


def operations(app: Any) -> dict[str, Any]:
    return {f"{m.upper()} {path}": one for path, all_ in app.openapi()["paths"].items() for m, one in all_.items()}


@cache
def own() -> Any:
    """One for all tests: an app and its description take half a second of a processor."""
    return make_app(cast(FabricManagerClient, Agreeable()))


def carried() -> list[str]:
    return sorted(name for name in operations(own()) if not name.split()[1].startswith(OPEN))


async def test_what_is_done_is_answered_with_the_status_that_is_described() -> None:
    """In one test: to know the operations takes an app, and each test process would make it only to list them."""

    async def asked(operation: str) -> httpx.Response:
        method, path = operation.split()
        async with httpx.AsyncClient(transport=httpx.ASGITransport(own()), base_url="http://controller") as http:
            return await http.request(method, re.sub(r"\{\w+\}", "h2", path), json=BODIES.get(operation))

    described, answered = {}, {}
    for name in carried():
        described[name] = [int(status) for status in operations(own())[name]["responses"] if status.startswith("2")]
        answered[name] = [(await asked(name)).status_code]
    assert len(described) > 20 and answered == described


def limits(operation: Any, schemas: Any) -> dict[str, Any]:
    """What is asked of each member of a body, by its name."""

    def of(schema: Any) -> dict[str, Any]:
        found = {key: value for key, value in schema.items() if key in LIMITS}
        for one in [*schema.get("anyOf", []), *([schema["items"]] if isinstance(schema.get("items"), dict) else [])]:
            found |= of(one)
        return found

    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    body = schemas.get(body.get("$ref", "").rpartition("/")[2], body)
    return {name: of(member) for name, member in body.get("properties", {}).items()}


def test_the_controller_bounds_what_the_fabric_manager_bounds_and_alike() -> None:
    fabric = make_fabric_app(MagicMock(), MagicMock(), MagicMock(), MagicMock())
    here, there = operations(own()), operations(fabric)
    names = {re.sub(r"\{\w+\}", "{}", name): name for name in there}
    compared = 0
    for name, operation in here.items():
        if (other := names.get(re.sub(r"\{\w+\}", "{}", name))) is not None:
            own_limits = limits(operation, own().openapi()["components"]["schemas"])
            others = limits(there[other], fabric.openapi()["components"]["schemas"])
            assert {m: {key: own_limits[m].get(key) for key in others[m]} for m in others} == others, name
            compared += bool(others)
    assert compared >= 6


async def test_nothing_of_an_endpoint_is_found_out_while_a_request_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    app = make_app(cast(FabricManagerClient, Agreeable()))

    def never(**_: object) -> None:
        raise AssertionError("an endpoint's parameters were looked at")

    monkeypatch.setattr("fastapi.routing.get_dependant", never)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://controller") as http:
        assert (await http.get("/groups")).status_code == 200


def called(dependant: Any) -> Iterator[Callable[..., Any]]:
    yield dependant.call
    for one in dependant.dependencies:
        yield from called(one)


def test_no_request_waits_for_a_thread() -> None:
    """FastAPI calls plain functions in one: where processors are busy, each request then waits for two turns."""
    fabric = make_fabric_app(MagicMock(), MagicMock(), MagicMock(), MagicMock())
    routes = [route for app in (own(), fabric) for route in app.routes if hasattr(route, "dependant")]
    assert len(routes) > 60
    plain = {
        f"{route.path}: {call}"
        for route in routes
        for call in called(route.dependant)
        if not iscoroutinefunction(call) and not iscoroutinefunction(type(call).__call__)
    }
    assert not plain
