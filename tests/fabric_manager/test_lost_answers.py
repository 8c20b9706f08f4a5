"""A store carries a write out, and its answer is lost: who asks again is not told that somebody else was there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from small import star, until

from datacast.fabric_manager import groups as module
from datacast.services.problems import Problem
from datacast.services.store import Store, StoreError
from lab import lab


def lose(store: Store, write: str) -> None:
    """The answer to the next `put` or `delete`."""
    inner = getattr(store, write)

    async def lost(*args: Any, **options: Any) -> None:
        setattr(store, write, inner)
        await inner(*args, **options)
        raise StoreError("the answer was lost")

    setattr(store, write, lost)


async def asked_twice(store: Store, write: str, ask: Callable[[], Coroutine[Any, Any, Any]]) -> None:
    lose(store, write)
    with pytest.raises(Problem, match="the answer was lost") as caught:
        await ask()
    assert caught.value.status == 503
    await ask()


@pytest.mark.parametrize("gone", [False, True], ids=["unread", "gone"])
async def test_a_group_that_was_made_after_all_is_no_conflict(gone: bool) -> None:
    """`gone`: what nobody was told of is taken away again at the moment at which it is asked for once more."""
    async with lab(star(2)) as it:
        store = it.manager.store
        inner = store.get

        async def get(key: str) -> Any:
            store.get = inner  # type: ignore[method-assign]
            if not gone:
                raise StoreError("does not answer")
            entry = await inner(key)
            assert entry
            await store.delete(key, entry.revision)
            return None

        it.world.sizes["/f"] = 1000
        spec = {"source": "h0", "receivers": ["h1"], "source_path": "/f"}
        lose(store, "put")
        with pytest.raises(Problem, match="the answer was lost"):
            await it.client.create_group(spec, key="once")
        store.get = get  # type: ignore[method-assign]
        with pytest.raises(Problem) as caught:
            await it.client.create_group(spec, key="once")
        assert caught.value.status == 503, caught.value
        group = await it.client.create_group(spec, key="once")
        assert (await it.end(group))["state"] == "done"
        assert [row["id"] for row in await it.client.groups()] == [group["id"]]


async def test_a_group_is_forgotten_by_who_asks_again() -> None:
    async with lab(star(2)) as it:
        group = await it.start("h0", ["h1"], 1000)
        await it.end(group)
        await asked_twice(it.manager.store, "delete", lambda: it.client.forget_group(group["id"]))
        assert not await it.client.groups()


async def test_the_oldest_group_that_is_gone_already_is_nothing_to_warn_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "KEEP_GROUPS", 1)
    async with lab(star(2)) as it:
        first, second = [await it.end(await it.start("h0", ["h1"], 1000)) for _ in range(2)]
        await until(lambda: first["id"] not in it.manager.groups._groups, "the first is forgotten")
        entry = await it.manager.store.get(f"groups/{second['id']}")
        await it.manager.store.delete(f"groups/{second['id']}", entry.revision)
        await it.end(await it.start("h0", ["h1"], 1000))
        await until(lambda: second["id"] not in it.manager.groups._groups, "so is the second")
        await asyncio.sleep(0.1)
    assert "cannot be forgotten" not in caplog.text


async def test_what_is_kept_of_several_sites_and_of_nodes_is_written_by_who_asks_again() -> None:
    async with lab(star(2)) as it:
        store, client = it.manager.store, it.client
        await asked_twice(store, "put", lambda: client.put_site_group("s-0123456789abcdef", "one"))
        await asked_twice(store, "put", lambda: client.put_site_group("s-0123456789abcdef", "two"))
        assert await client.site_groups() == {"s-0123456789abcdef": "two"}
        await asked_twice(store, "delete", lambda: client.delete_site_group("s-0123456789abcdef"))
        assert await client.site_groups() == {}
        spec = {"kind": "host", "links": [{"to": "s"}]}
        await asked_twice(store, "put", lambda: client.add_node("h9", spec))
        await asked_twice(store, "put", lambda: client.remove_node("h9"))


async def test_what_is_taken_away_while_it_is_written_is_gone() -> None:
    """Who gave up waiting for the write wants nothing of it left: it was told that there is none, and there was."""
    async with lab(star(2)) as it:
        inner, begun, goes_on = it.manager.store.put, asyncio.Event(), asyncio.Event()

        async def slow(*args: Any, **options: Any) -> int:
            begun.set()
            await goes_on.wait()
            return await inner(*args, **options)

        it.manager.store.put = slow  # type: ignore[method-assign]
        put = asyncio.create_task(it.client.put_site_group("s-0123456789abcdef", "one"))
        await begun.wait()
        delete = asyncio.create_task(it.client.delete_site_group("s-0123456789abcdef"))
        asyncio.get_running_loop().call_later(0.2, goes_on.set)
        await asyncio.gather(put, delete)
        assert await it.client.site_groups() == {}
