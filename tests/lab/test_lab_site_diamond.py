"""Four sites in a ring: an order that comes by two ways; and one whose origin is away for longer than fetchers wait."""

from __future__ import annotations

import os

import pytest
from lab_kit import eventually
from sites_kit import Wan, wan

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow]

SITES = """
sites:
  ams: {hosts: 1}
  sfo: {hosts: 1}
  oak: {hosts: 1}
  syd: {hosts: 1}
links:
  - {between: [ams, sfo], rate: 16mbit, delay_ms: 2}
  - {between: [ams, oak], rate: 16mbit, delay_ms: 2}
  - {between: [sfo, syd], rate: 16mbit, delay_ms: 2}
  - {between: [oak, syd], rate: 16mbit, delay_ms: 2}
"""
MIB = 1 << 20


@pytest.fixture(scope="module")
def diamond(tmp_path_factory: pytest.TempPathFactory):
    """`syd` is known to `sfo` and to `oak`, not to `ams`."""
    with wan(tmp_path_factory.mktemp("diamond"), SITES) as up:
        yield up


def test_an_order_that_comes_by_two_ways_is_carried_out_once(diamond: Wan):
    path = diamond.file(8 * MIB)
    with diamond.carried(8 * MIB) as links:
        group = diamond.order("ams", path, ["*/all"])
        eventually(lambda: both(diamond, group["id"]), 60, "syd has the order of both")
        group = diamond.end("ams", group)
    assert group["state"] == "done", diamond.told(group)
    assert all(diamond.has(host, path) for host in ("sfo-0", "oak-0", "syd-0"))
    # one way tells of it, though the sites are a ring
    assert sorted(name.rpartition("/")[2] for name in group["receivers"]) == ["oak-0", "sfo-0", "syd-0"]
    ways = links["sfo", "syd"], links["oak", "syd"]
    assert 1.0 <= sum(ways) < 1.15 and min(ways) > 0.2, links  # each byte once, by both ways
    here = [row for row in diamond.lab.ask("syd", "GET", "/groups") if row["id"] == group["id"]]
    assert len(here) == 1


def both(site: Wan, group_id: str) -> bool:
    """Whether syd is a part of what sfo has, and of what oak has."""
    rows = [row for name in ("sfo", "oak") for row in site.lab.ask(name, "GET", "/groups") if row["id"] == group_id]
    return len(rows) == 2 and all("syd" in row["sites"] for row in rows)


@pytest.mark.skipif(not os.environ.get("DATACAST_FAULTS"), reason="a part of `make test-faults`")
def test_a_part_whose_origin_was_away_for_long_goes_on_by_itself(diamond: Wan):
    """Its own group has failed by then: nobody resumes it but its controller. It takes a minute of waiting;
    tests/controller/test_site_faults.py has it without agents in `make test`."""
    path = diamond.file(6 * MIB)
    ports = diamond.lab.graph.edges["ams-gw", "sfo-gw"]["ports"]
    with diamond.carried(6 * MIB) as links:
        group = diamond.order("ams", path, ["sfo/all"])
        diamond.until("ams", group, 0.2, "sfo")
        local = diamond.lab.ask("sfo", "GET", f"/groups/{group['id']}")["local"]
        for node, port in ports.items():
            diamond.lab.network.swallow(node, port, True)
        try:
            eventually(lambda: diamond.lab.ask("sfo", "GET", f"/groups/{local}")["state"] == "failed", 90, "it failed")
            assert diamond.now("ams", group)["state"] == "running"
        finally:
            for node, port in ports.items():
                diamond.lab.network.swallow(node, port, False)
        group = diamond.end("ams", group, 60)
    assert group["state"] == "done", diamond.told(group)
    assert diamond.has("sfo-0", path)
    assert links["ams", "sfo"] < 1.3, links  # what had come is not fetched again
