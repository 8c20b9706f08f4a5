"""Who is given up: a site of which nothing is heard, a connection that alone is dead; nobody while this process had no
processor."""

from __future__ import annotations

import asyncio
import time

import pytest

from datacast.controller.sites import patience as module
from datacast.controller.sites.patience import Patience
from datacast.services.ticks import TURNS


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TICK_S", 0.01)


async def test_a_site_that_is_silent_is_given_up_and_one_that_is_heard_of_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "DEAD", 1 << 30)
    silent, heard, later = Patience(), Patience(), asyncio.get_running_loop().create_future()
    waiting = asyncio.create_task(heard.of(later))
    other = asyncio.create_task(silent.of(asyncio.Event().wait()))
    while not other.done():  # the other one is heard of in every tick
        heard.heard()
        await asyncio.sleep(0)
    with pytest.raises(TimeoutError):
        await other
    assert not waiting.done()
    later.set_result(b"came")
    assert await waiting == b"came"


async def test_a_connection_that_alone_is_dead_is_given_up_in_the_end() -> None:
    one = Patience()
    waiting = asyncio.create_task(one.of(asyncio.Event().wait()))
    while not waiting.done():
        one.heard()
        await asyncio.sleep(0)
    with pytest.raises(TimeoutError):
        await waiting


async def test_one_that_takes_long_to_end_is_given_up_once_and_those_after_it_are_given_up_too() -> None:
    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(10 * module.TICK_S)

    one = Patience()
    for work in (slow(), asyncio.Event().wait()):
        given_up = asyncio.create_task(one.of(work))
        await asyncio.wait([given_up], timeout=60)
        assert given_up.done() and isinstance(given_up.exception(), TimeoutError)


async def test_a_process_that_stood_still_has_waited_for_nobody() -> None:
    """What came meanwhile lies in its socket: given up, all connections would lose it at once."""
    loop = asyncio.get_running_loop()
    came = loop.create_future()
    loop.call_later(0.02, time.sleep, 20 * module.STILL * module.TICK_S)
    loop.call_later(0.03, came.set_result, b"came")
    assert await Patience().of(came) == b"came"


async def test_an_answer_that_takes_as_many_turns_as_there_are_is_waited_for_however_long_each_is() -> None:
    """Each turn of the loop is longer than a tick: beside a load of 40 a site's bytes were asked for for ever."""

    async def answer() -> bytes:
        for _ in range(module.STILL * TURNS // 2):
            time.sleep(2 * module.TICK_S)
            await asyncio.sleep(0)
        return b"came"

    assert await Patience().of(answer()) == b"came"
