"""Whose request a group is: the name of a token, whatever its letters are."""

from __future__ import annotations

import pytest
from small import star

from datacast.fabric_manager.api import FabricManagerClient, GroupSpec
from lab import lab

pytestmark = pytest.mark.simulated


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("Jörg", "Jörg"),
        ("100 % of us", "100 % of us"),
        ("one\nother", "one\nother"),
        ("x" * 300, "x" * 256),
        ("木" * 256, "木" * 256),
        ("\udcff", "?"),
    ],
)
async def test_a_token_of_any_name_orders_and_its_groups_are_found_by_it(name: str, told: str) -> None:
    """An umlaut was told as two other letters, and none of its groups was found; a name with an end of a line, or of
    more than 256 letters, could order nothing."""
    async with lab(star(2), rates=[800.0]) as it, FabricManagerClient(it.manager.url) as client:
        it.world.sizes["/f"] = 1000
        spec = GroupSpec(source="h0", source_path="/f", receivers=["h1"])
        made = await client.create_group(spec, by=name)
        assert (made.requested_by, len(await client.groups(requested_by=told))) == (told, 1)
