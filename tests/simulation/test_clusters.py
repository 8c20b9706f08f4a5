"""Trees with rates packet by packet: the four clusters of Takahashi and others (4.2), and a slow node that joins."""

from __future__ import annotations

import random

import networkx as nx
import pytest

from datacast import topologies
from datacast.fabric_manager.api import GroupOptions
from datacast.simulation.errors import ExperimentError
from datacast.simulation.experiments import EXPERIMENTS, Setting, find
from datacast.simulation.networks import rated_graph
from datacast.simulation.staged import Staged


def rows(name: str, **given):
    setting = Setting().with_(**{**EXPERIMENTS[name].defaults, **given})
    return {row["planner"]: row for row in find(name).run(setting, lambda text: None).rows}


def test_four_clusters_get_what_the_plan_says_and_twice_what_one_rate_gives() -> None:
    got = {name: rows("clusters", size=192_000_000, planner=name)[name] for name in ("datacast", "fpfr", "balanced")}
    ours = got["datacast"]
    assert ours["of_plan"] >= 0.97 and ours["duplicate_ratio"] <= 0.01 and ours["link_stress"] <= 1.01
    assert ours["aggregate_mbps"] >= 2.1 * max(got["fpfr"]["aggregate_mbps"], got["balanced"]["aggregate_mbps"])


def test_a_slow_node_that_joins_costs_the_nine_next_to_nothing() -> None:
    for size in (32_000_000, 64_000_000):
        ours = rows("joining", size=size, planner="datacast")["datacast"]
        assert ours["left"] >= 0.995
    one_rate = rows("joining", size=4_000_000, planner="depth-first")["depth-first"]
    assert one_rate["left"] < 0.1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"planner": "flat-tree"}, "from host to host"),
        ({"planner": "none"}, "is no planner"),
        ({"receivers": 11}, "groups of 105, 47, 10"),
    ],
)
def test_what_cannot_be_says_so(given: dict, words: str) -> None:
    with pytest.raises(ExperimentError, match=words):
        rows("clusters", **given)


def test_receivers_that_are_alike_are_served_as_before() -> None:
    """A plan with rates for equal receivers loses nothing against one rate for all: the same trees, 0.5 %."""
    g = topologies.parse("bcube:4,1")
    for _, _, data in g.edges(data=True):
        data["rate_bps"] = 50_000_000
    six = ["02", "10", "21", "23", "31", "33"]
    stable = Staged.of(g, "00", six, 8_000_000, GroupOptions(delivery="stable"))
    times = stable.run()
    assert max(times.values()) <= 1.005 * stable.plan.ideal_s(8_000_000) + 0.02


@pytest.mark.parametrize("seed", range(4))
def test_on_random_trees_everybody_gets_its_own_rate(seed: int) -> None:
    rng = random.Random(seed)
    shape = nx.random_labeled_tree(6, seed=seed)
    links = [(f"s{u}", f"s{v}", *[rng.choice([50, 100, 200])] * 2) for u, v in shape.edges]
    links += [(f"s{i % 6}", f"h{i}", *[rng.choice([20, 100, 200])] * 2) for i in range(8)]
    receivers, stable = [f"h{i}" for i in range(1, 8)], GroupOptions(delivery="stable")
    staged = Staged.of(rated_graph(links), "h0", receivers, 24_000_000, stable)
    times = staged.run()
    assert staged.plan.rated is not None
    share = staged.plan.payload / staged.plan.frame_bytes
    for name, seconds in times.items():
        rate = staged.plan.rated.bound[name] * share
        assert 24_000_000 * 8 / seconds >= 0.92 * rate, (name, seconds)
