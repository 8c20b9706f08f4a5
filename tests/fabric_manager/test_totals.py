"""Figures over all groups: of those that have ended, and of those that run."""

from __future__ import annotations

from dataclasses import replace

import msgspec
from made_records import outcome
from msgspec import structs

from datacast.fabric_manager.api import GroupSpec
from datacast.fabric_manager.api.reports import GroupReport, Progress, ReceiverFigures, TreeFigures
from datacast.fabric_manager.record import Record
from datacast.fabric_manager.totals import Totals

SPEC = GroupSpec(source="h0", source_path="/f", receivers=["h1", "h2", "h3"], scatter=True)


def figures(state: str, of_bytes: int = 0, again: int = 0, bps: int = 0, unwritten: int = 0) -> ReceiverFigures:
    return ReceiverFigures(state=state, bytes=of_bytes, retransmissions=again, rate_bps=bps, unwritten=unwritten)  # type: ignore[arg-type]


class Counting:
    """A group that ends, perhaps is resumed, and ends again."""

    def __init__(self) -> None:
        self.totals = Totals()
        self.counted = frozenset[str]()

    def end(self, state: str, receivers: dict[str, ReceiverFigures], **packets: int) -> None:
        report = msgspec.convert(outcome(**packets), GroupReport) if packets else None
        record = Record(id="g-1", spec=SPEC, state=state, progress=Progress(receivers=receivers, report=report))  # type: ignore[arg-type]
        self.counted = self.totals.ended(record, self.counted)

    def told(self) -> tuple[dict[str, int], int, int, dict[str, int]]:
        found = self.totals.told([])
        return found.ended, found.delivered_bytes, found.retransmissions, found.packets


def test_of_groups_that_have_ended_each_receiver_is_counted_once_also_where_one_is_resumed() -> None:
    """Of a file that is scattered each gets a part."""
    done = {"h1": figures("done", 30, again=1), "h2": figures("done", 40, again=2)}
    one = Counting()
    assert one.told() == ({}, 0, 0, {})
    one.end("partial", done | {"h3": figures("failed", 9, again=4)}, new_packets=100, dup_packets=4)
    assert one.told() == ({"partial": 1}, 70, 7, {"new": 100, "duplicate": 4})
    one.end("done", done | {"h3": figures("done", 20, again=8)}, new_packets=50, dup_packets=1)
    assert one.told() == ({"partial": 1, "done": 1}, 90, 15, {"new": 150, "duplicate": 5})
    one.end("failed", {"h1": figures("failed", 30, again=1)})
    assert one.told() == ({"partial": 1, "done": 1, "failed": 1}, 90, 15, {"new": 150, "duplicate": 5})


def test_of_groups_that_run_the_totals_are_what_their_records_say_now() -> None:
    receivers = {
        "h1": figures("running", 1, 1, bps=5, unwritten=7),
        "h2": figures("done", 2, 2, bps=20, unwritten=30),
        "h3": figures("running"),
    }
    trees = {"1": TreeFigures(rate_bps=100), "2": TreeFigures(rate_bps=200)}
    runs = Record(id="g-1", spec=SPEC, state="running", progress=Progress(receivers=receivers, trees=trees))
    rows = [runs, runs, replace(runs, state="queued", progress=Progress()), replace(runs, state="done")]
    totals = Totals()
    assert totals.told(rows) == structs.replace(
        totals.told([]), groups={"running": 2, "queued": 1, "done": 1}, receivers={"running": 4, "done": 2},
        received_bps=50, sent_bps=600, unwritten=74,
    )  # fmt: skip
