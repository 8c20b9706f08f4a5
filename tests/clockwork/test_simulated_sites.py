"""Sites that exchange pieces over links with a length, in simulated time (sites.py): each byte crosses each link once,
also where machines are full, hosts slow and links cut, and a site behind another is not far behind it."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from commands import command

pytestmark = pytest.mark.slow

ONCE = 1.005
"""With the heads of answers."""


@cache  # a run is the same every time
def exchange(*what: str) -> dict[str, Any]:
    """In a process of its own: it replaces the clock."""
    code, out, err = command("sites", *what, module="clockwork", patience_s=280)
    assert code == 0, err[-2000:]
    told: dict[str, Any] = json.loads(out)
    assert not told["wrong"] and all(told["done_s"].values()), told
    return told


def most(told: dict[str, Any]) -> float:
    return max(told["crossed"].values())


def test_a_site_behind_another_is_a_round_trip_or_two_behind_it() -> None:
    told = exchange("chain", "64M", "40", "50")
    assert most(told) < ONCE, told
    assert told["done_s"]["syd"] - told["done_s"]["sfo"] < 0.8, "1.0 when it took whole pieces only"


def test_sites_that_reach_each_other_take_half_from_each() -> None:
    told = exchange("triangle", "64M", "10", "50")
    assert max(told["over"].values()) < 1.05, told
    assert all(0.45 < told["crossed"][way] < 0.55 for way in ("ams-sfo", "ams-syd", "sfo-syd", "syd-sfo")), told


@pytest.mark.parametrize(
    "what",
    [
        ("32M", "stall:1:0.5"),
        ("32M", "stall:5:2.5"),  # longer than a connection is waited for
        ("128M", "slow:sfo:3e6"),  # hosts take less than comes, for longer than there is room
    ],
)
def test_full_processors_and_slow_hosts_fetch_nothing_twice(what: tuple[str, str]) -> None:
    size, how = what
    told = exchange("chain", size, "40", "50", how)
    assert most(told) < ONCE, told


@pytest.mark.parametrize("cut", ["ams:sfo", "sfo:syd"])
def test_after_a_cut_what_was_under_way_comes_again_and_no_more(cut: str) -> None:
    whole, told = exchange("chain", "64M", "40", "50"), exchange("chain", "64M", "40", "50", f"cut:{cut}:5:10")
    near, far = cut.split(":")
    assert told["crossed"][f"{near}-{far}"] < 1.03, "a round trip's bytes, and the queue in front of the link"
    if near == "sfo":
        assert told["done_s"]["sfo"] < whole["done_s"]["sfo"] + 0.1, "it costs the site before it nothing"
        assert told["crossed"]["ams-sfo"] < ONCE, told
    assert told["done_s"]["syd"] < whole["done_s"]["syd"] + 7.0, told
