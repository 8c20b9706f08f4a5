"""Requests that are not carried out twice, pages, plans, cordons, forgotten groups, missed events, who did what."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import made_records
import pytest
from fastapi import FastAPI
from small import star, until

from datacast.controller import group_rest
from datacast.controller.app import make_app
from datacast.controller.audit import Audit, AuditError
from datacast.controller.sites.records import SiteGroup
from datacast.fabric_manager.api import FabricManagerClient, GroupSpec
from datacast.services import tokens
from datacast.services.asking import KEPT_S, session
from datacast.services.problems import Problem
from datacast.services.service import HttpServer, listen
from lab import Lab, lab, rest

ORDER = {"source": "h0", "receivers": ["h1"], "source_path": "/srv/file"}


@asynccontextmanager
async def served(nodes: int = 4) -> AsyncIterator[tuple[Lab, httpx.AsyncClient]]:
    async with lab(star(nodes)) as it, rest(it.manager.url) as http:
        it.world.sizes["/srv/file"] = 10_000
        yield it, http


async def ended(http: httpx.AsyncClient, group: str) -> dict[str, Any]:
    async def over() -> Any:
        record = (await http.get(f"/groups/{group}")).json()
        return record if record["finished_ns"] else None

    return await until(over, "it ends")


async def test_a_request_that_is_sent_again_is_carried_out_once() -> None:
    async with served() as (_, http):
        key = {"idempotency-key": "nightly-7"}
        answers = await asyncio.gather(*(http.post("/groups", json=ORDER, headers=key) for _ in range(5)))
        assert {answer.status_code for answer in answers} == {201}
        assert len({answer.json()["id"] for answer in answers}) == 1
        other = await http.post("/groups", json={**ORDER, "receivers": ["h2"]}, headers=key)
        assert (other.status_code, other.json()["code"]) == (422, "key_reused")
        fresh = await http.post("/groups", json=ORDER, headers={"idempotency-key": "nightly-8"})
        assert fresh.json()["id"] != answers[0].json()["id"]
        assert (await http.post("/groups", json=ORDER, headers={"idempotency-key": " "})).status_code == 422


async def test_a_key_is_its_caller_s_whatever_that_one_is_called() -> None:
    async with served() as (it, _):
        order = {**ORDER, "labels": {}}
        one = await it.client.create_group(order, by="ci", key="night/7")
        other = await it.client.create_group({**order, "receivers": ["h2"]}, by="ci/night", key="7")
        again = await it.client.create_group(order, by="ci", key="night/7")
        assert one["id"] == again["id"] != other["id"]
        with pytest.raises(Problem, match="key"):
            await it.client.create_group(order, by="ci", key="night 7")


async def test_groups_come_in_pages_and_by_what_they_are() -> None:
    async with served() as (_, http):
        made = []
        for n in range(5):
            labels = {"job": "night" if n % 2 else "day"}
            made.append((await http.post("/groups", json={**ORDER, "labels": labels})).json()["id"])
        seen, where = [], "/groups?limit=2&fields=id,labels"
        while where:
            answer = await http.get(where)
            assert all(row.keys() == {"id", "labels"} for row in answer.json())
            seen += [row["id"] for row in answer.json()]
            where = answer.links.get("next", {}).get("url")
        assert seen == made
        night = await http.get("/groups", params={"label": "job=night"})
        assert [row["id"] for row in night.json()] == made[1::2]
        assert (await http.get("/groups", params={"source": "h1"})).json() == []
        assert (await http.get("/groups", params={"after": "g-none"})).status_code == 404
        assert (await http.get("/groups", params={"limit": "0"})).status_code == 422
        misspelt = await http.get("/groups", params={"fields": "id,labls"})
        assert (misspelt.status_code, misspelt.json()["what"]) == (422, "fields") and "labls" in misspelt.text


async def test_groups_of_several_sites_do_not_end_the_pages_early() -> None:
    async with served() as (it, http):
        made = [(await http.post("/groups", json=ORDER)).json()["id"] for _ in range(3)]
        spec = GroupSpec(source="h0", receivers=["sfo/b1"], source_path="/f")
        far = SiteGroup(id="s-0123456789abcdef", spec=spec, size=1)
        sites = made_records.Sites(far)
        seen, where = [], "/groups?limit=2"
        async with FabricManagerClient(it.manager.url) as client:
            app = FastAPI()
            app.include_router(group_rest.router(client, sites))  # type: ignore[arg-type]
            transport = httpx.ASGITransport(app=app)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as both:
                while where:
                    answer = await both.get(where)
                    seen += [row["id"] for row in answer.json()]
                    where = answer.links.get("next", {}).get("url")
        assert seen == [far.id, *made]


async def test_what_is_misspelt_is_not_left_out_in_silence() -> None:
    async with served() as (_, http):
        for path, name in (
            ("/groups?sate=failed", "sate"),
            ("/topology?x=1", "x"),
            ("/groups?offset=5&limit=2", "offset"),
        ):
            answer = await http.get(path)
            assert (answer.status_code, answer.json()["what"]) == (422, name), answer.text
        assert (await http.post("/groups?dry=1", json=ORDER)).status_code == 422
        assert (await http.get("/groups")).json() == []


async def test_a_body_that_is_not_said_to_be_json_is_refused_by_that_name() -> None:
    async with served() as (_, http):
        for kind in ("application/x-www-form-urlencoded", "text/plain", ""):  # the first is curl's own
            answer = await http.post("/groups", content=json.dumps(ORDER), headers={"content-type": kind})
            assert (answer.status_code, answer.json()["code"]) == (415, "not_json"), answer.text
            assert "application/json" in answer.json()["remedy"]
        kind = "application/json; charset=utf-8"
        assert (
            await http.post("/groups", content=json.dumps(ORDER), headers={"content-type": kind})
        ).status_code == 201
        assert (await http.post("/groups")).json()["code"] == "invalid", "no body at all"


async def test_a_field_at_fault_has_its_own_name() -> None:
    async with served() as (_, http):
        for receivers, name in (("h1", "receivers"), ([1], "receivers.0")):
            answer = await http.post("/groups", json={**ORDER, "receivers": receivers})
            assert answer.json()["what"] == name and "[" not in answer.json()["detail"], answer.text


async def test_a_path_tells_all_its_methods_and_takes_head_as_get() -> None:
    async with served() as (_, http):
        answer = await http.put("/groups")
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET, POST")
        assert (await http.request("OPTIONS", "/sets/a")).headers["allow"] == "GET, PUT, DELETE"
        for path in ("/healthz", "/groups", "/topology"):
            assert (await http.head(path)).status_code == 200


async def test_only_a_group_that_has_ended_is_forgotten() -> None:
    async with served() as (it, http):
        it.world.sizes["/srv/file"] = 20_000_000
        group = (await http.post("/groups", json=ORDER)).json()["id"]
        early = await http.delete(f"/groups/{group}")
        assert (early.status_code, early.json()["code"]) == (409, "not_ended") and "cancel" in early.json()["remedy"]
        assert (await http.post(f"/groups/{group}/cancel")).status_code == 202
        assert (await ended(http, group))["state"] == "cancelled"
        assert (await http.delete(f"/groups/{group}")).json()["state"] == "cancelled"
        for answer in (await http.get(f"/groups/{group}"), await http.delete(f"/groups/{group}")):
            assert (answer.status_code, answer.json()["code"]) == (404, "group_not_found")


async def test_a_plan_says_trees_shares_and_time_and_starts_nothing() -> None:
    async with served() as (_, http):
        plan = (await http.post("/plan", params={"size": 1_000_000}, json={**ORDER, "receivers": "all"})).json()
        assert plan["receivers"] == ["h1", "h2", "h3"] and plan["unreachable"] == []
        (tree,) = plan["trees"]
        assert (tree["links"], tree["depth"]) == (4, 2) and tree["share_bps"] == plan["rate_bps"] > 0
        assert plan["expected_s"] == pytest.approx(8_000_000 / plan["rate_bps"])
        late = (await http.post("/plan", params={"size": 10**12}, json={**ORDER, "deadline_s": 1})).json()
        assert late["deadline_met"] is False
        assert (await http.post("/plan", json={**ORDER, "source": "zz"})).status_code == 422
        assert (await http.get("/groups")).json() == []


async def test_a_cordoned_host_takes_part_in_no_new_group() -> None:
    async with served() as (_, http):
        assert (await http.put("/hosts/h1/cordon", json={"reason": "new disk"})).json()["cordoned"] == "new disk"
        answer = await http.post("/groups", json=ORDER)
        assert (answer.status_code, answer.json()["code"]) == (409, "cordoned") and "new disk" in answer.text
        everybody = (await http.post("/groups", json={**ORDER, "receivers": "all"})).json()
        assert sorted(everybody["receivers"]) == ["h2", "h3"]
        told = {host["name"]: host for host in (await http.get("/hosts")).json()}
        assert told["h1"]["cordoned"] == "new disk" and told["h2"]["cordoned"] is None
        assert (await http.delete("/hosts/h1/cordon")).status_code == 200
        assert (await http.delete("/hosts/h1/cordon")).json()["code"] == "not_cordoned"
        assert (await http.put("/hosts/s/cordon", json={})).json()["code"] == "not_a_host"
        assert (await http.post("/groups", json=ORDER)).status_code == 201


async def read(url: str, until_id: str = "", last: str | None = None) -> list[tuple[str, dict[str, Any]]]:
    """(id, event) up to the end of a group, or the first event without one."""
    events: list[tuple[str, dict[str, Any]]] = []
    headers = {} if last is None else {"last-event-id": last}
    params = {"topic": "groups"}
    async with (
        httpx.AsyncClient(timeout=60.0) as http,
        http.stream("GET", url + "/events", params=params, headers=headers) as answer,
    ):
        number = ""
        async for line in answer.aiter_lines():
            if line.startswith("id: "):
                number = line[4:]
            elif line.startswith("data: "):
                events.append((number, json.loads(line[6:])))
                if not until_id or events[-1][1].get("state") == "done":
                    break
    return events


async def test_whoever_was_away_gets_what_was_missed_or_everything() -> None:
    async with lab(star(3)) as it, FabricManagerClient(it.manager.url) as client:
        server = HttpServer(make_app(client), listen("127.0.0.1:0"))
        await server.start()
        try:
            ((number, snapshot),) = await read(server.url)
            assert snapshot["type"] == "groups" and snapshot["groups"] == []
            group = await it.start("h0", ["h1", "h2"], 100_000)
            await it.end(group)
            missed = await asyncio.wait_for(read(server.url, group["id"], number), 60)
            assert all(event["type"] == "group" and event["id"] == group["id"] for _, event in missed)
            assert missed[0][1]["state"] == "starting" and missed[-1][1]["state"] == "done"
            assert len({number for number, _ in missed}) == len(missed)
            rest_of = await asyncio.wait_for(read(server.url, group["id"], missed[-2][0]), 60)
            assert rest_of == missed[-1:]
            for unknown in ("another-1", "nonsense", f"{number.partition('-')[0]}-999999"):
                ((_, anew),) = await read(server.url, last=unknown)
                assert anew["type"] == "groups" and [row["id"] for row in anew["groups"]] == [group["id"]]
        finally:
            await server.stop()


async def test_who_changed_what_is_written_down(tmp_path: Path) -> None:
    path, log = tmp_path / "tokens.json", tmp_path / "audit.jsonl"
    _, secret = tokens.create(path, "anna", "operator")
    async with lab(star(2)) as it, FabricManagerClient(it.manager.url) as client:
        it.world.sizes["/srv/file"] = 100
        app = make_app(client, tokens=tokens.TokenFile(path), audit=Audit(log))
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost:7580") as http:
            hers = {"authorization": f"Bearer {secret}"}
            group = (await http.post("/groups", json=ORDER, headers=hers)).json()
            assert group["requested_by"] == "anna"
            assert (await http.get("/groups", params={"requested_by": "anna"}, headers=hers)).json()
            await http.post("/groups", json=ORDER, headers={"authorization": "Bearer guess"})
            await http.put("/sets/a", json={"hosts": ["h0"]}, headers=hers)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    told = [(line["who"], line["method"], line["path"], line["status"]) for line in lines]
    assert told == [("anna", "POST", "/groups", 201), ("", "POST", "/groups", 401), ("anna", "PUT", "/sets/a", 403)]
    assert secret not in log.read_text() and log.stat().st_mode & 0o777 == 0o600
    with pytest.raises(AuditError, match="audit log"):
        Audit(tmp_path / "absent" / "log")


async def test_caps_are_kept_shown_and_taken_away(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    async with lab(star(3), store=store) as it, rest(it.manager.url) as http:
        assert (await http.get("/caps")).json() == {"fabric_bps": None, "hosts": {}}
        assert (await http.put("/caps/hosts/h1", json={"most_bps": 5_000_000})).status_code == 200
        told = (await http.put("/caps/fabric", json={"most_bps": 80_000_000})).json()
        assert told == {"fabric_bps": 80_000_000, "hosts": {"h1": 5_000_000}}
        hosts = {host["name"]: host["most_bps"] for host in (await http.get("/hosts")).json()}
        assert hosts == {"h0": None, "h1": 5_000_000, "h2": None}
        for path, status, code in (
            ("/caps/hosts/nobody", 422, "unknown_host"), ("/caps/hosts/s", 422, "not_a_host"),
        ):  # fmt: skip
            answer = await http.put(path, json={"most_bps": 5_000_000})
            assert (answer.status_code, answer.json()["code"]) == (status, code)
        assert (await http.put("/caps/fabric", json={"most_bps": 3})).status_code == 422
    async with lab(star(3), store=store) as it, rest(it.manager.url) as http:
        assert (await http.get("/caps")).json() == {"fabric_bps": 80_000_000, "hosts": {"h1": 5_000_000}}
        assert it.manager.groups.divider._caps == (80_000_000, {"h1": 5_000_000}), "the next one keeps to it"
        assert (await http.delete("/caps/fabric")).json()["fabric_bps"] is None
        assert (await http.delete("/caps/hosts/h1")).json()["hosts"] == {}
        answer = await http.delete("/caps/hosts/h1")
        assert (answer.status_code, answer.json()["code"]) == (404, "no_cap")


async def test_a_server_keeps_connections_for_longer_than_clients_do() -> None:
    """Else a request, such as a DELETE that nobody repeats, meets a connection that is just being closed at times."""
    server = HttpServer(FastAPI(), sock := listen("127.0.0.1:0"))
    sock.close()
    async with session() as client:
        assert server._server.config.timeout_keep_alive > 2 * client.connector._keepalive_timeout == 2 * KEPT_S


async def test_a_stream_whose_fabric_manager_goes_away_ends_with_an_event_that_says_so() -> None:
    class Goes(FabricManagerClient):
        async def events(self, *_: Any) -> AsyncIterator[str]:
            yield '{"type": "hello"}'
            raise Problem(503, "unreachable", "no fabric manager at unix:/x")

    transport = httpx.ASGITransport(app=make_app(Goes("http://127.0.0.1:9")))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost:7580") as http:
        lines = (await http.get("/events")).text.splitlines()
    [told] = [json.loads(line[len("data: ") :]) for line in lines if line.startswith("data: ")]
    assert (told["type"], told["code"], told["status"]) == ("error", "unreachable", 503)


def undescribed(schema: dict[str, Any], value: Any, defs: dict[str, Any], where: str = "") -> list[str]:
    """Members of an answer that its description does not name, or leaves open what they are."""
    if "$ref" in schema:
        schema = defs[schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        fits = [one for one in schema["anyOf"] if one.get("type") != "null"] if value is not None else []
        return min((undescribed(one, value, defs, where) for one in fits), key=len, default=[])
    if isinstance(value, list):
        rows = schema.get("items") or {}
        kinds = schema.get("prefixItems") or [rows] * len(value)
        return [name for one, kind in zip(value, kinds, strict=True) for name in undescribed(kind, one, defs, where)]
    if not isinstance(value, dict):
        return []
    named, others = schema.get("properties", {}), schema.get("additionalProperties")
    found = []
    for key, one in value.items():
        kind = named.get(key, others)
        at = f"{where}/{key if key in named else '*'}"
        found += undescribed(kind, one, defs, at) if isinstance(kind, dict) else [at]
    return found


async def test_every_member_of_an_answer_is_described() -> None:
    async with served() as (_, http):
        api = (await http.get("/openapi.json")).json()
        defs = api["components"]["schemas"]
        group = (await http.post("/groups", json=ORDER)).json()["id"]
        await ended(http, group)
        await http.put("/sets/rack", json={"hosts": ["h1", "h2"]})
        await http.put("/hosts/h2/cordon", json={"reason": "disk"})
        paths = ("groups", "groups/{group}", "topology", "hosts", "caps", "healthz", "switches", "sets", "sets/{name}")
        asked: list[Any] = [*(("get", f"/{path}", {}) for path in paths), ("post", "/plan", {"json": ORDER})]
        missing = {}
        for method, path, body in asked:
            answer = await http.request(method, path.format(group=group, name="rack"), **body)
            assert answer.status_code == 200, (path, answer.text)
            schema = api["paths"][path][method]["responses"]["200"]["content"]["application/json"]["schema"]
            if names := sorted(set(undescribed(schema, answer.json(), defs))):
                missing[path] = names
        assert missing == {}


def test_no_answer_leaves_open_what_it_holds() -> None:
    """Beside what only the operator's own files say."""
    api = make_app(FabricManagerClient("http://127.0.0.1:9")).openapi()
    open_ = {"/Topology/attributes", "/TopologyNode/attributes"}

    def bare(schema: Any, where: str) -> list[str]:
        if not isinstance(schema, dict):
            return []
        if schema.get("type") == "object" and schema.get("additionalProperties") is True:
            return [where]
        parts = [*schema.get("anyOf", []), schema.get("items"), schema.get("additionalProperties")]
        below = [name for part in parts for name in bare(part, where)]
        return below + [n for key, part in schema.get("properties", {}).items() for n in bare(part, f"{where}/{key}")]

    found = [name for title, schema in api["components"]["schemas"].items() for name in bare(schema, f"/{title}")]
    assert set(found) <= open_


@pytest.mark.parametrize("ends", ["breaks", "is cut off"])
async def test_a_change_that_gets_no_answer_is_written_down(tmp_path: Path, ends: str) -> None:
    """It may have been carried out."""

    class Client:
        async def put_set(self, name: str, hosts: list[str]) -> None:
            if ends == "breaks":
                raise RuntimeError("what nobody has thought of")
            await asyncio.Event().wait()

    app = make_app(Client(), audit=Audit(tmp_path / "log"))  # type: ignore[arg-type]
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost:7580") as http:
        asking = asyncio.create_task(http.put("/sets/a", json={"hosts": ["h0"]}))
        if ends == "breaks":
            assert (await asking).status_code == 500
        else:
            await asyncio.sleep(0.5)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
    (line,) = [json.loads(text) for text in (tmp_path / "log").read_text().splitlines()]
    assert (line["method"], line["path"], line["status"]) == ("PUT", "/sets/a", 500)
