"""How far behind the others a receiver is, in their time."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from datacast.master.attendance import Attendance
from datacast.master.members import Member

MB = 1_000_000


def receiver(name: str, held: int, rate_bps: float) -> Member:
    member = Member(name, "receiver", "127.0.0.1:1")
    member.state, member.bytes, member.rate_bps = "running", held, rate_bps
    return member


@pytest.mark.parametrize(
    ("rate_now", "since_s", "behind_s"),
    [(160e6, 4.0, 0.2), (1e6, 4.0, 0.4), (0.0, 4.0, 0.4), (1e6, None, 32.0)],
    ids=["all get on", "all have nearly stopped", "all have stopped", "nobody knows since when"],
)
def test_a_distance_does_not_grow_because_all_have_nearly_stopped(
    rate_now: float, since_s: float | None, behind_s: float
) -> None:
    members = [receiver("a", 40 * MB, rate_now), receiver("b", 40 * MB, rate_now), receiver("late", 36 * MB, rate_now)]
    first_ns = time.time_ns() - int(since_s * 1e9) if since_s else None
    transfer = SimpleNamespace(size=100 * MB, first_ns=first_ns, forest=None, shards=None)
    attendance = Attendance(transfer, SimpleNamespace(receivers=members), None, None)  # type: ignore[arg-type]
    assert attendance.behind_s(members[2]) == pytest.approx(behind_s, rel=0.02)
