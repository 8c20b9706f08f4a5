"""Groups of several sites, as their controllers carry them out between each other over HTTPS."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import made_records
import numpy as np
import pytest
from mesh import TWO, mesh, two, until

from datacast.controller.app import make_app
from datacast.controller.audit import Audit
from datacast.controller.sites import shown
from datacast.controller.sites.records import Progress, SiteGroup
from datacast.fabric_manager.api import FabricManagerClient, GroupSpec
from datacast.services.problems import Problem

DATA = np.random.default_rng(3).bytes((3 << 20) + 5)


def test_what_hosts_of_several_sites_fetch_is_shown_by_its_url() -> None:
    group = SiteGroup(id="s-0123456789abcdef", spec=GroupSpec(url="https://x/y", receivers=None), size=0)
    assert shown.row(group, "ams").source_path == shown.shown(group, "ams").source_path == "https://x/y"
    ordered = group.model_copy(update={"path": ["ams"]})
    assert shown.row(ordered, "sfo").source_path == "https://x/y"


@pytest.mark.parametrize("data", [DATA, b"", b"x"])
async def test_a_file_reaches_the_hosts_that_are_named_here_and_there(tmp_path: Path, data: bytes) -> None:
    async with two(tmp_path, data) as (ams, sfo):
        group = await ams.end(await ams.made(["a1", "sfo/s1"]))
        assert group["state"] == "done" and set(group["receivers"]) == {"a1", "sfo/s1"}, group
        assert ams.has("a1", data) and sfo.has("s1", data)
        assert "f" not in sfo.fabric.hosts["s0"].files


async def test_what_controllers_tell_each_other_all_the_time_is_no_change_of_anybody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each word of a site on its part was a line of the audit log, without a name, some a second while a group ran."""
    log = tmp_path / "audit"
    monkeypatch.setattr("mesh.make_app", partial(make_app, audit=Audit(log)))
    async with two(tmp_path, DATA) as (ams, _):
        assert (await ams.end(await ams.made(["a1", "sfo/s1"])))["state"] == "done"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(line["method"], line["path"], line["status"]) for line in lines] == [("POST", "/groups", 201)]


CHAIN = {"ams": ["a0"], "sfo": ["s0", "s1"], "syd": ["y0"]}


@pytest.mark.slow
async def test_a_directory_reaches_a_site_behind_another_as_one(tmp_path: Path) -> None:
    """Also from where it was received: the controllers have forgotten by then what they had read."""
    async with mesh(tmp_path, CHAIN, {"sfo": ["ams"], "syd": ["sfo"]}) as sites:
        ams, sfo, syd = sites.values()
        ams.give(DATA)
        ams.fabric.hosts["a0"].folders.add("/srv/f")
        syd.fabric.hold.clear()
        group = await ams.made(["sfo/all", "sfo/syd/y0"])
        await until(lambda: sfo.has("s0", DATA) and sfo.coordinator.groups[group].own.state == "done")
        await syd.stop()
        await sfo.stop()
        sfo.fabric.hosts["s0"].folders.clear()  # somebody has put a file there
        sfo.fabric.hosts["s0"].files["f"] = bytes(len(DATA))
        await sfo.start()
        await syd.start()
        syd.fabric.hold.set()
        assert (await ams.end(group))["state"] == "done"
        assert syd.has("y0", DATA) and "f" in syd.fabric.hosts["y0"].folders
        assert any(read.get("dest") == "f" for read in sfo.fabric.hosts["s1"].reads)


async def test_a_digest_of_a_directory_is_refused(tmp_path: Path) -> None:
    async with two(tmp_path, DATA) as (ams, _):
        ams.fabric.hosts["a0"].folders.add("/srv/f")
        answer = await ams.order(["sfo/all"], sha256="0" * 64)
        assert (answer.status_code, answer.json()["code"]) == (422, "bad_sha256")
        assert "/srv/f is a directory" in answer.json()["detail"]


@pytest.mark.slow
async def test_a_request_that_is_sent_again_makes_no_second_group(tmp_path: Path) -> None:
    async with two(tmp_path, DATA) as (ams, _):
        key = {"idempotency-key": "nightly-7"}
        answers = await asyncio.gather(*(ams.order(["a1", "sfo/all"], key) for _ in range(4)))
        (group,) = {answer.json()["id"] for answer in answers}
        assert {answer.status_code for answer in answers} == {201} and len(ams.fabric.groups) == 1
        await ams.end(group)
        other = await ams.order(["sfo/s0"], key)
        assert (other.status_code, other.json()["code"]) == (422, "key_reused")
        assert await ams.made(["a1", "sfo/all"], headers={"idempotency-key": "nightly-8"}) != group
        # Also when the controller was started again.
        await ams.stop()
        await ams.start()
        assert await ams.made(["a1", "sfo/all"], headers=key) == group


def site_group(**more: Any) -> SiteGroup:
    spec = GroupSpec(source="a0", source_path="/srv/f", receivers=None, labels={"job": "nightly"})
    done = {"sfo": {"receivers": ["s0"], "progress": {"state": "done"}}}
    return SiteGroup.model_validate({"id": f"s-{1:016x}", "spec": spec, "size": 1, "parts": done, **more})


@pytest.mark.parametrize(
    ("query", "there"),
    [
        ("", True), ("label=job=nightly", True), ("label=job=hourly", False), ("source=a0", True), ("source=a1", False),
        ("label=job=nightly&label=job=hourly", False), ("source=a0&state=done", True), ("state=failed", False),
    ],
)  # fmt: skip
async def test_groups_of_several_sites_are_found_as_others_are(query: str, there: bool) -> None:
    class Client:
        async def groups(self, *asked: Any, **filters: Any) -> list[Any]:
            return []

    group = site_group()
    sites = made_records.Sites(group)
    app = make_app(Client(), sites=sites)  # type: ignore[arg-type]
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
        assert len((await http.get(f"/groups?{query}")).json()) == there


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 7, 8])
async def test_pages_hold_no_more_than_was_asked_for_and_leave_none_out(limit: int) -> None:
    """Three groups of several sites, younger ones made known first, and four others."""
    every = [site_group(id=f"s-{n:016x}", created_ns=9 - n // 2) for n in range(3)]
    others = [f"g-{n}" for n in range(4)]

    class Client:
        async def groups(self, *asked: Any, after: str | None, limit: int, **filters: Any) -> list[Any]:
            first = others.index(after) + 1 if after is not None else 0
            return [made_records.summary(id=one) for one in others[first : first + limit]]

    app = make_app(Client(), sites=made_records.Sites(*every))  # type: ignore[arg-type]
    pages, url = list[list[str]](), f"/groups?limit={limit}"
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://localhost") as http:
        while url:
            answer = await http.get(url)
            pages.append([one["id"] for one in answer.json()])
            url = answer.links.get("next", {}).get("url", "")
    assert all(len(page) <= limit for page in pages)
    assert [one for page in pages for one in page] == [f"s-{n:016x}" for n in (2, 0, 1)] + others


async def test_a_group_that_is_forgotten_while_its_end_is_written_down_stays_so(tmp_path: Path) -> None:
    """And nothing else stands still for it."""
    async with two(tmp_path, DATA) as (ams, sfo):
        put, goes_on, writing = sfo.fabric.put_site_group, asyncio.Event(), asyncio.Event()

        async def late(group: str, text: str) -> None:
            if '"told":true' in text:
                writing.set()
                await goes_on.wait()
            await put(group, text)

        sfo.fabric.put_site_group = late  # type: ignore[method-assign]
        group = await ams.made(["sfo/s1"])
        await asyncio.wait_for(writing.wait(), 60)
        forgetting = asyncio.create_task(sfo.http.delete(f"/groups/{group}"))
        asyncio.get_running_loop().call_later(0.2, goes_on.set)
        assert (await forgetting).status_code == 200
        await ams.end(group)
        await asyncio.sleep(1.0)
        assert group not in sfo.coordinator.groups and group not in sfo.fabric.kept
        assert (await ams.end(await ams.made(["sfo/s0"], dest_path="again")))["state"] == "done"


async def test_a_group_that_breaks_holds_up_no_other(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with two(tmp_path, DATA) as (ams, sfo):
        look, broken = sfo.coordinator._look, set[str]()

        async def looks(group: SiteGroup) -> None:
            if group.id in broken:
                raise KeyError("what nobody has thought of")
            await look(group)

        sfo.coordinator._look = looks  # type: ignore[method-assign]
        sfo.fabric.hold.clear()
        broken.add(await ams.made(["sfo/s1"]))
        await until(lambda: broken <= sfo.coordinator.groups.keys())
        await asyncio.sleep(0.6)
        sfo.fabric.hold.set()
        assert (await ams.end(await ams.made(["sfo/s0"], dest_path="other")))["state"] == "done"
    assert "what nobody has thought of" in caplog.text


async def test_a_site_that_does_not_answer_holds_up_no_group_of_another(tmp_path: Path) -> None:
    hosts = {**TWO, "oak": ["o0", "o1"]}
    async with mesh(tmp_path, hosts, {"sfo": ["ams", "oak"]}) as sites:
        ams, sfo, oak = sites.values()
        for site in (ams, oak):
            site.give(DATA)
        tell, never, asked = sfo.coordinator.peers.tell, asyncio.Event(), asyncio.Event()

        async def silent(name: str, group: str, progress: Progress) -> Any:
            if name == "ams":
                asked.set()
                await never.wait()
            return await tell(name, group, progress)

        sfo.coordinator.peers.tell = silent  # type: ignore[method-assign]
        await ams.made(["sfo/s0"], dest_path="ams")
        await asyncio.wait_for(asked.wait(), 60)
        async with asyncio.timeout(30):
            assert (await oak.end(await oak.made(["sfo/s1"])))["state"] == "done"


async def test_an_end_that_the_store_did_not_take_is_written_down_later(tmp_path: Path) -> None:
    """Else the group runs for ever after the next start: who was told of its end tells it once."""
    async with two(tmp_path, DATA) as (ams, sfo):
        sfo.fabric.hold.clear()
        group = await ams.made(["sfo/all"])
        await until(lambda: sfo.fabric.there)
        put = ams.fabric.put_site_group

        async def away(group: str, text: str) -> None:
            raise Problem(503, "unavailable", "the fabric manager is away")

        ams.fabric.put_site_group = away  # type: ignore[method-assign]
        sfo.fabric.hold.set()
        await until(lambda: ams.coordinator.groups[group].finished_ns)
        await asyncio.sleep(0.5)  # it is told again meanwhile
        ams.fabric.put_site_group = put  # type: ignore[method-assign]
        await until(lambda: sfo.coordinator.groups[group].told)
        await asyncio.sleep(0.5)
        await ams.stop()
        await ams.start()
        assert (await ams.now(group))["state"] == "done"


@pytest.mark.parametrize("cancelled", [True, False])
async def test_a_part_that_its_fabric_knows_no_more_ends(tmp_path: Path, cancelled: bool) -> None:
    async with two(tmp_path, DATA) as (ams, sfo):
        sfo.fabric.hold.clear()
        group = await ams.made(["sfo/all"])
        await until(lambda: sfo.fabric.there)
        del sfo.fabric.groups[sfo.coordinator.groups[group].local or ""]
        if cancelled:
            assert (await ams.http.post(f"/groups/{group}/cancel")).status_code == 202
        async with asyncio.timeout(30):
            ended = await ams.end(group)
        assert ended["state"] in (["cancelled", "failed"] if cancelled else ["failed"])
        assert "sfo knows its part no more" in ended["sites"]["sfo"]["error"]["message"]


async def test_a_part_that_did_not_hear_that_its_group_is_cancelled_hears_it_later(tmp_path: Path) -> None:
    async with two(tmp_path, DATA) as (ams, _):
        carry, never = ams.fabric._carry, asyncio.Event()

        async def stands(group: str) -> None:
            await never.wait()
            await carry(group)

        ams.fabric._carry = stands  # type: ignore[method-assign]
        group = await ams.made(["a1", "sfo/all"])
        cancel, tried = ams.fabric.cancel_group, list[str]()

        async def away(local: str) -> Any:
            tried.append(local)
            if len(tried) == 1:
                raise Problem(503, "unavailable", "the fabric manager is away")
            return await cancel(local)

        ams.fabric.cancel_group = away  # type: ignore[method-assign]
        assert (await ams.http.post(f"/groups/{group}/cancel")).status_code == 503
        async with asyncio.timeout(30):
            assert (await ams.end(group))["sites"]["ams"]["state"] == "cancelled"


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "resume"), ("POST", "receivers"), ("DELETE", "receivers/a1")]
)  # fmt: skip
async def test_what_cannot_be_done_with_a_group_of_several_sites_is_not_said_of_one_that_is_not_there(
    method: str, path: str
) -> None:
    group = site_group()
    sites = made_records.Sites(group)
    app = make_app(FabricManagerClient("http://127.0.0.1:9"), sites=sites)  # type: ignore[arg-type]
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
        body = {"host": "a1"} if path == "receivers" else None
        answer = await http.request(method, f"/groups/{group.id}/{path}", json=body)
    assert (answer.status_code, answer.json()["code"]) == (409, "several_sites")
