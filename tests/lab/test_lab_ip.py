"""Labs of `--dataplane ip`: hosts on plain routers, joined by tunnels."""

from __future__ import annotations

from types import SimpleNamespace

import networkx as nx
import pytest
from lab_kit import Quiet, asked_again, eventually
from left_over import unique_name
from ports import free_ports

from datacast import topologies
from datacast.lab import ip
from datacast.lab.errors import LabError
from datacast.lab.lab import Lab, LabOptions
from datacast.lab.plan import make_plan
from datacast.lab.report import plain
from datacast.lab.run import Transfer, send, settle


def layout(spec: str):
    graph = topologies.parse(spec)
    switches = [name for name, data in graph.nodes(data=True) if data["kind"] == "switch"]
    plan = make_plan(graph, rate_bps=1_000_000_000, mtu=1500, apart=tuple(switches))
    return plan, graph.subgraph(switches)


def test_hosts_of_one_island_form_a_ring_that_leaves_each_router_once():
    plan, routers = layout("leafspine:2,3,2")
    graph = ip.overlay(plan, routers)
    assert sorted(degree for _, degree in graph.degree) == [2] * 6 and nx.is_connected(graph)
    leaf = {one.host: one.router for one in ip.attachments(plan)}
    assert sum(leaf[u] != leaf[v] for u, v in graph.edges) == 3
    assert {data["rate_bps"] for *_, data in graph.edges(data=True)} == {500_000_000}


def test_ports_are_numbered_from_zero_and_addresses_are_of_the_host_s_own_cables():
    plan, routers = layout("bcube:4,1")
    graph = ip.overlay(plan, routers)
    own = {one.address: one.host for one in ip.attachments(plan)}
    for host in plan.hosts:
        assert sorted(data["ports"][host] for *_, data in graph.edges(host, data=True)) == [0, 1, 2, 3]
        assert all(own[data["tunnel"][host]] == host for *_, data in graph.edges(host, data=True))


def test_two_hosts_have_one_tunnel_with_the_whole_cable():
    plan, routers = layout("leafspine:1,1,2")
    graph = ip.overlay(plan, routers)
    assert [data["rate_bps"] for *_, data in graph.edges(data=True)] == [1_000_000_000]


def test_hosts_on_one_cable_are_refused():
    plan, routers = layout("torus:3,1")
    with pytest.raises(LabError, match="no router is between them"):
        ip.overlay(plan, routers)


def test_no_route_leads_over_a_link_that_is_down_from_the_start():
    """The kernel takes none there."""
    graph = topologies.parse("leafspine:2,2,2")
    for u, v in (("s0.0", "s1.0"), ("1.0", "s0.1")):
        graph.edges[u, v]["up"] = False
    routers = ip.IpPlane().routers(SimpleNamespace(graph=graph))
    plan = make_plan(graph, rate_bps=10**9, mtu=1500, apart=tuple(routers))
    assert {one.host for one in ip.attachments(plan)} == {"0.0", "0.1", "1.1"} and ip.host_routes(plan, "1.0") == ""
    down = [number for number, cable in enumerate(plan.cables) if not cable.up]
    gates = {ip.address(number, end) for number in down for end in (0, 1)}
    routes = "".join(ip.router_routes(plan, routers, name) for name in routers)
    assert "nexthop via" in routes and not any(f"{gate} " in routes or f"{gate}\n" in routes for gate in gates)
    assert sorted(ip.overlay(plan, routers).degree) == [("0.0", 2), ("0.1", 2), ("1.0", 0), ("1.1", 2)]


def test_a_router_sends_by_all_shortest_ways_of_which_a_grid_has_more_than_can_be_counted():
    side = 20
    graph = nx.relabel_nodes(nx.grid_2d_graph(side, side), lambda at: f"r{at[0]}.{at[1]}")
    nx.set_node_attributes(graph, {name: {"kind": "switch", "forwards": True} for name in graph})
    for host, router in (("a", "r0.0"), ("b", f"r{side - 1}.{side - 1}")):
        graph.add_node(host, kind="host", forwards=False)
        graph.add_edge(host, router)
    for name in graph:
        for number, other in enumerate(graph[name]):
            graph.edges[name, other].setdefault("ports", {})[name] = number
    routers = [name for name in graph if name not in "ab"]
    plan = make_plan(graph, rate_bps=10**9, mtu=1500, apart=tuple(routers))
    far = next(one.address for one in ip.attachments(plan) if one.host == "b")
    routes = ip.router_routes(plan, graph.subgraph(routers), "r0.0").splitlines()
    (route,) = (line for line in routes if far in line)
    assert route.split(" || ")[0].count("nexthop via") == 2


@pytest.fixture(scope="module")
def lab():
    rest, fabric = free_ports(2)
    options = LabOptions(
        topology="leafspine:2,2,2",
        rate_bps=100_000_000,
        mtu=1500,
        dataplane="ip",
        rest_port=rest,
        fabric_port=fabric,
        room=1 << 26,
        realtime=False,
    )
    with Lab(options, unique_name("ip")) as made:
        made.up()
        yield made


@pytest.mark.lab
@pytest.mark.root
@pytest.mark.slow
def test_a_file_reaches_all_hosts_over_two_trees_of_tunnels(lab):
    report = plain(send(lab, settle(lab.graph, Transfer(size=4 << 20, seed=1)), Quiet()))
    assert report["ok"], report
    assert report["trees"]["count"] == 2 and len(report["receivers"]) == 3
    assert 1500 - 32 - 16 - 2 * 4 <= report["payload"] <= 1500 - 32 - 16  # fills the path, but for a label or two


@pytest.mark.lab
@pytest.mark.root
@pytest.mark.slow
def test_each_byte_crosses_each_cable_under_the_tunnels_once(lab):
    report = plain(send(lab, settle(lab.graph, Transfer(size=4 << 20, seed=1)), Quiet()))
    assert report["ok"], report
    assert 1.0 <= report["link_stress"] < 1.2 + asked_again(report), report


@pytest.mark.lab
@pytest.mark.root
@pytest.mark.slow
def test_routers_and_hosts_whose_cables_were_down_have_their_routes_again(lab):
    leaf, node, ports = next(
        (machine.name, name, ports)
        for machine in lab.plan.switches
        for name, ports in machine.ports.items()
        if any(port.neighbour in lab.plan.hosts for port in ports)
    )
    host = next(port.neighbour for port in ports if port.neighbour in lab.plan.hosts)
    up = [port for port in ports if port.neighbour not in lab.plan.hosts]
    assert len(up) == 2

    def routes(machine: str) -> list[str]:
        return sorted(
            lab.network.run_in(machine, ["ip", "route", "show", "table", "all", "proto", "boot"]).splitlines()
        )

    before = routes(leaf), routes(host)
    own = lab.plan.hosts[host].ports[host][0].port
    for end, number in [*((node, port.port) for port in up), (host, own)]:
        lab.network.set_port(end, number, False)
    assert not any("nexthop" in line or "via" in line for line in routes(leaf) + routes(host)) and before[0]
    lab.network.set_port(node, up[0].port, True)
    assert any("via" in line for line in routes(leaf))  # by the one that is there
    for end, number in ((node, up[1].port), (host, own)):
        lab.network.set_port(end, number, True)
    assert (routes(leaf), routes(host)) == before
    eventually(
        lambda: all(link["up"] for link in lab.rest_json("GET", "/topology")["links"]), 60, "all tunnels up again"
    )


@pytest.mark.lab
@pytest.mark.root
@pytest.mark.slow
def test_a_host_s_cable_takes_both_its_tunnels_with_it_and_brings_them_back(lab):
    """The tunnels' own interface stays: nothing but the hellos shows it to the other ends."""

    def links() -> dict[str, bool]:
        return {f"{x['u']}-{x['v']}": x["up"] for x in lab.rest_json("GET", "/topology")["links"]}

    # A busy machine keeps hellos back, and a link that works is down for a moment.
    eventually(lambda: all(links().values()), 60, "all tunnels up")
    assert len(links()) == 4
    host = next(iter(lab.plan.hosts))
    port = lab.plan.hosts[host].ports[host][0].port
    lab.network.swallow(host, port, True)
    try:
        eventually(
            lambda: {n for n, up in links().items() if not up} == {n for n in links() if host in n.split("-")},
            60,
            "both its tunnels down, and no other",
        )
    finally:
        lab.network.swallow(host, port, False)
    eventually(lambda: all(links().values()), 60, "all tunnels up again")
    report = plain(send(lab, settle(lab.graph, Transfer(size=1 << 20, seed=2)), Quiet(), dest="again.bin"))
    assert report["ok"], report
