"""Connections to agents that groups may begin at: they are kept open, and so asked something before an agent would take
them for forgotten."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest
from small import star

from datacast.master.agents import KEEP_S, MESH_MAX, Agents
from datacast.master.figures import Figures
from lab import lab


def shared(spoke_s: float, alive: bool = True) -> Any:
    """One that said something so long ago, and was asked nothing."""
    opening = Mock(done=lambda: True)
    connection = Mock(alive=alive, close=AsyncMock())
    return SimpleNamespace(
        users={"g": 1}, used=time.monotonic() - spoke_s, pinged=0.0, opening=opening, good=True,
        connection=connection, ping=AsyncMock(),
    )  # fmt: skip


@pytest.mark.parametrize("crowd", [MESH_MAX, MESH_MAX + 1])
async def test_who_has_been_silent_for_long_is_asked_something(crowd: int) -> None:
    """In a small fabric it asks the others, too, so who spoke is asked all the same."""
    agents, wanted = Agents(), {f"h{n}": "10.0.0.1:1" for n in range(crowd)}
    silent, spoke, gone = shared(KEEP_S + 1), shared(KEEP_S - 1), shared(KEEP_S + 1, alive=False)
    agents._shared = dict.fromkeys(((name, address) for name, address in wanted.items()), spoke)
    agents._shared |= {("silent", ""): silent, ("gone", ""): gone}
    began = time.monotonic()
    await agents._look_after(wanted)
    mesh = wanted if crowd <= MESH_MAX else {}
    silent.ping.assert_awaited_once_with(mesh)
    assert silent.pinged >= began and spoke.ping.await_count == bool(mesh) and not gone.ping.await_count


@pytest.mark.simulated
async def test_an_event_that_breaks_one_group_leaves_the_others_of_its_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = Figures.on_event
    async with lab(star(3), rates=[1000.0]) as it:
        first, second = [await it.start("h0", ["h1", "h2"], 20_000_000, path) for path in ("/one", "/two")]

        def on_event(figures: Figures, event: Any) -> None:
            if event.group == first["id"]:
                raise ZeroDivisionError("by a lie")
            whole(figures, event)

        monkeypatch.setattr(Figures, "on_event", on_event)
        ((worker, _, _),) = it.masters._workers
        connections = {shared.connection for shared in worker.agents._shared.values()}
        records = await it.end(first), await it.end(second)
        first, second, before, after = (
            *records, connections, {shared.connection for shared in worker.agents._shared.values()}
        )
    assert before <= after, "no connection was lost"
    assert (first["state"], first["error"]["code"], second["state"]) == ("failed", "internal", "done")
    assert "told could not be dealt with: ZeroDivisionError('by a lie')" in first["error"]["message"]


async def test_a_connection_that_a_group_has_taken_meanwhile_is_not_closed() -> None:
    """To close one takes a while, and a group may begin at the next one of those that nobody needed before."""
    agents = Agents()
    first, taken, opening = shared(1), shared(2), shared(3)
    for one in (first, taken, opening):
        one.users = {}

    async def closes() -> None:
        taken.users, opening.opening = {"g": 1}, Mock(done=lambda: False)

    first.connection.close.side_effect = closes
    agents._shared = {(name, ""): one for name, one in (("a", first), ("b", taken), ("c", opening))}
    await agents._look_after({})
    assert [one.connection.close.await_count for one in (first, taken, opening)] == [1, 0, 0]
    assert set(agents._shared) == {("b", ""), ("c", "")}


async def test_agents_that_hang_hold_nobody_up() -> None:
    """A rack that is cut off: one after another they took two seconds each, and others were forgotten meanwhile."""
    agents, wanted = Agents(), {f"h{n}": "10.0.0.1:1" for n in range(MESH_MAX + 1)}
    agents._shared = {(name, address): shared(KEEP_S + 1) for name, address in wanted.items()}
    asked, all_asked = list[int](), asyncio.Event()

    async def hangs(others: Any) -> None:
        asked.append(1)
        if len(asked) == len(wanted):
            all_asked.set()
        await all_asked.wait()

    for one in agents._shared.values():
        one.ping.side_effect = hangs
    async with asyncio.timeout(60):
        await agents._look_after(wanted)
    assert len(asked) == len(wanted)
