"""What `--fault` takes and what it refuses."""

from __future__ import annotations

import pytest

from datacast import topologies
from datacast.lab.errors import LabError
from datacast.lab.faults import appliances_apart, parse_fault, parse_faults, small_disks, switches_apart

GRAPH = topologies.parse("bcube:4,1")


@pytest.mark.parametrize(
    ("spec", "kind", "at", "end"),
    [
        ("link 00:0 down at 2s", "link", 2.0, None),
        ("link 31:0 rate 5mbit at 2s", "rate", 2.0, None),
        ("link 31:0 rate 5mbit at 2s, back at 4s", "rate", 2.0, 4.0),
        ("link 00:0 up at 400ms", "link", 0.4, None),
        ("kill switch s1.0 at 3s", "switch", 3.0, None),
        ("upgrade switch s1.0 at 1s", "upgrade", 1.0, 1.0),
        ("upgrade switch s1.0 at 1s, restart at 3s", "upgrade", 1.0, 3.0),
        ("kill agent 21 at 2s, restart at 4s", "agent", 2.0, 4.0),
        ("kill appliance s0.0 at 2s, restart at 4s", "appliance", 2.0, 4.0),
        ("stop agent 31 for 5s at 2s", "stop", 2.0, 7.0),
        ("blackhole s0.0:1 at 1s", "blackhole", 1.0, None),
        ("corrupt s0.0 1e-4", "corrupt", 0.0, None),
        ("kill master at 2s", "master", 2.0, None),
        ("kill fabric-manager at 2s", "fabric-manager", 2.0, 2.5),
        ("link 00:0 down at 2s, up at 3s", "link", 2.0, 3.0),
        ("stop agent 31 at 2s", "stop", 2.0, None),
        ("blackhole 21:1 in at 1s, off at 2s", "blackhole", 1.0, 2.0),
        ("fill disk 21 at 1s", "disk", 1.0, None),
        ("agent 21 cpu 10% at 1s", "cpu", 1.0, None),
        ("agent 21 disk 1.5mbyte at 1s, back at 3s", "writes", 1.0, 3.0),
        ("cut management of 21 for 3s at 1s", "management", 1.0, 4.0),
        ("cut management for 10s at 1s", "management", 1.0, 11.0),
        ("power loss at 1s", "power", 1.0, 2.0),
        ("power loss at 1s, back at 4s", "power", 1.0, 4.0),
    ],
)
def test_forms(spec, kind, at, end):
    fault = parse_fault(spec, GRAPH)
    assert (fault.kind, fault.at_s, fault.end_s) == (kind, at, end)


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ("link 99:0 down at 2s", "'99'"),
        ("link 00:7 down at 2s", "no port 7"),
        ("blackhole 00:7 at 2s", "no port 7"),
        ("kill switch 00 at 2s", "00 is a host"),
        ("kill appliance 00 at 2s", "00 is a host"),
        ("kill agent s0.0 at 2s", "s0.0 is a switch"),
        ("fill disk s0.0 at 2s", "s0.0 is a switch"),
        ("agent s0.0 cpu 10% at 2s", "s0.0 is a switch"),
        ("agent 21 cpu 0% at 2s", "between 1% and 100%"),
        ("agent 21 disk 1byte at 2s", "at least 4096"),
        ("cut management of s0.0 for 1s at 2s", "s0.0 is a switch"),
        ("link 00:0 up at 2s, up at 3s", "up already"),
        ("link 00:0 down at 2s, up at 1s", "not after"),
        ("link 00:0 rate fast at 2s", "is no rate"),
        ("link 00:0 rate 5mbit at 2s, back at 1s", "not after"),
        ("kill master at 2s, restart at 3s", "take over"),
        ("kill master at 0s", "no group yet"),
        ("power loss at 2s, back at 2s", "not after"),
        ("corrupt s0.0 1.2.3", "above 0"),
        ("kill agent 21 at 4s, restart at 2s", "not after"),
        ("corrupt s0.0 1.5", "at most 1"),
        ("burn everything", "burn everything"),
    ],
)
def test_what_names_nothing_real_is_refused(spec, named):
    with pytest.raises(LabError) as error:
        parse_fault(spec, GRAPH)
    assert named in str(error.value)


@pytest.mark.parametrize(
    ("spec", "listed"),
    [
        ("kill agent 99 at 1s", "its hosts are 00, 01, 02"),
        ("kill switch s9 at 1s", "its switches are s0.0, s0.1"),
        ("link 00:7 down at 2s", "its ports are 00:0 (to s0.0), 00:1 (to s1.0)"),
        ("link x:7 down at 2s", "its nodes are 00, 01"),
        ("burn everything", "'link 00:0 down at 2s'"),
        (f"link 00:{'9' * 5000} down at 2s", "'link 00:0 down at 2s'"),
        (f"kill master at {'9' * 400}s", "'link 00:0 down at 2s'"),
        (f"agent 21 disk {'9' * 400}byte at 2s", "'link 00:0 down at 2s'"),
    ],
)
def test_what_there_is_is_listed(spec, listed):
    with pytest.raises(LabError) as error:
        parse_fault(spec, GRAPH)
    assert listed in error.value.remedy


def test_a_topology_without_switches_says_so():
    with pytest.raises(LabError) as error:
        parse_fault("kill switch s0.0 at 1s", topologies.parse("torus:3,2"))
    assert error.value.remedy == "it has no switches"


def test_a_disk_to_be_filled_is_a_small_one():
    assert small_disks(parse_faults(["fill disk 21 at 1s"], GRAPH, "dpdk")) == ("21",)


def test_a_switch_to_be_killed_gets_a_process_of_its_own_and_other_data_planes_refuse():
    assert switches_apart(parse_faults(["upgrade switch s1.0 at 1s"], GRAPH, "dpdk")) == ("s1.0",)
    faults = parse_faults(["kill switch s1.0 at 1s"], GRAPH, "dpdk")
    assert switches_apart(faults) == ("s1.0",)
    assert parse_faults(["kill switch s1.0 at 1s"], GRAPH, "dpdk+bmv2+p4")
    for spec, plane in (("corrupt s0.0 1e-4", "ovs"), ("kill switch s1.0 at 1s", "ovs+p4"), ("power loss at 1s", "p4")):
        with pytest.raises(LabError):
            parse_faults([spec], GRAPH, plane)


def test_an_appliance_to_be_killed_gets_a_process_of_its_own_where_there_are_appliances():
    spec = "kill appliance s0.0 at 1s, restart at 2s"
    faults = parse_faults([spec], GRAPH, "ovs+dpdk")
    assert appliances_apart(faults) == ("s0.0",) and switches_apart(faults) == ()
    with pytest.raises(LabError) as error:
        parse_faults([spec], GRAPH, "dpdk")
    assert "ovs or bmv2" in error.value.remedy
