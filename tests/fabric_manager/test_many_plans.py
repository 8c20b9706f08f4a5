"""Requests for a plan: however many come, what else needs a thread has one."""

from __future__ import annotations

import asyncio
import threading

import pytest
from small import star

from datacast.fabric_manager import groups as module
from datacast.fabric_manager.api import GroupSpec
from datacast.fabric_manager.fabric import Fabric
from datacast.fabric_manager.groups import Groups
from datacast.fabric_manager.keys import Kept
from datacast.services.problems import Problem
from datacast.services.store import open_store


class Long:
    """A plan that takes until it is let go."""

    let_go = threading.Event()

    def __init__(self, *_: object) -> None:
        pass

    def plan(self, size: int | None) -> int | None:
        self.let_go.wait()
        return size

    def check_deadline(self) -> None:
        self.let_go.wait()
        raise Problem(409, "deadline", "it takes too long")


@pytest.mark.parametrize("asked", ["plans", "deadlines"])
async def test_who_asks_for_many_plans_holds_up_no_worker_that_is_to_start(
    monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    """They had all threads of the process, and so had it in hand whether a worker that died was followed."""
    monkeypatch.setattr(module, "DryRun", Long)
    Long.let_go.clear()
    store = open_store(":memory:")
    groups = Groups(Fabric(star(2)), Kept(store), lambda event: None)
    spec = GroupSpec(source="h0", source_path="/f", receivers=["h1"], deadline_s=1.0, size=1 << 30)
    ask = (lambda n: groups.plan(spec, n)) if asked == "plans" else lambda n: groups.create(spec, n)
    plans = [asyncio.create_task(ask(n)) for n in range(64)]
    await asyncio.sleep(0)  # they have begun
    try:
        async with asyncio.timeout(60.0):
            started = await asyncio.to_thread(lambda: "a worker")
    finally:
        Long.let_go.set()
    found = await asyncio.gather(*plans, return_exceptions=True)
    await groups.stop()
    await store.close()
    assert (started, sum(one == n or isinstance(one, Problem) for n, one in enumerate(found))) == ("a worker", 64)


async def test_of_many_groups_that_wait_for_their_plans_no_more_begin_than_there_is_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "LIVE_MAX", 1)
    monkeypatch.setattr(Long, "check_deadline", lambda self: Long.let_go.wait())
    monkeypatch.setattr(module, "DryRun", Long)
    Long.let_go.clear()
    store, fabric = open_store(":memory:"), Fabric(star(2))
    for node in fabric.nodes.values():
        node.registered = True
    groups = Groups(fabric, Kept(store), lambda event: None)
    spec = GroupSpec(source="h0", source_path="/f", receivers=["h1"], deadline_s=1.0, size=1 << 30)
    asked = [asyncio.create_task(groups.create(spec, 1)) for _ in range(3)]
    await asyncio.sleep(0)  # all have looked whether there is room
    Long.let_go.set()
    found = await asyncio.gather(*asked, return_exceptions=True)
    await groups.stop()
    await store.close()
    codes = sorted(one.code if isinstance(one, Problem) else "made" for one in found)  # type: ignore[union-attr]
    assert codes == ["made", "too_many_groups", "too_many_groups"]
