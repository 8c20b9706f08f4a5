"""What comes at once, comes again, or is about what is gone meanwhile."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from small import run, star, until

from datacast.fabric_manager import groups as module
from datacast.fabric_manager.api import GroupSpec
from datacast.fabric_manager.fabric import Fabric
from datacast.fabric_manager.groups import Groups
from datacast.fabric_manager.keys import GROUPS, Kept
from datacast.fabric_manager.record import Record, dump
from datacast.fabric_manager.replica import Replica
from datacast.services.problems import Problem
from datacast.services.store import StoreError, open_store
from lab import lab


def test_a_group_that_is_resumed_is_not_forgotten_as_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEEP_GROUPS", 1)

    async def scenario() -> tuple[str, Any]:
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
            return second["state"], (await it.end(first))["state"]

    assert run(scenario()) == ("done", "done")


def test_a_request_with_a_deadline_that_is_made_again_is_answered_with_its_group() -> None:
    """Its own group has the links by then."""

    async def scenario() -> tuple[str, str]:
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
            return first["id"], again["id"]

    first, again = run(scenario())
    assert first == again


def test_who_asks_with_a_deadline_or_for_a_plan_waits_for_agents_that_come_back(tmp_path: Path) -> None:
    """A fabric manager that has just begun to lead."""

    async def scenario() -> tuple[str, list[str]]:
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
            return (await it.end(group))["state"], plan["receivers"]

    assert run(scenario()) == ("done", ["h1"])


@pytest.mark.parametrize("path", ["/srv/what?.bin", "/srv/?", "/srv/a b#c%20é"])
def test_a_file_keeps_its_name_whatever_it_is_called(path: str) -> None:
    async def scenario() -> str:
        async with lab(star(2)) as it:
            return (await it.end(await it.start("h0", ["h1"], 1000, path)))["dest_path"]

    assert run(scenario()) == path.removeprefix("/srv/")


def test_a_host_that_sends_beside_the_source_is_not_taken_away() -> None:
    async def scenario() -> Problem:
        async with lab(star(3), rates=[200.0]) as it:
            it.world.sizes["/srv/file"] = 12_000_000
            spec = {"source": "h0", "other_sources": ["h2"], "receivers": ["h1"], "source_path": "/srv/file"}
            group = await it.client.create_group(spec)
            await it.running(group)
            with pytest.raises(Problem) as refused:
                await it.client.remove_node("h2")
            it.world.rates = [20_000.0]
            assert (await it.end(group))["state"] == "done"
            return refused.value

    refused = run(scenario())
    assert (refused.status, refused.code) == (409, "busy")


def failed(*receivers: str, source: str = "h0", **more: Any) -> Record:
    spec = GroupSpec(source=source, source_path="/f", receivers=list(receivers), dest_path="f")
    return Record(id="g-1", spec=spec, **{"state": "failed", "created_ns": 1, **more})


async def groups_with(*records: Record) -> Groups:
    """Of a fabric manager that has just begun to lead."""
    store = open_store(":memory:")
    for record in records:
        await store.put(GROUPS + record.id, dump(record), 0)
    made = Groups(Fabric(star(2)), Kept(store), lambda event: None)
    await made.begin(Replica(store))
    return made


@pytest.mark.parametrize("record", [failed("h1", source="gone"), failed("gone")], ids=["source", "receiver"])
def test_a_group_of_hosts_that_the_topology_has_no_more_is_not_resumed(record: Record) -> None:
    async def scenario() -> Problem:
        some = await groups_with(record)
        for node in some.fabric.nodes.values():
            node.registered = True
        with pytest.raises(Problem) as refused:
            await some.resume("g-1")
        await some.stop()
        return refused.value

    refused = run(scenario())
    assert (refused.status, refused.code, refused.what) == (409, "no_agent", "gone")


def test_what_comes_behind_the_one_who_forgets_a_group_is_told_that_it_is_not_there() -> None:
    async def scenario() -> list[Any]:
        some = await groups_with(failed("h1"))
        for node in some.fabric.nodes.values():
            node.registered = True
        asked = [some.forget("g-1"), some.forget("g-1"), some.resume("g-1"), some.cancel("g-1")]
        told = await asyncio.gather(*asked, return_exceptions=True)
        assert not await some.kept.store.list(GROUPS)
        await some.stop()
        return told

    first, *others = run(scenario())
    assert isinstance(first, Record)
    assert [(one.status, one.code) for one in others] == [(404, "group_not_found")] * 3


def test_whoever_follows_events_hears_of_groups_that_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """On request, and as the oldest. Else their lists grow for as long as they follow."""
    monkeypatch.setattr(module, "KEEP_GROUPS", 1)

    async def scenario() -> tuple[list[str], list[dict[str, Any]]]:
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
            return ids, forgotten()

    ids, told = run(scenario())
    assert [event["id"] for event in told] == ids and all(event["event"] for event in told)


def test_nobody_looks_for_a_worker_of_a_group_that_was_never_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store fails, and the worker that was to have it dies, at one moment."""

    async def scenario() -> int:
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
        return left

    assert run(scenario()) == 0


def test_groups_that_were_made_at_one_moment_are_listed_once_each() -> None:
    """Page by page."""

    async def scenario() -> list[str]:
        async with lab(star(2)) as it:
            for name in ("g-3", "g-1", "g-2"):
                record = failed("h1")
                it.manager.groups._groups[name] = module.Held(Record(**{**vars(record), "id": name}), 1)
            found: list[str] = []
            while rows := await it.client.groups(limit=1, **({"after": found[-1]} if found else {})):
                found += [row["id"] for row in rows]
            return found

    assert run(scenario()) == ["g-1", "g-2", "g-3"]


def test_a_host_that_is_taken_away_and_comes_back_while_its_agent_lives_is_there_again() -> None:
    async def scenario() -> tuple[bool, str]:
        async with lab(star(3)) as it:
            await it.client.remove_node("h2")
            assert not it.manager.fabric.nodes["h2"].registered
            await it.client.add_node("h2", {"kind": "host", "links": [{"to": "s"}]})
            there = it.manager.fabric.nodes["h2"].registered
            return there, (await it.end(await it.start("h0", ["h2"], 1000)))["state"]

    assert run(scenario()) == (True, "done")


def test_one_whose_agent_ended_while_it_was_away_waits_for_it() -> None:
    async def scenario() -> bool:
        async with lab(star(3)) as it:
            await it.client.remove_node("h2")
            await it.world.agents["h2"].die()
            await until(lambda: it.manager.fabric.nodes["h2"].session is None, "its connection has ended")
            await it.client.add_node("h2", {"kind": "host", "links": [{"to": "s"}]})
            return it.manager.fabric.nodes["h2"].registered

    assert run(scenario()) is False
