"""The cloud paper's comparison, in its order and about its size."""

from __future__ import annotations

import itertools

import pytest

from datacast.simulation.experiments import Setting, find
from datacast.simulation.experiments.cloud import FAST, POLICIES, SLOW, Line, fetch

MB = 10**6


@pytest.fixture(scope="module")
def rows() -> dict[tuple[int, str], dict]:
    result = find("cloud").run(Setting(), lambda text: None)
    return {(row["nodes"], row["policy"]): row for row in result.rows}


@pytest.mark.slow
def test_each_byte_leaves_the_store_once_but_under_flat(rows):
    for (nodes, policy), row in rows.items():
        assert row["origin"] == pytest.approx(nodes if policy == "flat" else 1.0)


def test_stealing_beats_static_shares_and_both_beat_flat(rows):
    for nodes in (4, 8, 16, 32):
        assert rows[nodes, "steal"]["mean_s"] <= rows[nodes, "non-steal"]["mean_s"]
        assert rows[nodes, "steal"]["mean_s"] < rows[nodes, "flat"]["mean_s"]
    assert 1.3 <= rows[32, "non-steal"]["over_flat"] <= rows[32, "steal"]["over_flat"] <= 2.2


def test_the_share_of_fetching_falls_with_the_nodes_as_in_figure_12(rows):
    shares = [rows[nodes, "steal"]["phase1_share"] for nodes in (4, 8, 16, 32)]
    assert all(more > 1.6 * less for more, less in itertools.pairwise(shares))
    assert rows[8, "steal"]["phase1_mbs"] > 1.1 * rows[8, "non-steal"]["phase1_mbs"]


def test_runs_differ_less_when_everybody_helps_as_in_figures_8_and_9(rows):
    spread = {
        p: max(run[2] for run in rows[8, p]["runs"]) - min(run[0] for run in rows[8, p]["runs"]) for p in POLICIES
    }
    assert spread["flat"] > 5 * spread["steal"] > 5 * spread["steal, one phase"]


@pytest.mark.parametrize("nodes", [4, 8, 16, 32])
def test_one_phase_comes_within_five_percent_of_the_bound(rows, nodes):
    assert rows[nodes, "steal, one phase"]["over_bound"] <= 1.05


def test_a_line_carries_what_its_rates_allow():
    import random

    line, now, size = Line(random.Random(1)), 0.0, 0
    for _ in range(1000):
        took = line.takes(now, MB)
        assert took + 1e-9 >= MB / FAST and took <= MB / SLOW + 1e-9
        now, size = now + took, size + MB
    assert SLOW < size / now < FAST


def test_flat_fetches_everything_everywhere():
    assert fetch("flat", 3, 4 * MB, 1).bytes() == 3 * fetch("steal", 3, 4 * MB, 1).bytes()
