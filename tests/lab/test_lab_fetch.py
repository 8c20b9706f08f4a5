"""A collective fetch in a whole lab: hosts fetch an object from nginx, and send it to each other while they do."""

from __future__ import annotations

import os
from itertools import count
from typing import Any

import pytest
from lab_kit import eventually
from origin_lab import HOSTS, origin_lab
from paced import Paced
from twice import Answer, twice, verified
from web import Nginx, put

from datacast.origins.ranges import PIECE_LEAST

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow]

SIZE = 12 << 20


PORTS = count(8099)
"""An origin of its own for each test: agents keep connections to those before it."""


@pytest.fixture(scope="module")
def its_lab(tmp_path_factory):
    with origin_lab(tmp_path_factory.mktemp("fetch")) as it:
        yield it


@pytest.fixture
def place(its_lab, tmp_path):
    its_lab.afresh()
    with Nginx(tmp_path / "nginx", its_lab.lab.plan.root_address, next(PORTS)) as nginx:
        its_lab.allow({"prefix": nginx.url + "/"})
        put(nginx.www / "object", SIZE)
        yield its_lab, nginx


def fetch(place, fetchers):
    it, nginx = place
    return it.fetch(f"{nginx.url}/object", nginx.www / "object", fetchers)


@pytest.mark.parametrize("fetchers", [1, 3, "all"])
def test_every_byte_leaves_the_origin_once_and_all_have_it(place, fetchers) -> None:
    report = fetch(place, fetchers)
    assert report["ok"], report
    assert place[1].sent() == SIZE
    clients = {client for client, status, n in place[1].rows() if status == 206 and n > 1}
    assert len(clients) == (5 if fetchers == "all" else fetchers)


def test_a_late_receiver_gets_it_from_those_that_have_it(place) -> None:
    """It comes while the others fetch, and is served when they are done: by them, and the origin gives nothing more."""
    it, _ = place
    data = os.urandom(3 << 20)
    with Paced(it.lab.plan.root_address, next(PORTS), data, 300_000) as origin:
        it.allow({"prefix": origin.url.removesuffix("object")})
        spec = {"url": origin.url, "receivers": HOSTS[:4], "fetchers": HOSTS[:3], "dest_path": "late"}
        group = it.lab.rest_json("POST", "/groups", spec)
        eventually(lambda: len(origin.given) > 6, 60, "the first blocks are asked for")
        it.lab.rest_json("POST", f"/groups/{group['id']}/receivers", {"host": HOSTS[4]})
        group = eventually(lambda: ended(it, group["id"]), 60, "its end")
        assert group["state"] == "done" and set(group["receivers"]) == set(HOSTS), group
        assert all((it.lab.host_folder(name) / "late").read_bytes() == data for name in HOSTS)
        addresses = {name: it.lab.plan.machine_of(name).address for name in HOSTS}
        asked = origin.asked_by(*addresses.values())
    assert sum(one.end - one.first for one in asked) == len(data), "each byte left the origin once"
    assert {one.client for one in asked} == {addresses[name] for name in HOSTS[:3]}


def test_who_joins_a_host_that_fetches_alone_gets_it_from_there(place) -> None:
    """Another master goes on, with trees: the group was `partial` for want of them."""
    it, _ = place
    data = os.urandom(3 << 20)
    with Paced(it.lab.plan.root_address, next(PORTS), data, 300_000) as origin:
        it.allow({"prefix": origin.url.removesuffix("object")})
        spec = {"url": origin.url, "receivers": HOSTS[:1], "dest_path": "alone"}
        group = it.lab.rest_json("POST", "/groups", spec)
        eventually(lambda: len(origin.given) > 6, 60, "the first blocks are asked for")
        it.lab.rest_json("POST", f"/groups/{group['id']}/receivers", {"host": HOSTS[4]})
        group = eventually(lambda: ended(it, group["id"]), 60, "its end")
        assert group["state"] == "done" and set(group["receivers"]) == {HOSTS[0], HOSTS[4]}, group
        assert all((it.lab.host_folder(name) / "alone").read_bytes() == data for name in group["receivers"])
        addresses = [it.lab.plan.machine_of(name).address for name in HOSTS]
        asked = origin.asked_by(*addresses)
    assert sum(one.end - one.first for one in asked) == len(data), "each byte left the origin once"
    assert {one.client for one in asked} == {addresses[0]}


def ended(it, group: str) -> dict | None:
    record = it.lab.rest_json("GET", f"/groups/{group}")
    return record if record["state"] in ("done", "failed", "cancelled", "partial") else None


def test_a_fetcher_that_is_killed_costs_what_it_had_asked_for(place) -> None:
    """Counted to the byte at the origin; what it had verified stands in the file that it leaves. The origin stops amid
    an answer to it: there is something that it has not got, however late the kill comes. What it had is with others."""
    it, _ = place
    data = os.urandom(5 << 20)
    (it.lab.work / "original").write_bytes(data)
    killed, hosts = it.lab.plan.machine_of("h2").address, [it.lab.plan.machine_of(name).address for name in HOSTS]
    with Paced(it.lab.plan.root_address, next(PORTS), data, 300_000) as origin:
        it.allow({"prefix": origin.url.removesuffix("object")})
        origin.most[killed] = 3 * PIECE_LEAST // 2

        def kill(_: dict[str, Any]) -> None:
            if origin.most and killed in origin.stuck:
                [held, *others] = (verified(it.lab.host_folder(name))[1] for name in ("h2", "h0", "h1", "h3", "h4"))
                if held and held <= set().union(*others):
                    origin.most.clear()
                    it.kill_agent("h2")

        report = it.fetch(origin.url, it.lab.work / "original", "all", kill, member_timeout_ms=5000)
    assert [name for name, row in report["receivers"].items() if row["finish_s"] is None] == ["h2"]
    told = [Answer(one.client, one.first, one.end, one.sent) for one in origin.asked_by(*hosts)]
    again = twice(told, killed, verified(it.lab.host_folder("h2")))
    assert again.of_that == again.unfinished > 0, again
    assert again.of_held == 0, f"verified, and others had it from there: {again}"
    asked = sum(one.end - one.first for one in told)
    assert asked == len(data) + again.of_that, "everything else was asked for once"


def test_a_fetcher_that_crawls_at_the_end_keeps_nobody_waiting(place) -> None:
    """It has a few bytes a second, and would be given up when its origin has stood still six times, after a minute."""
    it, nginx = place
    nginx.stop()
    nginx.rates[it.lab.plan.machine_of("h2").address] = 300
    nginx.start()
    report = fetch(place, "all")
    assert report["ok"], report
    group = it.lab.rest_json("GET", f"/groups/{it.lab.rest_json('GET', '/groups')[-1]['id']}")
    logs = "".join(path.read_text() for path in it.lab.work.rglob("*.log"))
    assert "h2 is slow" in logs and "h2 fetches no more" not in logs, logs
    twice = group["report"]["refetched_bytes"]
    assert 0 < twice <= SIZE // 4, "what its agent asks for at once; on a busy machine perhaps another's"
    assert SIZE <= nginx.sent() <= SIZE + twice
