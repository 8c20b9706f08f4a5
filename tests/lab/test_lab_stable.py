"""A slow receiver in a whole lab: declared in the topology, and found out while it runs."""

from __future__ import annotations

import json

import pytest
from lab_kit import Quiet
from left_over import unique_name
from ports import free_ports

from datacast import topologies
from datacast.fabric_manager.api import GroupOptions
from datacast.lab.faults import parse_faults
from datacast.lab.lab import Lab, LabOptions
from datacast.lab.report import plain
from datacast.lab.run import Transfer, send, settle

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow]

SIX = ("02", "10", "21", "23", "31", "33")
FIVE = tuple(name for name in SIX if name != "31")
FAST, SLOW, SIZE = 20_000_000, 2_000_000, 3 << 20


def lab_of(tmp_path, slow: bool) -> Lab:
    g = topologies.parse("bcube:4,1")
    for u, v, data in g.edges(data=True):
        data["rate_bps"] = SLOW if slow and "31" in (u, v) else FAST
    path = tmp_path / "net.json"
    path.write_text(json.dumps(topologies.to_json(g)))
    rest, fabric = free_ports(2)
    options = LabOptions(str(path), FAST, rest_port=rest, fabric_port=fabric, room=1 << 28)
    return Lab(options, unique_name("stable"))


def deliver(lab: Lab, **what):
    what = {"source": "00", "receivers": SIX, "size": SIZE, "seed": 1, **what}
    report = plain(send(lab, settle(lab.graph, Transfer(**what)), Quiet()))
    assert report["ok"], report
    return {name: row["finish_s"] for name, row in report["receivers"].items()}, report


def test_a_slow_receiver_holds_nobody_up(tmp_path):
    with lab_of(tmp_path, slow=True) as lab:
        lab.up()
        times, report = deliver(lab)
        assert report["trees"]["count"] == 4
        together, _ = deliver(lab, options=GroupOptions(delivery="together"))
    # A tenth of the rate: at one rate for all everybody takes ten times as long.
    assert max(times[name] for name in FIVE) < together["02"] / 3
    assert times["31"] < 1.3 * together["31"]


@pytest.mark.alone  # beside other labs all receivers are slow now and then
def test_a_receiver_whose_links_slow_down_gets_trees_of_its_own(tmp_path):
    with lab_of(tmp_path, slow=False) as lab:
        lab.up()
        faults = parse_faults([f"link 31:{port} rate 5mbit at 500ms" for port in (0, 1)], lab.graph, "dpdk")
        times, report = deliver(lab, size=3 * SIZE, faults=faults, options=GroupOptions(delivery="stable"))
    assert report["trees"]["count"] > 2
    assert max(times[name] for name in FIVE) < times["31"] / 2
