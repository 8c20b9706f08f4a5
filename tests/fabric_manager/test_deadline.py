"""A deadline that cannot be met is refused at once where the size is known, and a file of another size is not sent."""

from __future__ import annotations

import pytest
from small import star, until

from datacast.fabric_manager.api import GroupSpec
from datacast.services.problems import Problem
from lab import lab

pytestmark = pytest.mark.simulated


async def test_a_deadline_that_the_links_cannot_meet_is_refused_at_once() -> None:
    async with lab(star(3), rates=[20_000.0]) as it:
        spec = {"source": "h0", "receivers": ["h1"], "source_path": "/f", "size": 2_000_000_000}
        it.world.sizes["/f"] = 2_000_000_000
        with pytest.raises(Problem) as late:
            await it.client.create_group({**spec, "deadline_s": 1.0})
        nothing = await it.client.groups()
        made = await it.client.create_group({**spec, "deadline_s": 3600.0})
        await it.client.cancel_group(made["id"])
        await it.end(made)
        late = late.value
    assert (late.status, late.code) == (409, "deadline") and "more than 1 s" in late.message
    assert nothing == []


async def test_a_deadline_that_the_links_cannot_meet_ends_the_group_at_its_members_too() -> None:
    """Where the size is known only when it was opened there: nobody waits until its lease ends."""
    async with lab(star(3), rates=[20_000.0]) as it:
        it.world.sizes["/f"] = 2_000_000_000
        spec = {"source": "h0", "receivers": ["h1", "h2"], "source_path": "/f", "deadline_s": 1.0}
        record = await it.end(await it.client.create_group(spec))
        await until(lambda: {host for host, _ in it.world.ops("close")} == {"h0", "h1", "h2"}, "all were closed")
    assert (record["state"], record["error"]["code"]) == ("failed", "deadline")
    assert {r["state"] for r in record["receivers"].values()} == {"failed"}
    assert {tree["state"] for tree in record["trees"].values()} == {"idle"}


async def test_a_file_of_another_size_than_expected_is_not_sent() -> None:
    async with lab(star(3), rates=[20_000.0]) as it:
        it.world.sizes["/f"] = 1000
        spec = {"source": "h0", "receivers": ["h1"], "source_path": "/f", "size": 999}
        record = await it.end(await it.client.create_group(spec))
    assert record["state"] == "failed" and record["error"]["code"] == "size"
    assert "1000 bytes, expected were 999" in record["error"]["message"]


async def test_a_group_is_planned_at_once_only_where_a_deadline_and_a_size_are_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To plan takes a large fabric a second: nobody waits for it who asked for nothing that could be refused."""
    asked: list[tuple[float | None, int | None]] = []

    class Noted:
        def __init__(self, _fabric: object, _sets: object, _divider: object, spec: GroupSpec) -> None:
            self.spec = spec

        def check_deadline(self) -> None:
            asked.append((self.spec.deadline_s, self.spec.size))

    monkeypatch.setattr("datacast.fabric_manager.groups.DryRun", Noted)
    async with lab(star(3), rates=[20_000.0]) as it:
        it.world.sizes["/f"] = 1000
        for more in ({"size": 1000}, {"deadline_s": 60.0}, {"size": 1000, "deadline_s": 60.0}):
            spec = {"source": "h0", "receivers": ["h1"], "source_path": "/f", **more}
            assert (await it.end(await it.client.create_group(spec)))["state"] == "done"
    assert asked == [(60.0, 1000)]
