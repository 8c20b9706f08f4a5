"""What `--fault` takes and what it refuses."""

from __future__ import annotations

import pytest

from datacast import topologies
from datacast.topologies.lab.errors import LabError
from datacast.topologies.lab.faults import appliances_apart, parse_fault, parse_faults, switches_apart

GRAPH = topologies.parse("bcube:4,1")


@pytest.mark.parametrize(
    ("spec", "kind", "at", "end"),
    [
        ("link 00:0 down at 2s", "link", 2.0, None),
        ("link 00:0 up at 400ms", "link", 0.4, None),
        ("kill switch s1.0 at 3s", "switch", 3.0, None),
        ("kill agent 21 at 2s, restart at 4s", "agent", 2.0, 4.0),
        ("kill appliance s0.0 at 2s, restart at 4s", "appliance", 2.0, 4.0),
        ("stop agent 31 for 5s at 2s", "stop", 2.0, 7.0),
        ("blackhole s0.0:1 at 1s", "blackhole", 1.0, None),
        ("corrupt s0.0 1e-4", "corrupt", 0.0, None),
        ("kill master at 2s", "master", 2.0, None),
        ("kill fabric-manager at 2s", "fabric-manager", 2.0, 2.5),
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
        ("kill switch 00 at 2s", "00 is a host"),
        ("kill appliance 00 at 2s", "00 is a host"),
        ("kill agent s0.0 at 2s", "s0.0 is a switch"),
        ("kill agent 21 at 4s, restart at 2s", "not after"),
        ("corrupt s0.0 1.5", "at most 1"),
        ("burn everything", "burn everything"),
    ],
)
def test_what_names_nothing_real_is_refused(spec, named):
    with pytest.raises(LabError) as error:
        parse_fault(spec, GRAPH)
    assert named in str(error.value)


def test_a_switch_to_be_killed_gets_a_process_of_its_own_and_other_data_planes_refuse():
    faults = parse_faults(["kill switch s1.0 at 1s"], GRAPH, "dpdk")
    assert switches_apart(faults) == ("s1.0",)
    with pytest.raises(LabError):
        parse_faults(["blackhole s0.0:1 at 1s"], GRAPH, "ovs")


def test_an_appliance_to_be_killed_gets_a_process_of_its_own_where_there_are_appliances():
    spec = "kill appliance s0.0 at 1s, restart at 2s"
    faults = parse_faults([spec], GRAPH, "ovs+dpdk")
    assert appliances_apart(faults) == ("s0.0",) and switches_apart(faults) == ()
    with pytest.raises(LabError) as error:
        parse_faults([spec], GRAPH, "dpdk")
    assert "ovs or bmv2" in error.value.remedy
