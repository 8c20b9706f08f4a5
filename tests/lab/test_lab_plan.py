"""The lab's layout of a topology: which interface, address and process each thing gets."""

from __future__ import annotations

import ipaddress
import json
from pathlib import Path
from types import SimpleNamespace

import networkx as nx
import pytest

from datacast import topologies
from datacast.lab.dataplane import DpdkPlane
from datacast.lab.errors import LabError
from datacast.lab.lab import LabOptions, load_topology
from datacast.lab.plan import IFNAME_MAX, MANAGEMENT, interface_name, make_plan, pack, ports_each

RATE = 100_000_000


@pytest.mark.parametrize(
    ("spec", "hosts", "processes"),
    [
        ("bcube:4,1", 16, 1),
        ("torus:4,2", 16, 0),
        ("fattree:4,3", 16, 3),
        ("bcube:4,2", 64, 6),
        ("leafspine:2,4,4", 16, 1),
    ],
)
def test_every_port_has_one_interface_and_every_process_takes_at_most_32(spec, hosts, processes):
    graph = topologies.parse(spec)
    plan = make_plan(graph, rate_bps=RATE, mtu=9000)
    assert (len(plan.hosts), len(plan.switches)) == (hosts, processes)
    for machine in plan.switches:
        assert sum(len(machine.ports[node]) for node in machine.nodes) <= 32
    switches = sorted(n for n, kind in graph.nodes(data="kind") if kind == "switch")
    assert sorted(node for machine in plan.switches for node in machine.nodes) == switches
    for machine in [*plan.hosts.values(), *plan.switches]:
        names = [port.ifname for ports in machine.ports.values() for port in ports]
        assert len(names) == len(set(names))
        assert all(len(name) <= IFNAME_MAX for name in names)
    ends = [(port.node, port.port) for cable in plan.cables for port in (cable.a, cable.b)]
    assert len(ends) == len(set(ends)) == 2 * graph.number_of_edges()
    macs = [port.mac for cable in plan.cables for port in (cable.a, cable.b)]
    assert len(macs) == len(set(macs))


def test_both_ends_of_a_cable_know_each_other():
    plan = make_plan(topologies.parse("bcube:4,1"), rate_bps=RATE, mtu=9000)
    for cable in plan.cables:
        for here, there in ((cable.a, cable.b), (cable.b, cable.a)):
            assert (here.neighbour, here.neighbour_port, here.neighbour_mac) == (there.node, there.port, there.mac)


def test_management_addresses_are_distinct_and_each_lab_has_its_own_network():
    networks = []
    for slot in (0, 1, 31):
        plan = make_plan(topologies.parse("bcube:4,1"), rate_bps=RATE, mtu=9000, slot=slot)
        addresses = [m.address for m in [*plan.hosts.values(), *plan.switches]] + [plan.root_address]
        assert len(addresses) == len(set(addresses))
        network = ipaddress.ip_interface(f"{plan.root_address}/{plan.prefix}").network
        assert all(ipaddress.ip_address(a) in network for a in addresses)
        assert network.subnet_of(MANAGEMENT)
        networks.append(network)
    assert len(set(networks)) == 3


def test_a_cable_s_own_rate_and_mtu_win():
    graph = topologies.parse("bcube:2,0")
    u, v = next(iter(graph.edges))
    graph.edges[u, v].update(rate_bps=10_000_000, mtu=1500)
    plan = make_plan(graph, rate_bps=RATE, mtu=9000)
    assert sorted((c.rate_bps, c.mtu) for c in plan.cables) == [(10_000_000, 1500), (RATE, 9000)]


@pytest.mark.parametrize(
    ("node", "want"),
    [("00", "00-eth1"), ("s1.3", "s1.3-eth1"), ("a-very-long-switch-name", "n7+eth1"), ("rack 3/slot 2", "n7+eth1")],
)
def test_interface_names_are_legal(node, want):
    assert interface_name(node, 7, 1) == want


def test_packing_is_tight_and_refuses_what_is_too_large():
    assert pack({"a": 16, "b": 20, "c": 12, "d": 16}) == [["b", "c"], ["a", "d"]]
    assert pack({"a": 16, "big": 33, "b": 16}) == [["big"], ["a", "b"]]
    with pytest.raises(LabError, match="switch big has 257 ports"):
        pack({"big": 257})


@pytest.mark.parametrize(("cores", "processes"), [(1, 1), (2, 1), (7, 1), (8, 2), (16, 4), (64, 8)])
def test_switches_are_shared_out_over_the_cores(cores, processes):
    plan = make_plan(topologies.parse("bcube:4,1"), rate_bps=RATE, mtu=9000, cores=cores)
    assert len(plan.switches) == processes
    assert sorted(node for machine in plan.switches for node in machine.nodes) == [
        f"s{level}.{i}" for level in range(2) for i in range(4)
    ]


def test_a_switch_is_in_one_process_and_a_process_has_32_ports_at_most():
    sizes = {"big": 33, "a": 16, "b": 16}
    assert [ports_each(sizes, 32, cores) for cores in (1, 8, 64)] == [32, 32, 32]
    assert [ports_each({"a": 16, "b": 16}, 32, cores) for cores in (1, 8, 64)] == [32, 16, 16]
    assert ports_each({}, 32, 64) == 32


def test_a_topology_without_hosts_with_a_lone_node_or_a_doubled_port_is_refused():
    graph = nx.Graph()
    graph.add_node("s", kind="switch", forwards=True)
    with pytest.raises(LabError, match="no hosts"):
        make_plan(graph, rate_bps=RATE, mtu=9000)
    graph.add_node("alone", kind="host", forwards=False)
    with pytest.raises(LabError, match="no link leads to alone, s"):
        make_plan(graph, rate_bps=RATE, mtu=9000)
    graph.remove_node("alone")
    for host in "ab":
        graph.add_node(host, kind="host", forwards=False)
        graph.add_edge(host, "s", ports={host: 0, "s": 5})
    with pytest.raises(LabError, match="port 5 of s has two cables"):
        make_plan(graph, rate_bps=RATE, mtu=9000)


def test_a_cable_s_two_directions_may_differ():
    graph = topologies.parse("bcube:2,1")
    u, v = next(iter(graph.edges))
    graph.edges[u, v]["rates_bps"] = {u: 7_000_000, v: 3_000_000}
    made = make_plan(graph, rate_bps=10_000_000, mtu=1500, queue_packets=100, slot=0)
    cable = next(c for c in made.cables if {c.a.node, c.b.node} == {u, v})
    assert {port.node: cable.rate_of(port) for port in (cable.a, cable.b)} == {u: 7_000_000, v: 3_000_000}
    other = next(c for c in made.cables if c is not cable)
    assert other.rate_of(other.a) == other.rate_of(other.b) == 10_000_000


def star(switch: str, *hosts: str) -> nx.Graph:
    graph = nx.Graph()
    graph.add_node(switch, kind="switch", forwards=True)
    for i, host in enumerate(hosts):
        graph.add_node(host, kind="host", forwards=False)
        graph.add_edge(host, switch, ports={host: 0, switch: i})
    return graph


def test_a_name_that_is_too_long_for_an_interface_gets_none_of_another_node():
    both = nx.compose(star("n3", "a", "b"), star("a-very-long-switch-name", "c", "d"))
    assert list(both.nodes).index("a-very-long-switch-name") == 3
    (machine,) = make_plan(both, rate_bps=RATE, mtu=9000).switches
    names = [port.ifname for ports in machine.ports.values() for port in ports]
    assert len(names) == len(set(names)) == 4


def test_a_host_may_be_called_what_the_lab_calls_its_switch_processes():
    plan = make_plan(star("s", "sw0", "b"), rate_bps=RATE, mtu=9000)
    names = [machine.name for machine in (*plan.hosts.values(), *plan.switches)]
    assert len(names) == len(set(names)) == 3
    assert plan.machine_of("sw0").nodes == ("sw0",) and plan.machine_of("s").nodes == ("s",)


@pytest.mark.parametrize("rates", [{"rate_bps": 100}, {"rates_bps": {"a": 10**8, "s": 100}}])
def test_a_link_that_no_hello_would_come_over_in_time_is_refused(rates):
    graph = star("s", "a", "b")
    graph.edges["a", "s"].update(rates)
    with pytest.raises(LabError, match="has 100 bit/s") as error:
        make_plan(graph, rate_bps=RATE, mtu=9000)
    assert "8000" in error.value.remedy


@pytest.mark.parametrize("name", ["rack/1", "a b", "s,t", "..", "-x", "h" * 64, "ä"])
def test_a_name_that_no_daemon_takes_is_refused(name):
    for graph in (star("s", name, "b"), star(name, "a", "b")):
        with pytest.raises(LabError, match="a node cannot be called") as error:
            make_plan(graph, rate_bps=RATE, mtu=9000)
        assert error.value.what == name


def test_a_file_names_no_interfaces_of_a_lab(tmp_path):
    """Those are of networks that somebody else has made, and programs give them (datacast.mininet)."""
    path = tmp_path / "net.json"
    nodes = [{"id": name, "kind": "host"} for name in "ab"]
    path.write_text(json.dumps({"nodes": nodes, "edges": [{"source": "a", "target": "b", "interfaces": "eth0"}]}))
    plan = make_plan(load_topology(str(path)), rate_bps=10**8, mtu=9000)
    assert plan.cables[0].a.ifname == "a-eth0"


@pytest.mark.parametrize(("given", "own"), [(1500, 1500), (9000, 9000), (16000, 9000)])
def test_a_switch_process_has_the_least_mtu_of_its_links(given, own):
    """It refuses interfaces that carry less than it was told."""
    graph = topologies.parse("leafspine:1,2,2")
    graph.edges["0.0", "s0.0"]["mtu"] = given
    plan = make_plan(graph, rate_bps=RATE, mtu=9000, apart=("s0.0", "s0.1"))
    credentials = SimpleNamespace(settings=lambda identity: {})
    lab = SimpleNamespace(
        plan=plan, options=LabOptions(), credentials=credentials, run_folder=Path("/nowhere"), signalling=""
    )
    found = {node: DpdkPlane().configuration(lab, plan.machine_of(node))["mtu"] for node in ("s0.0", "s0.1")}
    assert found == {"s0.0": own, "s0.1": 9000}
