"""Pieces of long work, one in each turn of the loop (services/turns.py)."""

from __future__ import annotations

import asyncio

from datacast.services.turns import Turns


def test_what_comes_meanwhile_goes_before_the_next_piece():
    async def run() -> list[str]:
        turns, done, loop = Turns(), [], asyncio.get_running_loop()

        async def piece(name: str) -> None:
            await turns.next()
            done.append(name)

        # Ready together; the news comes once the first has begun.
        pieces = [asyncio.create_task(piece(name)) for name in "abc"]
        loop.call_soon(lambda: loop.call_soon(done.append, "news"))
        await asyncio.gather(*pieces)
        return done

    assert asyncio.run(run()) == ["a", "news", "b", "c"]


def test_who_is_cancelled_while_it_waits_holds_nobody_up():
    async def run() -> list[str]:
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
        return done

    assert asyncio.run(run()) == ["a", "d"]
