"""Whole labs on each data plane: a file to a group, delivered, verified, with the trees' links not stressed."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from conformance_kit import ROOT
from planes import PLANES
from ports import free_ports
from waiting import wait_for

from datacast import topologies
from datacast.core.quantities import parse_rate, parse_size
from datacast.fabric_manager.api import GroupOptions
from datacast.lab.controlled import without_appliance
from datacast.lab.faults import parse_faults
from datacast.lab.lab import LabOptions, load_topology
from datacast.lab.report import plain
from datacast.lab.run import Quiet, Transfer, run
from datacast.lab.state import Registry

pytestmark = [pytest.mark.root, pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(300)]
DATACAST = ROOT / ".venv" / "bin" / "datacast"
SIX = "02,10,21,23,31,33"
SMALL = {"topology": "bcube:3,1", "to": "02,11,12,21"}
"""Nine hosts and six switches: two trees, which branch at switches."""
AT_LENGTH = pytest.mark.skipif(not os.environ.get("DATACAST_BMV2"), reason="a part of `make test-bmv2`")
FAULTY = ["ovs", pytest.param("bmv2", marks=AT_LENGTH)]
"""One whole lab on bmv2 belongs to every test run, those under faults do not."""


def lab_command(tmp_path: Path, rest: int, *options: str) -> list[str]:
    return [str(DATACAST), "lab", "run", "--name", f"cf{os.getpid()}", "--rest-port", str(rest),
            "--fabric-port", str(free_ports(1)[0]), "--json", str(tmp_path / "report.json"), *options]


def lab_run(
    dataplane: str, link: str, size: str, *, topology: str = "bcube:4,1", source: str = "00", to: str = SIX,
    mtu: int = 9000, faults: Sequence[str] = (), without: str = "", appliance_link: str = "", **options: str,
) -> dict[str, Any]:
    """What `datacast lab run` does, in this process: for all its labs services are loaded once. The report."""
    graph = load_topology(topology)
    rest, fabric = free_ports(2)
    lab = LabOptions(
        topology, parse_rate(link), mtu, dataplane=dataplane, rest_port=rest, fabric_port=fabric,
        without_appliance=without_appliance(without, graph, dataplane) if without else (),
        appliance_bps=parse_rate(appliance_link) if appliance_link else 0,
    )  # fmt: skip
    broken = parse_faults(list(faults), graph, dataplane)
    what = Transfer(source, receivers=tuple(to.split(",")), size=parse_size(size),
                    options=GroupOptions(**options), faults=broken)  # type: ignore[arg-type]
    return plain(run(lab, f"cf{os.getpid()}", what, Quiet()))


def get(port: int, path: str) -> dict:
    token = (Registry().folder(f"cf{os.getpid()}") / "token").read_text().strip()
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"authorization": f"Bearer {token}"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=5) as answer:
        return json.loads(answer.read())


def need(name: str) -> None:
    for part in name.split("+"):
        if lack := PLANES[part].missing():
            pytest.skip(f"{part}: {lack}")


@pytest.mark.parametrize(("name", "link"), [("ovs", "20mbit"), ("ovs+dpdk", "20mbit"), ("bmv2", "10mbit")])
def test_a_file_reaches_its_group(name: str, link: str) -> None:
    need(name)
    report = lab_run(name, link, "2M", **SMALL)
    assert report["ok"] and all(r["sha256_ok"] for r in report["receivers"].values()) and len(report["receivers"]) == 4
    assert report["trees"]["count"] == 2 and report["silent"] == []
    # 2 MB are too little to say much about duplicates on a machine that does other things, too.
    assert 0.99 < report["link_stress"] < 1.5


@pytest.mark.parametrize("name", [pytest.param("p4", marks=AT_LENGTH), "dpdk+ovs+bmv2+p4"])
def test_switches_that_cache_by_themselves_deliver(name: str) -> None:
    need(name)
    report = lab_run(name, "2mbit", "400K", mtu=1500)
    assert report["ok"] and all(r["sha256_ok"] for r in report["receivers"].values()) and len(report["receivers"]) == 6


# ---- accidents ----
@pytest.mark.parametrize("name", FAULTY)
@pytest.mark.parametrize("fault", ["kill controller at 500ms, restart at 6s", "kill master at 500ms"])
def test_nothing_is_lost_when_who_steers_is_killed(name: str, fault: str) -> None:
    need(name)
    report = lab_run(name, "10mbit", "2M", faults=[fault], **SMALL)
    assert report["ok"] and report["faults"][0]["failed_ns"] and report["faults"][0]["error"] is None
    if "controller" in fault:
        assert report["finish_s"] < 5, "it ended before there was a controller again"


HOSTS = {"a": "e0", "b": "e0", "c": "e1", "d": "e2", "e": "e3", "f": "e3"}
LINKS = ("e0", "m0"), ("e1", "m0"), ("e2", "m1"), ("e3", "m1"), ("m0", "top"), ("m1", "top")
EDGES, MIDDLE = "e0,e1,e2,e3", "m0,m1"


def three_levels(folder: Path) -> str:
    """Seven switches: from a to e there are five in a row."""
    g = nx.Graph()
    for name in {end for link in LINKS for end in link}:
        g.add_node(name, kind="switch", forwards=True)
    for name, switch in HOSTS.items():
        g.add_node(name, kind="host", forwards=False)
        g.add_edge(name, switch)
    g.add_edges_from(LINKS)
    path = folder / "levels.json"
    path.write_text(json.dumps(topologies.to_json(g)))
    return str(path)


@pytest.mark.parametrize(("without", "to", "plain"), [(MIDDLE, "c,d,e", {"m0", "m1"}), (EDGES, "b,e,f", {"e0", "e3"})],
                         ids=["in-the-middle", "at-every-edge"])
def test_a_group_works_without_appliances(tmp_path: Path, without: str, to: str, plain: set[str]) -> None:
    """Switches that pop three labels: the way through five is cut where an appliance is."""
    need("ovs")
    report = lab_run("ovs", "20mbit", "1M", topology=three_levels(tmp_path), source="a", to=to, without=without)
    assert report["ok"] and len(report["receivers"]) == 3 and report["labels"] <= 3
    assert set(report["plain_branches"]) == plain


def test_a_group_works_without_any_appliance() -> None:
    """Hosts forward there: no way leads through more than one switch."""
    need("ovs")
    report = lab_run("ovs", "20mbit", "1M", without="all", **SMALL)
    assert report["ok"] and len(report["receivers"]) == 4 and report["plain_branches"]


def test_the_operator_is_told_of_an_absent_appliance(tmp_path: Path) -> None:
    need("ovs")
    rest = free_ports(1)[0]
    options = ("--topology", three_levels(tmp_path), "--dataplane", "ovs", "--link", "10mbit", "--size", "1M",
               "--from", "a", "--to", "b,c", "--without-appliance", "e0")
    pipe = subprocess.PIPE
    lab = subprocess.Popen(lab_command(tmp_path, rest, *options), stdout=pipe, stderr=pipe, text=True)
    said: list[str] = []

    def told() -> bool:
        if not said and lab.poll() is None:
            with contextlib.suppress(OSError, ValueError):
                said.extend(next(s["problems"] for s in get(rest, "/switches")["switches"] if s["name"] == "e0"))
        return bool(said) or lab.poll() is not None

    wait_for("what GET /switches says", told, 120)
    out, err = lab.communicate(timeout=120)
    assert lab.returncode == 0, out + err
    assert any("only forwards" in text for text in said)
    assert "e0 had no cache appliance: the source sent more" in out
    assert json.loads((tmp_path / "report.json").read_text())["plain_branches"] == ["e0"]


@pytest.mark.parametrize("name", FAULTY)
def test_an_appliance_dies_under_a_group_and_comes_back(name: str) -> None:
    need(name)
    report = lab_run(name, "10mbit", "12M", faults=["kill appliance s0.0 at 1s, restart at 4s"], **SMALL)
    assert report["ok"] and report["faults"][0]["error"] is None and report["faults"][0]["known_ms"] > 0
    assert [r["appliances"] for r in report["reactions"]] == [[["s0.0", False]], [["s0.0", True]]]


@AT_LENGTH
@pytest.mark.parametrize("name", ["bmv2", "p4"])
def test_a_switch_restarts_under_a_group_and_all_heals_by_itself(name: str) -> None:
    """It comes back without pipeline and entries: the controller gives both; what was under way is asked for again."""
    need(name)
    report = lab_run(name, "2mbit", "1M", mtu=1500, to="02,10,21", delivery="together",
                     faults=["kill switch s0.0 at 1s, restart at 3s"])
    assert report["ok"] and all(r["sha256_ok"] for r in report["receivers"].values())
    assert report["faults"][0]["error"] is None and report["faults"][0]["failed_ns"]


@pytest.mark.alone  # it counts what is sent twice
@pytest.mark.parametrize(("name", "link"), [("ovs", "10mbit"), pytest.param("bmv2", "2mbit", marks=AT_LENGTH)])
def test_an_appliances_link_carries_a_packet_once(name: str, link: str) -> None:
    """It has the cables' rate, and some children are two links away, behind hosts that only forward."""
    need(name)
    report = lab_run(name, link, "1M", appliance_link=link, delivery="together")
    assert report["ok"] and 0.95 < report["appliance_copies"] < 1.05


def test_an_unknown_data_plane_is_refused_with_those_there_are(tmp_path: Path) -> None:
    command = [str(DATACAST), "lab", "run", "--dataplane", "ovs+magic", "--size", "1M"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and "magic" in done.stderr and "dpdk, memif, ovs, bmv2, p4" in done.stderr
