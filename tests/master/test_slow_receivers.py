"""A receiver that turns out slow in a group whose links are all alike: what the master makes of it. Agents play the
signalling (services_kit); one with a pace holds its trees up."""

from __future__ import annotations

import asyncio
import itertools
import time
from unittest.mock import Mock

import pytest
from small import bcube41, until

from datacast.master import slow_receivers
from datacast.master.members import Member
from datacast.master.paces import ALONE_S, PLAN_EVERY_S
from datacast.master.stable import RatedForest
from lab import lab

pytestmark = pytest.mark.simulated

SIX = ["02", "10", "21", "23", "31", "33"]
FIVE = [name for name in SIX if name != "31"]
LINE = 1388.0
"""Pieces a second that a tree of 100 Mbit/s carries."""
SIZE = 48_000_000
"""Two seconds over two trees."""


def finished(record: dict) -> dict[str, float]:
    return {name: row["finish_s"] for name, row in record["receivers"].items()}


def plans(record: dict) -> list[float]:
    return [row["recomputed_ns"] / 1e9 for row in record["reactions"]]


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"delivery": "stable"}])
@pytest.mark.simulated(timeout=110.0)
async def test_nobody_asked_and_the_slow_one_gets_trees_of_its_own_within_two_seconds(options: dict) -> None:
    async with lab(bcube41(), rates=[LINE]) as it:
        it.world.pace["31"] = 0.2 * LINE
        group = await it.start("00", SIX, SIZE, **options)
        record = await it.end(group, timeout=100.0)
        wrong = it.world.violations
    assert record["state"] == "done" and not wrong
    times = finished(record)
    # Were there no plan, all would end together.
    assert max(times[name] for name in FIVE) < 0.8 * times["31"]
    assert record["reactions"][0]["lost"] or record["reactions"][0]["unnamed"]


@pytest.mark.simulated(timeout=110.0)
async def test_together_is_one_rate_for_all() -> None:
    async with lab(bcube41(), rates=[LINE]) as it:
        it.world.pace["31"] = 0.5 * LINE
        group = await it.start("00", SIX, SIZE, delivery="together")
        record = await it.end(group, timeout=100.0)
    times = finished(record)
    assert not record["reactions"] and max(times.values()) < 1.3 * min(times.values())


@pytest.mark.simulated(timeout=110.0)
async def test_equal_receivers_are_planned_once() -> None:
    async with lab(bcube41(), rates=[LINE / 3]) as it:  # all late alike: the source, or somebody else's traffic
        group = await it.start("00", SIX, SIZE // 2)
        record = await it.end(group, timeout=100.0)
    assert record["state"] == "done" and not record["reactions"]


@pytest.mark.simulated(timeout=110.0)
async def test_one_that_stands_still_is_set_aside_and_served_when_the_others_are_done(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with lab(bcube41(), rates=[LINE]) as it:
        it.world.pace["31"] = 1e-9
        group = await it.start("00", SIX, SIZE)

        seen = set()

        async def five():
            told = (await it.client.group(group["id"]))["receivers"]
            seen.add(told["31"]["state"])
            return all(told[name]["state"] == "done" for name in FIVE)

        await until(five, "the others are done", 40.0)
        it.world.pace["31"] = LINE
        record = await it.end(group, timeout=100.0)
    assert record["state"] == "done", record["error"]
    assert "aside" in seen
    slow = [log for log in caplog.messages if "receivers take {'31'" in log]
    assert len(slow) == 1, "what it was believed to take, before it stood still, is not believed when it is back"


@pytest.mark.slow
@pytest.mark.simulated(timeout=150.0)
async def test_a_pace_that_swings_makes_at_most_a_plan_a_second_and_they_grow_rarer() -> None:
    async with lab(bcube41(), rates=[LINE]) as it:
        it.world.pace["31"] = LINE
        await asyncio.sleep(0.55)  # from here the last one has two plans 0.75 s apart when the others are done
        group = await it.start("00", SIX, 4 * SIZE)
        await it.running(group, 1)
        master = it.masters.groups[group["id"]]
        began = time.monotonic()
        for i in itertools.count():
            if (await it.client.group(group["id"]))["state"] != "running" and i > 20:
                break
            if time.monotonic() - began > 40:
                it.world.pace["31"] = 2 * LINE
            else:
                it.world.pace["31"] = LINE * (0.1 if i % 14 < 7 else 2.0)
            await asyncio.sleep(0.1)
        record = await it.end(group, timeout=100.0)
        wrong, alone = it.world.violations, max(master.crew.members[name].t_done_ns for name in FIVE) / 1e9
    assert record["state"] == "done" and not wrong
    times = plans(record)
    assert len([at for at in times if at < alone]) >= 2, "it swings"
    assert len(times) <= 9
    # The last one holds nobody up and need not wait so long.
    assert all(b - a >= 0.95 * (PLAN_EVERY_S if b < alone else ALONE_S) for a, b in itertools.pairwise(times))


@pytest.mark.simulated(timeout=110.0)
async def test_one_whose_cap_is_lifted_does_not_wait_for_the_trees_that_went_at_its_pace() -> None:
    """The source sent what was left of them at that pace still: a transfer of two seconds took minutes."""
    async with lab(bcube41(), rates=[LINE]) as it:
        group = await it.start("00", SIX, SIZE)
        await it.running(group, 50)
        master = it.masters.groups[group["id"]]
        t = master.transfer
        master._slow._plan_for({"31": 2_000_000}, {})
        await until(lambda: len(t.reactions) == 1 and t.tree_ids[-1] in t.scheduler.trees, "trees for a slow one")
        slow = set(t.reactions[0].unnamed)
        master._slow._plan_for({}, {})
        await until(lambda: len(t.reactions) == 2, "trees for one that is slow no more")
        lost = [tree for tree in t.reactions[1].lost if "31" in t.forest.ways[tree].routes]
        reached = {tree: t.scheduler.trees[tree].reach for tree in lost}
        record = await it.end(group, timeout=100.0)
    assert record["state"] == "done"
    assert slow and lost and not any("31" in names for names in reached.values())


@pytest.mark.slow
@pytest.mark.simulated(timeout=300.0)
async def test_one_that_was_cut_off_while_trees_were_planned_anew_can_fetch_what_the_old_ones_sent() -> None:
    """Set aside then, it was opened without routes for those: it asked nobody for what they had sent, for ever."""
    async with lab(bcube41(), rates=[LINE]) as it:

        def links(up: bool) -> None:
            for port in (0, 1):
                n = 1 + port + 2 * up
                it.world.agents["02"].tell_manager({"type": "link", "port": port, "up": up, "n": n, "t_ns": 1})

        it.world.pace["31"] = 0.3 * LINE
        group = await it.start("00", SIX, 2 * SIZE, aside_ms=500)
        await it.running(group, 50)
        master = it.masters.groups[group["id"]]
        t, old = master.transfer, set(master.transfer.tree_ids)
        links(False)
        await until(lambda: "02" in t.forest.cut_off, "no link reaches it")
        master._slow._plan_for({"31": 25_000_000}, {})
        await until(lambda: t.reactions[-1].lost and t.tree_ids[-1] in t.scheduler.trees, "trees for a slow one")
        await asyncio.sleep(4.0)
        links(True)
        await until(lambda: master.crew.members["02"].aside, "it is far behind", 20.0)
        await until(lambda: t.finale and not master.crew.members["02"].suspect, "the others are done", 60.0)
        opened = it.world.agents["02"].roles[group["id"]].part["routes"]
        opened, record = {int(tree) for tree in opened}, await it.end(group, timeout=60.0)
    assert record["state"] == "done" and old <= opened


@pytest.mark.slow
@pytest.mark.simulated(timeout=900.0)
async def test_plans_without_end_do_not_use_the_tree_ids_up() -> None:
    """Agents know 32 trees of a group. A slow one's pace changes for as long as the group goes on."""
    async with lab(bcube41(), rates=[LINE / 4]) as it:
        group = await it.start("00", ["02", "10", "31"], 3 * SIZE)
        await it.running(group, 50)
        first = it.masters.groups[group["id"]]
        for i in range(60):
            master = it.masters.groups[group["id"]]
            t = master.transfer
            if master.epoch > 1 and len(t.tree_ids) > 4:
                break
            if not t.renew and t.state == "running":
                master._slow._plan_for({"31": 1_000_000 + 250_000 * i}, {})
            await asyncio.sleep(2.0)
        second, record = master, await it.end(group, timeout=600.0)
    assert second.epoch == 2 and 16 < len(first.transfer.tree_ids) <= 32
    assert second.transfer.reactions[-1].unnamed and not {*first.transfer.tree_ids} & {*second.transfer.tree_ids}
    assert record["state"] == "done", record["error"]


@pytest.mark.slow
@pytest.mark.simulated(timeout=900.0)
async def test_one_that_was_set_aside_is_served_though_its_groups_tree_ids_are_used_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No tree of those that there are reaches it, and this master can name no other: another one goes on at once,
    however little is left. Before, it was given up for cut off, with all its links up."""
    monkeypatch.setattr(slow_receivers, "RENEW_S", 3600.0)
    async with lab(bcube41(), rates=[LINE / 4]) as it:
        group = await it.start("00", ["02", "10", "31"], SIZE * 2 // 3)
        await it.running(group, 10)
        first = it.masters.groups[group["id"]]
        first._attendance.set_aside(first.crew.members["31"], "the test says so")
        for i in itertools.count():
            if isinstance(first.transfer.forest, RatedForest) and first.transfer.forest.refused:
                break
            first._slow._plan_for({"02": 38_000_000 + 2_000_000 * (i % 2)}, {})
            await asyncio.sleep(0.1)
        same, record = it.masters.groups[group["id"]] is first, await it.end(group, timeout=600.0)
    assert same, "nobody was without a tree yet"
    assert record["state"] == "done" and record["epoch"] == 2, record["error"]


def test_what_a_receiver_is_seen_to_have_and_to_lack() -> None:
    """Rates of trees count headers, what receivers get does not: nine tenths of a frame are payload here."""
    members = [Member(name, "receiver", "", bytes=1_000) for name in "ab"]
    members[0].rate_bps, members[1].unwritten = 5e6, 90
    ways = [
        slow_receivers._Way("1", {"a": b"", "b": b""}, 40_000_000, 30_000_000, []),
        slow_receivers._Way("2", {"a": b""}, 10_000_000, 10_000_000, []),
    ]
    transfer = Mock(plan=Mock(payload=900, frame_bytes=1000), forest=Mock(), size=4_000, paces=Mock(near=80))
    found = slow_receivers.SlowReceivers._seen(Mock(_t=transfer), members, ways, [0.0, 1.5])
    assert [(one.name, one.held, one.measured, one.planned, one.bound) for one in found] == [
        ("a", 1_000, 5e6, 0.9 * 40e6, 0.9 * 50e6),
        ("b", 910, 0.0, 0.9 * 30e6, 0.9 * 40e6),
    ]
    assert [(one.behind_s, one.left, one.unwritten) for one in found] == [(0.0, 3_000, 0), (1.5, 3_090, 90)]
