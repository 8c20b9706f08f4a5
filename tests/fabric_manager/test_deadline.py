"""A deadline that cannot be met is refused at once where the size is known, and a file of another size is not sent."""

from __future__ import annotations

import pytest
from simulated import run
from small import star

from datacast.services.problems import Problem
from lab import lab


def test_a_deadline_that_the_links_cannot_meet_is_refused_at_once() -> None:
    async def scenario():
        async with lab(star(3), rates=[20_000.0]) as it:
            spec = {"source": "h0", "receivers": ["h1"], "source_path": "/f", "size": 2_000_000_000}
            it.world.sizes["/f"] = 2_000_000_000
            with pytest.raises(Problem) as late:
                await it.client.create_group({**spec, "deadline_s": 1.0})
            nothing = await it.client.groups()
            made = await it.client.create_group({**spec, "deadline_s": 3600.0})
            await it.client.cancel_group(made["id"])
            await it.end(made)
            return late.value, nothing

    late, nothing = run(scenario())
    assert (late.status, late.code) == (409, "deadline") and "more than 1 s" in late.message
    assert nothing == []


def test_a_file_of_another_size_than_expected_is_not_sent() -> None:
    async def scenario():
        async with lab(star(3), rates=[20_000.0]) as it:
            it.world.sizes["/f"] = 1000
            spec = {"source": "h0", "receivers": ["h1"], "source_path": "/f", "size": 999}
            return await it.end(await it.client.create_group(spec))

    record = run(scenario())
    assert record["state"] == "failed" and record["error"]["code"] == "size"
    assert "1000 bytes, expected were 999" in record["error"]["message"]
