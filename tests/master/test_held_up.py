"""What could hold a master up for longer than it should, or for ever."""

from __future__ import annotations

import asyncio
import time

import pytest
from small import bcube41, star

from datacast.master import pace, signalling
from datacast.master.group import Cancelled
from lab import lab

pytestmark = pytest.mark.simulated

FAST = 20_000.0
SIX = ["02", "10", "21", "23", "31", "33"]


@pytest.mark.parametrize(("host", "op", "state"), [("00", "stat", "failed"), ("21", "open", "partial")])
async def test_who_never_gets_through_a_directory_holds_up_nobody_for_ever(
    monkeypatch: pytest.MonkeyPatch, host: str, op: str, state: str
) -> None:
    """One receiver that said so again and again kept all others from their first byte."""
    monkeypatch.setattr(signalling, "WALK_S", 5.0)
    async with lab(bcube41(), rates=[FAST]) as it:
        it.world.agents[host].fail[op] = ("walking", "/srv/many: the directory is being looked through")
        record = await it.end(await it.start("00", SIX, 3_000_000))
    assert record["state"] == state, record
    told = record["error"] if host == "00" else record["receivers"][host]["error"]
    assert told["code"] == "walking" and "looked through" in told["message"]


async def test_what_comes_while_those_who_were_away_are_asked_is_seen_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was forgotten before the master slept, of a group that goes on for long for seconds."""
    monkeypatch.setattr(pace, "between", lambda *_: 10.0)
    async with lab(star(3), rates=[100.0]) as it:
        group = await it.start("h0", ["h1", "h2"], 20_000_000)
        await it.running(group)
        master = it.masters.groups[group["id"]]
        serve, asked = master._attendance.serve_those_aside, list[float]()

        async def slowly() -> None:
            if not asked:
                await asyncio.sleep(0.05)
                asked.append(time.monotonic())
                master.cancel(Cancelled("on request"))
            await serve()

        monkeypatch.setattr(master._attendance, "serve_those_aside", slowly)
        ended = await it.end(group)
        state, after = ended["state"], time.monotonic() - asked[0]
    assert state == "cancelled" and after < 1.0
