"""What an event costs, and that what is kept by changes is what looking at everything gives."""

from __future__ import annotations

from typing import Any

import pytest
from drawing import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from test_manager import World, ring, sealed

from datacast import topologies
from datacast.controller.southbound import cables as cables_module
from datacast.controller.southbound import manager as manager_module
from datacast.controller.southbound.cables import Cables
from datacast.controller.southbound.config import parse
from datacast.controller.southbound.errors import SwitchError
from datacast.controller.southbound.loops import blocked_ends
from datacast.controller.southbound.manager import LLDP_LIFE_S
from datacast.controller.southbound.state import PortInfo, Session


def fattree(n: int = 4, k: int = 3) -> dict[str, Any]:
    """Every switch of a Fattree, cabled as the topology says."""
    graph = topologies.parse(f"fattree:{n},{k}")
    names = [name for name, data in graph.nodes(data=True) if data["kind"] == "switch"]
    switches = []
    for i, name in enumerate(names):
        ports = []
        for far, data in graph.adj[name].items():
            near, there = int(data["ports"][name]), int(data["ports"][far])
            ports.append({"port": near, "number": near + 1, "neighbour": {"node": far, "port": there}})
        switches.append({"name": name, "openflow": {"dpid": i + 1}, "ports": ports})
    return {"switches": switches}


def test_a_port_that_changes_costs_one_spanning_tree_and_the_switches_concerned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(fattree())
    for name in world.switches:
        world.connect(name)
    trees, programmed = [], []
    monkeypatch.setattr(cables_module, "blocked_ends", lambda links: trees.append(1) or blocked_ends(links))
    real_desired = manager_module.desired
    monkeypatch.setattr(manager_module, "desired", lambda *a: programmed.append(a[0].name) or real_desired(*a))
    edge = next(s for s in world.manager.config.switches if any(p.neighbour.node in world.switches for p in s.ports))
    up = next(p for p in edge.ports if p.neighbour and p.neighbour.node in world.switches)
    world.port(edge.name, up.number, up=False)
    assert len(trees) <= 1
    assert len(programmed) <= 8, programmed
    trees.clear()
    programmed.clear()
    host = next(
        (s, p) for s in world.manager.config.switches for p in s.ports if p.neighbour.node not in world.switches
    )
    world.port(host[0].name, host[1].number, up=False)
    assert (len(trees), programmed) == (0, [host[0].name])


def all_links(sessions: dict[str, Session]) -> set[Any]:
    """By looking at every port of every switch."""
    links = set()
    for name, session in sessions.items():
        for p in session.config.ports:
            peer = session.seen.get(p.port)
            end = peer[:2] if peer else (p.neighbour.node, p.neighbour.port) if p.neighbour else None
            if end is None or end[0] not in sessions or end[1] not in sessions[end[0]].numbers:
                continue
            if all(not sessions[n].ports or sessions[n].port_up(port) for n, port in ((name, p.port), end)):
                links.add(tuple(sorted(((name, p.port), tuple(end)))))
    return links


@pytest.mark.slow
@given(st.data())
@settings(max_examples=examples(150))
def test_cables_kept_by_changes_are_those_that_all_ports_show(data: st.DataObject) -> None:
    config = ring(5, appliance=False)
    for switch in config["switches"]:
        for port in switch["ports"]:
            if data.draw(st.booleans()):
                del port["neighbour"]
    sessions = {s.name: Session(s) for s in parse(config).switches}
    cables = Cables(sessions)
    names = st.sampled_from(sorted(sessions))
    for _ in range(data.draw(st.integers(0, 20))):
        name, port = data.draw(names), data.draw(st.integers(0, 2))
        session, kind = sessions[name], data.draw(st.sampled_from(["port", "seen", "lost", "connect", "gone"]))
        if kind == "connect":
            session.ports = {n: PortInfo(n, "02:00:00:00:00:00", data.draw(st.booleans())) for n in (1, 2, 3)}
            session.seen.clear()
            cables.touched(name)
        elif kind == "gone":
            session.seen.clear()
            cables.touched(name)
        else:
            if kind == "port":
                session.ports[port + 1] = PortInfo(port + 1, "02:00:00:00:00:00", data.draw(st.booleans()))
            elif kind == "seen":
                session.seen[port] = (
                    data.draw(st.sampled_from([*sorted(sessions), "x"])),
                    data.draw(st.integers(0, 3)),
                    0,
                )
            else:
                session.seen.pop(port, None)
            # The first word about a port says that the switch is there: all of it counts from now on.
            cables.touched(name, None if len(session.ports) == 1 else (port,))
        expected = blocked_ends(all_links(sessions))
        assert {(n, p) for n in sessions for p in cables.blocked(n)} == expected


@pytest.mark.parametrize("way", ["down", "silent", "again"])
@pytest.mark.parametrize("port", [1, 2], ids=["to a switch", "to a host"])
def test_a_cable_that_was_put_right_is_no_problem_any_more(port: int, way: str) -> None:
    """Nothing more comes in there, or its switch was away meanwhile."""
    world = World(ring())
    tokens = world.connect_all()
    number = port + 1

    def told() -> bool:
        return any(f"port {port} leads to" in text for text in world.manager.summary("s0").problems)

    world.do(world.manager.packet_in(world.now, world.t_ns, "s0", number, sealed(world, "s1", 1)))
    assert told()
    world.now += LLDP_LIFE_S
    world.do(world.manager.packet_in(world.now, world.t_ns, "s0", number, sealed(world, "s1", 1)))
    world.tick()
    assert told(), "it is still so"
    if way == "down":
        world.port("s0", number, up=False)
    elif way == "silent":
        world.now += LLDP_LIFE_S + 1
        world.tick()
    else:
        world.do(world.manager.disconnected(world.t_ns, "s0", tokens["s0"]))
        world.connect("s0")
    assert not told()


@pytest.mark.parametrize("port", [-1, 65535])
def test_a_cable_that_leads_to_a_port_that_cannot_be_is_refused(port: int) -> None:
    told = ring()
    told["switches"][0]["ports"][0]["neighbour"] = {"node": "s1", "port": port}
    with pytest.raises(SwitchError, match=r"neighbour\.port"):
        parse(told)
