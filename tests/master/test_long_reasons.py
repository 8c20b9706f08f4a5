"""Reasons that agents give, longer than a report may be."""

from __future__ import annotations

import pytest
from small import star

from datacast.fabric_manager.api.reports import GroupFailure, MasterReport, Progress, reader
from datacast.master.members import Member
from datacast.services import framing
from lab import lab

pytestmark = pytest.mark.simulated


async def test_a_group_whose_receivers_give_long_reasons_ends_all_the_same() -> None:
    """A path alone may have 4,096 letters, and the fabric manager takes no report with more than 8,192 of a reason."""
    async with lab(star(4)) as it:
        for name in ("h1", "h2", "h3"):
            it.world.agents[name].fail["open"] = ("disk_full", f"{name}: {'x' * 4096}: no room")
        record = await it.end(await it.start("h0", ["h1", "h2", "h3"], 1000))
    assert (record["state"], record["error"]["code"]) == ("failed", "disk_full")
    assert record["error"]["message"].startswith("no receiver is left: h1: h1: xxx")


def test_what_an_agent_says_of_its_failure_is_cut_to_what_may_be_told() -> None:
    member = Member("h1", "receiver", "")
    member.fail("x" * 100, "y" * 10_000)
    report = MasterReport(group="g", epoch=1, state="failed", progress=Progress(error=member.error))
    told = framing.read_json(reader, framing.text(report)).progress.error
    assert told == GroupFailure(code="x" * 64, message="y" * 8192)
