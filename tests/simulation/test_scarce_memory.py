"""Forty groups over one switch whose memory holds ten of the content stores that they ask for, or one."""

from __future__ import annotations

import pytest

from datacast.simulation.errors import SimulationError
from datacast.simulation.experiments import Setting
from datacast.simulation.experiments.memory import DEFAULTS, GROUPS, run_once


@pytest.mark.parametrize("seed", range(1, 4))
def test_all_groups_end_and_each_has_its_part_of_what_there_is(seed: int) -> None:
    s = Setting(**DEFAULTS, seed=seed)
    store = s.product(hops=2).cache_bytes / 1e6
    plenty, ten, one = (run_once(s, stores) for stores in (0, 10, 1))
    for row, room in ((plenty, GROUPS), (ten, 10), (one, 1)):
        assert row["problem"] == "" and 0.95 * room < row["held_mb"] / store <= room
        assert row["jain"] > 0.95, row
    assert plenty["duplicate_ratio"] < 0.01
    assert ten["duplicate_ratio"] < 0.2 and ten["finish_over_ideal"] < plenty["finish_over_ideal"] + 0.25
    assert one["link_stress"] < 1.3 and one["worst_finish_over_ideal"] < 4


def test_a_node_has_memory_for_one_store() -> None:
    from datacast.simulation.engine import Simulation

    sim = Simulation()
    sim.switch("s")
    with pytest.raises(SimulationError, match="one store"):
        sim.memory("s", 1000, 999)
