"""Objects of another site: what the controller offers is ordered of fetchers, and what they have is told by pieces."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from datacast.fabric_manager.api import GroupSpec
from datacast.master.fetching import Fetching
from datacast.origins.exchange import unpacked
from datacast.origins.ranges import piece_bytes

PAYLOAD, PER_BLOCK = 1400, 46
BLOCK = PAYLOAD * PER_BLOCK
SIZE = 5 << 20
PIECE = piece_bytes(SIZE)
BLOCKS, PIECES = -(-SIZE // BLOCK), -(-SIZE // PIECE)


class Hosts:
    """A master's fetching, and the members that it gives orders to."""

    def __init__(self, url: str, names: tuple[str, ...] = ("a", "b")) -> None:
        self.ordered: list[tuple[str, int]] = []
        members = {n: SimpleNamespace(name=n, suspect=False, sends=True) for n in names}
        self.tasks: list[Any] = []
        transfer = SimpleNamespace(
            id="g", spec=GroupSpec(url=url, receivers=[*names]), size=SIZE, block=PER_BLOCK, blocks=BLOCKS,
            plan=SimpleNamespace(payload=PAYLOAD), order=SimpleNamespace(again=False), wake=asyncio.Event(), news=False,
            scheduler=None,
        )  # fmt: skip
        crew = SimpleNamespace(members=members, request=self._request)
        self.fetching = Fetching(transfer, crew, SimpleNamespace(spawn=self.tasks.append))  # type: ignore[arg-type]
        self.members, self.transfer = members, transfer
        self.fetching.begin([*names])

    async def _request(self, kind: str, members: list[Any], common: Any, parts: Any, wait: float) -> dict[str, Any]:
        ((name, part),) = parts.items()
        self.ordered += [(name, b) for first, count in part["blocks"] for b in range(first, first + count)]
        return {name: {"ok": True}}

    async def deal(self) -> list[int]:
        """The blocks that are ordered now."""
        before = len(self.ordered)
        self.fetching.deal(time.monotonic())
        while self.tasks:
            await self.tasks.pop(0)
        return sorted(block for _, block in self.ordered[before:])

    def has(self, name: str, blocks: range) -> None:
        self.fetching.held_by(self.members[name], [[b, f"{b:064x}"] for b in blocks])


@pytest.fixture(autouse=True)
def _scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trees are others' affair."""
    monkeypatch.setattr(Fetching, "_scheduler", SimpleNamespace(offer=lambda block, root: None, homeless=set()))


def within(first: int, end: int) -> list[int]:
    return [b for b in range(BLOCKS) if first * PIECE <= b * BLOCK and min(SIZE, (b + 1) * BLOCK) <= end * PIECE]


FAR = "site://10.0.0.1:7580/site/objects/s-0123456789abcdef"


def test_nothing_is_asked_for_that_is_not_offered_and_all_that_is_once():
    async def run() -> None:
        hosts = Hosts(FAR)
        assert await hosts.deal() == []
        hosts.fetching.offered([(2, 1), (7, 2)])
        first = await hosts.deal()
        assert first == sorted(within(2, 3) + within(7, 9))
        assert {name for name, _ in hosts.ordered} == {"a", "b"}
        hosts.fetching.offered([(2, 2), (7, 2)])
        first += await hosts.deal()  # with the one that reaches from the third piece into the fourth
        assert sorted(first) == sorted(within(2, 4) + within(7, 9))
        assert len(within(2, 4)) > len(within(2, 3) + within(3, 4))
        assert await hosts.deal() == []
        hosts.fetching.offered([(0, PIECES)])
        assert sorted(first + await hosts.deal()) == [*range(BLOCKS)]

    asyncio.run(run())


def test_a_piece_is_told_when_all_blocks_that_touch_it_are_there():
    async def run() -> None:
        hosts = Hosts(FAR)
        hosts.fetching.offered([(0, PIECES)])
        await hosts.deal()
        assert not unpacked(hosts.fetching.fetched(), PIECES).any()
        last = within(0, 2)[-1] + 1
        assert (last + 1) * BLOCK > 2 * PIECE  # it reaches into the third piece
        hosts.has("a", range(last))
        assert unpacked(hosts.fetching.fetched(), PIECES).tolist() == [True, False] + [False] * (PIECES - 2)
        hosts.has("a", range(last, last + 1))
        assert unpacked(hosts.fetching.fetched(), PIECES).tolist() == [True, True] + [False] * (PIECES - 2)
        hosts.has("b", range(last + 1, BLOCKS))
        assert unpacked(hosts.fetching.fetched(), PIECES).all()
        assert hosts.transfer.news  # the controller hears of it

    asyncio.run(run())


def test_no_pieces_are_told_before_members_have_said_what_they_hold():
    hosts = Hosts(FAR)
    hosts.fetching._settled = time.monotonic() + 60.0  # as after a new start
    assert hosts.fetching.fetched() == ""
    hosts.fetching._settled = 0.0
    assert hosts.fetching.fetched() != ""


def test_of_a_url_no_pieces_are_told():
    hosts = Hosts("https://mirror.example/model")
    hosts.has("a", range(BLOCKS))
    assert hosts.fetching.fetched() == ""


@pytest.mark.parametrize("wrong", [[(0, 0)], [(0, 2), (1, 1)], [(-1, 1)]])
def test_offers_that_make_no_sense_are_refused(wrong):
    hosts = Hosts(FAR)
    with pytest.raises(ValueError, match=r"range|overlaps"):
        hosts.fetching.offered(wrong)


def test_blocks_never_reach_beyond_the_object():
    async def run() -> None:
        hosts = Hosts(FAR)
        hosts.fetching.offered([(PIECES - 1, 1), (PIECES, 900)])
        assert np.array(await hosts.deal()).max() == BLOCKS - 1

    asyncio.run(run())
