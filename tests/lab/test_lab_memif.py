"""A lab of `--dataplane memif`: hosts share memory with their switch, switches have cables between them."""

from __future__ import annotations

import pytest
from lab_kit import Quiet, unique_name
from ports import free_ports

from datacast import topologies
from datacast.lab.errors import LabError
from datacast.lab.faults import parse_faults
from datacast.lab.lab import Lab, LabOptions
from datacast.lab.run import Transfer, send, settle

TOPOLOGY = "leafspine:1,2,2"


@pytest.mark.root
@pytest.mark.lab
def test_a_group_over_memory_and_cables():
    rest, fabric = free_ports(2)
    options = LabOptions(topology=TOPOLOGY, rate_bps=200_000_000, dataplane="memif", rest_port=rest, fabric_port=fabric,
                         room=1 << 26, realtime=False)  # fmt: skip
    with Lab(options, unique_name("mem")) as lab:
        lab.up()
        drivers = {}
        for machine in lab.plan.switches:
            for node, ports in lab.plane.ports(lab, machine).items():
                for number, port in ports.items():
                    drivers[node, int(number)] = port["driver"]
        hosts = list(lab.plan.hosts)
        for machine in lab.plan.switches:
            for node in machine.nodes:
                for port in machine.ports[node]:
                    assert (drivers[node, port.port] == "memif") == (port.neighbour in hosts)
        transfer = Transfer(source=hosts[0], receivers=tuple(hosts[1:]), size=8 << 20)
        report = send(lab, settle(lab.graph, transfer), Quiet())
    assert len(report["receivers"]) == 3 and all(one["sha256_ok"] for one in report["receivers"].values())


def test_what_needs_a_cable_is_refused():
    graph = topologies.parse(TOPOLOGY)
    host = next(name for name, data in graph.nodes(data=True) if data["kind"] == "host")
    for spec in (f"link {host}:0 down at 1s", f"link {host}:0 rate 5mbit at 1s"):
        with pytest.raises(LabError, match="the data plane memif cannot do that"):
            parse_faults([spec], graph, "memif")
        assert parse_faults([spec], graph, "dpdk+ovs")
