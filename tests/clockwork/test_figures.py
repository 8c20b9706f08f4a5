"""What a failed link costs a group, in simulated time (figures.py): the labs' figures, where no processor is busy."""

from __future__ import annotations

import json

import pytest
from commands import command

pytestmark = pytest.mark.slow


def figures(spec: str, count: int) -> list[dict]:
    return rows_of("figures", spec, *map(str, range(count)))


def rows_of(module: str, *arguments: str) -> list[dict]:
    """In a process of its own: it replaces the clock."""
    code, out, err = command(module, *arguments, module="clockwork")
    assert code == 0, err[-2000:]
    return [json.loads(line) for line in out.splitlines()]


@pytest.mark.parametrize(("spec", "trees", "links"), [("bcube:4,1", 2, 12), ("torus:3,2", 4, 8)])
def test_a_group_goes_on_within_milliseconds_of_the_news_and_keeps_each_tree_that_can_be_kept(
    spec: str, trees: int, links: int
) -> None:
    rows = figures(spec, links)
    assert len({row["link"] for row in rows}) == links
    for row in rows:
        assert row["state"] == "done" and row["trees"] == trees and row["changed"] > 0 and not row["violations"], row
        # An agent takes 50 ms to see that a link is down; all else is messages, of half a millisecond or so each.
        assert 50 < row["detected_ms"] < 53 and row["signalled_ms"] - row["detected_ms"] < 5, row
        # Data moves every 20 ms.
        assert row["detected_ms"] < row["resumed_ms"] <= row["all_resumed_ms"] < row["detected_ms"] + 30, row
        assert row["lost"] == max(0, trees - row["left"]), row
        assert row["finish_s"] < 1.03 * row["ideal_s"] * trees / (trees - row["lost"]), row
    assert {row["lost"] for row in rows} == ({0, 1} if spec == "bcube:4,1" else {1})


def test_ten_groups_that_share_links_end_when_a_fluid_of_their_shares_does() -> None:
    (row,) = rows_of("sharing", "10", "1")
    assert row["done"] == 10 and not row["violations"]
    assert row["begun_max"] < 1.03, "told late, or the last pieces wait for a slow tree"
