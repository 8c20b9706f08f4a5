"""ns-3 as the witness: the same core, trees and routes in ns-3's devices, queues and event list."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from datacast.simulation.engine import ETHERNET, PAPER, SECOND, Faults
from datacast.simulation.errors import SimulationError
from datacast.simulation.experiments.base import Setting, measure, micro
from datacast.simulation.experiments.delivery import deliver
from datacast.simulation.experiments.fairness import figure13b
from datacast.simulation.ns3 import Ns3Simulation, program
from datacast.simulation.ns3.witness import difference, pair, witness
from datacast.topologies import parse

KB = 1024
try:
    program()
except SimulationError as absent:
    pytest.skip(str(absent), allow_module_level=True)


def quiet(text: str) -> None:
    pass


def run(*arguments: str, scenario: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(program()), *arguments], input=scenario, capture_output=True, text=True, timeout=60)


def scenario(**changes: Any) -> str:
    setting = Setting(engine="ns3", **{"size": 1_000_000, **changes})
    return micro(setting, 128 * KB).sim.describe()


@pytest.mark.slow
@pytest.mark.parametrize("cc", ["datacast", "steady"])
def test_table1_agrees_without_loss(cc: str) -> None:
    """Nothing random happens, so the two agree far within one percent."""
    result = witness("table1", Setting(cc=cc, seconds=0.5, cache=(8 * KB, 128 * KB)), quiet)
    assert [row["cache_kb"] for row in result.rows] == [8, 128]
    for row in result.rows:
        assert row["agree"]
        assert abs(row["finish_s_difference"]) < 1e-4
        assert abs(row["link_stress_difference"]) < 1e-4
        assert row["finish_s"] > 0.49 and row["link_stress"] >= 1
    assert "agree within 1 %" in result.notes[0]


@pytest.mark.parametrize("on_wire", [False, True])
def test_loss_in_ns3_is_the_loss_asked_for(on_wire: bool) -> None:
    """ns-3 draws its own losses: one packet in a hundred of the slow link's, and the same finish within one percent."""
    s = Setting(seconds=1.0, loss=0.01, loss_on_wire=on_wire, rto_min=10_000_000)
    ours = measure(s, 128 * KB)
    m = micro(s.with_(engine="ns3"), 128 * KB)
    m.sim.run()
    lost = m.sim.link_stats(*m.slow_link)["lost"]
    assert 40 <= lost <= 140  # 8,334 packets
    assert abs(difference(ours["finish_s"], m.group.finish() / SECOND) or 0) < 0.01
    assert abs(difference(ours["link_stress"], m.sim.link_stress()) or 0) < 0.01
    assert m.sim.check() is None


def test_same_seed_same_run_other_seed_other_losses() -> None:
    s = Setting(seconds=0.2, loss=0.02, engine="ns3")
    once, again, other = (measure(s.with_(seed=seed), 128 * KB)["digest"] for seed in (3, 3, 4))
    assert once == again
    assert once != other


@pytest.mark.parametrize("framing", [PAPER, ETHERNET])
def test_the_wire_is_charged_what_ours_charges(framing: int) -> None:
    """ns-3's own trace of bytes on each link, PPP header included, is ours to the byte."""
    g = parse("bcube:4,1")
    s = Setting(slow=10**9, source="00", size=3_000_000, cache=(128 * KB,),
                framing="paper" if framing == PAPER else "ethernet")  # fmt: skip
    ours, ours_group = deliver(s, g, ["02", "10", "21", "33"])
    theirs, group = deliver(s.with_(engine="ns3"), g, ["02", "10", "21", "33"])
    assert isinstance(theirs, Ns3Simulation) and theirs.framing == framing
    ours.run()
    theirs.run()
    assert len(group.trees) == 2
    assert abs(group.finish() / ours_group.finish() - 1) < 1e-4
    carried = 0
    for a, b in ours._links:
        mine, other = ours.link_stats(a, b), theirs.link_stats(a, b)
        # What is under way at the last moment may be counted on one side only.
        assert abs(mine["bytes"] - other["bytes"]) <= 2 * 1600
        assert abs(mine["payload"] - other["payload"]) <= 2 * 1500
        if other["data"] == mine["data"]:
            assert other["data_bytes"] == mine["data_bytes"]
        carried += other["payload"]
    assert carried == theirs.payload() > 10_000_000


def test_late_hosts_are_late_in_order() -> None:
    """By up to a millisecond per frame: nothing is taken for lost, and the end is that much later."""

    def once(jitter: int) -> int:
        m = micro(Setting(seconds=0.2, engine="ns3"), 128 * KB)
        m.sim.faults("00", "s0.0", Faults(jitter=jitter))
        m.sim.run()
        assert m.group.tree_stats()[0]["dup_packets"] == 0 and m.sim.check() is None
        return m.group.finish()

    assert once(0) < once(1_000_000) <= once(0) + 3_000_000


@pytest.mark.slow
def test_figure13b_shares_the_link_with_tcp_of_ns3() -> None:
    rows = figure13b(Setting(engine="ns3", rate=10**8, slow=10**8, delta=500_000, seconds=2.0), quiet).rows
    alone, three, nine = rows[0], rows[1], rows[2]
    assert alone["datacast_mbps"] > 0.95 * 100
    for row in (three, nine):
        assert row["tcp_mean_mbps"] > 0.3 * row["fair_mbps"]
        total = row["datacast_mbps"] + row["tcp_flows"] * row["tcp_mean_mbps"]
        assert 0.8 * 100 < total < 1.02 * 100


def test_the_command_line_changes_a_scenario() -> None:
    text = scenario()
    plain = json.loads(run(scenario=text).stdout)["rows"][0]
    assert plain["cache_kb"] == 128 and plain["cc"] == "steady" and plain["wrong_pieces"] == 0
    changed = json.loads(run("--cache", "8192", "--cc", "datacast", "--size", "500000", "--delta", "1000000",
                             scenario=text).stdout)["rows"][0]  # fmt: skip
    assert (changed["cache_kb"], changed["cc"], changed["size"], changed["delta_mbps"]) == (8, "datacast", 500_000, 1)
    shorter = json.loads(run("--size", "500000", scenario=text).stdout)["rows"][0]
    assert shorter["finish_s"] < 0.6 * plain["finish_s"]


@pytest.mark.parametrize(
    "arguments, text, word",
    [
        (["--cc", "nonsense"], None, "there are steady, datacast"),
        (["--loss", "1.5"], None, "from 0 to below 1"),
        (["--loss", "0.1"], None, "no `loss` line"),
        (["--cache"], None, "needs a value"),
        (["--cash", "1"], None, "unknown option"),
        (["/nowhere"], None, "cannot read"),
        ([], "cable 0 0 1 0 1 1 1 1\n", "there is no vertex yet"),
        ([], "vertex host\nvertex host\ncable 0 0 1 0 x 1 1 1\n", "line 3: rate is a number"),
        ([], "vertex host\nvertex host\ncable 0 0 7 0 1 1 1 1\n", "vertex is a number up to 1"),
        ([], "wonder\n", "unknown word 'wonder'"),
        ([], "report\n", "report comes after run"),
    ],
)
def test_bad_input_is_named(arguments: list[str], text: str | None, word: str) -> None:
    done = run(*arguments, scenario=scenario() if text is None else text)
    assert done.returncode == 2
    assert word in done.stderr and done.stdout == ""


def test_what_ns3_cannot_do_is_refused() -> None:
    with pytest.raises(SimulationError, match="FIFO"):
        Ns3Simulation(policy="lru")
    with pytest.raises(SimulationError, match="no witness for cachepolicy"):
        witness("cachepolicy", Setting(), quiet)
    sim = micro(Setting(engine="ns3", seconds=0.05), 128 * KB).sim
    sim.run()
    with pytest.raises(SimulationError, match="runs already"):
        sim.rate("s0.0", "02", 1_000_000)


def test_a_dead_witness_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    false = tmp_path / "ns3"
    false.write_text("#!/bin/sh\necho 'no such luck' >&2\nexit 3\n")
    false.chmod(0o755)
    monkeypatch.setenv("DATACAST_NS3", str(false))
    with pytest.raises(SimulationError, match="no such luck"):
        micro(Setting(engine="ns3", seconds=0.05), 128 * KB).sim.run()


def test_rows_that_differ_do_not_agree() -> None:
    from datacast.simulation.ns3.witness import WITNESSED

    ours = {"cache_kb": 8.0, "finish_s": 1.0, "link_stress": 1.0, "throughput_mbps": 8.0, "duplicate_ratio": 0.0}
    sides = WITNESSED["table1"]
    assert pair(sides, ours, {**ours, "finish_s": 1.009})["agree"]
    assert not pair(sides, ours, {**ours, "finish_s": 1.011})["agree"]
    assert not pair(sides, ours, {**ours, "link_stress": 0.98})["agree"]
    assert not pair(sides, ours, {**ours, "finish_s": None})["agree"]


def test_nothing_to_agree_on_is_no_agreement() -> None:
    from datacast.simulation.ns3.witness import WITNESSED

    row = {"begin_s": 0.0, "tcp_flows": 3, "fair_mbps": 250.0, "datacast_mbps": 1.0, "tcp_mbps": [2.0]}
    assert pair(WITNESSED["figure13b"], row, row)["agree"] is None
    row = {"cell": "1g 1cubic", "kind": "tcp", "each": [1.0, 1.0], "used": 1.0}
    assert pair(WITNESSED["matrix"], row, {**row, "each": [0.5, 1.5]})["agree"] is None


def test_groups_must_agree_one_by_one_and_not_by_their_sum() -> None:
    from datacast.simulation.ns3.witness import WITNESSED

    row = {"begin_s": 0.0, "groups": 2, "fair_mbps": 500.0, "each_mbps": [500.0, 500.0], "sum_mbps": 1000.0}
    assert pair(WITNESSED["figure13a"], row, {**row, "each_mbps": [504.0, 496.0]})["agree"]
    assert not pair(WITNESSED["figure13a"], row, {**row, "each_mbps": [510.0, 490.0]})["agree"]


@pytest.mark.slow
def test_each_group_has_in_ns3_what_it_has_in_ours() -> None:
    """With what masters and the scheduler hand out: weights 1:2:4 and one in the background, and ten groups, of which
    the last to start still takes what the others lost then."""
    for cell, groups, most in (("weights=1:2:4:0", 4, 0.01), ("order=reversed", 10, 0.015)):
        (row,) = witness("matrix", Setting(only=cell), quiet).rows
        assert len(row["ns3_each"]) == groups and abs(row["each_difference"]) <= most, row
