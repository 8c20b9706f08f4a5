"""A controller speaks for switches at the fabric manager: its end is not theirs."""

from __future__ import annotations

import pytest

from datacast import topologies
from datacast.fabric_manager.api.topology import LinkChange, NodeChange
from datacast.fabric_manager.fabric import Fabric
from datacast.fabric_manager.told import FabricError, Registration


def registration(node: str, **more) -> dict:
    ports = [{"port": p} for p in range(4)]
    return {"type": "register", "node": node, "kind": "switch", "pid": 7, "ports": ports, **more}


def down(fabric: Fabric) -> int:
    return sum(not fabric.link_up(u, v) for u, v in fabric.graph.edges)


def fabric_with(**more) -> Fabric:
    fabric = Fabric(topologies.parse("bcube:4,1"))
    for i, host in enumerate(topologies.hosts(fabric.graph)):
        message = {"type": "register", "node": host, "kind": "host", "addr": f"198.18.0.{i + 1}:7600"}
        fabric.register(Registration.read(message), 100 + i, 1)
    for switch in topologies.switches(fabric.graph):
        fabric.register(Registration.read(registration(switch, **more)), 1, 1)
    assert down(fabric) == 0
    return fabric


def test_when_the_controller_ends_its_switches_go_on() -> None:
    fabric = fabric_with(proxy=True, msd=3, cache=True)
    changes = fabric.disconnect(1, 2)
    assert down(fabric) == 0 and not [c for c in changes if isinstance(c, LinkChange)]
    switches = [n for n in fabric.snapshot().nodes if n.kind == "switch"]
    assert all(n.alive and not n.registered and n.msd == 3 for n in switches)


def test_a_link_that_was_down_stays_down_without_the_controller_until_the_next_one_says_otherwise() -> None:
    fabric = fabric_with(proxy=True)
    fabric.link_report("s0.0", 2, False, 5, 2)
    fabric.disconnect(1, 3)
    assert down(fabric) == 1
    fabric.register(Registration.read(registration("s0.0", proxy=True)), 2, 4)
    assert down(fabric) == 0


def test_when_a_switch_process_ends_its_links_do() -> None:
    fabric = fabric_with()
    fabric.disconnect(1, 2)
    assert down(fabric) == 32


def test_an_appliance_that_goes_is_told_on() -> None:
    fabric = fabric_with(proxy=True, cache=True)
    change = fabric.register(Registration.read(registration("s0.0", proxy=True, cache=False)), 1, 2)[0]
    assert isinstance(change, NodeChange) and change.cache is False


def test_a_switch_that_another_controller_leads_now_is_that_one_s_though_the_first_one_is_not_gone_yet() -> None:
    """One that hangs, or has lost its connection to that switch alone: the next one was refused, once and for all."""
    fabric = fabric_with(proxy=True)
    fabric.register(Registration.read(registration("s0.0", proxy=True, instance="another")), 2, 4)
    assert fabric.speaker("s0.0") == 2 and fabric.speaker("s1.0") == 1
    fabric.disconnect(1, 5)
    assert fabric.speaker("s0.0") == 2 and fabric.speaker("s1.0") is None and down(fabric) == 0


def test_a_switch_that_speaks_for_itself_is_no_controller_s() -> None:
    fabric = fabric_with()
    with pytest.raises(FabricError, match="registered already"):
        fabric.register(Registration.read(registration("s0.0", proxy=True)), 2, 4)
    spoken_for = fabric_with(proxy=True)
    with pytest.raises(FabricError, match="registered already"):
        spoken_for.register(Registration.read(registration("s0.0")), 2, 4)
