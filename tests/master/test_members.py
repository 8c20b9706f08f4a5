"""What members count, kept side by side."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, Mock

import msgspec
import pytest

from datacast.master import events, visits
from datacast.master.answers import Answer, Reader, Results, StatusAnswer, TreeCounts
from datacast.master.crew import REOPEN_MAX, Crew
from datacast.master.digests import Digests
from datacast.master.figures import Figures
from datacast.master.looks import UNKNOWN, Look, Row, Tally
from datacast.master.members import Counts, Log, Member
from datacast.master.requests import Cut
from datacast.master.visits import Visits

READER = Reader(StatusAnswer)
ONE = {"7": {"seq": 5, "low": 3, "bytes": 100}, "8": {"seq": 9, "low": 9, "bytes": 250}}
TWO = {"7": {"seq": 6, "low": 4, "bytes": 101}, "8": {"seq": 2, "low": 1, "bytes": 0}}
REST = dict.fromkeys(("credits", "data", "duplicates", "interests", "retransmitted", "srtt_us"), 0)


def counts(told: Any, like: Counts | None = None) -> Counts:
    """As they come."""
    text = msgspec.json.encode({"h": {"ok": True, "trees": told}})
    return Counts(READER.read(msgspec.Raw(text)).of("h").trees, like)


def test_counts_of_the_same_trees_share_their_names_and_hold_their_own_numbers() -> None:
    one = counts(ONE)
    two = counts(TWO, one)
    assert two._trees is one._trees
    assert dict(one) == {tree: ONE[tree] | REST for tree in ONE}, "the one before is as it was"
    assert dict(two) == {tree: TWO[tree] | REST for tree in TWO}
    assert (two.of(7, "seq"), two.of("8", "bytes"), two.total("low")) == (6, 0, 5)
    assert two.of(9, "seq") is None and two.total("data") == 0


def test_counts_of_other_trees_are_their_own() -> None:
    assert dict(counts({"8": {"seq": 1}}, counts(ONE))) == {"8": {"seq": 1, "low": 0} | REST}


@pytest.mark.parametrize("strange", ["text", [1], None, -4, {"a": 1}, 1 << 63, True, 5.5])
def test_a_member_that_tells_what_is_no_count_refuses_and_its_neighbours_count(strange) -> None:
    bad = {"ok": True, "trees": {"7": {"seq": strange, "low": 3, "bytes": 100}, "8": ONE["8"]}}
    for wrong in (bad, {"ok": True, "trees": strange}, {"ok": True, "bytes": strange}, {"ok": 3}, [strange]):
        told = READER.read(msgspec.Raw(msgspec.json.encode({"a": wrong, "b": {"ok": True, "trees": ONE}})))
        if (wrong is not None and wrong != {"ok": True, "bytes": strange}) or strange != {"a": 1}:
            assert (told.of("a").ok, told.of("a").code) == (False, "malformed")
        assert told.of("b").ok and told.of("b").trees["8"].bytes == 250
        assert told.of("c").code == "unreachable"


@pytest.mark.parametrize("where", ["trees", "sends"])
@pytest.mark.parametrize("names", [["9" * 11], [str(tree) for tree in range(65)]])
def test_a_member_tells_of_trees_as_a_group_has_them(where: str, names: list[str]) -> None:
    """What it tells stands in the group's last report, which has a limit."""
    told = READER.read(msgspec.Raw(msgspec.json.encode({"a": {"ok": True, where: {name: ONE["7"] for name in names}}})))
    assert (told.of("a").ok, told.of("a").code) == (False, "malformed")


def test_a_member_that_has_told_nothing_has_no_numbers() -> None:
    member = Member("h", "receiver", "")
    assert (member.seq(7), member.low(7), member.trees.total("data")) == (None, 0, 0)
    member.trees = counts(ONE)
    assert (member.seq(7), member.low(7)) == (5, 3)


def test_numbers_of_a_tree_are_read_of_many_at_once() -> None:
    some = [one := counts(ONE), counts(TWO, one), counts({"8": {"seq": 1}}), Counts()]
    assert Counts.column(some, 7, "seq") == [5, 6, None, None] == [each.of(7, "seq") for each in some]
    assert Counts.column(some, "8", "seq") == [9, 2, 1, None]
    assert Counts.column(some, 8, "bytes") == [250, 0, None, None], "the third has not told"


async def test_one_that_has_acknowledged_nothing_is_told_all_from_the_first_entry_on() -> None:
    member, log, line = Member("h", "receiver", ""), Log(), AsyncMock()
    log.add(Cut(((1, 5),)))
    log.add(Cut(((1, 3),)))

    def acknowledged(member: Member, index: int, _: object) -> bool:
        member.position = index + 1
        return True

    crew = Mock(log=log, receivers=[member], acknowledged=acknowledged)
    line.ask.return_value = Mock()
    assert await Visits(crew, Mock()).replay(member, line)
    assert [call.args[2].n for call in line.ask.call_args_list] == [1, 2]


@pytest.mark.parametrize(
    "waits, told, asked, state",
    [
        (True, lambda at: Answer(code="gap"), 6, "failed"),
        (True, lambda at: Answer(ok=True) if at % 3 else Answer(code="gap", n=0), 16, "failed"),
        (False, lambda at: Answer(code="gap"), 2, "waiting"),
        (False, lambda at: Answer(ok=True) if at % 3 else Answer(code="gap", n=0), 4, "waiting"),
        (True, lambda at: Answer(code="gap", n=0) if at == 0 else Answer(ok=True), 4, "replayed"),
        (False, lambda at: Answer(code="gap", n=0) if at == 0 else Answer(ok=True), 4, "replayed"),
    ],
)
async def test_who_lacks_an_order_again_and_again_holds_nobody_up(
    monkeypatch: pytest.MonkeyPatch, waits: bool, told: Any, asked: int, state: str
) -> None:
    """The orders of all wait for the first of the common tree, and a group for its last receiver."""
    member, log, clock = Member("h", "receiver", "", opened=True, position=2), Log(), iter(range(100))
    for _ in range(3):
        log.add(Cut(((1, 5),)))
    crew = Mock(log=log, receivers=[member], timeout_s=4.0, _looked=None)
    crew.acknowledged = lambda *what: Crew.acknowledged(crew, *what)
    answers = iter([told(at) for at in range(30)])  # and after these it is asked for ever: RuntimeError
    line = Mock(ask=AsyncMock(side_effect=lambda *_: Mock(read=lambda: Mock(of=lambda _: next(answers)))))
    monkeypatch.setattr(visits, "LIMIT_S", 0)
    monkeypatch.setattr(visits, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    whole = await Visits(crew, Mock()).replay(member, line, waits)
    assert (line.ask.await_count, "replayed" if whole else member.state) == (asked, state)


@pytest.mark.parametrize(
    "before, index, answer, position, then",
    [  # entries it has, the one it was told, what it says; entries it has then, and what is made of it
        (2, 2, Answer(ok=True), 3, "has it"),
        (2, 1, Answer(ok=True), 2, "has it"),
        (1, 2, Answer(ok=True), 1, "lacks one"),
        (2, 2, Answer(code="unreachable"), 2, "suspect"),
        (2, 2, Answer(code="limit"), 2, "suspect"),
        (2, 2, Answer(code="no_group"), 0, "suspect, closed"),
        (2, 2, Answer(code="gap"), 2, "suspect"),
        (3, 2, Answer(code="gap"), 2, "suspect"),
        (2, 2, Answer(code="gap", n=1), 1, "suspect"),
        (2, 2, Answer(code="gap", n=7), 2, "suspect"),
        (2, 2, Answer(code="no_tree"), 2, "suspect, reopened"),
        (2, 2, Answer(code="bad_request", error="no such piece"), 2, "failed: bad_request: cut: no such piece"),
        (2, 2, Answer(), 2, "failed: error: cut: refused"),
    ],
)
def test_what_a_member_says_to_an_order(before: int, index: int, answer: Answer, position: int, then: str) -> None:
    member, crew = Member("h", "receiver", "", opened=True, position=before), Mock(log=[Cut(())] * 4, _looked=None)
    told = Crew.acknowledged(crew, member, index, answer)
    found = ["suspect"] * crew.visits.suspect.call_count + ["reopened"] * member.reopened
    found += ["closed"] * (not member.opened) + ["has it"] * told
    if member.error:
        assert crew.wake.call_count == 1, "whether anybody is left is looked at now"
        found.append(f"failed: {member.error.code}: {member.error.message}")
    assert (member.position, ", ".join(found) or "lacks one") == (position, then)
    assert (member.heard > 0) == answer.ok


def test_one_that_knows_no_tree_again_and_again_has_failed() -> None:
    member, crew = Member("h", "receiver", ""), Mock(log=[Cut(())], _looked=None)
    for _ in range(REOPEN_MAX):
        Crew.acknowledged(crew, member, 0, Answer(code="no_tree"))
    assert not member.final
    Crew.acknowledged(crew, member, 0, Answer(code="no_tree"))
    assert member.state == "failed"


def test_who_has_what_came_behind_a_look_has_what_came_with_the_look() -> None:
    """Answers to a look wait for their turn."""
    member, crew = Member("h", "receiver", "", position=1), Mock(log=[Cut(())] * 3, _looked=1)
    assert Crew.acknowledged(crew, member, 2, Answer(ok=True)) and member.position == 3


def test_looks_share_names_and_know_who_something_came_from() -> None:
    trees = ([("s", "x"), ("x", "a")], [("y", "b"), ("y", "a")], [("x", "a")])
    first = Look(1.0, {"a": 1, "b": 2}, {"a": 0.5}, [[10, 20, 3], ()], trees)
    second = Look(2.0, {"a": 3, "b": 4}, {"a": 1.5}, [[11, UNKNOWN, 4], [5, 6, 7]], trees, first)
    assert second.held._at is first.held._at and second._trees is first._trees
    assert (first.arrived("a"), second.arrived("a")) == ({"x": 13, "y": 20}, {"x": 15})
    assert first.arrived("b") == second.arrived("c") == {} and second.arrived("b") == {"y": 6}
    third = Look(3.0, {"b": 5}, {"a": 2.0}, [[1]], ([("z", "b")],), second)
    assert dict(third.held) == {"b": 5} and third.arrived("b") == {"z": 1}
    assert Row({"a": 1.0}).get("b", 7.0) == 7.0 and Row({"a": 1.0}).get("a", 7.0) == 1.0


def test_tallies_of_a_group_share_places_and_a_name_that_is_not_there_any_more_keeps_its_number() -> None:
    due = Tally()
    best = Tally(due)
    best["b"] = 4.0
    assert (due["b"], due["?"], best["b"]) == (0.0, 0.0, 4.0)
    due["a"] += 1.5
    due["a"] += 1.5
    assert due.all() == {"b": 0.0, "a": 3.0} and best.all() == {"b": 4.0} and best["a"] == 0.0
    assert due._at is best._at


def test_who_had_it_before_the_group_was_resumed_has_no_time_of_its_own() -> None:
    member = Member("h1", "receiver", "10.0.0.1:7600", "done", t_done_ns=5_000_000_000)
    assert member.figures(10, 2_000_000_000, trees=False).finish_s == 3.0
    assert member.figures(10, 9_000_000_000, trees=False).finish_s is None


def test_a_receiver_is_done_when_it_says_so_itself_and_now_where_it_does_not() -> None:
    """A master may hear of it later: the finish is the receiver's own."""
    silent = Mock()
    figures = Figures(Mock(size=10), silent, silent, resumed=silent, vouched=silent, not_fetched=silent)
    own, other = (Member(name, "receiver", "10.0.0.1:7600", "open") for name in ("h1", "h2"))
    figures.done(own, 5)
    before = time.time_ns()
    figures.done(other, None)
    assert own.t_done_ns == 5 and other.t_done_ns is not None and before <= other.t_done_ns <= time.time_ns()


def test_a_first_look_measures_no_rates() -> None:
    """What is told of it says nothing about what the group can use: fabric_manager/divider.py counts looks."""
    transfer, crew, silent = SimpleNamespace(looks=0, scheduler=None), Mock(receivers=[]), Mock()
    figures = Figures(transfer, crew, silent, resumed=silent, vouched=silent, not_fetched=silent)  # type: ignore[arg-type]
    counted = []
    for _ in range(3):
        figures.status_in(Results({}, Mock()), 0.0)
        counted.append(transfer.looks)
    assert counted == [0, 1, 2]


def test_numbers_of_the_same_names_are_read_and_written_at_once_and_those_of_others_alike() -> None:
    row, tally = Row({"a": 1.0, "b": 2.0}), Tally()
    assert row.column(["a", "b"]) == [1.0, 2.0] and row.column(["b", "c"]) == [2.0, None]
    tally.put(["a", "b"], [1.0, 2.0])
    tally.put(["a", "b"], [3.0, 4.0])
    assert tally.column(["a", "b"]) == [3.0, 4.0] and tally.column(["b", "c"]) == [4.0, 0.0]
    tally.put(["c", "a"], [5.0, 6.0])
    assert tally.all() == {"a": 6.0, "b": 4.0, "c": 5.0}
    short = Tally(tally)
    short.put(["a"], [1.0])
    assert short.column(["a", "b", "c"]) == [1.0, 0.0, 0.0]


def test_nobody_holds_more_than_there_is() -> None:
    """Against what one holds others are held: who is far behind is set aside."""
    silent = Mock()
    figures = Figures(Mock(size=1000), silent, silent, resumed=silent, vouched=silent, not_fetched=silent)
    member = Member("h1", "receiver", "")
    figures.receiver_in(member, StatusAnswer(ok=True, bytes=1 << 62, unwritten=1 << 61), 1.0)
    assert (member.bytes, member.unwritten) == (1000, 1000) and member.rate_bps <= 8000


def test_how_far_a_tree_is_says_its_root_and_nobody_else() -> None:
    """A receiver that says so had the source given all pieces at once; and names that are no tree's were kept."""
    silent, scheduler = Mock(), Mock()
    root, other = Member("h0", "source", "", sends=True), Member("h1", "receiver", "")
    transfer = SimpleNamespace(
        id="g", size=1000, looks=0, scheduler=scheduler, tree_ids=[7], root_of={7: "h0"}, source_trees={},
        roots_trees=lambda name: [], several=False, news=False, wake=Mock(),
    )  # fmt: skip
    crew = Mock(members={"h0": root, "h1": other}, receivers=[])
    figures = Figures(transfer, crew, silent, resumed=silent, vouched=silent, not_fetched=silent)  # type: ignore[arg-type]
    lies = {tree: TreeCounts(1 << 40) for tree in ("7", "07", "8", "x", "9" * 5000)}
    figures.status_in(Results({"h1": StatusAnswer(ok=True, sends=lies)}, Mock()), 0.0)
    figures.on_event(events.Progress("g", "h1", 7, 1 << 40))
    assert not scheduler.status.called and not scheduler.sent.called and not transfer.source_trees
    figures.status_in(Results({"h0": StatusAnswer(ok=True, trees=lies)}, Mock()), 0.0)
    figures.on_event(events.Progress("g", "h0", 7, 3))
    assert [call.args[:2] for call in (scheduler.status.call_args, scheduler.sent.call_args)] == [(7, 1 << 40), (7, 3)]
    assert list(transfer.source_trees) == ["7"]


def test_digests_that_come_before_the_file_is_cut_into_blocks_wait_until_they_are_told_again() -> None:
    """Over a connection that was there for the master before: they ended a group that fetches."""
    silent, told = Mock(), Digests()
    fetcher = Member("h1", "receiver", "", sends=True)
    transfer = SimpleNamespace(id="g", plan=Mock(), blocks=9, scheduler=None, news=False, wake=Mock())
    vouched = Mock(side_effect=lambda member, rows: rows)
    crew = Mock(members={"h1": fetcher})
    figures = Figures(transfer, crew, told, resumed=silent, vouched=vouched, not_fetched=silent)  # type: ignore[arg-type]
    for scheduler, rows in ((None, []), (Mock(), [(3, "0" * 64)])):
        transfer.scheduler = scheduler
        figures.on_event(events.Digests("g", "h1", [(3, "0" * 64)]))
        assert vouched.call_args.args[1] == rows


@pytest.mark.parametrize(
    ("done_s", "took"), [(3, (2.0, 4.0)), (0.5, (None, None)), (None, (None, None))], ids=["done", "before", "not yet"]
)
def test_how_fast_a_receiver_got_it_counts_from_the_first_packet(
    done_s: float | None, took: tuple[float | None, float | None]
) -> None:
    member = Member("a", "receiver", "127.0.0.1:1")
    member.t_done_ns = None if done_s is None else int(done_s * 1e9)
    told = member.figures(1_000_000, 10**9, trees=False)
    assert (told.finish_s, told.goodput_mbps) == took
