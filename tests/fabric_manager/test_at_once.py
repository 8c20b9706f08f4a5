"""What comes at once, comes again, or is about what is gone meanwhile."""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path
from typing import Any

import pytest
from small import star, until

from datacast.fabric_manager import groups as module
from datacast.fabric_manager.api import GroupSpec, orders
from datacast.fabric_manager.api.reports import GroupFailure, Progress, ReceiverFigures, TreeFigures
from datacast.fabric_manager.api.specs import RECEIVERS_MAX
from datacast.fabric_manager.fabric import Fabric
from datacast.fabric_manager.groups import Groups
from datacast.fabric_manager.keys import GROUPS, Kept
from datacast.fabric_manager.record import Record, dump, load
from datacast.fabric_manager.replica import Replica
from datacast.fabric_manager.workers import Worker
from datacast.master.members import COUNTED
from datacast.services.problems import NO_LEADER, Problem
from datacast.services.store import VALUE_MAX, Guard, StoreError, open_store
from lab import lab


async def test_a_group_that_is_resumed_is_not_forgotten_as_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEEP_GROUPS", 1)
    async with lab(star(3)) as it:
        it.world.agents["h1"].fail["stat"] = ("not_found", "no room")
        first = await it.end(await it.start("h0", ["h1"], 1000))
        assert first["state"] == "failed"
        it.world.agents["h1"].fail.clear()
        store, put, written = it.manager.store, it.manager.store.put, asyncio.Event()

        async def late(key: str, *args: Any, **options: Any) -> int:
            if key == GROUPS + first["id"] and not written.is_set():
                revision = await put(key, *args, **options)
                await written.wait()
                return revision
            return await put(key, *args, **options)

        monkeypatch.setattr(store, "put", late)
        resuming = asyncio.create_task(it.client.request("POST", f"/groups/{first['id']}/resume"))
        await until(lambda: it.manager.groups._groups[first["id"]].lock.locked(), "it is being written")
        second = await it.end(await it.start("h0", ["h2"], 1000))
        await asyncio.sleep(0.2)
        written.set()
        await resuming
        monkeypatch.setattr(module, "KEEP_GROUPS", 2)
        assert (second["state"], (await it.end(first))["state"]) == ("done", "done")


@pytest.mark.simulated
async def test_a_request_with_a_deadline_that_is_made_again_is_answered_with_its_group() -> None:
    """Its own group has the links by then."""
    # In its own time: the group lasts for half a second, in which there is much to ask.
    async with lab(star(2), rates=[200.0]) as it:
        it.world.sizes["/srv/file"] = size = 12_000_000
        spec = {
            "source": "h0", "receivers": ["h1"], "source_path": "/srv/file", "size": size, "deadline_s": 1.5,
        }  # fmt: skip
        key = {"idempotency-key": "nightly"}
        first = await it.client.request("POST", "/groups", spec, headers=key)

        async def full() -> bool:
            return not (await it.client.request("POST", "/plan", spec))["deadline_met"]

        await until(full, "its trees are known, and there is no room for another one")
        again = await it.client.request("POST", "/groups", spec, headers=key)
        with pytest.raises(Problem, match=r"more than 1\.5 s"):
            await it.client.request("POST", "/groups", spec)
        await it.client.request("POST", f"/groups/{first['id']}/cancel")
        await it.end(first)
        first, again = first["id"], again["id"]
    assert first == again


async def test_who_asks_with_a_deadline_or_for_a_plan_waits_for_agents_that_come_back(tmp_path: Path) -> None:
    """A fabric manager that has just begun to lead."""
    store = str(tmp_path / "store")
    async with lab(star(2), store=store) as it:
        await it.end(await it.start("h0", ["h1"], 1000))
    async with lab(star(2), store=store, agents=[]) as it:
        it.world.sizes["/srv/file"] = 1000
        spec = {"source": "h0", "receivers": ["h1"], "source_path": "/srv/file"}
        timed = {**spec, "size": 1000, "deadline_s": 60.0}
        asked = [asyncio.create_task(it.client.request("POST", "/groups", timed))]
        asked.append(asyncio.create_task(it.client.request("POST", "/plan", spec)))
        await asyncio.sleep(0.3)
        await it.world.add(["h0", "h1"], it.manager.signalling_address)
        group, plan = await asyncio.gather(*asked)
        assert ((await it.end(group))["state"], plan["receivers"]) == ("done", ["h1"])


@pytest.mark.parametrize("path", ["/srv/what?.bin", "/srv/?", "/srv/a b#c%20é"])
async def test_a_file_keeps_its_name_whatever_it_is_called(path: str) -> None:
    async with lab(star(2)) as it:
        assert (await it.end(await it.start("h0", ["h1"], 1000, path)))["dest_path"] == path.removeprefix("/srv/")


async def test_a_host_that_sends_beside_the_source_is_not_taken_away() -> None:
    async with lab(star(3), rates=[200.0]) as it:
        it.world.sizes["/srv/file"] = 12_000_000
        spec = {"source": "h0", "other_sources": ["h2"], "receivers": ["h1"], "source_path": "/srv/file"}
        group = await it.client.create_group(spec)
        await it.running(group)
        with pytest.raises(Problem) as refused:
            await it.client.remove_node("h2")
        it.world.rates = [20_000.0]
        assert (await it.end(group))["state"] == "done"
    assert (refused.value.status, refused.value.code) == (409, "busy")


def failed(*receivers: str, source: str = "h0", **more: Any) -> Record:
    spec = GroupSpec(source=source, source_path="/f", receivers=list(receivers), dest_path="f")
    return Record(id="g-1", spec=spec, **{"state": "failed", "created_ns": 1, **more})


async def groups_with(*records: Record, graph: Any = None) -> Groups:
    """Of a fabric manager that has just begun to lead."""
    store = open_store(":memory:")
    for record in records:
        await store.put(GROUPS + record.id, dump(record), 0)
    made = Groups(Fabric(graph or star(2)), Kept(store), lambda event: None)
    await made.begin(Replica(store))
    return made


@pytest.mark.parametrize("record", [failed("h1", source="gone"), failed("gone")], ids=["source", "receiver"])
async def test_a_group_of_hosts_that_the_topology_has_no_more_is_not_resumed(record: Record) -> None:
    some = await groups_with(record)
    for node in some.fabric.nodes.values():
        node.registered = True
    with pytest.raises(Problem) as refused:
        await some.resume("g-1")
    await some.stop()
    assert (refused.value.status, refused.value.code, refused.value.what) == (409, "no_agent", "gone")


async def test_what_comes_behind_the_one_who_forgets_a_group_is_told_that_it_is_not_there() -> None:
    some = await groups_with(failed("h1"))
    for node in some.fabric.nodes.values():
        node.registered = True
    asked = [some.forget("g-1"), some.forget("g-1"), some.resume("g-1"), some.cancel("g-1")]
    told = await asyncio.gather(*asked, return_exceptions=True)
    assert not await some.kept.store.list(GROUPS)
    await some.stop()
    first, *others = told
    assert isinstance(first, Record)
    assert [(one.status, one.code) for one in others] == [(404, "group_not_found")] * 3


async def test_whoever_follows_events_hears_of_groups_that_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """On request, and as the oldest. Else their lists grow for as long as they follow."""
    monkeypatch.setattr(module, "KEEP_GROUPS", 1)
    async with lab(star(3)) as it:
        events: list[dict[str, Any]] = []

        async def follow() -> None:
            async for event in it.client.events(["groups"]):
                events.append(event)

        following = asyncio.create_task(follow())
        await until(lambda: events, "the stream is open")
        ids = [(await it.end(await it.start("h0", ["h1"], 1000)))["id"] for _ in range(2)]
        await it.client.forget_group(ids[1])
        forgotten = lambda: [event for event in events if event["type"] == "forgotten"]  # noqa: E731
        await until(lambda: len(forgotten()) == 2, "both are forgotten")
        following.cancel()
        told = forgotten()
    assert [event["id"] for event in told] == ids and all(event["event"] for event in told)


async def test_nobody_looks_for_a_worker_of_a_group_that_was_never_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store fails, and the worker that was to have it dies, at one moment."""
    some, goes_on = await groups_with(), asyncio.Event()
    for node in some.fabric.nodes.values():
        node.registered = True

    async def put(*args: Any, **options: Any) -> int:
        await goes_on.wait()
        raise StoreError("no room")

    monkeypatch.setattr(some.kept.store, "put", put)
    some.placing.workers.connect("w", "a" * 32, None)
    spec = GroupSpec(source="h0", source_path="/f", receivers=["h1"])
    creating = asyncio.create_task(some.create(spec, 1))
    await until(lambda: some._live, "it is being written")
    before = len(some._tasks)
    some.placing.workers.died("a" * 32)
    await asyncio.sleep(0.05)
    goes_on.set()
    with pytest.raises(Problem, match="no room"):
        await creating
    await asyncio.sleep(0.05)
    left = len([task for task in some._tasks if "_owner_lost" in repr(task)])
    assert before
    await some.stop()
    assert left == 0


async def test_groups_that_were_made_at_one_moment_are_listed_once_each() -> None:
    """Page by page."""
    async with lab(star(2)) as it:
        for name in ("g-3", "g-1", "g-2"):
            record = failed("h1")
            it.manager.groups._groups[name] = module.Held(Record(**{**vars(record), "id": name}), 1)
        found: list[str] = []
        while rows := await it.client.groups(limit=1, **({"after": found[-1]} if found else {})):
            found += [row["id"] for row in rows]
    assert found == ["g-1", "g-2", "g-3"]


async def test_a_host_that_is_taken_away_and_comes_back_while_its_agent_lives_is_there_again() -> None:
    async with lab(star(3)) as it:
        await it.client.remove_node("h2")
        assert not it.manager.fabric.nodes["h2"].registered
        await it.client.add_node("h2", {"kind": "host", "links": [{"to": "s"}]})
        there = it.manager.fabric.nodes["h2"].registered
        assert (there, (await it.end(await it.start("h0", ["h2"], 1000)))["state"]) == (True, "done")


async def test_one_whose_agent_ended_while_it_was_away_waits_for_it() -> None:
    async with lab(star(3)) as it:
        await it.client.remove_node("h2")
        await it.world.agents["h2"].die()
        await until(lambda: it.manager.fabric.nodes["h2"].session is None, "its connection has ended")
        await it.client.add_node("h2", {"kind": "host", "links": [{"to": "s"}]})
        assert it.manager.fabric.nodes["h2"].registered is False


async def created(some: Groups) -> Record:
    for node in some.fabric.nodes.values():
        node.registered = True
    return await some.create(GroupSpec(source="h0", source_path="/f", receivers=["h1"]), 1)


def told(worker: Worker) -> list[orders.ToWorker | None]:
    assert worker.orders
    return [worker.orders.queue.get_nowait() for _ in range(worker.orders.queue.qsize())]


async def test_a_write_that_the_store_carries_out_after_it_was_asked_for_again_leaves_no_group_without_a_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A store whose disk stands still takes a write late: then the second try finds another revision than it knew."""
    some = await groups_with()
    record, put = await created(some), some.kept.store.put
    late: list[tuple[Any, ...]] = []

    async def slow(*args: Any, **options: Any) -> int:
        if not late:
            late.append(args)
            raise StoreError("does not answer")
        if len(late) == 1:
            late.append(args)
            await put(*late[0])
        return await put(*args, **options)

    monkeypatch.setattr(some.kept.store, "put", slow)
    worker = some.placing.workers.connect("w", "a" * 32, None)
    assert worker

    def placed() -> bool:
        some.placing.sweep()
        return some.get(record.id).owner == "w"

    await until(placed, "the worker has it")
    await asyncio.gather(*(task for task in some._tasks if "divider" not in repr(task).lower()))
    found = some.get(record.id), record.id in worker.groups, told(worker)
    await some.stop()
    record, its, messages = found
    assert (record.epoch, its) == (1, True)
    assert [one.epoch for one in messages if isinstance(one, orders.StartOrder)] == [1]


async def test_who_joins_while_an_order_is_made_is_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker does not know the group yet: what it is told of it before the order is lost."""
    some, goes_on = await groups_with(graph=star(3)), asyncio.Event()
    worker = some.placing.workers.connect("w", "a" * 32, None)
    assert worker
    record = await created(some)
    told(worker)
    take = some.placing.tree_ids.take

    async def late(count: int) -> list[int]:
        await goes_on.wait()
        return await take(count)

    monkeypatch.setattr(some.placing.tree_ids, "take", late)
    some.placing.workers.connect("w", "a" * 32, None)  # a new stream: it did not get the order
    await asyncio.sleep(0)
    await some.add_receiver(record.id, "h2")
    goes_on.set()
    messages: list[orders.ToWorker | None] = []

    def begun() -> list[orders.StartOrder]:
        messages.extend(told(worker))
        return [one for one in messages if isinstance(one, orders.StartOrder)]

    order = (await until(begun, "it is told to begin"))[0]
    await some.stop()
    assert order.receivers == ["h1", "h2"]


async def test_a_group_that_begins_while_its_switch_is_taken_out_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    some = await groups_with()
    for node in some.fabric.nodes.values():
        node.registered = True
    put, made = some.kept.store.put, list[Any]()

    async def slow(key: str, *args: Any, **_: Any) -> Any:
        if not key.startswith(GROUPS) and not made:
            made.append(None)
            made[0] = await created(some)
        return await put(key, *args)

    monkeypatch.setattr(some.kept.store, "put", slow)
    with pytest.raises(Problem) as refused:
        await some.cordons.put_switch("s", "why")
    assert some.fabric.nodes["s"].drained is None and some.cordons.reason("s") is None
    await some.stop()
    again = Groups(Fabric(star(2)), Kept(some.kept.store), lambda event: None)
    await again.begin(Replica(some.kept.store))
    assert again.fabric.nodes["s"].drained is None
    await again.stop()
    assert refused.value.code == "busy"


def wide(hosts: int) -> Any:
    """One switch with so many hosts."""
    graph = star(1)
    graph.add_nodes_from((f"h{n}" for n in range(1, hosts)), kind="host", forwards=False)
    graph.add_edges_from((f"h{n}", "s", {"ports": {f"h{n}": 0, "s": n}, "up": True}) for n in range(1, hosts))
    return graph


async def test_a_group_of_all_hosts_has_no_more_of_them_than_can_be_read_again() -> None:
    """Else no fabric manager starts with it."""
    some = await groups_with(graph=wide(RECEIVERS_MAX + 3))
    for node in some.fabric.nodes.values():
        node.registered = node.kind == "host"
    with pytest.raises(Problem) as all_of_them:
        await some.create(GroupSpec(source="h0", source_path="/f", receivers="all"), 1)
    late = [some.fabric.nodes[f"h{RECEIVERS_MAX + n}"] for n in (1, 2)]
    for node in late:
        node.registered = False
    record = await some.create(GroupSpec(source="h0", source_path="/f", receivers="all"), 1)
    late[0].registered = True
    with pytest.raises(Problem) as one_more:
        await some.add_receiver(record.id, late[0].name)
    count = len(load(dump(record)).receivers)
    await some.stop()
    count, *refused = count, all_of_them.value, one_more.value
    assert count == RECEIVERS_MAX
    assert [(one.status, one.code) for one in refused] == [(422, "too_many_receivers")] * 2


def test_what_a_group_of_thousands_has_come_to_fits_the_store() -> None:
    """Its end could not be written else. How it ended for each is kept, what each counted of each tree is not."""
    names = [f"rack{n // 40:03}-host{n % 40:02}" for n in range(RECEIVERS_MAX)]
    draw = random.Random(1).randrange
    failure = [GroupFailure(code="disk_full", message=random.Random(n).randbytes(2000).hex()) for n in range(9)]

    def figures(n: int) -> ReceiverFigures:
        trees = {str(tree): {key: draw(10**6) for key in COUNTED} for tree in range(4)}
        if n < 3000:
            return ReceiverFigures(state="failed", error=failure[n % 9], trees=trees)
        return ReceiverFigures(
            state="done", bytes=10**10, fraction=1.0, sha256_ok=True, goodput_mbps=draw(10**9) / 1e5,
            interests=draw(10**7), retransmissions=draw(10**5), t_first_ns=draw(1 << 60), t_done_ns=draw(1 << 60),
            trees=trees,
        )  # fmt: skip

    arcs = [(f"s{draw(500)}", name) for name in names]
    spec = GroupSpec(source="h", source_path="/f", receivers=names, dest_path="f")
    receivers = {name: figures(n) for n, name in enumerate(names)}
    progress = Progress(receivers=receivers, trees={str(tree): TreeFigures(arcs=arcs) for tree in range(4)})
    made = Record(id="g-1", spec=spec, state="partial", progress=progress)
    text = dump(made)
    assert len(text) <= VALUE_MAX
    kept = load(text)
    assert kept.done == made.done and kept.receivers == names
    told = [row.error for row in kept.progress.receivers.values() if row.error]
    assert len(told) == 3000 and all(one.code == "disk_full" and one.message for one in told)


async def test_a_request_whose_record_no_store_takes_is_refused_as_too_large() -> None:
    """To ask again, as after any 503, would not help."""
    some = await groups_with(graph=wide(4000))
    for node in some.fabric.nodes.values():
        node.registered = True
    draw = random.Random(1).randrange
    ranges = iter(lambda: f"{draw(10**14)}-{10**14 + draw(10**14)}", "")
    shards = {f"h{n}": [next(ranges) for _ in range(20)] for n in range(1, 4000)}
    refused = []
    for ask in (
        some.create(GroupSpec(source="h0", source_path="/f", receivers=list(shards), shards=shards), 1),
        some.site_groups.put("s-0123456789abcdef", os.urandom(1 << 20).hex()),
    ):
        with pytest.raises(Problem) as told:
            await ask
        refused.append(told.value)
    assert not some.records()
    await some.stop()
    assert [(one.status, one.code) for one in refused] == [(413, "too_large")] * 2


async def test_what_is_kept_of_several_sites_is_asked_for_of_the_next_leader() -> None:
    """A client asks another one only where the answer says so."""
    some, codes = await groups_with(), []
    await some.site_groups.put("s-0123456789abcdef", "one")
    some.kept.guard = Guard("leader", 7)
    for ask in (some.site_groups.put("s-0123456789abcdef", "two"), some.site_groups.delete("s-0123456789abcdef")):
        with pytest.raises(Problem) as told:
            await ask
        codes.append((told.value.status, told.value.code))
    await some.stop()
    assert codes == [(503, NO_LEADER)] * 2


@pytest.mark.parametrize("asked", [{"receivers": "all"}, {"receiver_set": "both"}], ids=["all", "set"])
async def test_no_host_is_left_out_whose_agent_comes_back_in_a_moment(tmp_path: Path, asked: dict[str, str]) -> None:
    """Nor is a group refused, or not resumed or joined, for it. A fabric manager that has just begun to lead."""
    store = str(tmp_path / "store")
    async with lab(star(4), store=store) as it:
        await it.client.put_set("both", ["h1", "h2"])
        it.world.agents["h2"].fail["stat"] = ("not_found", "no room")
        first = await it.end(await it.start("h0", ["h1", "h2"], 1000))
        assert first["state"] == "partial"
    async with lab(star(4), store=store, agents=["h0", "h1"]) as it:
        it.world.sizes["/srv/file"] = 1000
        spec = {"source": "h0", "source_path": "/srv/file", **asked}
        making = asyncio.create_task(it.client.create_group(spec))
        resuming = asyncio.create_task(it.client.request("POST", f"/groups/{first['id']}/resume"))
        await asyncio.sleep(0.2)
        await it.world.add(["h2", "h3"], it.manager.signalling_address)
        group, _ = await asyncio.gather(making, resuming)
        receivers, state = sorted((await it.end(group))["receivers"]), (await it.end(first))["state"]
    assert receivers == ["h1", "h2", "h3"][: 3 if "receivers" in asked else 2] and state == "done"
