"""Events of members, each with what follows from it, and a status that says that its member has failed."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from datacast.master import events
from datacast.master.answers import Results, StatusAnswer, TreeCounts
from datacast.master.digests import Digests
from datacast.master.figures import Figures
from datacast.master.members import Member
from datacast.master.schedule import Scheduler

GOOD = [(n, "0" * 64) for n in range(9)]


class World:
    """A source `a`, a receiver `x`; tree 7 of it."""

    def __init__(self) -> None:
        self.source, self.receiver = Member("a", "source", "", sends=True), Member("x", "receiver", "")
        self.scheduler = Scheduler(40, 4, [7], 100.0)
        self.t: Any = SimpleNamespace(
            id="g", scheduler=self.scheduler, news=False, wake=asyncio.Event(), slowed=asyncio.Event(), size=1000,
            first_ns=None, blocks=10, plan=Mock(), root_of={7: "a"}, tree_ids=[7], source_trees={}, looks=0,
            several=False, roots_trees=lambda name: [7] if name == "a" else [], tell_now=Mock(),
        )  # fmt: skip
        self.crew: Any = Mock(members={"a": self.source, "x": self.receiver}, receivers=[self.receiver])
        self.crew.noticed = lambda member, result: result.ok
        self.digests, self.resumed, self.not_fetched = Digests(), Mock(), Mock()
        self.it = Figures(
            self.t, self.crew, self.digests, resumed=self.resumed, vouched=lambda member, rows: rows,
            not_fetched=self.not_fetched,
        )  # fmt: skip

    def tell(self, event: events.AnyEvent) -> tuple[bool, bool]:
        """Whether the group looks, and has something to report."""
        self.t.wake.clear()
        self.t.news = False
        self.it.on_event(event)
        return self.t.wake.is_set(), self.t.news


@pytest.mark.parametrize("event", [events.First("other", "a", 5), events.First("g", "nobody", 5)])
def test_what_is_of_another_group_or_of_nobody_is_passed_over(event: events.AnyEvent) -> None:
    world = World()
    assert world.tell(event) == (False, False) and world.t.first_ns is None


def test_the_first_packet_is_the_roots_first_and_each_receivers_own() -> None:
    world = World()
    for event in (events.First("g", "x", 9), events.First("g", "a", 5), events.First("g", "a", 6)):
        assert world.tell(event) == (True, True)
    assert (world.t.first_ns, world.receiver.t_first_ns, world.source.t_first_ns) == (5, 9, None)


def test_how_far_a_tree_is_wakes_the_group_where_the_tree_wants_more() -> None:
    world = World()
    world.scheduler.assign(0.0)
    world.scheduler.hungry = lambda tree, now: False
    assert world.tell(events.Progress("g", "a", 7, 2)) == (False, False)
    world.scheduler.hungry = lambda tree, now: True
    assert world.tell(events.Progress("g", "a", 7, 3)) == (True, False)
    world.t.scheduler = None
    assert world.tell(events.Progress("g", "a", 7, 4)) == (True, False)


def test_digests_wake_the_group_when_they_are_the_first_that_wait() -> None:
    world = World()
    assert world.tell(events.Digests("g", "a", GOOD[:1])) == (True, False)
    assert world.tell(events.Digests("g", "a", GOOD[1:2])) == (False, False), "they go together"
    assert world.tell(events.Digests("g", "x", GOOD[2:3])) == (False, False) and len(world.digests) == 2, "not its own"


def test_a_receiver_that_says_so_is_done_and_a_source_is_not() -> None:
    world = World()
    world.tell(events.Done("g", "a", 5))
    world.tell(events.Done("g", "x", 6))
    assert world.source.state == "waiting" and (world.receiver.state, world.receiver.t_done_ns) == ("done", 6)


def test_who_says_that_it_has_failed_has() -> None:
    world = World()
    assert world.tell(events.Failed("g", "x", "disk_full", "no room")) == (True, True)
    assert world.receiver.error and world.receiver.error.code == "disk_full"


def test_what_was_not_fetched_concerns_those_who_fetch() -> None:
    world = World()
    world.tell(events.NotFetched("g", "x", None, "denied", "403"))
    assert not world.not_fetched.called
    world.tell(events.NotFetched("g", "a", None, "denied", "403"))
    world.not_fetched.assert_called_once_with(world.source, "denied", "403")


@pytest.mark.parametrize(("forgotten", "again"), [(0, False), (3, True)])
def test_a_bad_block_is_sent_again_where_no_tree_is_known_to_have_carried_it(forgotten: int, again: bool) -> None:
    world = World()
    world.scheduler.again = Mock()
    assert world.tell(events.BadBlock("g", "x", 3, forgotten)) == (True, True)
    assert world.receiver.bad_blocks == 1 and world.scheduler.again.called is again
    if again:
        world.scheduler.again.assert_called_once_with(3, frozenset({"x"}))
        world.t.scheduler = None
        world.tell(events.BadBlock("g", "x", 3, forgotten))  # nothing is cut into blocks yet


def test_that_a_tree_is_slow_says_its_source() -> None:
    world = World()
    assert world.tell(events.Slowed("g", "x", 7)) == (True, False) and not world.t.slowed.is_set()
    assert world.tell(events.Slowed("g", "a", 7)) == (True, False) and world.t.slowed.is_set()
    world.tell(events.Resumed("g", "x", 7, 12))
    world.resumed.assert_called_once_with("x", 7, 12)


def test_a_status_may_say_that_a_member_has_failed_or_that_a_source_knows_nothing_of_its_trees() -> None:
    world = World()
    failed = StatusAnswer(ok=True, state="failed", code="changed", error="/f changed")
    for answer, rewired, state in (
        (StatusAnswer(ok=True, trees={"7": TreeCounts(3)}), False, "waiting"),
        (StatusAnswer(ok=True), True, "waiting"),
        (failed, True, "failed"),
    ):
        world.crew.rewire.reset_mock()
        world.it.status_in(Results({"a": answer, "nobody": failed}, StatusAnswer()), 0.0)
        assert (world.crew.rewire.called, world.source.state) == (rewired, state)
    assert world.source.error and world.source.error.message == "/f changed"
    world.it.status_in(Results({"x": StatusAnswer(ok=True, state="failed")}, StatusAnswer()), 0.0)
    assert world.receiver.error and (world.receiver.error.code, world.receiver.error.message) == ("error", "failed")


def test_a_source_that_was_out_of_touch_is_measured_over_all_of_that_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it had sent meanwhile was taken for a moment's: twenty times its rate, and pieces were dealt out by that."""
    world, now = World(), 100.0
    monkeypatch.setattr("datacast.master.figures.time", SimpleNamespace(monotonic=lambda: now))
    for at, suspect, numbers in ((100.0, True, 0), (101.0, False, 900), (102.0, False, 1000), (103.0, True, 0),
                                 (111.0, True, 0), (112.0, False, 2000)):  # fmt: skip
        now, world.source.suspect = at, suspect
        answer = StatusAnswer(ok=True, trees={"7": TreeCounts(seq=0, numbers=numbers)})
        world.it.status_in(Results({"a": answer}, StatusAnswer()), at)
        if not suspect:
            assert world.t.source_trees["7"].rate == (0.0 if at == 101.0 else 100.0)
