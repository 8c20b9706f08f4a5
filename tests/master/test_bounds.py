"""Bounds of a group's trees on their way to its source: one request at a time, and nothing is forgotten."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from small import star, until

from datacast.master import pace
from datacast.master.answers import Answer, Results
from datacast.master.bounds import Bounds
from datacast.master.crew import Crew
from datacast.master.members import Member
from datacast.master.requests import Rates
from lab import lab


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


async def test_what_comes_while_a_request_is_under_way_goes_with_the_next() -> None:
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


async def test_what_a_source_may_not_have_heard_is_said_again_after_a_status() -> None:
    source = Source(code="unreachable", answers=asyncio.Semaphore(2))
    bounds = Bounds(cast(Crew, source))
    await bounds.take({"1": None})
    source.code = ""
    await bounds.check({})
    await bounds.check({})
    assert source.told == [{"1": None}, {"1": None}]


async def test_what_came_before_the_source_was_opened_is_said_when_it_is() -> None:
    source = Source(answers=asyncio.Semaphore(2))
    source.roots[0].opened = False
    bounds = Bounds(cast(Crew, source))
    await bounds.take({"1": 10_000_000})
    await bounds.take({"1": 9_000_000})
    source.roots[0].opened = True
    await bounds.say()
    await bounds.say()
    assert source.told == [{"1": 9_000_000}]


@pytest.mark.uvloop
async def test_groups_have_their_shares_of_the_links_before_their_members_open_and_sources_hear_of_them_before_pieces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Told later, groups that begin together send what each could send alone for so long."""
    gate, opens = asyncio.Event(), Crew.open

    async def late(crew: Crew) -> None:
        await gate.wait()
        await opens(crew)

    monkeypatch.setattr(Crew, "open", late)
    monkeypatch.setattr(pace, "reports_s", lambda groups: 600.0)  # but what others wait for goes at once
    async with lab(star(2), rates=[200.0]) as it:
        names = [(await it.start("h0", ["h1"], 100_000))["id"] for _ in range(2)]

        def hear() -> bool:  # an order may be on its way yet
            return all((group := it.masters.groups.get(n)) and group._bounds._rates for n in names)

        await until(hear, "masters hear of shares")
        states = [it.manager.groups.get(name).state for name in names]
        gate.set()
        ends = [(await it.end({"id": name}))["state"] for name in names]
        heard = [[op for op, host, told in it.world.requests if (host, told["group"]) == ("h0", n)] for n in names]
        found = list(zip(states, heard, ends, strict=True))
    for state, heard, end in found:
        assert (state, end) == ("starting", "done")
        assert "rates" in heard[: heard.index("assign")]


@pytest.mark.simulated
async def test_a_group_counts_one_that_is_planned_at_the_same_moment_and_begins_at_its_part_of_the_link() -> None:
    """Long before the fabric manager could tell of that one's trees."""
    async with lab(star(3), rates=[200.0]) as it:
        begun = await asyncio.gather(*(it.start("h0", to, 1_000_000) for to in (["h1"], ["h1", "h2"])))
        for group in begun:
            await it.running(group)
        plans = [it.masters.groups[group["id"]].transfer.plan for group in begun]
        assert sorted(plan.trees[0].transport.rate_init_bps for plan in plans if plan) == [50_000_000, 100_000_000]
