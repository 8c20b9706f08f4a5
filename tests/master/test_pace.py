"""How often a group is looked after, and what of it is told."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
import tracemalloc
from dataclasses import replace
from types import SimpleNamespace

import msgspec
from msgspec import structs

from datacast.core.trees import ArcLoad, Network
from datacast.fabric_manager.api.reports import (
    GroupFailure,
    MasterReport,
    Progress,
    Reaction,
    ReportAnswer,
    TreeFigures,
)
from datacast.master import pace
from datacast.master.branches import members_max
from datacast.master.members import Log, Member
from datacast.master.report import Told, final_report, in_all, in_parts, of_reactions, weight
from datacast.master.requests import Digest
from datacast.master.worker import RENEW_S, Running, Worker
from datacast.services import framing
from datacast.services.tls import PLAIN
from datacast.services.turns import Turns
from datacast.topologies import parse


def receiver(name: str, held: int, rate: float, state: str = "running") -> Member:
    return Member(name, "receiver", "", state=state, bytes=held, rate_bps=rate)


def test_a_group_is_looked_after_by_the_time_it_has_left() -> None:
    assert pace.between(None, 30, 15) == pace.between(10, 30, 15) == 0.25, "one that ends soon as ever"
    assert pace.between(200, 30, 15) == 2.0
    assert pace.between(1e6, 30, 15) == 10.0 and pace.between(1e6, 60, 60) == 10.0
    assert pace.between(1e6, 3, 15) == 1.0 and pace.between(1e6, 0.6, 15) == 0.25, "a third of the lease"
    assert pace.between(1e6, 30, 6) == 4.0, "who does not answer is found out in time"


def test_a_worker_of_very_many_members_looks_at_so_many_a_second_where_that_loses_little() -> None:
    assert pace.between(None, 30, 15, 30_000) == 0.25 and pace.between(1.0, 30, 15, 30_000) == 0.25
    assert pace.between(50, 30, 15, 180) == 0.5, "few others change nothing"
    assert pace.between(50, 30, 15, 30_000) == 5.0, "a tenth of what is left"
    assert pace.between(1000, 30, 15, 30_000) == 10.0 and pace.between(100, 30, 15, 30_000) == 7.5
    assert pace.between(1e6, 3, 15, 30_000) == 1.0, "the lease decides"


def test_a_worker_of_many_groups_reports_less_often_but_before_its_lease_is_renewed() -> None:
    assert pace.reports_s(0) == pace.reports_s(100) == 0.25 and pace.reports_s(200) == 0.5
    assert pace.reports_s(10_000) == 0.8 < RENEW_S


def test_what_is_left_goes_by_the_fastest_and_by_those_who_work() -> None:
    some = [receiver("a", 100, 80), receiver("b", 600, 40), receiver("c", 1000, 0, "done")]
    assert pace.left_s(1000, some, 60) == 400 * 8 / 80
    assert pace.left_s(1000, [receiver("a", 0, 0)], 60) is None and pace.left_s(None, some, 60) is None


def test_a_rate_of_the_first_moments_does_not_say_that_it_takes_long() -> None:
    slow = [receiver("a", 100, 8)]
    assert pace.between(pace.left_s(10**6, slow, 0.5), 30, 15) == 0.25
    assert pace.between(pace.left_s(10**6, slow, 30), 30, 15) == 3.0
    assert pace.left_s(10**6, slow, 1e6) == 10**6 - 100


def told(members: list[Member], by: Told, whole: bool = False) -> list[str]:
    return sorted(by.news(Progress(size=10**6), members, None, whole).receivers)


def test_of_a_receiver_is_told_what_is_news() -> None:
    a, b, by = receiver("a", 0, 1000), receiver("b", 0, 1000), Told()
    assert told([a, b], by, True) == ["a", "b"] and told([a, b], by) == []
    a.bytes += 5000
    assert told([a, b], by) == [], "half a hundredth of the file"
    a.bytes += 6000
    assert told([a, b], by) == ["a"]
    b.rate_bps = 0
    assert told([a, b], by) == ["b"], "it stands still"
    a.state = "done"
    assert told([a, b], by) == ["a"] and told([a, b], by, True) == ["a", "b"]


def test_of_many_receivers_the_blocks_of_those_furthest_behind_are_told() -> None:
    def mapped(by: Told, members: list[Member]) -> list[str]:
        for m in members:
            m.rate_bps = 3 - m.rate_bps  # something to tell of everybody
        rows = by.news(Progress(size=10**6), members, None, False).receivers
        return sorted(name for name, row in rows.items() if row.blocks)

    few = [replace(receiver(f"h{i:03}", 9 * 10**5, 1.0), blocks="f0") for i in range(64)]
    assert len(mapped(Told(), few)) == 64, "all of them, the whole ones too"
    many, by = [replace(receiver(f"h{i:03}", 5 * 10**5, 1.0), blocks="70") for i in range(100)], Told()
    first = mapped(by, many)
    assert first == [f"h{i:03}" for i in range(64)]
    many[3].bytes += 20_000
    assert mapped(by, many) == first, "a little further: rows do not jump"
    many[99].bytes, many[3].state = 0, "done"
    then = mapped(by, many)
    assert "h099" in then and "h003" not in then and len(then) == 64
    for m in many:
        m.state = "done"
    assert mapped(by, many) == []


def test_load_follows_changes_and_is_the_same_as_counted_anew() -> None:
    network = Network(parse("bcube:4,1"))
    load, arcs = ArcLoad(network), [("00", "s0.0"), ("s0.0", "01"), ("00", "s1.0")]
    for by in (1, 1, 1, -1):
        for arc in arcs:
            load.change(*arc, by)
    assert load == dict.fromkeys(arcs, 2)
    less = load.without([arcs[0], arcs[0]])
    assert less == dict.fromkeys(arcs[1:], 2) and load[arcs[0]] == 2
    plain, kept = (network.steiner_trees("00", ["01", "33"], None, it) for it in (dict(less), less))
    assert [tree.arcs for tree in plain.trees] == [tree.arcs for tree in kept.trees]
    assert less.engine().sum() == 4


def test_a_report_of_very_many_receivers_is_cut_into_parts() -> None:
    members = [receiver(f"h{i}", 10, 1.0) for i in range(2500)]
    ended = final_report([("accepted", 0)], None, 10, None, [], 1, members, {}, 0)
    body = Progress(size=10, trees={"7": TreeFigures(arcs=[("a", "b")])}, report=ended)

    def report(of: list[Member], whole: bool) -> MasterReport:
        progress = Told().news(body, of, None, whole)
        return MasterReport(group="g", epoch=1, state="done", progress=progress, whole=whole)

    parts = in_parts(report(members, True))
    assert [len(part.progress.receivers) for part in parts] == [1024, 1024, 452]
    assert {name for part in parts for name in part.progress.receivers} == {m.name for m in members}
    assert [part.state for part in parts] == ["running", "running", "done"], "nobody hears one that has ended"
    assert [part.whole for part in parts] == [True, False, False]
    assert [bool(part.progress.report) for part in parts] == [False, False, True]
    assert list(parts[-1].progress.trees) == ["7"] and not parts[0].progress.trees
    one = report(members[:10], False)
    assert in_parts(one) == [one] and weight(one) == 11


def test_what_was_done_about_failures_does_not_grow_with_the_group() -> None:
    """A link near the source of 8,192 receivers, again and again: reports and orders hold it."""
    names = [f"host-{i}" for i in range(8192)]
    entry = Reaction(links=[("a", "b", False)], members=names, waiting=dict.fromkeys(names, 2))
    few = structs.replace(entry, members=names[:3], waiting=dict.fromkeys(names[:3], 2))
    told = of_reactions([entry] * 64 + [few])
    assert len(framing.text(told)) < framing.FRAME_MAX // 16
    assert told[0].members == list(told[0].waiting) == names[:64] and told[0].members_more == 8128
    assert told[-1] == few


def test_no_message_to_members_is_longer_than_a_frame() -> None:
    """8,192 receivers with as many routes as a group can have."""
    long = {"role": "receiver", "dest": "x" * 4096, "routes": {str(tree): "ab" * 120 for tree in range(64)}}
    most = members_max({f"h{i}": long for i in range(8192)})
    entry = {"n": "h" * 64, "a": "255.255.255.255:65535", "b": long, "c": []}
    assert most >= 16 and most * len(json.dumps(entry)) < framing.FRAME_MAX
    short = {"role": "receiver", "dest": "x", "routes": {"1": "ab"}}
    assert members_max({f"h{i}": short for i in range(8192)}) == 512


async def test_a_worker_with_much_to_tell_renews_its_lease_meanwhile(monkeypatch) -> None:
    """Of a thousand groups that began together two workers put one report together for longer than their leases."""
    told: list[int] = []

    class Client:
        lease, security = "", PLAIN

        async def report(self, name: str, reports: list[MasterReport]) -> list[ReportAnswer]:
            told.append(len(reports))
            return [ReportAnswer(state="running") for _ in reports]

    class Slow:
        id, news, members = "g", True, 2

        def report(self, whole: bool) -> MasterReport:
            time.sleep(0.006)
            return MasterReport(group="g", epoch=1, state="running", progress=Progress())

    monkeypatch.setattr("datacast.master.worker.GATHER_S", 0.01)
    worker, others = Worker(Client(), SimpleNamespace(reports=Turns()), "w"), 0
    task = asyncio.get_running_loop().create_future()
    worker.groups = {f"g{i}": Running(Slow(), task) for i in range(10)}

    async def other() -> None:
        nonlocal others
        while True:
            others += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(other())
    await worker.report()
    beside.cancel()
    assert sum(told) == 10 and len(told) >= 4 and max(told) <= 4
    assert others >= 9, "each gets its turn"


def test_what_latecomers_are_told_is_kept_small() -> None:
    """A group keeps every block's digest for those who come late: little more than its 32 bytes."""
    told = json.dumps({"blocks": [[n, hashlib.sha256(b"%d" % n).hexdigest()] for n in range(1000)]})
    Log().add(msgspec.json.decode(told, type=Digest))  # what reads and keeps is made once for all
    tracemalloc.start()
    try:
        log = Log()
        log.add(msgspec.json.decode(told, type=Digest))
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert log[0] == Digest(msgspec.json.decode(told, type=Digest).blocks, 1) and kept < 50_000, kept


def test_who_has_left_counts_for_nothing_in_what_a_group_has_in_all() -> None:
    a, b = receiver("a", 10**6, 0), receiver("b", 10**5, 0)
    a.state, b.state, b.error = "done", "cancelled", GroupFailure(code="cancelled", message="cancelled on request")
    assert in_all([a, b], 10**6) == (0.55, 0), "the group was cancelled"
    b.error = GroupFailure(code="left", message="b left the group")
    assert in_all([a, b], 10**6) == (1.0, 0)
    assert in_all([b], 10**6) == (0.1, 0), "nobody else is there"


def test_who_had_the_file_before_a_group_was_resumed_says_nothing_of_when_it_was_done() -> None:
    """It took less than no time, where the others failed again after data had begun."""
    a, b = receiver("a", 10**6, 0), receiver("b", 10, 0)
    a.state, a.t_done_ns, b.state = "done", 10**9, "failed"
    told = final_report([("accepted", 2 * 10**9)], 3 * 10**9, 10**6, None, [], 1, [a, b], {}, 0, ideal_s=1.0)
    assert told.finish_s is None and told.finish_over_ideal is None
    b.state, b.t_done_ns = "done", 5 * 10**9
    told = final_report([("accepted", 2 * 10**9)], 3 * 10**9, 10**6, None, [], 1, [a, b], {}, 0, ideal_s=1.0)
    assert told.finish_s == 2.0


def test_of_a_receiver_that_wants_a_part_is_told_as_it_gets_on_with_that() -> None:
    a, by = receiver("a", 0, 1000), Told()
    a.wants = 1000
    assert told([a], by, True) == ["a"] and told([a], by) == []
    a.bytes = 500
    assert told([a], by) == ["a"]
