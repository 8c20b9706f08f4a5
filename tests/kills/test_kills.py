"""Leader, workers, controller and members of etcd killed and restarted under transfers, in a lab."""

from __future__ import annotations

import os

import pytest
from left_over import unique_name
from ports import free_ports

from datacast.lab.lab import LabOptions
from kills.campaign import KILLS, Campaign
from kills.cluster import Cluster

pytestmark = [
    pytest.mark.lab,
    pytest.mark.alone,  # beside other labs receivers are slow that are not, and plans follow plans
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.timeout(300),
]


async def test_transfers_go_on_whatever_service_is_killed_or_restarted() -> None:
    """Each kind once. But for a leader that hangs, which takes as long as all others together: that is asked without a
    lab (test_leadership.py)."""
    kills = [kind for kind in KILLS if kind != "leader stopped"]
    rest, fabric = free_ports(2)
    options = LabOptions(
        topology="bcube:2,1", rate_bps=10_000_000, realtime=False, room=64 << 20, rest_port=rest, fabric_port=fabric
    )
    with Cluster(options, unique_name("kills")) as lab:
        lab.up()
        campaign = Campaign(lab, 1, kills, 4, 3_000_000, (0.2, 1.0), print)
        await campaign.run()
    assert campaign.faults == []
    assert campaign.figures()["kills"] == len(kills) and campaign.figures()["done"] >= 4
