"""Another site that answers wrongly, stands still or goes away; hosts that do; who may ask for what. Real controllers,
HTTPS. Nothing partial is ever at a destination."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import numpy as np
import pytest
from authority import Authority
from mesh import TWO, Site, mesh, two, until

from datacast.controller.sites import agents, book, coordinator, patience, peers, rest
from datacast.services.problems import Problem

DATA = np.random.default_rng(5).bytes((1 << 19) + 77)


def clean(site: Site) -> bool:
    """No host has anything but the whole at its place."""
    return all(host.files.get("f", DATA) == DATA for host in site.fabric.hosts.values())


WRONG = [
    "500", "503", "429", "404", "302",
    "cut off", "silent", "stands still", "longer", "other range", "other object",
]  # fmt: skip


@pytest.mark.slow
async def test_a_site_that_answers_wrongly_for_a_while_costs_no_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "TICK_S", 0.04)
    monkeypatch.setattr(patience, "DEAD", 8)
    monkeypatch.setattr(peers, "REST_MOST_S", 0.05)
    async with two(tmp_path, DATA) as (ams, sfo):
        for how in WRONG:
            ams.port.how, ams.port.left = how, 2
            group = await ams.end(await ams.made(["sfo/all"], dest_path=how))
            assert group["state"] == "done", (how, group)
            assert sfo.has("s0", DATA, how) and sfo.has("s1", DATA, how), how
            assert ams.port.left == 0, how  # it did


async def test_a_file_that_becomes_another_ends_the_group_with_that_word(tmp_path: Path) -> None:
    async with two(tmp_path, DATA) as (ams, sfo):
        sfo.fabric.hold.clear()
        group = await ams.made(["sfo/all"])
        await until(lambda: sfo.fabric.there)
        await sfo.stop()  # what it has read ahead of the old one is forgotten
        ams.fabric.hosts["a0"].mark += 1
        await sfo.start()
        sfo.fabric.hold.set()
        ended = await ams.end(group)
        assert ended["state"] == "failed" and ended["sites"]["sfo"]["error"]["code"] == "changed", ended
        assert not any("f" in host.files for host in sfo.fabric.hosts.values())


@pytest.mark.slow
async def test_a_file_that_is_not_what_was_expected_is_nowhere_and_the_group_says_whose_it_was(tmp_path: Path) -> None:
    """By its SHA-256, given where the group begins: the source's own is another one; one site's copy, or two, is."""
    right, other = hashlib.sha256(DATA).hexdigest(), "0" * 64
    hosts = {**TWO, "oak": ["o0"]}
    async with mesh(tmp_path, hosts, {"sfo": ["ams"], "oak": ["sfo"]}) as sites:
        ams, sfo, oak = sites.values()
        ams.give(DATA)
        to = ["a1", "sfo/all", "sfo/oak/all"]
        for name, expected, spoilt, state, words in (
            ("source", other, {}, "failed", "what a0 at ams has is not what was expected, so it is at ams, sfo, "),
            ("one", right, {oak: b"x"}, "partial", "the copy at sfo/oak is wrong, at ams, sfo it is as expected: "),
            ("both", right, {oak: b"x", sfo: b"y"}, "partial", "the copy at sfo, sfo/oak is wrong, at ams it is"),
            ("each", right, {oak: b"x", sfo: b"y"}, "failed", "the copies at sfo, sfo/oak are wrong, and not"),
        ):
            for site in sites.values():
                site.fabric.spoils = spoilt.get(site, b"")
            group = await ams.end(await ams.made(to[name == "each" :], sha256=expected, dest_path=name))
            assert (group["state"], group["error"]["code"]) == (state, "digest"), (name, group)
            assert group["error"]["message"].startswith(words) and expected in group["error"]["message"], group
            for site, host in ((ams, "a1"), (sfo, "s0"), (sfo, "s1"), (oak, "o0"))[name == "each" :]:
                is_wrong = site in spoilt or expected == other
                assert site.fabric.hosts[host].files.get(name) == (None if is_wrong else DATA), (name, host)
                if is_wrong:  # it says so itself, too
                    own = await site.now(group["id"])
                    assert own["error"]["code"] == "digest" and expected in own["error"]["message"], own


async def test_a_part_is_started_again_where_its_origin_was_away_and_nowhere_else(tmp_path: Path) -> None:
    async with two(tmp_path, DATA) as (ams, sfo):
        for number, (code, resumed) in enumerate([("digest", 0), ("origin_unreachable", 1), ("truncated", 1)]):
            sfo.fabric.hold.clear()
            sfo.fabric.resumed.clear()
            group = await ams.made(["sfo/all"], dest_path=code)
            await until(lambda number=number: f"g-{number}" in sfo.fabric.groups)
            sfo.fabric.fail(f"g-{number}", code, "it ends so")
            sfo.fabric.hold.set()
            ended = await ams.end(group)
            assert bool(sfo.fabric.resumed) == bool(resumed), code
            if resumed:
                assert ended["state"] == "done" and sfo.has("s0", DATA, code)
            else:
                assert (ended["state"], ended["sites"]["sfo"]["error"]["code"]) == ("failed", code)
                assert "it ends so" in ended["sites"]["sfo"]["error"]["message"]
                assert not sfo.has("s0", DATA, code)


async def test_a_site_that_goes_away_and_comes_back_goes_on(tmp_path: Path) -> None:
    async with two(tmp_path, DATA) as (ams, sfo):
        sfo.fabric.hold.clear()
        group = await ams.made(["a1", "sfo/all"])
        await until(lambda: sfo.fabric.groups)
        await ams.stop()
        sfo.fabric.hold.set()
        await until(lambda: sfo.coordinator.peers.get("ams").problem)
        await ams.start()
        ended = await ams.end(group)
        assert ended["state"] == "done" and sfo.has("s1", DATA), ended


async def test_receivers_that_are_done_give_other_sites_what_a_lost_source_cannot(tmp_path: Path) -> None:
    async with two(tmp_path, DATA) as (ams, sfo):
        await sfo.stop()
        group = await ams.made(["a1", "sfo/all"])
        await until(lambda: ams.coordinator.groups[group].own.state == "done")
        ams.fabric.hosts["a0"].address = ""
        await sfo.start()
        assert (await ams.end(group))["state"] == "done" and sfo.has("s1", DATA)


@pytest.mark.slow
async def test_a_group_whose_source_is_lost_ends_at_all_sites_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other host here has the file. One site has begun, one never heard of it, one stands behind another."""
    monkeypatch.setattr(coordinator, "LOST_S", 0.5)
    hosts = {**TWO, "oak": ["o0"], "syd": ["y0"]}
    async with mesh(tmp_path, hosts, {"sfo": ["ams"], "oak": ["sfo"], "syd": ["ams"]}) as sites:
        ams, sfo, oak, syd = sites.values()
        ams.give(DATA)
        for site in (sfo, syd):
            await site.stop()
        group = await ams.made(["sfo/all", "sfo/oak/all", "syd/all"])
        ams.fabric.hosts["a0"].address = ""
        await sfo.start()
        ended = await ams.end(group)
        await syd.start()
        assert (ended["state"], ended["error"]["code"]) == ("failed", "source_lost"), ended
        why = ended["error"]["message"]
        assert "the source a0 cannot be read" in why and "a0 has no agent" in why
        for site in (sfo, oak):
            own = await site.end(group)
            assert (own["state"], own["error"]) == ("failed", ended["error"]), own
        assert {part["error"]["code"] for part in ended["sites"].values()} == {"source_lost"}
        assert not any("f" in host.files for site in (sfo, oak, syd) for host in site.fabric.hosts.values())


@pytest.mark.slow
async def test_a_site_that_has_taken_its_order_and_not_said_so_hears_that_the_source_was_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator, "LOST_S", 3600.0)
    says = asyncio.Event()
    tell = peers.Peers.tell

    async def late(self: peers.Peers, *told: Any) -> Any:
        await says.wait()
        return await tell(self, *told)

    monkeypatch.setattr(peers.Peers, "tell", late)
    async with mesh(tmp_path, {**TWO, "oak": ["o0"]}, {"sfo": ["ams"], "oak": ["sfo"]}) as sites:
        ams, sfo, oak = sites.values()
        ams.give(DATA)
        await sfo.stop()
        group = await ams.made(["sfo/all", "sfo/oak/all"])
        ams.fabric.hosts["a0"].address = ""
        await sfo.start()
        await until(lambda: group in sfo.coordinator.groups and group in oak.coordinator.groups)
        monkeypatch.setattr(coordinator, "LOST_S", 0.2)
        ended = await ams.end(group)
        assert (ended["state"], ended["error"]["code"]) == ("failed", "source_lost"), ended
        says.set()
        for site in (sfo, oak):
            own = await site.end(group)
            assert (own["state"], own["error"]) == ("failed", ended["error"]), own


async def test_a_cancel_reaches_a_site_that_has_begun_and_one_that_never_heard_of_it(tmp_path: Path) -> None:
    hosts = {**TWO, "oak": ["o0"]}
    async with mesh(tmp_path, hosts, {"sfo": ["ams"], "oak": ["ams"]}) as sites:
        ams, sfo, oak = sites.values()
        ams.give(DATA)
        sfo.fabric.hold.clear()
        await oak.stop()
        group = await ams.made(["sfo/all", "oak/all"])
        assert (await ams.http.delete(f"/groups/{group}")).json()["code"] == "not_ended"
        await until(lambda: sfo.fabric.groups)
        assert (await ams.http.post(f"/groups/{group}/cancel")).status_code == 202
        await until(lambda: sfo.fabric.groups["g-0"]["state"] == "cancelled")
        await oak.start()
        ended = await ams.end(group)
        assert {name: part["state"] for name, part in ended["sites"].items()} == dict.fromkeys(
            ("sfo", "oak"), "cancelled"
        )
        assert not oak.fabric.groups
        again = (await ams.http.post(f"/groups/{group}/cancel")).json()  # one that has ended stays as it is
        assert again["finished_ns"] == ended["finished_ns"]
        # Forgotten, and nobody speaks of it any more.
        assert (await ams.http.delete(f"/groups/{group}")).status_code == 200
        assert (await ams.http.get(f"/groups/{group}")).status_code == 404 and group not in ams.fabric.kept


async def test_a_part_of_a_group_that_was_forgotten_above_ends(tmp_path: Path) -> None:
    async with two(tmp_path, DATA) as (ams, sfo):
        sfo.fabric.hold.clear()
        group = await ams.made(["sfo/all"])
        await until(lambda: sfo.fabric.groups)
        ams.coordinator.groups.pop(group)  # its store was lost
        await until(lambda: sfo.fabric.groups["g-0"]["state"] == "cancelled")
        await until(lambda: sfo.coordinator.groups[group].told)
        ended = sfo.coordinator.groups[group].progress()
        assert ended.state == "failed" and ended.error is not None and ended.error.code == "group_not_found", (
            "nobody has cancelled it"
        )
        assert "site ams knows the group no more" in ended.error.message


async def test_a_site_that_is_started_without_its_sites_for_a_while_ends_no_group(tmp_path: Path) -> None:
    asked = list[str]()

    async def tell(self: peers.Peers, name: str, *_: Any) -> Any:
        asked.append(name)
        raise Problem(404, "no_sites", "this controller knows no other sites")

    async with two(tmp_path, DATA) as (ams, sfo):
        sfo.fabric.hold.clear()
        group = await ams.made(["sfo/all"])
        await until(lambda: sfo.fabric.groups)
        with patch.object(peers.Peers, "tell", tell):
            asked.clear()
            await until(lambda: len(asked) > 2)
        assert not sfo.coordinator.groups[group].cancelled
        sfo.fabric.hold.set()
        assert (await ams.end(group))["state"] == "done"


REFUSED: list[tuple[dict[str, Any], int, str, str]] = [
    ({"scatter": True}, 422, "bad_shards", "sfo/all"),
    ({"shards": {"sfo/s0": ["9999999-"]}}, 422, "bad_shards", "shards"),
    ({"scatter": True, "url": "https://x/y", "source": "", "source_path": ""}, 422, "bad_shards", "scatter"),
    ({"other_sources": ["a1"]}, 422, "not_between_sites", "other_sources"),
    ({"holds": {"a0": ["0-9"]}}, 422, "not_between_sites", "holds"),
    ({"holds": {"a0": ["0-9"]}, "shards": {"sfo/s0": ["0-9"]}}, 422, "not_between_sites", "holds"),
    ({"unfinished": {"a0": "g-1"}}, 422, "not_between_sites", "unfinished"),
    ({"deadline_s": 5.0}, 422, "not_between_sites", "deadline_s"),
    ({"source_paths": {"a0": "/srv/g"}}, 422, "not_between_sites", "source_paths"),
    ({"labels": {f"l{n}": "" for n in range(32)}}, 422, "too_many_labels", "labels"),
    ({"size": 5}, 422, "size", "size"),
    ({"source": "nobody"}, 409, "no_agent", "nobody"),
    ({"source_path": "/nowhere"}, 409, "not_found", "a0"),
    ({"to": ["moon/all"]}, 409, "site_away", "moon"),
]


async def test_what_cannot_be_is_refused_at_once_and_leaves_nothing(tmp_path: Path) -> None:
    async with two(tmp_path, DATA) as (ams, _):
        absent = Authority(tmp_path / "absent")
        ams.file.write_text(ams.file.read_text() + f"  moon: {{ca: {absent.ca}}}\n")
        await until(lambda: "moon" in ams.coordinator.peers.all)
        for more, status, code, what in REFUSED:
            answer = await ams.order(**{"to": ["sfo/all"], **more})
            body = answer.json()
            assert (answer.status_code, body["code"], body["what"]) == (status, code, what), body
            assert not ams.coordinator.groups and not ams.fabric.groups and not ams.fabric.kept


async def test_more_groups_than_may_run_are_refused_here_and_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two(tmp_path, DATA) as (ams, sfo):
        sfo.fabric.hold.clear()
        one = await ams.made(["sfo/all"])
        await until(lambda: sfo.fabric.groups)
        monkeypatch.setattr(book, "LIVE_MAX", 1)
        answer = await ams.order(["sfo/all"])
        assert (answer.status_code, answer.json()["code"]) == (429, "too_many_groups")
        sfo.fabric.hold.set()
        assert (await ams.end(one))["state"] == "done"
        assert (await ams.end(await ams.made(["sfo/s1"])))["state"] == "done"  # there is room again


async def test_what_a_sites_own_fabric_refuses_is_told_above(tmp_path: Path) -> None:
    async with two(tmp_path, DATA) as (ams, sfo):
        sfo.fabric.refuses = Problem(409, "no_agent", "host s0 has no agent", what="s0")
        ended = await ams.end(await ams.made(["a1", "sfo/all"]))
        assert ended["state"] == "partial" and ended["sites"]["sfo"]["error"] == {
            "code": "no_agent", "message": "host s0 has no agent",
        }  # fmt: skip
        assert ams.has("a1", DATA)


# ---- hosts that answer wrongly ----
Lie = Callable[[dict[str, Any], bytes], tuple[dict[str, Any], bytes]]


LIES: list[Lie] = [
    lambda told, data: ({**told, "n": 1 << 21}, data),  # more than was asked for
    lambda told, data: ({**told, "n": -1}, data),
    lambda told, data: ({**told, "n": "x"}, data),
    lambda told, data: ({"type": "bytes", "id": told["id"], "n": 0}, b""),  # nothing of the file
    lambda told, data: ({**told, "size": "large"}, data),
]


async def test_a_host_that_answers_what_cannot_be_is_named(tmp_path: Path) -> None:
    async with two(tmp_path, DATA) as (ams, _):
        for number, lie in enumerate(LIES):
            ams.fabric.hosts["a0"].lies = lie
            answer = await ams.order(["sfo/all"])
            assert (answer.status_code, answer.json()["code"], answer.json()["what"]) == (409, "no_agent", "a0")
            assert "a0" in answer.json()["detail"] and not ams.coordinator.groups
            assert ("more than was asked" in answer.json()["detail"]) == (number < 3), answer.text


async def test_a_host_that_looks_through_a_directory_is_asked_again(tmp_path: Path) -> None:
    async with two(tmp_path, DATA) as (ams, _):
        asked = []

        def looks(told: dict[str, Any], data: bytes) -> tuple[dict[str, Any], bytes]:
            asked.append(told)
            if len(asked) > 3:
                return told, data
            return {"type": "error", "id": told["id"], "code": "walking", "error": "7 entries until now"}, b""

        ams.fabric.hosts["a0"].lies = looks
        assert (await ams.end(await ams.made(["sfo/all"])))["state"] == "done"
        assert len(asked) > 3


async def test_a_host_that_says_nothing_is_given_up(tmp_path: Path) -> None:
    async with two(tmp_path, DATA) as (ams, _):
        ams.fabric.hosts["a0"].lies = lambda told, data: ({**told, "n": 9}, b"few")
        with patch.object(agents, "ANSWER_S", 0.3):
            answer = await ams.order(["sfo/all"])
        assert (answer.status_code, answer.json()["code"]) == (409, "no_agent"), answer.text
        assert "a0 does not answer" in answer.json()["detail"]


@pytest.mark.slow
async def test_a_connection_to_a_host_that_was_closed_meanwhile_is_made_again(tmp_path: Path) -> None:
    async with two(tmp_path, DATA) as (ams, _):
        host = ams.fabric.hosts["a0"]
        assert (await ams.end(await ams.made(["sfo/s0"])))["state"] == "done"
        assert host.writers
        for writer in host.writers:
            writer.close()
        await until(lambda: not host.writers)
        assert (await ams.end(await ams.made(["sfo/s1"], dest_path="g")))["state"] == "done"


@pytest.mark.slow
async def test_a_receiver_whose_file_was_changed_is_not_read_for_another_site(tmp_path: Path) -> None:
    chain = {"ams": ["a0"], "sfo": ["s0", "s1"], "oak": ["o0"]}
    async with mesh(tmp_path, chain, {"sfo": ["ams"], "oak": ["sfo"]}) as sites:
        ams, sfo, oak = sites.values()
        ams.give(DATA)
        oak.fabric.hold.clear()
        group = await ams.made(["sfo/all", "sfo/oak/o0"])
        await until(lambda: group in sfo.coordinator.groups and sfo.coordinator.groups[group].own.state == "done")
        for site in (oak, sfo):
            await site.stop()
        sfo.fabric.hosts["s0"].files["f"] = b"another one"
        for site in (sfo, oak):
            await site.start()
        oak.fabric.hold.set()
        assert (await ams.end(group))["state"] == "done" and oak.has("o0", DATA)


# ---- who may ask ----
def client(site: Site, shown: tuple[str, str] | None) -> httpx.AsyncClient:
    context = ssl.create_default_context(cafile=str(site.authority.ca))
    context.check_hostname = False
    if shown is not None:
        context.load_cert_chain(*shown)
    return httpx.AsyncClient(base_url=site.url, verify=context, timeout=60.0)


@pytest.mark.slow
async def test_each_certificate_opens_what_is_its_own_and_nothing_else(tmp_path: Path) -> None:
    hosts = {**TWO, "oak": ["o0"]}
    async with mesh(tmp_path, hosts, {"sfo": ["ams"], "oak": ["ams"]}) as sites:
        ams, sfo, oak = sites.values()
        ams.give(DATA)
        group = await ams.made(["sfo/all"])
        await ams.end(group)
        where, first = f"/site/objects/{group}", {"range": "bytes=0-99"}
        held, told = f"/site/groups/{group}/held", f"/site/groups/{group}/progress"

        async def asked(
            site: Site, shown: tuple[str, str] | None, path: str, headers: dict[str, str] | None = None, **more: Any
        ) -> tuple[int, str]:
            async with client(site, shown) as http:
                method = "POST" if more else "GET"
                answer = await http.request(method, path, headers=headers, **more)
                code = answer.json().get("code") if "json" in answer.headers.get("content-type", "") else ""
                return answer.status_code, code

        friend, other = (site.authority.issue("controller/main") for site in (sfo, oak))
        assert await asked(ams, friend, where, first) == (206, "")  # nothing below is refused for another reason
        assert await asked(ams, friend, held) == (200, None)
        assert await asked(ams, None, where, first) == (401, "no_certificate")
        assert await asked(ams, other, where, first) == (404, "not_found")
        assert await asked(ams, other, held) == (404, "not_found")
        assert await asked(ams, other, told, json={"state": "done"}) == (404, "group_not_found")
        assert await asked(ams, sfo.authority.issue("agent/s0"), where, first) == (403, "denied")
        assert await asked(ams, ams.authority.issue("controller/main"), where, first) == (403, "denied")
        own = ams.authority.issue("agent/a1")
        assert await asked(ams, own, where, first) == (404, "not_found")  # it comes from here
        assert await asked(sfo, sfo.authority.issue("agent/s1"), "/site/orders") == (403, "denied")
        assert await asked(ams, friend, where, {**first, "if-match": '"else"'}) == (412, "changed")
        for text in ("bytes=0-", "bytes=5-4", "bytes=0-1,3-4", f"bytes={1 << 30}-{1 << 31}"):
            assert await asked(ams, friend, where, {"range": text}) == (416, "bad_range")
        # A site that is taken out of the file is a stranger at once.
        rows = ams.file.read_text().replace("sfo:", "gone:")
        ams.file.write_text(rows)
        await until(lambda: "gone" in ams.coordinator.peers.all)
        assert await asked(ams, friend, where, first) == (404, "not_found")  # it is called gone now


async def test_too_many_ranges_at_once_are_refused_and_no_place_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest, "STREAMS_SITE", 2)
    async with two(tmp_path, DATA) as (ams, sfo):
        group = await ams.made(["sfo/all"])
        await ams.end(group)
        host, gate = ams.fabric.hosts["a0"], asyncio.Event()
        async with client(ams, sfo.authority.issue("controller/main")) as http:

            async def one(headers: dict[str, str]) -> int:
                return (await http.get(f"/site/objects/{group}", headers=headers)).status_code

            host.gate = gate
            before = len(host.reads)
            waiting = [asyncio.create_task(one({"range": "bytes=0-99"})) for _ in range(2)]
            await until(lambda: len(host.reads) >= before + 2)
            assert await one({"range": "bytes=0-99"}) == 429
            gate.set()
            assert [await task for task in waiting] == [206, 206]
            assert await one({"range": "bytes=0-99"}) == 206
