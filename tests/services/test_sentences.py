"""What sentences for people have in common."""

from __future__ import annotations

import pytest

from datacast.core.lists import few


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ([], ""),
        (["a", 7], "a, 7"),
        (list("abcdefgh"), "a, b, c, d, e, f, g, h"),
        (list("abcdefghi"), "a, b, c, d, e, f, g, h and 1 more"),
    ],
)
def test_a_list_is_told_by_its_first_and_how_many_more(names: list[object], words: str) -> None:
    assert few(names) == words and few(iter(names)) == words


def test_thousands_are_told_in_a_short_line() -> None:
    assert few((f"h{at}" for at in range(4096)), 3, ",") == "h0,h1,h2 and 4093 more"
