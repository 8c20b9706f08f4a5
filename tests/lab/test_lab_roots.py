"""Several sources of one file in a whole lab."""

from __future__ import annotations

import json

import networkx as nx
import pytest
from lab_kit import Quiet, eventually
from left_over import unique_name
from ports import free_ports

from datacast import topologies
from datacast.lab.faults import parse_faults
from datacast.lab.lab import Lab, LabOptions
from datacast.lab.report import plain
from datacast.lab.run import Transfer, send, settle

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow]

FAST, SLOW, SIZE = 40_000_000, 10_000_000, 3 << 20


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """Six hosts on a switch; the first two are the sources, behind slow links."""
    g = nx.Graph()
    g.add_node("s", kind="switch", forwards=True)
    for i in range(6):
        g.add_node(f"h{i}", kind="host", forwards=False)
        g.add_edge(f"h{i}", "s", rate_bps=SLOW if i < 2 else FAST)
    path = tmp_path_factory.mktemp("roots") / "net.json"
    path.write_text(json.dumps(topologies.to_json(g)))
    rest, fabric = free_ports(2)
    options = LabOptions(str(path), FAST, rest_port=rest, fabric_port=fabric, room=1 << 28)
    with Lab(options, unique_name("roots")) as it:
        it.up()
        yield it


def deliver(lab: Lab, *others: str, faults: tuple[str, ...] = (), size: int = SIZE):
    to = tuple(f"h{i}" for i in range(2, 6))
    found = parse_faults(list(faults), lab.graph, "dpdk")
    what = Transfer(source="h0", other_sources=others, receivers=to, size=size, seed=1, faults=found)
    report = plain(send(lab, settle(lab.graph, what), Quiet(), mend=True))
    eventually(lambda: all(n["registered"] for n in lab.rest_json("GET", "/topology")["nodes"]), 60, "all are back")
    assert report["ok"], report
    return report


def test_two_sources_send_twice_as_fast_as_one(lab: Lab):
    alone, both = deliver(lab), deliver(lab, "h1")
    assert both["finish_s"] < 0.65 * alone["finish_s"]
    packets = both["trees"]["new_packets"]
    assert len(packets) == 2 and min(packets) > 0.4 * sum(packets)


@pytest.mark.parametrize("gone", ["h0", "h1"])
def test_a_source_that_is_killed_is_replaced_by_the_other(lab: Lab, gone: str):
    report = deliver(lab, "h1", faults=(f"kill agent {gone} at 500ms",))
    assert report["ok"]
