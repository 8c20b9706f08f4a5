"""Fetchers that are silent for a while, or die, or are started again, or whose origin refuses them, in simulated time
(fetchers.py)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from commands import command

pytestmark = pytest.mark.slow

SIZE, EACH = 96 << 20, 4
"""Blocks of a request."""


def fetch(size: int, what: str, for_s: float, many: int, state: str = "done") -> dict[str, Any]:
    """In a process of its own: it replaces the clock."""
    code, out, err = command("fetchers", size, what, for_s, many, module="clockwork", patience_s=280)
    assert code == 0, err[-2000:]
    told: dict[str, Any] = json.loads(out)
    assert told["state"] == state and not told["violations"], told
    return told


def busy_again(told: dict[str, Any]) -> int:
    """How many fetched after they were back."""
    return sum(told["by"][name] > told["by_before"][name] for name in told["by"])


def test_seven_of_eight_fetchers_that_are_silent_for_three_seconds_are_waited_for() -> None:
    """Nobody is given up who is only slow to answer, so nothing is fetched twice, and it costs the time that
    they did not fetch."""
    told = fetch(128 << 20, "pause", 3, 7)
    assert told["gone"] == 0 and told["asked"] == told["blocks"] and busy_again(told) == 8, told
    assert told["took_s"] < 7.0, "2.8 without"


def test_fetchers_that_are_gone_fetch_again_when_they_are_back() -> None:
    """Silent for so long that the fabric manager has lost them. Of what they had been ordered some is fetched twice."""
    told = fetch(128 << 20, "pause", 8, 7)
    assert told["gone"] == 7 and busy_again(told) == 8, told
    assert told["again"] <= 7 * 15 * EACH, told


def test_fetchers_that_are_started_again_lose_what_was_on_its_way() -> None:
    """And a block each that had come, of which nobody had heard."""
    told = fetch(128 << 20, "kill", 1, 7)
    assert told["gone"] == 7 and busy_again(told) == 8, told
    assert told["again"] <= 7 * (EACH + 1), told


def test_fetchers_that_cannot_be_opened_again_at_once_are_said_to_be_back_once() -> None:
    """The file is busy there for four seconds: that was two lines twice a second of each."""
    told = fetch(256 << 20, "busy", 1, 3)
    assert told["gone"] == told["back"] == 3, told


def test_fetchers_that_do_not_come_back_are_done_without() -> None:
    """Until the other receivers have it; they are served when they are back."""
    told = fetch(128 << 20, "kill", 20, 7)
    assert told["gone"] == 7 and told["by"] == told["by_before"], told
    assert told["again"] <= 2 * 7 * EACH, told


def test_where_all_are_gone_for_long_the_group_says_so_in_words_that_others_know() -> None:
    """`error` was no code that a group of several sites goes on after."""
    told = fetch(SIZE, "kill", 18, 8, "failed")
    assert told["error"]["code"] == "unreachable" and "does not answer" in told["error"]["message"], told


def test_who_is_refused_by_its_origin_does_not_fetch_and_gets_it_from_the_others() -> None:
    told = fetch(8 << 20, "refuse", 0, 7)
    assert len(told["by"]) == 1 and told["asked"] == told["blocks"] and told["gone"] == 0, told
    assert not told["vain"], "nobody orders a host to fetch that was refused"


def test_where_all_are_refused_the_group_says_why_and_by_whom() -> None:
    told = fetch(8 << 20, "refuse", 0, 8, "failed")
    assert told["error"]["code"] == "origin_refused" and told["asked"] == 0, told
    assert "nobody can fetch https://origin/object" in told["error"]["message"], told
    assert all(f"403 for {name}" in told["error"]["message"] for name in range(8)), told


def test_who_is_refused_while_it_fetches_leaves_the_rest_to_others() -> None:
    told = fetch(SIZE, "deny", 0, 7)
    assert told["by"].pop("0") > 2 * max(told["by"].values()), "all were equally fast"
    assert told["asked"] == told["blocks"] and told["gone"] == 0, told
    assert set(told["vain"].values()) == {1}, "each is ordered no more once it was refused"


@pytest.mark.parametrize(("what", "many", "left"), [("leave", 3, "567"), ("lead", 1, "0")])
def test_fetchers_that_are_taken_out_of_the_group_are_done_without(what: str, many: int, left: str) -> None:
    """What they had fetched and not sent nobody ever sent; and the first of them was opened again."""
    told = fetch(SIZE, what, 0, many)
    assert set(told["there"]) == {str(name) for name in range(15)} - set(left) and told["gone"] == many, told
    assert all(told["by"][name] == told["by_before"][name] for name in left) and not told["opened"], told
    assert told["again"] <= many * 15 * EACH, told


@pytest.mark.parametrize("size", [SIZE, 6 << 20], ids=["while it fetches", "as it has all"])
def test_who_joins_a_host_that_fetches_alone_gets_it_from_there(size: int) -> None:
    told = fetch(size, "join", 0, 1)
    assert told["there"] == ["0", "1"] and told["asked"] == told["blocks"] and told["gone"] == 0, told


def test_an_object_that_becomes_another_one_ends_the_group() -> None:
    assert fetch(SIZE, "change", 0, 1, "failed")["error"]["code"] == "changed"


@pytest.mark.parametrize("many", [1, 3, 7])
def test_what_crawls_at_the_end_others_fetch_too_and_once_more_only(many: int) -> None:
    """They crawl on for the whole group: nobody waits for them. Each block has one digest that counts, and one tree
    that carries it (`violations`)."""
    told = fetch(SIZE, "crawl", 0, many)
    assert told["took_s"] < 20.0, "an hour at their rate"
    assert told["gone"] == 0 and 0 < told["again"] <= many * EACH, told
    assert told["asked"] == told["blocks"] + told["again"], "none a third time"
    assert told["told_twice"] // told["again"] == pytest.approx(SIZE / told["blocks"], rel=0.001), "so says the report"
