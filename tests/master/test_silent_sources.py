"""Agents that say nothing for a while, are started again, or fail; they play the signalling only."""

from __future__ import annotations

import asyncio
import time

import pytest
from small import bcube41, until

from datacast.master.agents import Agents
from datacast.master.crew import REQUEST_S
from datacast.master.errors import GroupError
from datacast.master.signalling import GRACE_S
from lab import lab

pytestmark = pytest.mark.simulated

SIX = ["02", "10", "21", "23", "31", "33"]
SIZE = 12_000_000
RATE = 700.0


async def test_a_new_group_waits_for_a_source_that_has_no_processor() -> None:
    async with lab(bcube41(), rates=[RATE]) as it:
        source = it.world.agents["00"]
        source.pause()
        group = await it.start("00", SIX, SIZE)
        asyncio.get_running_loop().call_later(REQUEST_S + 2 * GRACE_S, source.resume)
        assert (await it.end(group, 30))["state"] == "done"


async def test_a_source_that_comes_back_elsewhere_as_a_group_begins_is_found_there() -> None:
    async with lab(bcube41(), rates=[RATE]) as it:
        source = it.world.agents["00"]
        before = source.addr
        source.pause()
        group = await it.start("00", SIX, SIZE)
        await asyncio.sleep(REQUEST_S / 2)
        await source.die()
        await source.start()
        source.resume()
        await source.register(it.manager.signalling_address)
        assert source.addr != before
        record = await it.end(group, 30)
    assert record["state"] == "done", record["error"]


@pytest.mark.simulated(timeout=90)
async def test_a_silent_source_is_waited_for_as_a_group_begins_and_holds_up_no_look(monkeypatch) -> None:
    tries = 0

    async def silent(agents, name, address):
        nonlocal tries
        tries += 1
        await asyncio.sleep(60.0)

    connected = Agents.connected

    async def at_first(agents, name, address):
        return await (silent if tries < 2 else connected)(agents, name, address)

    async with lab(bcube41(), rates=[RATE]) as it:
        monkeypatch.setattr(Agents, "connected", at_first)
        group = await it.start("00", SIX, 8 * SIZE)
        await it.running(group, 10)
        assert tries == 2
        crew = it.masters.groups[group["id"]].crew
        monkeypatch.setattr(Agents, "connected", silent)
        at = time.monotonic()
        with pytest.raises(GroupError):
            await crew.connect()
        assert time.monotonic() - at < 2 * REQUEST_S < crew.timeout_s
        monkeypatch.setattr(Agents, "connected", connected)
        await crew.connect()
        assert (await it.end(group, 60))["state"] == "done"


async def test_a_receiver_whose_agent_starts_again_and_refuses_has_failed_with_its_reason() -> None:
    async with lab(bcube41(), rates=[RATE]) as it:
        group = await it.start("00", SIX, SIZE)
        await it.running(group, 10)
        agent = it.world.agents["21"]
        await agent.die()
        agent.fail["open"] = ("disk_full", "/srv: 3 bytes free")
        await agent.start()
        await agent.register(it.manager.signalling_address)
        receivers = (await it.end(group))["receivers"]
    assert receivers.pop("21")["error"] == {"code": "disk_full", "message": "/srv: 3 bytes free"}
    assert all(r["state"] == "done" for r in receivers.values())


@pytest.mark.parametrize(("code", "kept"), [("changed", False), ("io", True)])
async def test_of_a_source_that_fails_is_kept_what_can_be_gone_on_with(code: str, kept: bool) -> None:
    async with lab(bcube41(), rates=[200.0]) as it:
        group = await it.start("00", SIX, 50_000_000)
        await it.running(group)
        it.world.agents["00"].emit(group["id"], {"event": "failed", "code": code, "error": "the file is another"})
        record = await it.end(group, 30)
        await until(lambda: len(it.world.ops("close")) == 7, "all are told")
        closed = it.world.ops("close")
    assert record["state"] == "failed" and record["error"]["code"] == code
    assert all(message["all"]["keep"] is kept for _, message in closed)
