"""Groups that have ended: which are remembered, and how one is begun again."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from msgspec import structs
from small import star, until

from datacast.fabric_manager import groups
from datacast.fabric_manager.api.reports import ReceiverFigures
from datacast.fabric_manager.record import Record, dump
from lab import lab

pytestmark = pytest.mark.simulated


async def test_those_that_ended_last_are_remembered_however_long_ago_they_began(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that had run for days was forgotten as it ended, before anybody could ask how."""
    monkeypatch.setattr(groups, "KEEP_GROUPS", 1)
    async with lab(star(3), rates=[200.0]) as it:
        long = await it.start("h0", ["h1"], 4_000_000, "/srv/long")
        short = await it.start("h0", ["h2"], 1000, "/srv/short")
        await it.end(short)
        await until(lambda: len(it.manager.groups.records()) == 2, "both are known")
        await until(lambda: it.manager.groups.get(long["id"]).state == "done", "the long one ends")
        await until(lambda: len(it.manager.groups.records()) == 1, "one is forgotten")
        kept, (long, _) = [record.id for record in it.manager.groups.records()], [long["id"], short["id"]]
    assert kept == [long]


async def test_a_group_whose_last_receiver_was_done_as_everything_ended_is_done_when_it_is_resumed() -> None:
    """Nobody was missing, and it was refused for want of the source's agent, which was there."""
    async with lab(star(3), rates=[800.0]) as it:
        made = await it.start("h0", ["h1", "h2"], 100_000)
        await it.end(made)
        held = it.manager.groups._held(made["id"])
        held.record = replace(held.record, state="failed")
        held.revision = await it.manager.groups.kept.put(f"groups/{made['id']}", dump(held.record), held.revision)
        await it.client.resume_group(made["id"])
        record = await it.end(made)
    assert record["state"] == "done" and record["epoch"] == 2


async def test_who_has_the_file_is_looked_up_once_for_a_resume(monkeypatch: pytest.MonkeyPatch) -> None:
    """For each receiver anew, of thousands, that took seconds in which nobody was heard."""
    asked = Counter[str]()
    done = Record.done.fget
    assert done

    def counted(record: Record) -> dict[str, int | None]:
        asked[record.id] += 1
        return done(record)

    async with lab(star(40), rates=[800.0]) as it:
        made = await it.start("h0", [f"h{n}" for n in range(1, 40)], 10_000)
        await it.end(made)
        held = it.manager.groups._held(made["id"])
        figures = {**held.record.progress.receivers, "h1": ReceiverFigures(state="failed")}
        progress = structs.replace(held.record.progress, receivers=figures)
        held.record = replace(held.record, state="partial", progress=progress)
        with monkeypatch.context() as patch:
            patch.setattr(Record, "done", property(counted))
            await it.manager.groups.resume(made["id"])
            times = asked[made["id"]]
        state = (await it.end(made))["state"]
    assert times < 5 and state == "done"
