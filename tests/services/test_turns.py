"""Pieces of long work, a few in each turn of the loop (services/turns.py)."""

from __future__ import annotations

import asyncio
from typing import Any

from datacast.services.turns import Turns


async def test_what_comes_meanwhile_goes_before_the_next_piece():
    turns, done, loop = Turns(), [], asyncio.get_running_loop()

    async def piece(name: str) -> None:
        await turns.next()
        done.append(name)

    # Ready together; the news comes once the first has begun.
    pieces = [asyncio.create_task(piece(name)) for name in "abc"]
    loop.call_soon(lambda: loop.call_soon(done.append, "news"))
    await asyncio.gather(*pieces)
    assert done == ["a", "news", "b", "c"]


async def test_who_is_cancelled_while_it_waits_holds_nobody_up():
    wrong: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, what: wrong.append(what))
    turns, done = Turns(), []

    async def piece(name: str) -> None:
        await turns.next()
        done.append(name)

    pieces = [asyncio.create_task(piece(name)) for name in "abcd"]
    await asyncio.sleep(0)
    pieces[1].cancel()
    pieces[2].cancel()
    await asyncio.gather(*pieces, return_exceptions=True)
    await turns.next()  # and the turns go on
    assert done == ["a", "d"]
    assert not wrong


async def test_a_turn_has_so_many_pieces_and_no_more():
    turns, done, seen = Turns(3), list[int](), list[int]()

    async def piece(number: int) -> None:
        await turns.next()
        done.append(number)

    work = [asyncio.create_task(piece(number)) for number in range(8)]
    while not all(one.done() for one in work):
        await asyncio.sleep(0)
        seen.append(len(done))
    assert sorted(set(seen) - {0}) == [3, 6, 8]


async def test_who_comes_later_does_not_pass_those_who_wait():
    lane, done = Turns(2), list[str]()

    async def piece(name: str) -> None:
        await lane.next()
        done.append(name)
        if name == "a":
            work.append(asyncio.create_task(piece("later")))

    work = [asyncio.create_task(piece(name)) for name in "abcd"]
    await asyncio.gather(*work)
    await work[-1]
    assert done == ["a", "b", "c", "d", "later"]
