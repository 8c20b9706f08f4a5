"""What nodes tell of themselves: each field to its bounds. What is beyond is passed over, or the message refused."""

from __future__ import annotations

from typing import Any

import pytest
from small import star

from datacast.fabric_manager.api.specs import LinkSpec, NodeSpec
from datacast.fabric_manager.api.topology import Counted
from datacast.fabric_manager.fabric import Fabric
from datacast.fabric_manager.told import FabricError, Heartbeat, LinkReport, PortTold, Registration, away_ms

REGISTER = {"node": "h0", "kind": "host"}
MOST = (1 << 63) - 1
NO_COUNTS = [-1, MOST + 1, True, 1.0, "1", None, [1]]


def registration(**more: Any) -> Registration:
    return Registration.read({**REGISTER, **more})


def test_of_a_registration_that_says_no_more_nothing_else_is_known() -> None:
    assert registration() == Registration(node="h0", kind="host")
    port = {"port": 1}
    assert registration(ports=[port]).ports == (PortTold(1, True, None, None),)
    assert registration(ports=[port | {"up": False, "ifname": "eth0", "mtu": 9000}]).ports == (
        PortTold(1, False, "eth0", 9000),
    )


@pytest.mark.parametrize("field", ["pid", "n", "msd"])
def test_what_is_no_count_is_passed_over(field: str) -> None:
    assert [getattr(registration(**{field: good}), field) for good in (1, MOST)] == [1, MOST]
    assert [getattr(registration(**{field: bad}), field) for bad in NO_COUNTS] == [None] * len(NO_COUNTS)
    assert getattr(registration(**{field: 0}), field) == (None if field == "msd" else 0)


@pytest.mark.parametrize("flag", [True, False, 1, 0, "true", None])
def test_a_flag_is_true_or_false_and_nothing_else(flag: Any) -> None:
    told = registration(cache=flag, proxy=flag)
    assert told.cache is (flag if isinstance(flag, bool) else None) and told.proxy is (flag is True)


def test_ports_are_numbered_from_0_to_65534() -> None:
    assert [port.number for port in registration(ports=[{"port": 0}, {"port": 65534}]).ports] == [0, 65534]
    for wrong in (-1, 65535, True, "1", 1.0, None):
        with pytest.raises(FabricError, match="ports must be a list"):
            registration(ports=[{"port": 0}, {"port": wrong}])
    for ports in ({}, "x", None, [1], [{"up": True}], [{"port": 1, "up": 1}], [{"port": 1, "up": None}]):
        with pytest.raises(FabricError, match="ports must be a list"):
            registration(ports=ports)


def test_a_process_is_away_for_0_to_10000_ms() -> None:
    assert [away_ms({"for_ms": good}) for good in (0, 1, 10_000)] == [0, 1, 10_000]
    for wrong in (-1, 10_001, True, "1", None):
        with pytest.raises(FabricError, match="away needs for_ms, 0 to 10000"):
            away_ms({"for_ms": wrong})


def test_a_heartbeat_tells_of_disks_in_pairs_and_of_nodes_of_its_process_alone() -> None:
    told = {"t_ns": 5, "disks": [[1, 2], [3], [4, -1], "x", [0, 0]], "nodes": {
        "h0": {"forwarded": 1, "hits": True, "else": 7, "drop": {"x" * 65: 3, "ttl": -1},
               "carried": {"0": 4, "1": "5"}},
        "h1": {"forwarded": 2}, "h2": 7}}  # fmt: skip
    beat = Heartbeat.read(told, ["h0", "h2", "h3"])
    assert (beat.t_ns, beat.disks) == (5, ((1, 2), (0, 0)))
    assert {name: (node.counted, node.carried) for name, node in beat.nodes.items()} == {
        "h0": (Counted(forwarded=1, drop={"x" * 64: 3}), {"0": 4})
    }
    assert Heartbeat.read({"t_ns": "5", "disks": {}}, ["h0"]) == Heartbeat(None, None, {})
    many = {"drop": {f"r{n}": n for n in range(65)}}
    assert [*Heartbeat.read({"nodes": {"h0": many}}, ["h0"]).nodes["h0"].counted.drop] == [f"r{n}" for n in range(64)]


def test_a_link_report_names_a_port_its_state_and_a_number() -> None:
    told = {"port": 1, "up": False, "n": 2}
    assert LinkReport.read(told) == LinkReport(None, 1, False, 2, None)
    more = {"node": "s", "t_ns": 3, "reason": "r" * 65}
    assert LinkReport.read(told | more) == LinkReport("s", 1, False, 2, 3, "r" * 64)
    for wrong in ({"port": True}, {"port": None}, {"up": 1}, {"n": "2"}, {"n": True}, {"node": 7}):
        with pytest.raises(FabricError):
            LinkReport.read(told | wrong)


@pytest.mark.parametrize("name", ["a", "x" * 64, "rack1-h0.example"])
def test_a_node_that_is_added_has_a_name_of_64_printable_characters_at_most(name: str) -> None:
    fabric, spec = Fabric(star(2)), NodeSpec(kind="host", links=[LinkSpec(to="s")])
    assert fabric.numbered(name, spec).links[0].to == "s"
    for wrong in ("", "x" * 64 + name, f"{name}\n", f"{name} b", f"{name}/b", f"{name}:b", f"{name}@b", f"{name},b"):
        with pytest.raises(FabricError) as refused:
            fabric.numbered(wrong, spec)
        assert refused.value.code == "bad_name"


@pytest.mark.parametrize("field", ["addr", "instance", "version", "control"])
def test_what_a_node_says_of_itself_is_no_book(field: str) -> None:
    """A host that registered again and again with megabytes had the fabric manager keep thousands of them."""
    assert getattr(registration(**{field: "x" * 4096}), field) == "x" * 4096
    assert getattr(registration(**{field: "x" * 4097}), field) is None


def test_a_node_has_sixteen_folders_of_each_kind_and_short_names_of_ports() -> None:
    roots = [f"/{n}" for n in range(40)]
    told = registration(dest_roots=["x" * 4097, 7, *roots], source_roots=roots)
    assert told.dest_roots == told.source_roots == tuple(roots[:16])
    names = [port.ifname for port in registration(ports=[{"port": n, "ifname": "x" * (64 + n)} for n in (0, 1)]).ports]
    assert names == ["x" * 64, None]
    assert len(registration(kind="x" * 1000).kind) == 64
    with pytest.raises(FabricError, match="no topology has a node") as refused:
        registration(node="x" * 5000)
    assert len(refused.value.message) < 200 and len(refused.value.what) == 64
