"""Sites on a wide area: their file, the network made of it, and what a run makes of names and faults."""

from __future__ import annotations

from pathlib import Path

import pytest

from datacast.lab import ip, sites
from datacast.lab.errors import LabError
from datacast.lab.faults import parse_faults
from datacast.lab.plan import make_plan
from datacast.lab.run import Transfer
from datacast.lab.site_run import names_of, settle

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
    g = sites.graph(sites.read(given(tmp_path)))
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


def test_tunnels_join_the_hosts_of_one_site_and_share_their_cards(tmp_path):
    g = sites.graph(sites.read(given(tmp_path, GOOD.replace("ams: {hosts: 2", "ams: {hosts: 3"))))
    routers = g.subgraph([n for n, data in g.nodes(data=True) if data["kind"] == "switch"])
    plan = make_plan(g, rate_bps=10**9, mtu=1500, apart=tuple(routers))

    def tunnels(*members: str) -> dict[tuple[str, str], int]:
        return {(u, v): data["rate_bps"] for u, v, data in ip.overlay(plan, routers, [*members]).edges(data=True)}

    assert tunnels("sfo-0", "sfo-1") == {("sfo-0", "sfo-1"): 1_000_000_000}
    assert set(tunnels("ams-0", "ams-1", "ams-2").values()) == {100_000_000}  # a card for two tunnels
    assert tunnels("syd-0") == {}


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
    ("at", "down_for", "end_s"),
    [("1000s", "1ms", 1000.001), ("1234567s", "1.5s", 1234568.5), ("0.01ms", "0.02ms", 0.00003)],
)
def test_an_outage_ends_when_it_is_to_however_late_or_short_it_is(tmp_path, at, down_for, end_s):
    text = GOOD.replace("at: 500ms", f"at: {at}").replace("down_for: 2s", f"down_for: {down_for}")
    read = sites.read(given(tmp_path, text))
    g = sites.graph(read)
    assert end_s in [f.end_s for f in parse_faults(sites.faults(read, g), g, "ip")]


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
        ("at: 500ms", "at: 1000000000s", "changes.1.at"),
        ("sites:", "sites: [", "no YAML"),
        ("100mbit}\n  syd: {hosts: 1", "100mbit, nat: true}\n  syd: {nat: true, hosts: 1", "both behind NAT"),
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


def test_names_mean_hosts_as_seen_from_the_source_s_site(tmp_path):
    read = sites.read(given(tmp_path))
    assert names_of(read, "ams-0", ["*/all"]) == ["ams-1", "sfo-0", "sfo-1", "syd-0"]
    assert names_of(read, "ams-0", ["sfo/*/all"]) == ["sfo-0", "sfo-1", "syd-0"]
    assert names_of(read, "sfo-0", ["syd/*/all"]) == ["syd-0"]
    assert names_of(read, "sfo-1", ["sfo/*/all"]) == ["sfo-0", "ams-0", "ams-1", "syd-0"]
    assert names_of(read, "ams-0", ["all"]) == names_of(read, "ams-0", ["ams/all"]) == ["ams-1"]
    assert names_of(read, "ams-0", ["sfo/sfo-1", "sfo/syd/all", "ams-1"]) == ["sfo-1", "syd-0", "ams-1"]
    for name, message in (
        ("syd/all", "ams knows no site syd"),
        ("sfo/ams-1", "sfo has no host ams-1"),
        ("sfo-0", "ams has no host sfo-0"),
        ("syd/*/all", "ams knows no site syd"),
        ("sfo/ams/*/all", "leads back to ams"),
        ("*/sfo-0", r"ams knows no site \*"),
        ("ams-0", "no receivers"),
    ):
        with pytest.raises(LabError, match=message):
            names_of(read, "ams-0", [name])


def test_a_run_begins_with_names_and_faults_that_make_sense(tmp_path):
    read, transfer = sites.read(given(tmp_path)), Transfer(size=1)
    found = settle(read, transfer, ["link sfo-gw:2 down at 100ms, up at 5s"])
    assert (found.source, found.receivers) == ("ams-0", ("*/all",))
    assert [fault.at_s for fault in found.faults] == [0.1, 0.5, 1.5]  # with the changes of the file
    for wrong, fault, message in (
        (Transfer(size=1, source="oak-0"), "", "no host 'oak-0'"),
        (Transfer(size=1, source="ams-0", other_sources=("ams-1",)), "", "one source"),
        (Transfer(size=1, receivers=("syd/all",)), "", "knows no site syd"),
        (Transfer(), "", "either --size or --file"),
        (transfer, "kill controller at 1s", "a lab of sites cannot do that"),
        (transfer, "link nowhere:0 down at 1s", "no node 'nowhere'"),
    ):
        with pytest.raises(LabError, match=message):
            settle(read, wrong, [fault] if fault else [])
