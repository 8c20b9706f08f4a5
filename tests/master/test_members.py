"""What members count, kept side by side."""

from __future__ import annotations

import json

import pytest

from datacast.master.looks import UNKNOWN, Look, Row
from datacast.master.members import Counts, Member

ONE = {"7": {"seq": 5, "low": 3, "bytes": 100}, "8": {"seq": 9, "low": 9, "bytes": 250}}
TWO = {"7": {"seq": 6, "low": 4, "bytes": 101}, "8": {"seq": 2, "low": 1, "bytes": 0}}


def test_counts_of_the_same_trees_share_their_names_and_hold_their_own_numbers() -> None:
    one = Counts(ONE)
    two = Counts(TWO, one)
    assert two._trees is one._trees and two._names is one._names
    assert dict(one) == ONE and dict(two) == TWO, "the one before is as it was"
    assert (two.of(7, "seq"), two.of("8", "bytes"), two.total("bytes")) == (6, 0, 101)
    assert two.of(9, "seq") is None and two.of(7, "nothing") is None and two.total("nothing") == 0


@pytest.mark.parametrize(
    "told",
    [
        {"8": {"seq": 1}},
        {"7": {"seq": 5, "low": 3}, "8": {"seq": 9, "low": 9, "bytes": 250}},
        {"7": {"seq": 5.5, "low": 3, "bytes": 100}, "8": {"seq": 9, "low": 9, "bytes": 250}},
    ],
)
def test_counts_of_other_trees_or_names_are_their_own(told) -> None:
    assert json.loads(json.dumps(dict(Counts(told, Counts(ONE))))) == told


@pytest.mark.parametrize("strange", ["text", [1], None, -4, {"a": 1}, 1 << 64, True])
def test_what_is_no_count_is_left_out(strange) -> None:
    told = {"7": {"seq": strange, "low": 3, "bytes": 100}, "8": ONE["8"]}
    for like in (None, Counts(ONE)):
        counts = Counts(told, like)
        assert counts.of(7, "low") == 3 and counts.of(8, "bytes") == 250
        assert counts.of(7, "seq") in (None, strange)
        assert counts.total("seq") in (9, 10)
    assert dict(Counts("text")) == dict(Counts({"7": strange})).get("8", {}) == {}


def test_a_member_that_has_told_nothing_has_no_numbers() -> None:
    member = Member("h", "receiver", "")
    assert (member.seq(7), member.low(7), member.trees.total("bytes")) == (None, 0, 0)
    member.trees = Counts(ONE)
    assert (member.seq(7), member.low(7)) == (5, 3)


def test_numbers_of_a_tree_are_read_of_many_at_once() -> None:
    some = [one := Counts(ONE), Counts(TWO, one), Counts({"8": {"seq": 1}}), Counts()]
    assert Counts.column(some, 7, "seq") == [5, 6, None, None] == [counts.of(7, "seq") for counts in some]
    assert Counts.column(some, "8", "seq") == [9, 2, 1, None]
    assert Counts.column(some, 7, "nothing") == [None] * 4


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


def test_who_had_it_before_the_group_was_resumed_has_no_time_of_its_own() -> None:
    member = Member("h1", "receiver", "10.0.0.1:7600", "done", t_done_ns=5_000_000_000)
    assert member.to_json(10, 2_000_000_000, trees=False)["finish_s"] == 3.0
    assert member.to_json(10, 9_000_000_000, trees=False)["finish_s"] is None
