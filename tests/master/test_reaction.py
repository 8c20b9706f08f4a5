"""What a master's log says of links and appliances that failed or came back."""

from __future__ import annotations

import pytest

from datacast.fabric_manager.api.reports import Reaction
from datacast.master.reaction import _in_short


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (
            Reaction(links=[("h1", "s0", False)], changed=[7, 8], lost=[8], members=["h1", "h2"]),
            "link h1-s0 is down; trees with other routes: 7, 8; trees with no links: 8; 2 got routes",
        ),
        (
            Reaction(links=[("h1", "s0", True)], changed=[8], revived=[8], back=["h1"], members_more=600),
            "link h1-s0 is up; trees with other routes: 8; trees with links again: 8; h1 can be reached again; "
            "600 got routes",
        ),
        (
            Reaction(appliances=[("s0", False), ("s1", True)], cut_off=["h1"]),
            "s0 has lost its cache appliance; s1 has its cache appliance; no tree reaches h1; 0 got routes",
        ),
        (Reaction(members=["h3"]), "other receivers; 1 got routes"),
    ],
)
def test_a_log_says_what_has_changed_and_what_that_is_to_whom(entry: Reaction, text: str) -> None:
    assert _in_short(entry) == text
