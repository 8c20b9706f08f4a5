"""The REST API fuzzed from its own description: whatever is sent, no answer is a 5xx and all are as described."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from drawing import TIMES, examples
from hypothesis import HealthCheck, Phase, given, settings
from small import star

from datacast.controller.app import make_app
from datacast.fabric_manager.api import FabricManagerClient
from datacast.services import tokens
from datacast.services.service import HttpServer, listen
from lab import lab

pytestmark = pytest.mark.timeout(300 * max(TIMES, 1))
PARTS = 8
"""Of all operations: to name each of them here would have every test process make the API's description."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A controller with a fabric manager and agents in a thread of their own: its URL and an admin's token."""
    path = tmp_path_factory.mktemp("fuzz") / "tokens.json"
    _, secret = tokens.create(path, "fuzz", "admin")
    there: list[str] = []
    ready, end = threading.Event(), threading.Event()

    async def serve() -> None:
        async with lab(star(4), agents=["h0", "h1", "h2"]) as it, FabricManagerClient(it.manager.url) as client:
            it.world.sizes["/srv/file"] = 1000
            server = HttpServer(make_app(client, tokens=tokens.TokenFile(path)), listen("127.0.0.1:0"))
            await server.start()
            there.append(server.url)
            ready.set()
            while not end.is_set():
                await asyncio.sleep(0.02)
            await server.stop()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert ready.wait(60)
    group = {"source": "h0", "receivers": ["h1"], "source_path": "/srv/file"}
    headers = {"authorization": f"Bearer {secret}"}
    assert httpx.post(there[0] + "/groups", json=group, headers=headers, timeout=60.0).status_code == 201
    yield there[0], secret
    end.set()
    thread.join(60)
    assert not thread.is_alive()


@pytest.fixture(scope="module")
def schema(service: tuple[str, str]) -> Any:
    import schemathesis  # half a second of a processor: not in each test process

    return schemathesis.openapi.from_url(service[0] + "/openapi.json")


def operations(schema: Any) -> list[tuple[str, str]]:
    """Without `/events`, a stream: test_rest.py reads it."""
    return sorted((m.upper(), path) for path in schema if path != "/events" for m in schema[path])


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["positive", "negative"])
@pytest.mark.parametrize("part", range(PARTS))
def test_no_request_breaks_the_controller(service: tuple[str, str], schema: Any, part: int, mode: str) -> None:
    from schemathesis import GenerationMode
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks

    url, secret = service
    chosen = GenerationMode.POSITIVE if mode == "positive" else GenerationMode.NEGATIVE
    held_to = [
        not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_schema_conformance,
    ]
    for method, path in operations(schema)[part::PARTS]:
        operation = schema[path][method]
        if mode == "negative" and not (operation.path_parameters or operation.query or operation.body):
            continue  # nothing that could be wrong

        @settings(
            max_examples=examples(6),
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=chosen))
        def each(case: Any) -> None:
            response = case.call(base_url=url, headers={"authorization": f"Bearer {secret}"}, timeout=90)
            case.validate_response(response, checks=held_to)

        each()


def test_it_still_works_afterwards(service: tuple[str, str]) -> None:
    url, secret = service
    answer = httpx.get(url + "/topology", headers={"authorization": f"Bearer {secret}"}, timeout=60.0)
    assert answer.status_code == 200 and len(answer.json()["nodes"]) == 5


def test_operations_are_all_there(schema: Any) -> None:
    assert len(operations(schema)) >= 15 and ("POST", "/groups") in operations(schema)
