"""Digests go together, and the last ones at once: a receiver that has all pieces waits for nothing else."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from small import star, until

from datacast.master.digests import TOLD_MAX, Digests
from datacast.master.requests import Assign, Digest
from lab import lab

pytestmark = pytest.mark.simulated


def rows(first: int, end: int) -> list[list[Any]]:
    return [[block, "0" * 64] for block in range(first, end)]


def test_they_wait_for_each_other() -> None:
    digests = Digests()
    digests.put(rows(0, 3), 10.0)
    digests.put(rows(3, 5), 10.04)
    assert not digests.due(10.049, 0.05, 9)
    assert digests.due(10.05, 0.05, 9)
    assert [block for block, _ in digests.take()] == [0, 1, 2, 3, 4]
    assert not digests.due(99.0, 0.05, 9), "there are none"


def test_the_last_ones_wait_for_nobody() -> None:
    digests = Digests()
    digests.put(rows(0, 6), 10.0)
    digests.take()
    digests.put(rows(6, 8), 11.0)
    assert not digests.due(11.0, 0.05, 9)
    digests.put(rows(8, 9), 11.0)
    assert digests.due(11.0, 0.05, 9)


def test_no_more_than_an_order_takes_wait() -> None:
    digests = Digests()
    digests.put(rows(0, TOLD_MAX + 1), 10.0)
    assert digests.due(10.0, 0.05, 3 * TOLD_MAX)
    assert len(digests.take()) == TOLD_MAX
    assert len(digests) == 1


async def test_digests_are_told_with_a_look_while_there_are_pieces_to_give_out() -> None:
    async with lab(star(3), rates=[1000.0]) as it:
        source, world = it.world.agents["h0"], it.world
        emit = source.emit
        source.emit = lambda group, event: event["event"] == "digests" or emit(group, event)
        group = await it.start("h0", ["h1", "h2"], 90_000_000)
        await it.running(group, 100)
        part, looks = world.agents["h1"].roles[group["id"]], len(world.ops("status"))
        emit(group["id"], {"event": "digests", "blocks": [[1, f"{1:064x}"]]})
        await until(lambda: 1 in part.blocks, "it has been told")
        asked = [message["all"] for name, message in world.ops("digest") if name == "h1"]
        while not (held := (await it.client.group(group["id"]))["receivers"]["h1"]["bytes"]):
            await asyncio.sleep(0.01)
        await until(lambda: len(world.ops("status")) - looks >= 9, "looks go on")
        later = (await it.client.group(group["id"]))["receivers"]["h1"]["bytes"]
        await it.client.cancel_group(group["id"])
    assert [(order["n"], order["blocks"], order["status"]) for order in asked] == [(2, [[1, f"{1:064x}"]], True)]
    assert later > held


async def test_a_look_that_tells_digests_does_not_overtake_what_is_to_be_told_before() -> None:
    async with lab(star(3), rates=[1000.0]) as it:
        group = await it.start("h0", ["h1", "h2"], 90_000_000)
        await it.running(group, 100)
        crew = it.masters.groups[group["id"]].crew
        told = crew.tell(Assign(()))  # nobody has run its task yet
        said = await crew.status(lambda: Digest(((0, f"{0:064x}"),)))
        await told
        await it.client.cancel_group(group["id"])
        entries, answers = crew.entries, said.read()
    assert {name: (answer.code, answer.n) for name, answer in answers.items()} == {
        name: ("", entries) for name in ("h0", "h1", "h2")
    }


async def test_who_has_what_came_after_a_look_has_what_the_look_told_before_that_is_read() -> None:
    """A thousand groups lost touch with members: their looks wait for a turn while orders are answered."""
    async with lab(star(3), rates=[1000.0]) as it:
        group = await it.start("h0", ["h1", "h2"], 90_000_000)
        await it.running(group, 100)
        crew = it.masters.groups[group["id"]].crew
        said = await crew.status(lambda: Digest(((0, f"{0:064x}"),)))
        await crew.tell(Assign(()))
        for name, answer in said.read().items():
            crew.noticed(crew.members[name], answer)
        positions = {member.position for member in crew.members.values()}
        suspects = [member.name for member in crew.members.values() if member.suspect]
        await it.client.cancel_group(group["id"])
        entries = crew.entries
    assert (positions, suspects) == ({entries}, [])
