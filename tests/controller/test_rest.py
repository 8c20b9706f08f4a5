"""The REST API: every request that can go wrong, what it answers, and what the good ones do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from importlib import metadata
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from small import bcube41, star, until

from datacast.controller.app import make_app
from datacast.fabric_manager.api import FabricManagerClient
from datacast.services.service import HttpServer, listen
from lab import lab, rest

GOOD = {"source": "h0", "receivers": ["h1"], "source_path": "/srv/file"}


def check_problem(answer: httpx.Response, status: int, code: str, field: str | None = None) -> dict[str, Any]:
    body = answer.json()
    assert (answer.status_code, body["code"]) == (status, code), body
    assert answer.headers["content-type"] == "application/problem+json"
    assert body["status"] == status and body["detail"] and "remedy" in body and "what" in body
    if field is not None:
        assert field in [f["field"] for f in body["fields"]], body
    return body


BAD_GROUPS = [
    ({"source": "zz"}, 422, "unknown_host", "source"),
    ({"receivers": ["h1", "zz"]}, 422, "unknown_host", "receivers"),
    ({"receivers": ["s"]}, 422, "not_a_host", "receivers"),
    ({"source": "s"}, 422, "not_a_host", "source"),
    ({"source": None}, 422, "no_source", "source"),
    ({"source_path": None}, 422, "bad_path", "source_path"),
    ({"receivers": ["h1", "h0"]}, 422, "source_among_receivers", "receivers"),
    ({"receivers": []}, 422, "no_receivers", "receivers"),
    ({"receivers": None}, 422, "no_receivers", "receivers"),
    ({"receivers": ["h1"], "receiver_set": "rack"}, 422, "no_receivers", "receivers"),
    ({"receivers": ["h1", "h2", "h1"]}, 422, "duplicate_receivers", "receivers"),
    ({"receivers": None, "receiver_set": "nope"}, 422, "unknown_set", "receiver_set"),
    ({"receivers": ["h3"]}, 409, "no_agent", None),
    ({"source": "h3"}, 409, "no_agent", None),
    ({"source_path": "relative/file"}, 422, "bad_path", "source_path"),
    ({"source_path": "/srv/dir/"}, 422, "bad_path", "source_path"),
    ({"source_path": "/srv/\0"}, 422, "bad_path", "source_path"),
    ({"dest_path": "a\0b"}, 422, "bad_path", "dest_path"),
    ({"source_path": ""}, 422, "bad_path", "source_path"),
    ({"dest_path": "../out"}, 422, "bad_path", "dest_path"),
    ({"dest_path": "/srv/../etc/x"}, 422, "bad_path", "dest_path"),
    ({"options": {"cc": "vegas"}}, 422, "invalid", "options.cc"),
    ({"source_path": "/" + "x" * 5000}, 422, "invalid", "source_path"),
    ({"source": 7}, 422, "invalid", "source"),
    ({"source": "\ud800"}, 422, "invalid", "source"),
    ({"receivers": "some"}, 422, "invalid", None),
    ({"receivers": [["h1"]]}, 422, "invalid", None),
    ({"recievers": ["h1"]}, 422, "invalid", "recievers"),
    ({"options": {"tres": 2}}, 422, "invalid", "options.tres"),
    ({"options": {"trees": 0}}, 422, "invalid", "options.trees"),
    ({"options": {"trees": "many"}}, 422, "invalid", "options.trees"),
    ({"options": {"cache_bytes": -1}}, 422, "invalid", "options.cache_bytes"),
    ({"options": {"credits": 100_000}}, 422, "invalid", "options.credits"),
    ({"options": {"lease_ms": 1}}, 422, "invalid", "options.lease_ms"),
    ({"options": None}, 422, "invalid", "options"),
    ({"scatter": True, "shards": {"h1": ["1/2"]}}, 422, "bad_shards", "scatter"),
    ({"shards": {"h2": ["1/2"]}}, 422, "bad_shards", "shards"),
    ({"shards": {"h1": ["9-3"]}}, 422, "bad_shards", "shards"),
    ({"shards": {"h1": ["0-3", "3/2"]}}, 422, "bad_shards", "shards"),
    ({"shards": {"h1": ["-3"]}}, 422, "invalid", None),
    ({"shards": {"h1": ["0-1"] * 65}}, 422, "invalid", None),
    ({"scatter": True, "sha256": "ab" * 32}, 422, "bad_shards", "scatter"),
    ({"scatter": True, "url": "https://x/y", "source": None, "source_path": None}, 422, "bad_shards", "scatter"),
]


async def test_every_bad_group_is_refused_with_its_code_and_field_and_nothing_is_started() -> None:
    async with lab(star(4), agents=["h0", "h1", "h2"]) as it, rest(it.manager.url) as http:
        for change, status, code, field in BAD_GROUPS:
            body = {k: v for k, v in {**GOOD, **change}.items() if v is not None or k == "options"}
            answer = await http.post(
                "/groups", content=json.dumps(body), headers={"content-type": "application/json"}
            )
            check_problem(answer, status, code, field)
        assert (await http.get("/groups")).json() == []


async def test_of_all_and_of_a_set_it_is_told_why_nobody_is_meant() -> None:
    """Before the agents are there. That a host should be named was said to who had named all."""
    async with lab(star(2), agents=["h0"]) as it, rest(it.manager.url) as http:
        await http.put("/sets/rack", json={"hosts": ["h0"]})
        everybody = await http.post("/groups", json={**GOOD, "receivers": "all"})
        rack = await http.post("/groups", json={"source": "h0", "source_path": "/srv/file", "receiver_set": "rack"})
    assert "has an agent" in check_problem(everybody, 422, "no_receivers", "receivers")["detail"]
    assert "rack" in check_problem(rack, 422, "no_receivers", "receivers")["detail"]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b'"x"', b"\xff\xfe", b"[" * 100_000])
async def test_bodies_that_are_no_object(content: bytes) -> None:
    async with lab(star(2)) as it, rest(it.manager.url) as http:
        answer = await http.post("/groups", content=content, headers={"content-type": "application/json"})
    assert answer.status_code == 422 and answer.json()["fields"], answer.text


async def test_a_group_from_post_to_done() -> None:
    async with lab(bcube41(), rates=[1388.0]) as it, rest(it.manager.url) as http:
        it.world.sizes["/srv/file"] = 6_000_000
        answer = await http.post(
            "/groups",
            json={
                "source": "00",
                "receivers": "all",
                "source_path": "/srv/file",
                "options": {"trees": 1, "cache_bytes": 65536, "credits": 20},
            },
        )
        record = await it.end(answer.json())
        shown = (await http.get(answer.headers["location"])).json()
        listed = (await http.get("/groups", params={"state": "done"})).json()
        none = (await http.get("/groups", params={"state": "failed"})).json()
        again = await http.post(answer.headers["location"] + "/cancel")
    assert answer.status_code == 201 and answer.json()["state"] == "starting"
    assert shown == record and record["state"] == "done" and len(record["receivers"]) == 15
    assert [g["id"] for g in listed] == [record["id"]] and none == []
    assert listed[0]["receivers_done"] == 15
    (transport,) = record["report"]["transport"]
    assert transport["cache_bytes"] == 65536 and transport["credits"] == 20
    assert record["dest_path"] == "file", "without a destination: the file's name"
    assert again.status_code == 202 and again.json()["state"] == "done"


async def test_delete_cancels() -> None:
    async with lab(star(3), rates=[50.0]) as it, rest(it.manager.url) as http:
        group = await it.start("h0", ["h1", "h2"], 50_000_000)
        await it.running(group)
        answer = await http.post(f"/groups/{group['id']}/cancel")
        record = await it.end(group)
    assert answer.status_code == 202 and answer.json()["state"] == "cancelling" and record["state"] == "cancelled"


async def test_what_is_not_there() -> None:
    async with lab(star(2)) as it, rest(it.manager.url) as http:
        for path in ("/groups/g-00000000", "/groups/%00", "/groups/%F0%9F%8C%B3"):
            check_problem(await http.get(path), 404, "group_not_found")
            check_problem(await http.delete(path), 404, "group_not_found")
        check_problem(await http.get("/sets/none"), 404, "set_not_found")
        check_problem(await http.delete("/sets/none"), 404, "set_not_found")
        check_problem(await http.get("/nothing"), 404, "not_found")
        check_problem(await http.put("/groups"), 405, "method_not_allowed")
        check_problem(await http.get("/groups", params={"state": "odd"}), 422, "invalid", "state")
        check_problem(await http.get("/groups/" + "x" * 100), 422, "invalid", "group")


async def test_sets() -> None:
    async with lab(star(4)) as it, rest(it.manager.url) as http:
        check_problem(await http.put("/sets/rack", json={"hosts": ["zz"]}), 422, "unknown_host", "hosts")
        check_problem(
            await http.put("/sets/rack", json={"hosts": ["h1", "h1"]}), 422, "duplicate_receivers", "hosts"
        )
        check_problem(await http.put("/sets/rack", json={"hosts": []}), 422, "invalid", "hosts")
        check_problem(await http.put("/sets/-bad-", json={"hosts": ["h1"]}), 422, "invalid", "name")
        assert (await http.put("/sets/rack", json={"hosts": ["h1", "h2"]})).json()["name"] == "rack"
        assert (await http.get("/sets")).json() == {"rack": ["h1", "h2"]}
        assert (await http.get("/sets/rack")).json() == {"name": "rack", "hosts": ["h1", "h2"]}
        deleted = await http.delete("/sets/rack")
        assert deleted.status_code == 204 and deleted.content == b""


async def test_topology_and_health() -> None:
    async with lab(bcube41(), agents=["00", "01"]) as it, rest(it.manager.url) as http:
        topology, health = (await http.get("/topology")).json(), await http.get("/healthz")
    assert len(topology["nodes"]) == 24 and len(topology["links"]) == 32
    assert [n["name"] for n in topology["nodes"] if n["registered"]] == ["00", "01"]
    assert topology["services"] == dict.fromkeys(("controller", "fabric-manager"), metadata.version("datacast"))
    assert health.status_code == 200 and health.json()["fabric_manager"]["agents"] == 2


async def test_without_a_fabric_manager_everything_says_503_and_metrics_say_down() -> None:
    async with rest("http://127.0.0.1:9") as http:
        requests = [
            ("GET", "/groups"),
            ("GET", "/groups/g-1"),
            ("DELETE", "/groups/g-1"),
            ("POST", "/groups"),
            ("GET", "/topology"),
            ("GET", "/healthz"),
            ("GET", "/sets"),
            ("GET", "/events"),
        ]
        for method, path in requests:
            answer = await http.request(method, path, json=GOOD if method == "POST" else None)
            body = check_problem(answer, 503, "unreachable")
            assert "http://127.0.0.1:9" in body["detail"] and "datacast-fabric-manager" in body["remedy"]
        answer = await http.get("/metrics")
    assert answer.status_code == 200 and "datacast_fabric_manager_up 0.0" in answer.text


async def test_metrics_parse_and_count() -> None:
    async with lab(star(3), rates=[100.0]) as it, rest(it.manager.url) as http:
        group = await it.start("h0", ["h1", "h2"], 50_000_000)
        await it.running(group)

        async def shown():
            text = (await http.get("/metrics")).text
            taken = "datacast_delivery_bytes_per_second 0.0" not in text
            return text if taken and 'datacast_receivers{state="running"} 2.0' in text else None

        text = await until(shown, "the running group is in the metrics")
        again = (await http.get("/metrics")).text
        await it.client.cancel_group(group["id"])
        await it.end(group)
        group, after = group["id"], (await http.get("/metrics")).text
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    values = {(s.name, *sorted(s.labels.items())): s.value for s in samples}
    assert values[("datacast_agents",)] == 3 and values[("datacast_fabric_manager_up",)] == 1
    assert values[("datacast_groups", ("state", "running"))] == 1
    assert values[("datacast_delivery_bytes_per_second",)] > 0
    assert group not in text, "groups have no bound, so no label names one"
    counted = [
        s
        for f in text_string_to_metric_families(again)
        for s in f.samples
        if s.name == "datacast_http_requests_total" and s.labels["route"] == "/metrics"
    ]
    assert counted and counted[0].value >= 1
    assert 'datacast_groups_ended_total{state="cancelled"} 1.0' in after
    types = {f.name: f.type for f in text_string_to_metric_families(after)}
    assert types["datacast_groups_ended"] == types["datacast_delivered_bytes"] == "counter"
    assert types["datacast_groups"] == "gauge"


async def read_events(url: str, count: int, params: dict[str, str]) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    async with httpx.AsyncClient() as http, http.stream("GET", url + "/events", params=params, timeout=60) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        name = ""
        async for line in answer.aiter_lines():
            if line.startswith("event: "):
                name = line[7:]
            elif line.startswith("data: "):
                events.append(json.loads(line[6:]))
                assert events[-1]["type"] == name
                if len(events) == count or events[-1].get("state") == "done":
                    break
    return events


async def test_server_sent_events_follow_a_group_to_its_end() -> None:
    async with lab(star(3), rates=[800.0]) as it, FabricManagerClient(it.manager.url) as client:
        server = HttpServer(make_app(client), listen("127.0.0.1:0"))
        await server.start()
        try:
            before = it.manager.hub.streams
            reading = asyncio.create_task(read_events(server.url, 10_000, {"topic": "groups"}))
            await until(lambda: it.manager.hub.streams > before, "the stream is open")
            group = await it.start("h0", ["h1", "h2"], 8_000_000)
            events = await asyncio.wait_for(reading, 60)
        finally:
            await server.stop()
    assert events.pop(0)["type"] == "groups", "as it stood"
    assert {e["id"] for e in events} == {group["id"]}
    states = [e["state"] for e in events]
    assert states[0] == "starting" and states[-1] == "done" and "running" in states
    fractions = [e["fraction"] for e in events]
    assert fractions == sorted(fractions) and len(fractions) > 3


async def test_server_sent_events_say_why_they_end() -> None:
    async with lab(star(2)) as it, FabricManagerClient(it.manager.url) as client:
        server = HttpServer(make_app(client), listen("127.0.0.1:0"))
        await server.start()
        try:
            before = it.manager.hub.streams
            reading = asyncio.create_task(read_events(server.url, 2, {"topic": "topology"}))
            await until(lambda: it.manager.hub.streams > before, "the stream is open")
            await it.world.agents["h1"].die()
            events = await asyncio.wait_for(reading, 60)
        finally:
            await server.stop()
    assert [e["type"] for e in events] == ["topology", "node"] and events[1]["name"] == "h1"


async def test_openapi_describes_the_options_and_the_problems() -> None:
    async with rest("http://127.0.0.1:9") as http:
        api = (await http.get("/openapi.json")).json()
    options = api["components"]["schemas"]["GroupOptions"]
    assert options["additionalProperties"] is False and "cache_bytes" in options["properties"]
    for path, methods in api["paths"].items():
        for method, operation in methods.items():
            for status, answer in operation["responses"].items():
                if int(status) >= 400:
                    assert list(answer["content"]) == ["application/problem+json"], (path, method, status)


def test_streams_are_described_as_what_they_are_answered_with() -> None:
    paths = make_app(FabricManagerClient("http://127.0.0.1:9")).openapi()["paths"]
    events = paths["/events"]["get"]["responses"]
    assert [status for status in events if status.startswith("2")] == ["200"]
    assert list(events["200"]["content"]) == ["text/event-stream"]


def test_every_answer_is_described_by_its_type() -> None:
    paths = make_app(FabricManagerClient("http://127.0.0.1:9")).openapi()["paths"]
    bare = [
        (method, path)
        for path, methods in paths.items()
        for method, operation in methods.items()
        for status, answer in operation["responses"].items()
        for kind, content in answer.get("content", {}).items()
        if status.startswith("2") and kind == "application/json" and not content.get("schema")
    ]
    assert bare == []


async def test_a_stream_that_ends_before_it_begins_is_asked_for_again() -> None:
    """The service is being stopped at that moment."""

    class Ending(FabricManagerClient):
        async def events(self, *args: Any, **more: Any) -> AsyncIterator[str]:
            for text in ():
                yield text

    transport = httpx.ASGITransport(app=make_app(Ending("http://127.0.0.1:9")))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        answer = await http.get("/events")
    assert (answer.status_code, answer.json()["code"]) == (503, "ending")
