"""Groups against store and workers: what is written, what is told, and what a full disk or a bad report does."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

import pytest
from plain import PlainClient
from small import bcube41, star, until

from datacast.fabric_manager.api import orders
from datacast.fabric_manager.keys import Kept
from datacast.master.requests import CLOSE, Close
from datacast.services.problems import Problem
from datacast.services.store import StoreError
from lab import lab

pytestmark = pytest.mark.simulated

SIX = ["02", "10", "21", "23", "31", "33"]


async def test_a_malformed_report_is_refused_and_harms_nobody() -> None:
    async with lab(star(3), rates=[200.0]) as it:
        group = await it.start("h0", ["h1", "h2"], 20_000_000)
        await it.running(group)
        record = it.manager.groups.get(group["id"])
        async with PlainClient(it.manager.url) as client:
            client.lease = record.lease
            base = {"group": group["id"], "epoch": 1, "state": "running"}
            bad = [
                {**base, "progress": {"receivers": {"x": 1}}},
                {**base, "progress": {"receivers": {"h1": {"state": "sleeping"}}}},
                {**base, "progress": {"fraction": 7}},
                {**base, "progress": {"trees": {"1": {"arcs": "all"}}}},
                {**base, "progress": {"trees": {"x": {}}}},
                {**base, "progress": {"trees": {"01": {}}}},
                {**base, "state": "queued", "progress": {}},
                "nonsense",
                None,
            ]
            answers = await client.report("test-0", [*bad, {**base, "progress": {"fraction": 0.0}}])
        assert [a.code for a in answers] == ["invalid"] * len(bad) + [""]
        listed = await it.client.groups()
        await it.client.cancel_group(group["id"])
        record = await it.end(group)
    assert listed[0]["receivers"] == 2 and record["state"] == "cancelled"


class Full:
    """A store whose disk is full now and then."""

    def __init__(self, kept) -> None:
        self.put, kept.store.put, self.full = kept.store.put, self._put, False

    async def _put(self, *args, **options):
        if self.full:
            raise StoreError("database or disk is full")
        return await self.put(*args, **options)


def lose_an_answer(kept: Kept) -> None:
    """The next write happens, and is answered with an error."""
    put = kept.put

    async def lose(key: str, value: str, revision: int) -> int:
        await put(key, value, revision)
        kept.put = put
        raise StoreError("the answer was lost")

    kept.put = lose


async def test_what_cannot_be_written_is_an_error_and_never_a_lie() -> None:
    async with lab(star(3), rates=[800.0]) as it:
        disk = Full(it.manager.groups.kept)
        group = await it.start("h0", ["h1", "h2"], 6_000_000)
        await it.running(group)
        await until(lambda: it.manager.groups.get(group["id"]).state == "running", "it runs")
        disk.full = True
        for ask in (it.start("h0", ["h1"], 1000), it.client.cancel_group(group["id"])):
            with pytest.raises(Problem) as caught:
                await ask
            assert caught.value.status == 503 and caught.value.code == "store" and "full" in caught.value.message
        h1, h2 = (it.world.agents[name].roles for name in ("h1", "h2"))
        await until(lambda: all(r[group["id"]].state == "done" for r in (h1, h2)), "the transfer is over", 20)
        await asyncio.sleep(0.5)
        memory = (await it.client.group(group["id"]))["state"]
        entry = await it.manager.groups.kept.store.get(f"groups/{group['id']}")
        assert memory == "running" and '"state":"running"' in entry.value, "memory says what the store says"
        assert len(await it.client.groups()) == 1
        assert h1 and h2, "members forget nothing before the end is written down"
        disk.full = False
        record = await it.end(group)
        await until(lambda: not h1 and not h2, "then they do")
    assert record["state"] == "done", "the master told again"


async def test_resumed_twice_while_the_old_master_still_ends_a_group_gets_one_master() -> None:
    async with lab(bcube41(), rates=[300.0]) as it:
        it.world.agents["02"].fail["open"] = ("disk_full", "no room")
        group = await it.start("00", ["02"], 5_000_000)
        await it.end(group)
        del it.world.agents["02"].fail["open"]
        answers = await asyncio.gather(
            *(it.client.resume_group(group["id"]) for _ in range(5)), return_exceptions=True
        )
        refused = [a for a in answers if isinstance(a, Problem)]
        assert len(refused) == 4 and {a.code for a in refused} == {"not_resumable"}
        record = await it.end(group)
    assert record["state"] == "done" and record["epoch"] == 2


async def test_a_worker_of_an_earlier_epoch_is_refused_by_the_agents_too() -> None:
    async with lab(bcube41(), rates=[300.0]) as it:
        group = await it.start("00", SIX, 4_000_000)
        await it.running(group, 20)
        old = await until(lambda: it.masters.groups.get(group["id"]), "its master")
        await it.masters.kill(group["id"])
        await until(lambda: it.manager.groups.get(group["id"]).epoch == 2, "another has it")
        await until(
            lambda: all(a.epochs.get(group["id"]) == 2 for a in map(it.world.agents.get, SIX)), "it has spoken"
        )
        await old.crew.connect()
        results = await old.crew.request(CLOSE, old.crew.receivers, Close("from the past", keep=False, n=9))
        old.crew.hang_up()
        assert {r.code for r in results.values()} == {"stale"}
        assert (await it.end(group))["state"] == "done"


async def test_a_request_that_was_written_although_it_was_answered_with_an_error_is_found_when_it_is_made_again(
    
) -> None:
    async with lab(star(3), rates=[800.0]) as it:
        lose_an_answer(it.manager.groups.kept)
        it.world.sizes["/srv/file"] = 100_000
        spec = {"source": "h0", "receivers": ["h1"], "source_path": "/srv/file"}
        with pytest.raises(Problem) as caught:
            await it.client.create_group(spec, by="me", key="once")
        assert caught.value.code == "store"
        group = await it.client.create_group(spec, by="me", key="once")
        await asyncio.sleep(1.5)
        assert len(await it.manager.store.list("groups/")) == 1
        assert (await it.end(group))["state"] == "done"


async def test_a_worker_that_comes_back_while_a_group_is_written_hears_of_it_when_it_is() -> None:
    async with lab(star(3), rates=[800.0]) as it:
        groups, ordered = it.manager.groups, []
        (worker,) = await until(groups.placing.workers.all, "its worker")
        put, send = groups.kept.put, worker.put

        def told(message: orders.ToWorker) -> None:
            ordered.extend([message.group] if isinstance(message, orders.StartOrder) else [])
            send(message)

        async def back(key: str, value: str, revision: int) -> int:
            groups.kept.put = put
            groups.placing._came(worker)
            await asyncio.sleep(0.2)  # whoever would order it has done so
            early.extend(ordered)
            return await put(key, value, revision)

        early: list[str] = []
        worker.put, groups.kept.put = told, back
        group = await it.start("h0", ["h1"], 100_000)
        ended = await it.end(group)
        ordered, record = [name for name in ordered if name == group["id"]], ended
    assert early == [], "a group that is not written may never be"
    assert len(ordered) == 1 and record["state"] == "done"


@pytest.mark.simulated(timeout=60)
async def test_the_groups_of_a_worker_that_dies_are_spread_over_the_others() -> None:
    async with lab(star(3), rates=[50.0]) as it:
        for _ in range(3):
            it.masters.start()
        workers = it.manager.groups.placing.workers
        await until(lambda: len(workers.all()) == 4, "four workers")
        groups = [(await it.start("h0", ["h1", "h2"], 20_000_000))["id"] for _ in range(8)]
        owner = lambda group: it.manager.groups.get(group).owner  # noqa: E731
        await until(lambda: all(map(owner, groups)), "all are with a worker")
        before = Counter(map(owner, groups))
        dead = owner(groups[0])
        lease = it.manager.groups.get(groups[0]).lease
        it.masters.start = lambda: None  # no other comes in its place
        await it.masters.kill(groups[0])
        workers.died(lease)
        await until(lambda: all(owner(group) not in (None, dead) for group in groups), "others have them")
        after = Counter(map(owner, groups))
        for group in groups:
            await it.client.cancel_group(group)
    assert sorted(before.values()) == [2, 2, 2, 2] and sorted(after.values()) == [2, 3, 3]


async def test_how_long_a_group_took_to_start_is_counted_from_when_its_request_arrived_at_the_caller() -> None:
    async with lab(star(3), rates=[20_000.0]) as it:
        it.world.sizes["/f"] = 1000
        spec = {"source": "h0", "receivers": ["h1"], "source_path": "/f"}
        made = await it.client.create_group(spec, accepted_ns=time.time_ns() - 5_000_000_000)
        record = await it.end(made)
    assert record["state"] == "done" and record["report"]["start_s"] >= 5.0, record["report"]


async def test_who_may_not_join_a_group_that_runs_is_told_why() -> None:
    async def refused(it, group, host):
        with pytest.raises(Problem) as problem:
            await it.client.add_receiver(group["id"], host)
        return problem.value.status, problem.value.code

    wanted = [(409, "has_shards"), (422, "source_among_receivers"), (422, "unknown_host"), (409, "cordoned")]
    async with lab(star(5), rates=[300.0]) as it:
        it.world.sizes["/srv/file"] = 3_000_000
        order = {"source": "h0", "receivers": ["h1", "h2"], "source_path": "/srv/file"}
        parts = await it.client.create_group({**order, "shards": {"h1": ["0-999"]}})
        whole = await it.client.create_group(order)
        told = [await refused(it, parts, "h3"), await refused(it, whole, "h0"), await refused(it, whole, "h9")]
        await it.manager.groups.cordons.put("h4", "new disks")
        assert [*told, await refused(it, whole, "h4")] == wanted


async def test_a_group_whose_resuming_was_written_without_an_answer_is_not_forgotten_as_ended() -> None:
    async with lab(star(3), rates=[20_000.0]) as it:
        it.world.agents["h1"].fail["open"] = ("disk_full", "no room")
        group = await it.start("h0", ["h1", "h2"], 1_000_000)
        assert (await it.end(group))["state"] == "partial"
        del it.world.agents["h1"].fail["open"]
        lose_an_answer(it.manager.groups.kept)
        told = []
        for ask in (it.client.resume_group, it.client.forget_group):
            with pytest.raises(Problem) as refused:
                await ask(group["id"])
            told.append(refused.value.code)
        record = await it.end(group)
    assert told == ["store", "not_ended"] and record["state"] == "done"


async def test_a_report_that_nobody_can_deal_with_stops_no_other_groups(caplog: pytest.LogCaptureFixture) -> None:
    """Its worker was told of none of them that its end was written down, and told all of it again for ever."""
    async with lab(star(5), rates=[100.0]) as it:
        broken = await it.start("h0", ["h1"], 20_000_000, "/srv/long")
        other = await it.start("h2", ["h3", "h4"], 200_000, "/srv/short")
        await it.running(broken)
        carried = it.manager.groups.carried
        follow = carried.follow

        def fails(record, ended):
            if record.id == broken["id"] and not ended:
                raise RuntimeError("nobody thought of it")
            return follow(record, ended)

        carried.follow = fails
        assert (await it.end(other))["state"] == "done"
        await until(lambda: not it.world.agents["h3"].roles, "its members were let go")
        carried.follow = follow
        await it.client.cancel_group(broken["id"])
        assert (await it.end(broken))["state"] == "cancelled" and "nobody thought of it" in caplog.text


async def test_a_look_at_groups_that_breaks_is_not_the_last_one(caplog: pytest.LogCaptureFixture) -> None:
    async with lab(star(3), rates=[100.0]) as it:

        def fails(*_):
            raise RuntimeError("nobody thought of it")

        it.manager.groups.placing.balance.look = fails
        group = await it.start("h0", ["h1", "h2"], 2_000_000)
        await it.running(group)
        await it.masters.kill(group["id"])  # which a look finds out
        assert (await it.end(group))["state"] == "done" and "nobody thought of it" in caplog.text
