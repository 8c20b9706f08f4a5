"""Bounds of a group's trees on their way to its source: one request at a time, and nothing is forgotten."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, cast

from datacast.master.answers import Answer, Results
from datacast.master.bounds import Bounds
from datacast.master.crew import Crew
from datacast.master.members import Member
from datacast.master.requests import Rates


@dataclass
class Source:
    """A crew of one, which answers when it is told to."""

    group: str = "g"
    connected: bool = True
    roots: list[Member] = field(default_factory=lambda: [Member("00", "source", "a", opened=True)])
    told: list[dict[str, int | None]] = field(default_factory=list)
    answers: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    code: str = ""

    async def request(self, op: Any, members: list[Member], rates: Rates) -> Results[Answer]:
        self.told.append(rates.rates)
        await self.answers.acquire()
        return Results({"00": Answer(ok=not self.code, code=self.code)}, Answer())


def test_what_comes_while_a_request_is_under_way_goes_with_the_next() -> None:
    async def run() -> None:
        source = Source()
        bounds = Bounds(cast(Crew, source))
        tasks = [asyncio.create_task(bounds.take({"1": 10_000_000}))]
        await asyncio.sleep(0)
        for news in ({"1": 9_000_000}, {"2": 8_000_000}, {"1": 7_000_000}):
            tasks.append(asyncio.create_task(bounds.take(news)))
        await asyncio.sleep(0)
        assert source.told == [{"1": 10_000_000}]
        source.answers.release()
        source.answers.release()
        await asyncio.gather(*tasks)
        assert source.told == [{"1": 10_000_000}, {"1": 7_000_000, "2": 8_000_000}]

    asyncio.run(run())


def test_what_a_source_may_not_have_heard_is_said_again_after_a_status() -> None:
    async def run() -> None:
        source = Source(code="unreachable", answers=asyncio.Semaphore(2))
        bounds = Bounds(cast(Crew, source))
        await bounds.take({"1": None})
        source.code = ""
        await bounds.check({})
        await bounds.check({})
        assert source.told == [{"1": None}, {"1": None}]

    asyncio.run(run())
