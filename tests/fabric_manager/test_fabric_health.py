"""The view of the fabric: who is registered, which links are up, what is reported twice or out of order. No I/O."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import networkx as nx
import pytest
from small import bcube41, star

from datacast.fabric_manager.api.topology import Counted, LinkChange, PortState, graph_of, update_node
from datacast.fabric_manager.fabric import Fabric, Tunnel
from datacast.fabric_manager.registry import Registry
from datacast.fabric_manager.told import FabricError, Heartbeat, Registration, away_ms


def register(fabric: Fabric, name: str, session: int = 1, **more: Any) -> list[dict[str, Any]]:
    kind = fabric.nodes[name].kind if name in fabric.nodes else "host"
    message = {"type": "register", "node": name, "kind": kind, "addr": "10.0.0.1:7600", "pid": 100, "ports": [], **more}
    return fabric.register(Registration.read(message), session, 1)


def whole(fabric: Fabric) -> Fabric:
    for session, name in enumerate(fabric.nodes, 1):
        if fabric.nodes[name].kind == "host":
            register(fabric, name, session)
    return fabric


def up(changes: list[dict[str, Any]]) -> dict[str, bool]:
    return {f"{c.u}-{c.v}": c.up for c in changes if isinstance(c, LinkChange)}


def test_a_host_lives_while_its_agent_is_registered_and_a_switch_that_never_registered_lives() -> None:
    fabric = Fabric(star(2))
    assert not fabric.link_up("h0", "s") and fabric.nodes["s"].alive and not fabric.nodes["h0"].alive
    assert up(register(fabric, "h0", 1)) == {"s-h0": True} or up([]) == {}
    assert fabric.link_up("h0", "s") and fabric.members() == ["h0"]
    assert list(up(fabric.disconnect(1, 2)).values()) == [False]
    assert fabric.members() == []


def test_a_switch_that_registered_and_went_away_takes_its_links_down() -> None:
    fabric = whole(Fabric(star(3)))
    register(fabric, "s", 50, addr=None)
    assert all(fabric.link_up(f"h{i}", "s") for i in range(3))
    assert list(up(fabric.disconnect(50, 2)).values()) == [False] * 3
    assert not fabric.nodes["s"].alive


def test_a_switch_that_said_that_it_will_be_away_lives_on_for_so_long() -> None:
    fabric = whole(Fabric(star(3)))
    register(fabric, "s", 50, addr=None)
    fabric.away(["s"], 5000, 10**9)
    assert fabric.disconnect(50, 2 * 10**9, False)[0].alive
    assert fabric.away_for(["s"], 2 * 10**9) == 4 * 10**9
    assert fabric.expect_no_more(["s"], 3 * 10**9) == [] == fabric.expect_none(3 * 10**9)
    assert all(fabric.link_up(f"h{i}", "s") for i in range(3))
    register(fabric, "s", 51, addr=None, instance="another")
    assert fabric.expect_no_more(["s"], 7 * 10**9) == [], "it is back"
    assert list(up(fabric.disconnect(51, 8 * 10**9)).values()) == [False] * 3, "it had said so once"


def test_a_switch_that_stays_away_longer_than_it_said_is_gone() -> None:
    fabric = whole(Fabric(star(3)))
    register(fabric, "s", 50, addr=None)
    fabric.away(["s"], 5000, 10**9)
    assert up(fabric.disconnect(50, 2 * 10**9)) == {}
    assert list(up(fabric.expect_no_more(["s"], 6 * 10**9)).values()) == [False] * 3


@pytest.mark.parametrize("for_ms", [None, -1, 10_001, 2.5, "5000", True])
def test_how_long_must_be_said_and_is_bounded(for_ms: Any) -> None:
    with pytest.raises(FabricError, match="away needs for_ms"):
        away_ms({"for_ms": for_ms})
    assert away_ms({"for_ms": 10_000}) == 10_000


def test_a_silent_host_is_left_to_its_neighbours_where_all_of_them_say_hello() -> None:
    fabric = whole(Fabric(star(2)))
    register(fabric, "s", 50, addr=None)
    assert up(fabric.disconnect(2, 2, silent=True)) == {}
    assert fabric.link_up("h0", "s") and fabric.members() == ["h1"]
    assert list(up(fabric.link_report("s", 0, False, 1, 3)).values()) == [False]
    assert list(up(fabric.link_report("s", 0, True, 2, 4)).values()) == [True]
    register(fabric, "h0", 60)
    assert list(up(fabric.disconnect(60, 5)).values()) == [False], "an end of its connection is an end"


@pytest.mark.parametrize("proxy", [True, None])
def test_a_silent_host_behind_a_switch_that_says_no_hello_is_gone(proxy: bool | None) -> None:
    fabric = whole(Fabric(star(2)))
    if proxy:
        register(fabric, "s", 50, addr=None, proxy=True)
    assert list(up(fabric.disconnect(2, 2, silent=True)).values()) == [False]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"node": "zz"}, "unknown_node"),
        ({"node": 7}, "unknown_node"),
        ({"kind": "switch"}, "bad_request"),
        ({"addr": "nonsense"}, "bad_request"),
        ({"addr": None}, "bad_request"),
        ({"addr": "h:99999"}, "bad_request"),
        ({"ports": {}}, "bad_request"),
        ({"ports": [{"port": -1}]}, "bad_request"),
        ({"ports": [{"port": True}]}, "bad_request"),
        ({"ports": [{"port": 0, "up": 1}]}, "bad_request"),
    ],
)
def test_registrations_that_make_no_sense_are_refused(change: dict[str, Any], code: str) -> None:
    fabric = Fabric(star(2))
    before = fabric.snapshot()
    message = {"type": "register", "node": "h0", "kind": "host", "addr": "h:1", "ports": [], **change}
    with pytest.raises(FabricError) as caught:
        fabric.register(Registration.read(message), 1, 1)
    assert caught.value.code == code
    assert fabric.snapshot() == before


def test_a_second_agent_for_a_host_is_refused_while_the_first_lives() -> None:
    fabric = Fabric(star(2))
    register(fabric, "h0", 1)
    with pytest.raises(FabricError, match=r"h0 is registered already, by process 100 at 10\.0\.0\.1:7600"):
        register(fabric, "h0", 2)
    fabric.disconnect(1, 2)
    register(fabric, "h0", 2)
    assert fabric.nodes["h0"].session == 2


def test_the_end_of_an_old_connection_does_not_take_the_new_registration_away() -> None:
    fabric = Fabric(star(2))
    register(fabric, "h0", 1)
    fabric.disconnect(1, 2)
    register(fabric, "h0", 2)
    assert fabric.disconnect(1, 3) == [] and fabric.nodes["h0"].registered


def test_link_reports_are_taken_in_order_and_once() -> None:
    fabric = whole(Fabric(bcube41()))
    assert list(up(fabric.link_report("00", 0, False, 5, 9)).values()) == [False]
    assert fabric.link_report("00", 0, True, 5, 9) == [], "the same number again"
    assert fabric.link_report("00", 0, True, 4, 9) == [], "an older one"
    assert fabric.link_report("00", 0, False, 6, 9) == [], "nothing new"
    (change,) = fabric.link_report("00", 0, True, 7, 1234)
    assert change.up and change.t_ns == 1234 and change.version == fabric.version


def test_a_link_is_up_only_when_both_ends_say_so() -> None:
    fabric = whole(Fabric(bcube41()))
    register(fabric, "s0.0", 90, addr=None)
    fabric.link_report("00", 0, False, 1, 1)
    fabric.link_report("s0.0", 0, False, 1, 1)
    assert fabric.link_report("00", 0, True, 2, 1) == [] and not fabric.link_up("00", "s0.0")
    assert list(up(fabric.link_report("s0.0", 0, True, 2, 1)).values()) == [True]


def test_reports_that_follow_a_registration_are_part_of_it() -> None:
    """A link failed and came back while no fabric manager was there: the new one must not see it fail."""
    fabric = whole(Fabric(star(2)))
    fabric.disconnect(2, 5)
    register(fabric, "h0", 9, n=4)
    assert fabric.link_report("h0", 0, False, 3, 10) == [] and fabric.link_report("h0", 0, True, 4, 11) == []
    assert list(up(fabric.link_report("h0", 0, False, 5, 12)).values()) == [False]


def test_numbers_start_anew_with_a_new_process_but_not_with_a_new_connection() -> None:
    """The process id says nothing: in a container it is always 1."""
    fabric = whole(Fabric(star(2)))
    register(fabric, "h0", fabric.nodes["h0"].session, pid=1, instance="5eed")
    fabric.link_report("h0", 0, False, 50, 1)
    session = fabric.nodes["h0"].session
    fabric.disconnect(session, 1)
    register(fabric, "h0", 70, pid=1, instance="5eed", ports=[{"port": 0, "up": True}])
    assert fabric.link_report("h0", 0, False, 50, 1) == [], "repeated after the connection was made again"
    fabric.disconnect(70, 1)
    register(fabric, "h0", 71, pid=1, instance="beef")
    assert list(up(fabric.link_report("h0", 0, False, 1, 1)).values()) == [False]


def test_a_registration_brings_the_state_of_all_ports() -> None:
    fabric = Fabric(bcube41())
    changes = register(fabric, "00", 1, ports=[{"port": 0, "up": False}, {"port": 1, "up": True}])
    assert up(changes) in ({"00-s1.0": True}, {"s1.0-00": True})
    assert not fabric.link_up("00", "s0.0")


def test_a_port_without_a_link_is_named() -> None:
    fabric = whole(Fabric(star(2)))
    with pytest.raises(FabricError, match="node h0 has no link at port 9"):
        fabric.link_report("h0", 9, False, 1, 1)


def test_snapshot_and_changes_make_the_same_graph() -> None:
    fabric = Fabric(bcube41(), rate_bps=10**8, mtu=9000)
    graph = graph_of(fabric.snapshot())
    changes = itertools.chain(
        *(register(fabric, name, n) for n, name in enumerate(["00", "01", "33"], 1)),
        fabric.link_report("00", 1, False, 1, 1),
        fabric.disconnect(2, 1),
    )
    versions = []
    for change in changes:
        versions.append(change.version)
        if isinstance(change, LinkChange):
            graph.edges[change.u, change.v]["up"] = change.up
        else:
            update_node(graph, change)
    fresh = graph_of(fabric.snapshot())
    assert dict(graph.nodes(data=True)) == dict(fresh.nodes(data=True))
    assert {e: graph.edges[e] for e in graph.edges} == {e: fresh.edges[e] for e in graph.edges}
    assert versions == sorted(set(versions)) and versions[-1] == fabric.version
    assert fresh.edges["00", "s0.0"]["rate_bps"] == 10**8 and fresh.edges["00", "s0.0"]["mtu"] == 9000


def tunnelled(**more: Any) -> nx.Graph:
    graph = nx.Graph()
    graph.add_node("a", kind="host", forwards=True)
    graph.add_node("b", kind="host", forwards=True)
    tunnel = {"a": "10.0.0.1", "b": "10.0.1.1"}
    graph.add_edge("a", "b", **{"ports": {"a": 0, "b": 3}, "tunnel": tunnel, **more})
    return graph


def test_tunnels_are_given_out_with_the_path_s_mtu_and_carry_what_their_headers_leave() -> None:
    fabric = Fabric(tunnelled(), mtu=1500)
    assert fabric.tunnels("b") == [Tunnel(3, "10.0.1.1", "10.0.0.1", 1500)]
    assert fabric.snapshot().links[0].mtu == 1500 - 32
    v6 = Fabric(tunnelled(tunnel={"a": "fd00::1", "b": "fd00::2"}), mtu=1500)
    assert v6.snapshot().links[0].mtu == 1500 - 52 and v6.tunnels("a")[0].mtu == 1500
    assert Fabric(tunnelled(mtu=1000)).tunnels("a")[0].mtu == 1032
    assert Fabric(star(2)).tunnels("h0") == []


@pytest.mark.parametrize(
    "tunnel",
    [{"a": "10.0.0.1"}, {"a": "10.0.0.1", "b": "fd00::1"}, {"a": "10.0.0.1", "b": "10.0.0.1"}, {"a": 1, "b": "x"}, "x"],
)
def test_a_tunnel_needs_two_addresses_of_one_family(tunnel: Any) -> None:
    with pytest.raises(FabricError, match="link a-b: tunnel must give both nodes an address"):
        Fabric(tunnelled(tunnel=tunnel))


def test_what_a_node_tells_of_itself_is_in_the_snapshot_and_nonsense_is_not() -> None:
    fabric = Fabric(bcube41())
    ports = [{"port": 0, "ifname": "eth1", "mtu": 9000}, {"port": 1, "mtu": "large", "up": False}]
    message = {"node": "00", "kind": "host", "addr": "192.0.2.1:7600", "version": "9", "ports": ports}
    fabric.register(Registration.read({**message, "dest_roots": ["/r"]}), 1, 0, 1e9)
    fabric.link_report("00", 1, False, 1, 0, "silent")
    counted = {"interests": 4, "hits": 3, "bytes": "many", "drop": {"no_room": 2, "odd": -1}}
    counted["carried"] = {"0": 9000, "1": "all", "7": 1}
    told = {"00": counted, "01": counted}
    beat = {"t_ns": 10_000_000, "disks": [[5, 9], [6, 9]], "nodes": told}
    fabric.heartbeat(["00"], Heartbeat.read(beat, ["00"]), 12_500_000)
    node = next(node for node in fabric.snapshot().nodes if node.name == "00")
    assert (node.version, node.clock_ms, node.disks) == ("9", 2.5, [(5, 9)])
    assert node.ports == [
        PortState(port=0, ifname="eth1", mtu=9000, carried=9000),
        PortState(port=1, reason="silent"),
    ]
    assert node.certificate_until == 1e9
    assert node.counted == Counted(interests=4, hits=3, drop={"no_room": 2})
    assert fabric.nodes["01"].counted is None, "a process speaks for its own nodes"
    fabric.heartbeat(["00"], Heartbeat.read({"t_ns": "now", "disks": [[-1, 9]], "nodes": [1]}, ["00"]), 0)
    assert node.clock_ms == 2.5 and fabric.nodes["00"].disks == []


def test_the_first_certificate_to_end_is_known_whose_ever_it_is() -> None:
    fabric = Fabric(star(2))
    security = SimpleNamespace(until=None)
    registry = Registry(fabric, lambda change: None, security=security)  # type: ignore[arg-type]
    assert registry.certificate_until is None
    for session, (name, until) in enumerate({"h0": 3e9, "s": 2e9, "h1": None}.items(), 1):
        message = {"node": name, "kind": fabric.nodes[name].kind, "addr": "192.0.2.1:7600", "ports": []}
        fabric.register(Registration.read(message), session, 0, until)
    assert registry.certificate_until == 2e9
    security.until = 1e9
    assert registry.certificate_until == 1e9
    security.until = None
    fabric.remove("s", 1)
    assert registry.certificate_until == 3e9


def test_a_connection_that_ends_costs_its_own_nodes_only() -> None:
    """Thousands end at once where the management network is cut: were each to look at all nodes, nothing else would be
    heard for seconds."""

    class NoWalk(dict[str, Any]):
        def walked(self) -> Any:
            raise AssertionError("all nodes are looked at")

        __iter__ = items = values = keys = walked  # type: ignore[assignment]

    fabric = whole(Fabric(star(3)))
    register(fabric, "s", 9)
    register(fabric, "h0", fabric.nodes["h0"].session)  # it tells anew what it is
    fabric.nodes = NoWalk(fabric.nodes)
    for name in ("h0", "s"):
        session = fabric.nodes[name].session
        changed = [change.name for change in fabric.disconnect(session, 2) if hasattr(change, "name")]
        assert changed == [name] and not fabric.nodes[name].registered
        assert fabric.disconnect(session, 3) == []
