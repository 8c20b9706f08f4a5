"""The report's figures from made-up measurements whose answers are known, and the forms of sizes and rates."""

from __future__ import annotations

import hashlib
from types import SimpleNamespace

import made_records
import msgspec
import pytest

from datacast import topologies
from datacast.fabric_manager.api import GroupOptions
from datacast.lab.content import sha256_of, write_random
from datacast.lab.counters import CpuSample, CpuUse, NodeCounters, Traffic, cpu_use
from datacast.lab.errors import LabError
from datacast.lab.plan import make_plan
from datacast.lab.report import Measured, Settings, frame_bytes, ideal_s, link_stress, make_report, plain
from datacast.lab.run import Transfer, _rates, settle

SETTINGS = Settings(
    topology="net", link_bps=10**8, mtu=9000, queue_packets=100, dataplane="dpdk", source="a", to=["b", "c"],
    seed=None, options={}, sha256="",
)  # fmt: skip


def reported(measured):
    """As JSON has it."""
    return plain(make_report(measured))


def group(**changes):
    trees = {
        "1": {
            "links": 3,
            "depth": 2,
            "arcs": [["a", "s"], ["s", "b"], ["s", "c"]],
            "new_packets": 75,
            "dup_packets": 3,
        },
        "2": {"links": 5, "depth": 4, "arcs": [["a", "t"], ["t", "b"]], "new_packets": 25, "dup_packets": 1},
    }
    receivers = {name: {"state": "done", "finish_s": 1.0, "goodput_mbps": 8.0} for name in "bc"}
    whole = {"id": "g", "state": "done", "trees": trees, "receivers": receivers, "report": made_records.outcome()}
    return {**whole, **changes}


def measured(told, size=1_000_000, payload_on_links=3_500_000, verified=("b", "c"), **traffic):
    rates = {("a", "s"): 10**8, ("s", "b"): 10**8, ("s", "c"): 5 * 10**7, ("a", "t"): 10**8, ("t", "b"): 10**8}
    return Measured(
        made_records.group(**told),
        size,
        rates,
        Traffic(payload_on_links, **traffic),
        CpuUse(0.5, 0.3, {}),
        {name: name in verified for name in "bc"},
        SETTINGS,
        [],
    )


def test_the_ideal_counts_every_header_the_shaper_charges():
    assert frame_bytes(8966, 4) == 9012
    size = 256 << 20
    assert ideal_s(size, [10**8, 10**8], 8966, 4) == pytest.approx(size * 8 / 2e8 * 9012 / 8966)
    assert ideal_s(0, [10**8], 8966, 4) is None


def test_link_stress_weighs_trees_by_what_they_carried():
    assert link_stress(3_500_000, 1_000_000, [(75, 3), (25, 5)]) == 1.0
    assert link_stress(3_570_000, 1_000_000, [(75, 3), (25, 5)]) == pytest.approx(1.02)
    assert link_stress(0, 0, []) is None


def test_the_report_of_a_good_run():
    report = reported(measured(group(), hits={1: 70, 2: 20}))
    assert report["ok"]
    assert report["link_stress"] == 1.0
    assert report["duplicate_ratio"] == pytest.approx(0.04)
    # The slowest link of a tree is its rate.
    assert report["ideal_s"] == pytest.approx(8e6 / (1.5e8 * 8966 / 9000))
    assert report["finish_over_ideal"] == pytest.approx(1.1 / report["ideal_s"])
    assert report["trees"]["cache_hits"] == [70, 20]
    assert (report["trees"]["count"], report["trees"]["links"], report["trees"]["depth"]) == (2, [3, 5], 4)
    assert not report["cpu_bound"]


def test_trees_of_several_roots_that_share_a_link_do_not_each_have_its_rate():
    told = group()
    told["trees"]["2"]["arcs"] = [["a", "t"], ["t", "b"], ["s", "c"]]
    told["report"]["ideal_s"] = 0.16  # what the plan says: both enter c over one link
    assert reported(measured(told))["ideal_s"] == 0.16


def test_a_copy_with_a_wrong_checksum_is_not_ok():
    report = reported(measured(group(), verified=("b",)))
    assert not report["ok"]
    assert [report["receivers"][name]["sha256_ok"] for name in "bc"] == [True, False]


def test_a_failed_receiver_is_told_with_its_reason():
    told = group(state="partial")
    told["receivers"]["c"] = {"state": "failed", "error": {"code": "disk_full", "message": "c: no space"}}
    report = reported(measured(told))
    assert not report["ok"]
    assert report["receivers"]["c"]["error"]["code"] == "disk_full"


def test_an_empty_file_has_no_rate():
    told = group(trees={}, report=made_records.outcome(start_s=None, finish_s=None))
    report = reported(measured(told, size=0, payload_on_links=0))
    assert report["ok"]
    assert report["finish_over_ideal"] is None and report["link_stress"] is None and report["duplicate_ratio"] == 0


def test_a_node_that_did_not_tell_leaves_no_made_up_stress():
    assert reported(measured(group(), silent=["s"]))["link_stress"] is None


def test_the_processor_sets_the_pace_when_all_cores_or_one_process_are_full():
    def use(busy, process):
        return cpu_use(CpuSample(0, 0, {7: ("x", 0.0)}), CpuSample(busy, 20, {7: ("x", process)}))

    import os

    cores = os.cpu_count() or 1
    assert use(19, 1).bound
    assert use(5, 19.9 / cores).bound
    assert not use(15, 10 / cores).bound


def test_what_others_use_does_not_count_where_the_lab_goes_first():
    idle = CpuSample(0, 0, {7: ("x", 0.0)})
    assert cpu_use(idle, CpuSample(20, 20, {7: ("x", 1.0)})).bound
    assert not cpu_use(idle, CpuSample(20, 20, {7: ("x", 1.0)}), first=True).bound
    assert cpu_use(idle, CpuSample(20, 20, {7: ("x", 18.0), 8: ("y", 1.0)}), first=True).bound


def counters(**told):
    return msgspec.convert(told, NodeCounters)


def test_traffic_is_the_difference_of_two_moments():
    before, after = Traffic(), Traffic()
    node = {"ports": {"0": {"tx_data_payload": 100}}, "tree_counters": [{"tree": 4, "hits": 2}], "drop": {"version": 1}}
    before.add(counters(**node))
    after.add(counters(**node))
    after.add(
        counters(
            ports={"0": {"tx_data_payload": 50}, "1": {"tx_data_payload": 7}},
            tree_counters=[{"tree": 4, "hits": 3}, {"tree": 5, "hits": 1}],
            drop={"version": 1, "type": 0},
        )
    )
    assert after.since(before) == Traffic(data_payload=57, hits={4: 3, 5: 1}, drops={"version": 1})


@pytest.mark.parametrize("size", [0, 1, (4 << 20) + 13])
def test_content_is_reproducible_and_its_checksum_independent(tmp_path, size):
    first, second = write_random(tmp_path / "a", size, 7), write_random(tmp_path / "b", size, 7)
    assert first == second == sha256_of(tmp_path / "a") == hashlib.sha256((tmp_path / "b").read_bytes()).hexdigest()
    assert (tmp_path / "a").stat().st_size == size


@pytest.mark.parametrize(
    ("transfer", "message"),
    [
        (Transfer("99", receivers=("01",), size=1), "no host '99'"),
        (Transfer("00", receivers=("s0.0",), size=1), "no host 's0.0'"),
        (Transfer("00", receivers=("00", "01"), size=1), "source and among the receivers"),
        (Transfer("00", receivers=("01", "02", "01"), size=1), "01 twice"),
        (Transfer("00", receivers=(), size=1), "no receivers"),
        (Transfer("00", receivers=("01",)), "either --size or --file"),
        (Transfer("00", receivers=("01",), size=1, options=GroupOptions(cc="x")), "cc: must be 'steady' or"),
        (Transfer("00", receivers=("01",), size=1, options=GroupOptions(delivery="x")), "delivery: must be 'stable'"),
        (Transfer("00", receivers=("01",), size=1, options=GroupOptions(planner="x")), "planner: must be 'datacast',"),
    ],
)
def test_a_transfer_that_makes_no_sense_is_refused_before_anything_starts(transfer, message):
    with pytest.raises(LabError, match=message):
        settle(topologies.parse("bcube:4,1"), transfer)


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(LabError, match="no file that can be read"):
        settle(topologies.parse("bcube:4,1"), Transfer("00", receivers=("01",), file=tmp_path / "none"))


def test_all_means_every_host_but_the_source():
    settled = settle(topologies.parse("bcube:4,1"), Transfer(size=1))
    assert settled.source == "00" and len(settled.receivers) == 15 and "00" not in settled.receivers


def test_the_ideal_knows_that_a_cable_s_two_directions_may_differ():
    graph = topologies.parse("bcube:2,0")
    u, v = next(iter(graph.edges))
    graph.edges[u, v]["rates_bps"] = {u: 7_000_000, v: 3_000_000}
    rates = _rates(SimpleNamespace(plan=make_plan(graph, rate_bps=10**7, mtu=1500)))
    assert (rates[u, v], rates[v, u]) == (7_000_000, 3_000_000)
    assert len(rates) == 2 * graph.number_of_edges()
