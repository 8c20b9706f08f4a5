"""Requests for a plan: however many come, what else needs a thread has one."""

from __future__ import annotations

import asyncio
import threading

import pytest
from small import run, star

from datacast.fabric_manager import groups as module
from datacast.fabric_manager.api import GroupSpec
from datacast.fabric_manager.fabric import Fabric
from datacast.fabric_manager.groups import Groups
from datacast.fabric_manager.keys import Kept
from datacast.services.store import open_store


class Long:
    """A plan that takes until it is let go."""

    let_go = threading.Event()

    def __init__(self, *_: object) -> None:
        pass

    def plan(self, size: int | None) -> int | None:
        self.let_go.wait()
        return size


def test_who_asks_for_many_plans_holds_up_no_worker_that_is_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """They had all threads of the process, and so had it in hand whether a worker that died was followed."""
    monkeypatch.setattr(module, "DryRun", Long)

    async def scenario() -> tuple[str, list[int]]:
        store = open_store(":memory:")
        groups = Groups(Fabric(star(2)), Kept(store), lambda event: None)
        spec = GroupSpec(source="h0", source_path="/f", receivers=["h1"])
        plans = [asyncio.create_task(groups.plan(spec, n)) for n in range(64)]
        await asyncio.sleep(0)  # they have begun
        try:
            async with asyncio.timeout(60.0):
                started = await asyncio.to_thread(lambda: "a worker")
        finally:
            Long.let_go.set()
        found = await asyncio.gather(*plans)
        await groups.stop()
        await store.close()
        return started, found

    assert run(scenario()) == ("a worker", list(range(64)))
