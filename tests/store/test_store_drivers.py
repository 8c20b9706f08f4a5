"""What every store promises (services/store/base.py), on SQLite and on etcd."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from small import until

from datacast.services.store import Conflict, Entry, Guard, Lost, Store, StoreError
from datacast.services.store.base import VALUE_MAX

Opened = Callable[[], Store]


@asynccontextmanager
async def store_of(opened: Opened) -> AsyncIterator[Store]:
    store = opened()
    try:
        yield store
    finally:
        await store.close()


async def test_a_value_is_there_after_another_opening(opened: Opened) -> None:
    async with store_of(opened) as store:
        assert await store.get("groups/g-1") is None
        revision = await store.put("groups/g-1", "ünï\n1", 0)
        other = opened()
        found = await other.get("groups/g-1")
        await other.close()
        assert found and (found.value, found.revision) == ("ünï\n1", revision)


async def test_nothing_is_overwritten_unseen(opened: Opened) -> None:
    async with store_of(opened) as store:
        first = await store.put("a", "1", 0)
        with pytest.raises(Conflict, match=f"a has revision {first}, not 0"):
            await store.put("a", "2", 0)
        second = await store.put("a", "2", first)
        assert second != first
        with pytest.raises(Conflict):
            await store.put("a", "3", first)
        with pytest.raises(Conflict):
            await store.delete("a", first)
        await store.delete("a", second)
        assert await store.get("a") is None
        with pytest.raises(Conflict):
            await store.put("a", "4", second)


async def test_a_write_whose_answer_was_lost_is_no_conflict_with_itself(forgetful) -> None:
    """It is asked for again, and finds what it wrote."""
    async with forgetful.store() as store:
        forgetful.lose = 1
        first = await store.put("a", "1", 0)
        assert (await store.get("a")) == Entry("a", "1", first)
        leads = await store.put("leader", "me", 0)
        forgetful.lose = 2
        second = await store.put("a", "2", first, guard=Guard("leader", leads))
        assert (await store.get("a")) == Entry("a", "2", second)
        forgetful.lose = 1
        await store.delete("a", second)
        assert await store.get("a") is None
        with pytest.raises(Conflict):
            await store.put("leader", "another", 0)
        assert forgetful.lost in (0, 4)


async def test_of_many_writers_with_one_revision_one_wins(opened: Opened) -> None:
    async with store_of(opened) as store:
        other = opened()
        revision = await store.put("a", "0", 0)
        puts = [(store, other)[i % 2].put("a", str(i), revision) for i in range(40)]
        answers = await asyncio.gather(*puts, return_exceptions=True)
        await other.close()
        won = [i for i, answer in enumerate(answers) if isinstance(answer, int)]
        assert len(won) == 1 and all(isinstance(a, Conflict) for i, a in enumerate(answers) if i != won[0])
        found = await store.get("a")
        assert found and found.value == str(won[0])


@pytest.mark.slow
async def test_a_listing_holds_what_begins_with_the_prefix(opened: Opened) -> None:
    async with store_of(opened) as store:
        names = [f"groups/g-{i:04}" for i in range(520)]
        for first in range(0, len(names), 40):  # asked for all at once, a busy store answers some too late
            await asyncio.gather(*(store.put(name, name, 0) for name in names[first : first + 40]))
        await store.put("group", "no", 0)
        await store.put("groups0", "no", 0)
        assert [(e.key, e.value) for e in await store.list("groups/")] == [(name, name) for name in names]


@pytest.mark.slow
async def test_a_listing_since_a_revision_holds_what_was_written_then_or_later(opened: Opened) -> None:
    async with store_of(opened) as store:
        names = [f"groups/g-{i:04}" for i in range(520)]
        written: dict[str, int] = {}
        for first in range(0, len(names), 40):
            some = names[first : first + 40]
            written |= zip(some, await asyncio.gather(*(store.put(name, name, 0) for name in some)), strict=True)
        await store.put("group", "no", 0)
        assert await store.revisions("groups/") == written and [*written] == names
        await store.delete(names[7], written.pop(names[7]))
        written[names[3]] = since = await store.put(names[3], "again", written[names[3]])
        written["groups/z"] = await store.put("groups/z", "new", 0)
        assert await store.revisions("groups/") == written
        expected = [Entry(names[3], "again", since), Entry("groups/z", "new", written["groups/z"])]
        assert await store.list("groups/", since) == expected
        assert await store.list("groups/", since + 1) == expected[1:]
        assert len(await store.list("groups/", min(written.values()))) == 520, "more than an answer of etcd holds"


async def test_a_deposed_leader_writes_nothing(opened: Opened) -> None:
    async with store_of(opened) as store:
        mine = Guard("leader", await store.put("leader", "me", 0))
        held = await store.put("a", "1", 0, guard=mine)
        await store.put("leader", "you", mine.revision)
        for attempt in (
            store.put("a", "2", held, guard=mine),
            store.put("b", "1", 0, guard=mine),
            store.delete("a", held, guard=mine),
        ):
            with pytest.raises(Lost, match="leader is another's now"):
                await attempt
        found = await store.get("a")
        assert found and found.value == "1" and await store.get("b") is None


@pytest.mark.slow
async def test_keys_go_with_their_lease_and_stay_while_it_is_renewed(opened: Opened) -> None:
    async with store_of(opened) as store:
        lease = await store.grant(3.0)
        await store.put("leader", "me", 0, lease=lease)
        await store.put("kept", "x", 0)
        for _ in range(4):
            await asyncio.sleep(0.8)
            await store.renew(lease)
        assert await store.get("leader")
        await until(lambda: _gone(store, "leader"), "the lease ends")
        with pytest.raises(Lost):
            await store.renew(lease)
        with pytest.raises(Lost):
            await store.put("leader", "me", 0, lease=lease)
        assert await store.get("kept")


async def _gone(store: Store, key: str) -> bool:
    return await store.get(key) is None


async def test_a_lease_given_back_ends_at_once(opened: Opened) -> None:
    async with store_of(opened) as store:
        lease = await store.grant(60.0)
        await store.put("leader", "me", 0, lease=lease)
        await store.revoke(lease)
        await store.revoke(lease)
        assert await store.get("leader") is None


async def test_a_watch_tells_what_is_there_and_what_changes(opened: Opened) -> None:
    async with store_of(opened) as store:
        seen: list[tuple[str, str | None]] = []

        async def follow() -> None:
            async for change in store.watch("leader"):
                seen.append((change.key, change.value))

        await store.put("leader", "a", 0)
        following = asyncio.create_task(follow())
        await until(lambda: seen == [("leader", "a")], "what is there")
        other = opened()
        lease = await other.grant(60.0)
        held = await other.get("leader")
        assert held
        await other.put("leader", "b", held.revision, lease=lease)
        await until(lambda: seen[1:] == [("leader", "b")], "a change by another")
        await other.revoke(lease)
        await until(lambda: seen[2:] == [("leader", None)], "its end")
        await other.close()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def test_a_value_that_no_driver_takes_is_refused(opened: Opened) -> None:
    async with store_of(opened) as store:
        await store.put("a", "x" * VALUE_MAX, 0)
        with pytest.raises(StoreError, match="exceeds"):
            await store.put("b", "x" * (VALUE_MAX + 1), 0)
