"""Finish over ideal and link stress of the networks that tests/lab brings up, at a lab's rate and in simulated time:
there they say how busy the machine was, here what the core does."""

from __future__ import annotations

from typing import Any

import pytest

from datacast.simulation.experiments import Setting, find

LAB = {"cc": "steady", "rate": 100_000_000, "slow": 100_000_000, "delta": 12_500_000, "size": 20_000_000}


def run(name: str, **changes: Any) -> list[dict[str, Any]]:
    experiment = find(name)
    return experiment.run(Setting().with_(**{**experiment.defaults, **changes}), lambda text: None).rows


@pytest.mark.parametrize(
    ("topology", "receivers", "trees"),
    [("torus:3,2", 8, 4), ("torus:3,2", 3, 4), ("fattree:4,2", 6, 1), ("fattree:4,3", 2, 1), ("leafspine:2,4,2", 5, 1)],
)
def test_a_group_ends_when_it_ideally_does_and_loads_no_link_twice(topology: str, receivers: int, trees: int) -> None:
    (row,) = run("figure14", topology=topology, receivers=receivers, **LAB)
    assert row["trees"] == trees
    assert 1.0 <= row["link_stress"] < 1.0001 and row["duplicate_ratio"] < 0.0001
    assert 1.0 <= row["finish_over_ideal_with_interests"] < 1.002
    assert row["finish_over_ideal"] < (1.015 if trees > 1 else 1.002)  # trees ask over each other's links


def test_figure_10_s_group_ends_when_it_ideally_does() -> None:
    row = run("testbed", cc="steady", size=100_000_000)[-1]
    assert row["part"] == "0.1 GB, 2 trees" and row["finish_over_ideal"] < 1.011
    assert 1.0 <= row["link_stress"] < 1.0001 and row["duplicate_ratio"] < 0.0001
