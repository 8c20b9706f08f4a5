"""The fluid that the shares of many groups are held against."""

from __future__ import annotations

import pytest

from datacast.fabric_manager.shares import Ask, TreeUse
from datacast.simulation.errors import SimulationError
from datacast.simulation.fluid import Flow, fluid

ARC = ("a", "b")


def flow(*arcs: tuple[str, str], begins: float = 0.0) -> Flow:
    return Flow(Ask({1: TreeUse(list(arcs), 1e6, 0.01)} if arcs else {}), left=1e6, begins=begins)


def test_a_group_without_trees_is_named_where_it_would_never_end() -> None:
    flows = {"g-1": flow(ARC), "g-2": flow()}
    with pytest.raises(SimulationError, match="g-2: no tree carries anything") as error:
        fluid(flows, {ARC: 1e6})
    assert flows["g-1"].ends == pytest.approx(1.0, rel=1e-3) and error.value.what == "g-2"


def test_one_that_others_do_not_wait_for_is_no_error() -> None:
    flows = {"g-1": flow(), "g-2": flow(ARC, begins=2.0)}
    fluid(flows, {ARC: 1e6}, until="g-2")
    assert flows["g-2"].ends == pytest.approx(3.0, rel=1e-3)
