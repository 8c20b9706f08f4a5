"""Sites on a wide area: their file, the network made of it, and a file sent over it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from lab_kit import Quiet, free_ports, unique_name

from datacast.lab import ip, sites
from datacast.lab.errors import LabError
from datacast.lab.faults import parse_faults
from datacast.lab.lab import Lab, LabOptions, load_topology
from datacast.lab.plan import make_plan
from datacast.lab.run import Transfer, send, settle

GOOD = """
sites:
  ams: {hosts: 2, access: 100mbit, card: 200mbit}
  sfo: {hosts: 2, access: 100mbit}
  syd: {hosts: 1, access: 50mbit}
links:
  - {between: [ams, sfo], rate: 40mbit, delay_ms: 15}
  - {between: [sfo, syd], rate: 30mbit, delay_ms: 0.5}
changes:
  - {at: 1.5s, between: [sfo, ams], rate: 10mbit}
  - {at: 500ms, between: [sfo, syd], down_for: 2s}
"""


def given(tmp_path, text: str = GOOD):
    path = tmp_path / "sites.yaml"
    path.write_text(text)
    return path


def test_hosts_share_an_access_link_and_gateways_have_the_wan(tmp_path):
    g = load_topology(str(given(tmp_path)))
    assert [n for n, data in g.nodes(data=True) if data["kind"] == "host"] == [
        "ams-0",
        "ams-1",
        "sfo-0",
        "sfo-1",
        "syd-0",
    ]
    rate = {frozenset(edge): data["rate_bps"] for *edge, data in g.edges(data=True)}
    assert rate[frozenset(("ams", "ams-gw"))] == 100_000_000
    assert rate[frozenset(("ams-1", "ams"))] == 200_000_000
    assert rate[frozenset(("sfo-0", "sfo"))] == 1_000_000_000
    assert g.edges["ams-gw", "sfo-gw"]["delay_ms"] == 15 and g.edges["ams-gw", "sfo-gw"]["rate_bps"] == 40_000_000
    assert not g.has_edge("ams-gw", "syd-gw")


def test_tunnels_have_their_part_of_every_cable_under_them(tmp_path):
    g = load_topology(str(given(tmp_path)))
    routers = g.subgraph([n for n, data in g.nodes(data=True) if data["kind"] == "switch"])
    plan = make_plan(g, rate_bps=10**9, mtu=1500, apart=tuple(routers))
    rates = {frozenset((u, v)): data["rate_bps"] for u, v, data in ip.overlay(plan, routers).edges(data=True)}
    assert rates[frozenset(("ams-0", "ams-1"))] == 100_000_000  # a card for two tunnels
    assert rates[frozenset(("ams-1", "sfo-0"))] == 20_000_000  # 40 Mb/s for two
    assert rates[frozenset(("ams-0", "syd-0"))] == rates[frozenset(("sfo-1", "syd-0"))] == 15_000_000


def test_changes_are_faults_of_the_run(tmp_path):
    read = sites.read(given(tmp_path))
    g = sites.graph(read)
    found = parse_faults(sites.faults(read, g), g, "ip")
    assert [(f.kind, f.at_s, f.end_s, f.rate_bps) for f in found] == [
        ("link", 0.5, 2.5, 0),
        ("rate", 1.5, None, 10_000_000),
    ]
    assert found[1].links == {frozenset(("ams-gw", "sfo-gw"))}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[sfo, syd], rate: 30mbit", "[sfo, nowhere], rate: 30mbit", "a link to nowhere, which is no site"),
        ("[sfo, syd], rate: 30mbit", "[sfo, sfo], rate: 30mbit", "to itself"),
        ("[sfo, syd], rate: 30mbit", "[sfo, ams], rate: 30mbit", "twice"),
        ("rate: 30mbit", "rate: fast", "links.1.rate"),
        ("delay_ms: 15", "delay_ms: -1", "links.0.delay_ms"),
        ("hosts: 1", "hosts: 0", "sites.syd.hosts"),
        ("hosts: 1", "hosts: 1, colour: red", "sites.syd.colour"),
        ("syd:", "Sydney-West:", "no name for a site|which is no site"),
        ("down_for: 2s", "rate: 1mbit, down_for: 2s", "either rate or down_for"),
        ("[sfo, syd], down_for", "[ams, syd], down_for", "no such link"),
        ("at: 500ms", "at: soon", "changes.1.at"),
        ("sites:", "sites: [", "no YAML"),
    ],
)
def test_what_makes_no_sense_is_said(tmp_path, old, new, message):
    text = GOOD.replace(old, new, 1)
    assert text != GOOD
    with pytest.raises(LabError, match=message):
        sites.read(given(tmp_path, text))


def test_the_example_is_good():
    read = sites.read(Path(__file__).parents[2] / "examples" / "sites.yaml")
    assert len(parse_faults(sites.faults(read, sites.graph(read)), sites.graph(read), "ip")) == 1


def test_sites_that_nothing_joins_and_files_that_are_not_there(tmp_path):
    alone = GOOD.split("links:")[0]
    with pytest.raises(LabError, match="no links lead from"):
        sites.read(given(tmp_path, alone))
    with pytest.raises(LabError, match="No such file"):
        sites.read(tmp_path / "none.yaml")


@pytest.mark.lab
@pytest.mark.root
@pytest.mark.slow
def test_a_file_crosses_the_wide_area_and_a_link_that_becomes_slow(tmp_path):
    """40 Mb/s between the sites, 10 from half a second on: 4 MiB cannot be there before the links allow, and are."""
    text = """
sites:
  ams: {hosts: 1}
  sfo: {hosts: 2}
links:
  - {between: [ams, sfo], rate: 40mbit, delay_ms: 5}
changes:
  - {at: 500ms, between: [sfo, ams], rate: 10mbit}
"""
    path = given(tmp_path, text)
    read = sites.read(path)
    g = sites.graph(read)
    rest, fabric = free_ports(2)
    options = LabOptions(
        topology=str(path), mtu=1500, dataplane="ip", rest_port=rest, fabric_port=fabric, room=1 << 25, realtime=False
    )
    with Lab(options, unique_name("sites")) as lab:
        lab.up()
        began = time.monotonic()
        out = lab.network.run_in("ams-0", ["ping", "-c", "2", "-I", "10.128.0.1", _address(lab, "sfo-0")])
        assert "time=1" in out and time.monotonic() - began < 10  # there and back: 10 ms and a bit
        changes = parse_faults(sites.faults(read, g), g, "ip")
        report = send(lab, settle(lab.graph, Transfer(size=4 << 20, seed=1, faults=changes)), Quiet())
    assert report["ok"], report
    least = 0.5 + ((4 << 20) * 8 - 40e6 * 0.5 - 40e6 * 0.1) / 10e6
    assert report["finish_s"] > 0.8 * least


def _address(lab: Lab, host: str) -> str:
    return next(one.address for one in ip.attachments(lab.plan) if one.host == host)
