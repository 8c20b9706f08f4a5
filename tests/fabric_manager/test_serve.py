"""A fabric manager from its start to its end: whoever tells it to stop, and whenever that is."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from datacast.fabric_manager import main


class Manager:
    """Which leads once `leads`, and has a successor once `followed`."""

    def __init__(self) -> None:
        self.leads, self.followed = asyncio.Event(), asyncio.Event()
        self.leadership = SimpleNamespace(lost=asyncio.Event())
        self.did: list[str] = []

    async def start(self, loaded: Any) -> None:
        loaded()
        await self.leads.wait()

    async def successor(self) -> None:
        self.did.append("waits")
        await self.followed.wait()

    async def stop(self) -> None:
        self.did.append("stops")


async def served(*steps: str) -> tuple[bool, list[str]]:
    """`steps`: what happens, one after another; whether it lost the lead, and what it did."""
    it, stop = Manager(), asyncio.Event()
    manager: Any = it
    serving = asyncio.create_task(main.serve(manager, stop, lambda: it.did.append("leads")))
    events = {"leads": it.leads, "stop": stop, "lost": it.leadership.lost, "followed": it.followed}
    for step in steps:
        for _ in range(5):
            await asyncio.sleep(0)
        events[step].set()
    return await serving, it.did


async def test_one_that_is_told_to_stop_before_it_leads_has_never_led() -> None:
    assert await served("stop") == (False, ["stops"])


async def test_a_leader_that_is_told_to_stop_waits_for_a_successor() -> None:
    assert await served("leads", "stop", "followed") == (False, ["leads", "waits", "stops"])


async def test_a_leader_that_has_lost_the_lead_ends_at_once_and_says_so() -> None:
    assert await served("leads", "lost") == (True, ["leads", "stops"])
    assert await served("leads", "stop", "lost") == (True, ["leads", "waits", "stops"])


async def test_a_start_that_fails_is_told() -> None:
    async def fails(loaded: Any) -> None:
        raise OSError("the address is taken")

    it: Any = Manager()
    it.start = fails
    with pytest.raises(OSError, match="taken"):
        await main.serve(it, asyncio.Event(), lambda: None)
