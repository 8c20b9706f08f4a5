"""A lab of `--dataplane memif`: hosts share memory with their switch, switches have cables between them."""

from __future__ import annotations

import pytest
from lab_kit import Quiet
from left_over import unique_name
from ports import free_ports
from switch_control import ask_switch

from datacast import topologies
from datacast.lab.errors import LabError
from datacast.lab.faults import parse_faults, switches_apart
from datacast.lab.lab import Lab, LabOptions
from datacast.lab.report import plain
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
            for node, ports in ask_switch(lab.plane.control(lab, machine), "ports")["nodes"].items():
                for number, port in ports.items():
                    drivers[node, int(number)] = port["driver"]
        hosts = list(lab.plan.hosts)
        for machine in lab.plan.switches:
            for node in machine.nodes:
                for port in machine.ports[node]:
                    assert (drivers[node, port.port] == "memif") == (port.neighbour in hosts)
        transfer = Transfer(source=hosts[0], receivers=tuple(hosts[1:]), size=8 << 20)
        report = plain(send(lab, settle(lab.graph, transfer), Quiet()))
    assert len(report["receivers"]) == 3 and all(one["sha256_ok"] for one in report["receivers"].values())


@pytest.mark.root
@pytest.mark.lab
@pytest.mark.slow
@pytest.mark.alone  # hellos that a busy machine keeps back take a link down, too
@pytest.mark.parametrize("dataplane", ["dpdk", "memif"])
def test_a_switch_is_upgraded_while_a_group_runs_and_nobody_takes_it_for_a_failure(dataplane: str):
    """Two switches in turn, the only ways between hosts; the hosts' memory goes with the old run of the program."""
    graph = topologies.parse(TOPOLOGY)
    switches = [name for name, data in graph.nodes(data=True) if data["kind"] == "switch"]
    spine = next(name for name in switches if graph.degree(name) == 2)
    leaf = next(name for name in graph.neighbors(spine) if graph.degree(name) == 3)
    faults = parse_faults([f"upgrade switch {spine} at 500ms", f"upgrade switch {leaf} at 1s"], graph, dataplane)
    rest, fabric = free_ports(2)
    options = LabOptions(topology=TOPOLOGY, rate_bps=50_000_000, dataplane=dataplane, rest_port=rest,
                         fabric_port=fabric,
                         room=1 << 26, apart=switches_apart(faults))  # fmt: skip
    with Lab(options, unique_name("up")) as lab:
        lab.up()
        hosts = list(lab.plan.hosts)
        transfer = Transfer(source=hosts[0], receivers=tuple(hosts[1:]), size=16 << 20, faults=faults)
        report = plain(send(lab, settle(lab.graph, transfer), Quiet()))
        logs = {log.name: log.read_text(errors="replace") for log in (lab.work / "logs").iterdir()}
    assert all(one["sha256_ok"] for one in report["receivers"].values())
    assert [f["error"] for f in report["faults"]] == [None, None]
    assert sum("the neighbours wait" in text for text in logs.values()) == 2, "both were upgraded"
    assert {name: text for name, text in logs.items() if "is down: " in text} == {}


def test_what_needs_a_cable_is_refused():
    graph = topologies.parse(TOPOLOGY)
    host = next(name for name, data in graph.nodes(data=True) if data["kind"] == "host")
    for spec in (f"link {host}:0 down at 1s", f"link {host}:0 rate 5mbit at 1s"):
        with pytest.raises(LabError, match="the data plane memif cannot do that"):
            parse_faults([spec], graph, "memif")
        assert parse_faults([spec], graph, "dpdk+ovs")
