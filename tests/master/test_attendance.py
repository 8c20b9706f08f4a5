"""How far behind the others a receiver is, in their time."""

from __future__ import annotations

import time
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from datacast.master import visits
from datacast.master.attendance import Attendance
from datacast.master.members import Member
from datacast.master.schedule import Scheduler
from datacast.master.shards import Shards
from datacast.master.signalling import Branch
from datacast.master.visits import Away, Visits

MB = 1_000_000


def receiver(name: str, held: int, rate_bps: float) -> Member:
    member = Member(name, "receiver", "127.0.0.1:1")
    member.state, member.bytes, member.rate_bps = "running", held, rate_bps
    return member


@pytest.mark.parametrize(
    ("rate_now", "since_s", "behind_s"),
    [(160e6, 4.0, 0.2), (1e6, 4.0, 0.4), (0.0, 4.0, 0.4), (1e6, None, 32.0), (0.0, None, 0.0)],
    ids=["all get on", "all have nearly stopped", "all have stopped", "nobody knows since when", "nothing has begun"],
)
def test_a_distance_does_not_grow_because_all_have_nearly_stopped(
    rate_now: float, since_s: float | None, behind_s: float
) -> None:
    members = [receiver("a", 40 * MB, rate_now), receiver("b", 40 * MB, rate_now), receiver("late", 36 * MB, rate_now)]
    first_ns = time.time_ns() - int(since_s * 1e9) if since_s else None
    transfer = SimpleNamespace(size=100 * MB, first_ns=first_ns, forest=None, shards=None)
    attendance = Attendance(transfer, SimpleNamespace(receivers=members), None, None)  # type: ignore[arg-type]
    assert attendance.behind_s(members[2]) == pytest.approx(behind_s, rel=0.02)


@pytest.mark.parametrize("aside_s", [0.0, 0.5], ids=["fail", "are set aside"])
def test_who_is_cut_off_for_too_long_hears_whether_it_is_links_or_trees_that_lack(aside_s: float, caplog) -> None:
    members = [receiver(name, 0, 0.0) for name in ("there", "off", "treeless")]
    for member in members[1:]:
        member.away_since = 1.0
    forest = SimpleNamespace(cut_off={"off", "treeless"}, treeless={"treeless"})
    told: list[str] = []
    transfer = SimpleNamespace(
        id="g", forest=forest, finale=False, aside_s=aside_s, wake=SimpleNamespace(set=lambda: None)
    )
    visits = SimpleNamespace(dismiss=lambda m, why, keep: None)
    crew = SimpleNamespace(receivers=members, connected=True, timeout_s=5.0, visits=visits)
    reactions = SimpleNamespace(others=False, kick=lambda: None)
    tasks = SimpleNamespace(spawn=told.append)
    attendance = Attendance(transfer, crew, tasks, reactions)  # type: ignore[arg-type]
    assert [m.name for m in attendance.look(5.5)] == ["there"] and members[1].state == "running"
    assert [m.name for m in attendance.look(6.5)] == ["there"] and reactions.others
    said = caplog.text if aside_s else str([m.error and m.error.message for m in members])
    assert "no link reached off" in said and "no tree reached treeless" in said
    assert [m.aside for m in members] == [False, bool(aside_s), bool(aside_s)] and len(told) == 2 * bool(aside_s)


async def test_who_comes_to_a_host_that_fetches_alone_waits_for_a_master_with_trees() -> None:
    """It failed for want of them."""
    alone, late = receiver("alone", MB, 0.0), receiver("late", 0, 0.0)
    late.aside = True
    transfer = SimpleNamespace(finale=False, tree_ids=[], renew=False, tell_now=Mock())
    attendance = Attendance(transfer, SimpleNamespace(receivers=[alone, late]), None, None)  # type: ignore[arg-type]
    await attendance.serve_those_aside()
    assert not transfer.renew
    alone.state = "done"
    for _ in range(2):
        await attendance.serve_those_aside()
    assert transfer.renew and not late.final and not transfer.finale
    transfer.tell_now.assert_called_once()


@pytest.mark.parametrize(("came", "far"), [(0, True), (0, False), (1, True)])
async def test_who_takes_no_more_is_set_aside_where_it_stands_still_far_behind(
    monkeypatch: pytest.MonkeyPatch, came: int, far: bool
) -> None:
    """One that goes on receiving, or is near the others, is asked again a moment later."""
    monkeypatch.setattr(visits, "LIMIT_S", 0.0)
    member, aside = receiver("late", 36 * MB, 0.0), list[str]()

    def on_status(one: Member, told: object) -> None:
        one.bytes += came

    away = Away(
        may_return=lambda one: not far, may_wait=Mock(), set_aside=lambda one, why: aside.append(why),
        on_status=on_status, returns=Mock(),
    )  # fmt: skip
    line = Mock(ask=AsyncMock(return_value=Mock()))  # its answer is read at once
    again = await Visits(Mock(), away)._has_moved(member, line, Branch("late", "127.0.0.1:1"))
    assert (again, aside) == ((False, ["it stands still"]) if far and not came else (True, []))


async def test_who_is_asked_for_joins_and_who_is_not_leaves() -> None:
    """As it stands when another master has missed what came: nothing is done to those who are as they should be."""
    members = {name: receiver(name, 1, 0.0) for name in ("stays", "leaves", "failed", "left")}
    members["failed"].state, members["left"].state = "failed", "cancelled"
    before = dict(members)
    crew = Mock(members=members, visits=Mock(dismiss=AsyncMock()))
    crew.receivers = list(members.values())
    transfer = Mock(finale=False)
    transfer.view.address = {"new": "10.0.0.9:1", "left": "10.0.0.8:1"}.get
    attendance = Attendance(transfer, crew, Mock(), Mock())
    await attendance.should_be(["stays", "failed", "left", "new", "nowhere"])
    assert members["stays"] is before["stays"] and members["failed"] is before["failed"]
    told = {name: (m.state, m.addr, m.aside, m.error and m.error.code) for name, m in members.items()}
    assert told == {
        "stays": ("running", "127.0.0.1:1", False, None),
        "leaves": ("cancelled", "127.0.0.1:1", False, "left"),
        "failed": ("failed", "127.0.0.1:1", False, None),
        "left": ("waiting", "10.0.0.8:1", True, None),
        "new": ("waiting", "10.0.0.9:1", True, None),
        "nowhere": ("failed", "", False, "no_agent"),
    }
    assert [call.args[0].name for call in crew.visits.dismiss.call_args_list] == ["leaves"]


@pytest.mark.parametrize("state, again", [("waiting", False), ("running", False), ("failed", True), ("done", False)])
async def test_one_that_is_there_does_not_join_again_unless_it_had_failed(state: str, again: bool) -> None:
    one = receiver("h", 7, 0.0)
    one.state = state  # type: ignore[assignment]
    members = {"h": one}
    await Attendance(Mock(finale=False), Mock(members=members), Mock(), Mock()).join("h")
    assert (members["h"] is not one) == again


async def test_one_that_joins_again_is_visited_although_the_visit_of_the_one_before_has_not_ended() -> None:
    """It was waited for for ever: whoever was to be visited was known by its name."""
    begun: list[Coroutine[Any, Any, None]] = []
    visits = Visits(Mock(closed=False, spawn=begun.append), Mock())
    before, now = receiver("h", 0, 0.0), receiver("h", 0, 0.0)
    visits.suspect(before)
    before.fail("unreachable", "it did not answer")
    visits.suspect(now)
    assert len(begun) == 2
    await begun[0]  # that one has failed: it is over
    now.suspect = False
    visits.suspect(now)
    assert len(begun) == 2, "it is visited already"
    now.fail("unreachable", "it did not answer")
    await begun[1]
    again = receiver("h", 0, 0.0)
    visits.suspect(again)
    assert len(begun) == 3
    begun[2].close()


@pytest.mark.parametrize("finale", [False, True])
async def test_ranges_that_one_alone_wants_are_sent_when_it_joins_again(finale: bool) -> None:
    """They are given up when it fails or leaves: it waited for ever, and was said to have had all of the file."""
    rows, pieces = {"a": [(0, 5)], "b": [(5, 5)]}, {"a": [(0, 50)], "b": [(50, 50)]}
    scheduler = Scheduler(100, 10, [0], 1000.0, reach={0: frozenset("ab")}, wants=pieces)
    scheduler.gone(frozenset("b"))
    assert scheduler.pooled == 50
    members = {"a": receiver("a", 50, 0.0), "b": receiver("b", 0, 0.0)}
    members["b"].fail("disk_full", "no space")
    members["a"].state = "done"
    transfer = Mock(finale=finale, scheduler=scheduler, shards=Shards(rows, 1000, 100))
    crew, reactions = Mock(members=members), Mock(react=AsyncMock())
    attendance = Attendance(transfer, crew, Mock(), reactions)
    await attendance.join("b")
    crew.receivers = list(members.values())
    await attendance.serve_those_aside()
    assert scheduler.pooled == 100 and members["b"].wants == 500
    visited = crew.visits.suspect if finale else crew.visits.call_back
    assert [call.args[0] for call in visited.call_args_list] == [members["b"]]
