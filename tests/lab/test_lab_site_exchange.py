"""Three sites that all reach each other: each takes every byte in once, from whichever has it. One goes away."""

from __future__ import annotations

import time

import pytest
from sites_kit import Wan, wan

from datacast.origins.exchange import unpacked
from datacast.origins.ranges import piece_bytes

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow]

SITES = """
sites:
  ams: {hosts: 1}
  sfo: {hosts: 2}
  syd: {hosts: 2}
links:
  - {between: [ams, sfo], rate: 8mbit, delay_ms: 5}
  - {between: [ams, syd], rate: 8mbit, delay_ms: 5}
  - {between: [sfo, syd], rate: 16mbit, delay_ms: 5}
"""
SIZE = 16 << 20
FAR = ("sfo-0", "sfo-1", "syd-0", "syd-1")


@pytest.fixture(scope="module")
def triangle(tmp_path_factory: pytest.TempPathFactory):
    with wan(tmp_path_factory.mktemp("triangle"), SITES) as up:
        yield up


def test_sites_take_from_each_other_what_the_first_one_sent_to_one_of_them(triangle: Wan):
    path = triangle.file(SIZE)
    with triangle.carried(SIZE) as links:
        group = triangle.end("ams", triangle.order("ams", path, ["sfo/all", "syd/all"]))
    assert group["state"] == "done", (group, triangle.logs())
    assert all(triangle.has(host, path) for host in FAR)
    for site, other in (("sfo", "syd"), ("syd", "sfo")):
        into = links["ams", site] + links[other, site]
        assert 1.0 <= into < 1.15, links  # each byte once, with headers and what goes the other way
        assert links[other, site] > 0.25, links  # of which without an exchange none comes from the other one


def test_a_site_that_dies_in_the_exchange_costs_the_other_nothing_it_has_not_got(triangle: Wan):
    path = triangle.file(SIZE)
    with triangle.carried(SIZE) as links:
        group = triangle.order("ams", path, ["sfo/all", "syd/all"])
        triangle.until("ams", group, 0.5, "sfo")
        triangle.until("ams", group, 0.4, "syd")
        while (had := there(triangle, "syd", group["id"])) < 0.3:
            time.sleep(0.1)
        supervisor = triangle.lab.supervisor
        one = next(p for p in supervisor.processes if p.name == "controller-syd" and p.running)
        one.expected = True
        one.popen.kill()
        one.popen.wait()
        come = silent(triangle, "syd")
        try:
            triangle.until("ams", group, 1.0, "sfo", 60)
            assert triangle.now("ams", group)["sites"]["syd"]["state"] == "running"
        finally:
            triangle.lab.start_controller("syd")
        group = triangle.end("ams", group, 60)
    assert group["state"] == "done", (group, triangle.logs())
    assert all(triangle.has(host, path) for host in FAR)
    assert links["ams", "sfo"] + links["syd", "sfo"] < 1.4, links  # what it had asked of syd it asks of ams
    # Pieces that its hosts had are not fetched again. What they had not, though it had come, is: on a busy machine,
    # more.
    assert links["ams", "syd"] + links["sfo", "syd"] < 1.15 + come - had, (links, come, had)


def there(site: Wan, name: str, group_id: str) -> float:
    """How much of a file a site's fabric manager knows to be at its hosts, in whole pieces."""
    [row] = [row for row in site.lab.ask(name, "GET", "/groups") if row["id"] == group_id]
    local = site.lab.ask(name, "GET", f"/groups/{row['id']}")["local"]
    told = site.of_manager(name, f"/groups/{local}/fetched")["fetched"]
    return float(unpacked(told, -(-SIZE // piece_bytes(SIZE))).mean()) if told else 0.0


def silent(site: Wan, name: str) -> float:
    """How much has come to a site that is gone, when no more comes."""
    before, now = -1.0, 0.0
    while now - before > 0.001:
        time.sleep(0.3)
        before, now = now, sum(site.since()[other, name] for other in ("ams", "sfo"))
    return now
