"""Connections to agents that groups may begin at: they are kept open, and so asked something before an agent would take
them for forgotten."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from datacast.master.agents import KEEP_S, MESH_MAX, Agents


def shared(spoke_s: float, alive: bool = True) -> Any:
    """One that said something so long ago, and was asked nothing."""
    opening = Mock(done=lambda: True)
    connection = Mock(alive=alive, close=AsyncMock())
    return SimpleNamespace(
        users={"g": 1}, used=time.monotonic() - spoke_s, pinged=0.0, opening=opening, good=True,
        connection=connection, ping=AsyncMock(),
    )  # fmt: skip


@pytest.mark.parametrize("crowd", [MESH_MAX, MESH_MAX + 1])
def test_who_has_been_silent_for_long_is_asked_something(crowd: int) -> None:
    """In a small fabric it asks the others, too, so who spoke is asked all the same."""
    agents, wanted = Agents(), {f"h{n}": "10.0.0.1:1" for n in range(crowd)}
    silent, spoke, gone = shared(KEEP_S + 1), shared(KEEP_S - 1), shared(KEEP_S + 1, alive=False)
    agents._shared = dict.fromkeys(((name, address) for name, address in wanted.items()), spoke)
    agents._shared |= {("silent", ""): silent, ("gone", ""): gone}
    began = time.monotonic()
    asyncio.run(agents._look_after(wanted))
    mesh = wanted if crowd <= MESH_MAX else {}
    silent.ping.assert_awaited_once_with(mesh)
    assert silent.pinged >= began and spoke.ping.await_count == bool(mesh) and not gone.ping.await_count
