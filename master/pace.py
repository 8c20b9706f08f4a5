"""How often a master looks after its group: by the time that is left. Pure.

A transfer that ends within seconds is looked after four times a second. One that goes on for an hour is not: what a
look can save is a part of what is left. So a group costs some hundreds of looks and reports, however large it is. And
a worker of very many members looks at so many a second.
"""

from __future__ import annotations

from collections.abc import Iterable

from .members import Member

POLL_S, POLL_MAX_S = 0.25, 10.0
CURIOUS_S = 0.1
"""When a receiver seems to be slow."""
HASTY_S = 0.05
"""When the source says that a tree has become slow, and for the next looks."""
LOOKS = 100
"""Of what is left one part passes between two looks."""
MEMBERS_S, FEWEST = 4000, 10
"""So many members all groups of a worker look at in a second: with more of them each looks less often. But of what is
left no more than one part in so many passes between two looks."""
TRUSTED = 10
"""A rate that was measured for so long says something about ten times as long: the first moments of a transfer are
slow, over a wide area above all."""
RENEWALS = 3
"""A lease is renewed so often before it would end."""
TICK = 0.4
"""Of the time between two looks: between looks at the trees, without asking anybody."""
REPORT_S, REPORT_MAX_S, FEW = 0.25, 0.8, 100
"""Between a worker's reports: more with more than a few groups. Something that others wait for goes at once."""
EXTENT_BYTES_MAX, EXTENTS = 64 << 20, 256
"""An extent is at most so large, or of a large file one of so many parts: each costs an order to every member."""


def between(left_s: float | None, lease_s: float, timeout_s: float, others: int = 0) -> float:
    """Seconds between two looks. `others`: members of the other groups that this worker looks at."""
    most, left_s = min(POLL_MAX_S, lease_s / RENEWALS, timeout_s / 1.5), left_s or 0.0
    return max(POLL_S, min(most, max(left_s / LOOKS, min(others / MEMBERS_S, left_s / FEWEST))))


def reports_s(groups: int) -> float:
    """Seconds between two reports of a worker, which cost the same however little is in them."""
    return min(REPORT_MAX_S, REPORT_S * max(1.0, groups / FEW))


def left_s(size: int | None, receivers: Iterable[Member], since_s: float) -> float | None:
    """At least so long it goes on, as far as that can be said after so many seconds; None: nobody knows."""
    working = [m for m in receivers if not m.final and not m.aside]
    fastest = max((m.rate_bps for m in working), default=0.0)
    if size is None or fastest <= 0:
        return None
    return min(TRUSTED * since_s, max(0, min((m.whole(size) or 0) - m.bytes for m in working)) * 8 / fastest)


def extent_bytes(size: int) -> int:
    return max(EXTENT_BYTES_MAX, size // EXTENTS)
