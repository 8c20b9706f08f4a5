"""Objects of another site: what the controller offers is ordered of fetchers, and what they have is told by pieces."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from datacast.fabric_manager.api import GroupSpec
from datacast.master import fetching
from datacast.master.answers import FetchAnswer, Results
from datacast.master.fetching import Fetching
from datacast.master.shards import Shards
from datacast.origins.exchange import unpacked
from datacast.origins.ranges import piece_bytes

PAYLOAD, PER_BLOCK = 1400, 46
BLOCK = PAYLOAD * PER_BLOCK
SIZE = 5 << 20
PIECE = piece_bytes(SIZE)
BLOCKS, PIECES = -(-SIZE // BLOCK), -(-SIZE // PIECE)


class Hosts:
    """A master's fetching, and the members that it gives orders to."""

    def __init__(
        self, url: str, names: tuple[str, ...] = ("a", "b"), wants: dict[str, list[str]] | None = None
    ) -> None:
        self.ordered: list[tuple[str, int]] = []
        self.refuses_by = ""
        members = {
            n: SimpleNamespace(
                name=n, role="receiver", suspect=False, aside=False, sends=True, final=False, fail=self._fail,
                resuming=None,
            )
            for n in names
        }  # fmt: skip
        self.failed: list[tuple[str, str]] = []
        shards = Shards.of(wants, SIZE, BLOCK) if wants else None
        self.tasks: list[Any] = []
        transfer = SimpleNamespace(
            id="g", spec=GroupSpec(url=url, receivers=[*names], shards=wants or {}),
            size=SIZE, block=PER_BLOCK, blocks=BLOCKS,
            plan=SimpleNamespace(payload=PAYLOAD), order=SimpleNamespace(again=False), wake=asyncio.Event(), news=False,
            scheduler=None, shards=shards, everybody=set(names),
        )  # fmt: skip
        everybody = [*members.values()]
        crew = SimpleNamespace(members=members, request=self._request, receivers=everybody, roots=everybody)
        self.fetching = Fetching(transfer, crew, SimpleNamespace(spawn=self.tasks.append))  # type: ignore[arg-type]
        self.members, self.transfer = members, transfer
        self.fetching.begin([*names])

    def _fail(self, code: str, message: str) -> None:
        self.failed.append((code, message))

    async def _request(self, op: Any, members: list[Any], common: Any, parts: Any, wait: float) -> Results[FetchAnswer]:
        ((name, part),) = parts.items()
        self.ordered += [(name, b) for first, count in part.blocks for b in range(first, first + count)]
        answer = FetchAnswer(ok=not self.refuses_by, code=self.refuses_by)
        return Results({name: answer}, FetchAnswer())

    async def deal(self) -> list[int]:
        """The blocks that are ordered now."""
        before = len(self.ordered)
        self.fetching.deal(time.monotonic())
        while self.tasks:
            await self.tasks.pop(0)
        return sorted(block for _, block in self.ordered[before:])

    def has(self, name: str, blocks: range) -> None:
        self.fetching.held_by(self.members[name], [(b, f"{b:064x}") for b in blocks])


@pytest.fixture(autouse=True)
def _scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trees are others' affair."""
    monkeypatch.setattr(Fetching, "_scheduler", SimpleNamespace(offer=lambda block, root: None, homeless=set()))


def within(first: int, end: int) -> list[int]:
    return [b for b in range(BLOCKS) if first * PIECE <= b * BLOCK and min(SIZE, (b + 1) * BLOCK) <= end * PIECE]


FAR = "site://10.0.0.1:7580/site/objects/s-0123456789abcdef"


async def test_nothing_is_asked_for_that_is_not_offered_and_all_that_is_once():
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


async def test_of_ranges_each_fetches_what_it_wants_itself():
    """a wants two pieces and b the last of them and one more; c, in no order to fetch, what a wants."""
    wants = {"a": [f"{2 * PIECE}-{4 * PIECE - 1}"], "b": [f"{3 * PIECE}-{5 * PIECE - 1}"]}
    hosts = Hosts(FAR, wants=wants)
    told = unpacked(hosts.fetching.fetched(), PIECES)
    assert not told[2:5].any() and told[6:].all()  # of the rest there is nothing to wait for
    assert await hosts.deal() == []
    hosts.fetching.offered([(2, 3)])
    # Blocks that reach beyond the pieces that anybody wants come with them: nobody will ever offer those.
    touched = [b for b in range(BLOCKS) if b * BLOCK < 5 * PIECE and (b + 1) * BLOCK > 2 * PIECE]
    assert await hosts.deal() == touched
    shards = hosts.transfer.shards
    own = {name: {b for first, n in shards.rows[name] for b in range(first, first + n)} for name in "ab"}
    assert all(block in own[name] for name, block in hosts.ordered) and {n for n, _ in hosts.ordered} == {"a", "b"}
    for name in "ab":
        for block in [b for who, b in hosts.ordered if who == name]:
            hosts.has(name, range(block, block + 1))
    assert unpacked(hosts.fetching.fetched(), PIECES).all() and not hosts.fetching._missed()


async def test_whoever_nobody_can_fetch_for_any_more_fails_with_that_word():
    wants = {name: [f"{at * PIECE}-{(at + 1) * PIECE - 1}"] for at, name in enumerate("ab")}
    hosts = Hosts(FAR, wants=wants)
    hosts.fetching.offered([(0, 1)])
    await hosts.deal()
    assert not hosts.failed
    hosts.fetching.not_fetched(hosts.members["b"], "origin_denied", "no")
    await hosts.deal()
    assert [code for code, _ in hosts.failed] == ["no_fetcher"] and "what b wants" in hosts.failed[0][1]


async def test_a_lone_fetcher_whose_agent_is_started_again_fetches_on(monkeypatch: pytest.MonkeyPatch):
    """An order that came before it was opened again was the group's end: nobody can fetch."""
    hosts, start = Hosts("https://mirror.example/model", ("a",)), time.monotonic()
    hosts.refuses_by = "no_group"
    first = await hosts.deal()
    hosts.refuses_by = ""
    assert await hosts.deal() == []
    monkeypatch.setattr(fetching.time, "monotonic", lambda: start + 2 * fetching.REPEAT_S)
    assert first and await hosts.deal() == first


async def test_a_piece_is_told_when_all_blocks_that_touch_it_are_there():
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


def test_no_pieces_are_told_before_members_have_said_what_they_hold():
    hosts = Hosts(FAR)
    hosts.fetching._settled = time.monotonic() + 60.0  # as after a new start
    assert hosts.fetching.fetched() == ""
    hosts.fetching._settled = 0.0
    assert hosts.fetching.fetched() != ""


def test_no_pieces_are_told_while_one_that_was_opened_again_hashes_what_it_has(monkeypatch: pytest.MonkeyPatch):
    hosts = Hosts(FAR)
    hosts.transfer.order.again, start = True, time.monotonic()
    hosts.fetching.begin(["a", "b"])

    def told(after_s: float) -> bool:
        monkeypatch.setattr(fetching.time, "monotonic", lambda: start + after_s)
        return hosts.fetching.fetched() != ""

    hosts.members["a"].resuming = 0
    assert not told(2.0)  # nothing was heard of b
    hosts.members["b"].resuming = 3
    assert not told(3.0)
    assert told(30.0)  # it would take too long
    hosts.members["b"].resuming = 0
    assert not told(0.1) and told(3.0)  # news are under way


def test_of_a_url_no_pieces_are_told():
    hosts = Hosts("https://mirror.example/model")
    hosts.has("a", range(BLOCKS))
    assert hosts.fetching.fetched() == ""


@pytest.mark.parametrize("wrong", [[(0, 0)], [(0, 2), (1, 1)], [(-1, 1)]])
def test_offers_that_make_no_sense_are_refused(wrong):
    hosts = Hosts(FAR)
    with pytest.raises(ValueError, match=r"range|overlaps"):
        hosts.fetching.offered(wrong)


async def test_blocks_never_reach_beyond_the_object():
    hosts = Hosts(FAR)
    hosts.fetching.offered([(PIECES - 1, 1), (PIECES, 900)])
    assert np.array(await hosts.deal()).max() == BLOCKS - 1
