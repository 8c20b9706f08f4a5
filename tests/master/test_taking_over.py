"""A master that takes over from another one, and gets no further than to ask."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from small import star, until

from datacast.master import requests
from datacast.master.crew import Crew
from datacast.master.errors import GroupError
from datacast.master.group import Group
from lab import lab

SIZE = 12_000_000
RATE = 700.0


@pytest.mark.simulated
async def test_a_master_that_takes_over_and_ends_before_it_opens_lets_all_forget_the_group(monkeypatch) -> None:
    async with lab(star(3), rates=[RATE]) as it:
        insist = Crew.insist

        async def ends(crew, op, *more):
            if crew.adopted and op is requests.OPEN:
                raise GroupError("cancelled", "it is not wanted any more")
            return await insist(crew, op, *more)

        monkeypatch.setattr(Crew, "insist", ends)
        group = await it.start("h0", ["h1", "h2"], SIZE)
        await it.running(group, 100)
        await until(lambda: it.manager.groups.get(group["id"]).adopt, "what another needs is kept")
        await it.masters.kill(group["id"])
        record = await it.end(group)
        await until(lambda: {"h0", "h1", "h2"} <= {name for name, _ in it.world.ops("close")}, "all forget")
    assert record["state"] == "failed"


async def test_a_master_that_is_dropped_while_it_begins_leaves_no_task_behind() -> None:
    """One waited for its group's news for ever, with all that the group had; it was an error in the log one day."""
    group = SimpleNamespace(_stop_reason=None, transfer=SimpleNamespace(wake=asyncio.Event()))
    begins = asyncio.create_task(Group._until_stopped(group, asyncio.sleep(60)))  # type: ignore[arg-type]
    await asyncio.sleep(0.01)
    begins.cancel()
    await asyncio.gather(begins, return_exceptions=True)
    await asyncio.sleep(0)
    assert not (asyncio.all_tasks() - {asyncio.current_task()})
