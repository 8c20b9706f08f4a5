"""Groups that move to a worker that has less to do, such as one that has come anew.

New groups go to the worker with the fewest. Those that run move one at a time, each as if its worker had been told to
end: another master adopts it, in another epoch, while data flows. That costs a look at all members and some pieces that
are sent twice, so only groups that go on for long move, and only while workers differ by so many receivers that it
shows in what they have of a processor: those that come to a fabric manager that has just begun to lead mostly do not.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from .record import Record
from .workers import Workers

log = logging.getLogger("datacast.fabric_manager")

LOOK_S = 1.0
CALM_S = 2.0
"""A worker that has just come is left alone for so long, and so is everybody after a move."""
LEFT_S = 30.0
"""A group that ends sooner stays where it is."""
APART, PART = 2, 0.25
"""Workers that differ by fewer groups, or by less than this part of what the fuller one has, are alike."""
GAIN = 512
"""Receivers, of all groups of a worker together: a hundredth of a processor. Less is no gain."""


class Balance:
    """`look` now and then. `running` gives the groups that have not ended, `move(record)` takes one from its worker."""

    def __init__(
        self, workers: Workers, running: Callable[[], Iterable[Record]], move: Callable[[Record], None]
    ) -> None:
        self._workers, self._running, self._move = workers, running, move
        self._calm = 0.0
        """Until then nothing moves."""
        self._known: set[str] = set()
        """Leases."""

    def look(self, now: float, waiting: bool) -> None:
        """`waiting`: some groups have no worker yet. `now` in seconds."""
        there = [worker for worker in self._workers.all() if worker.orders and not worker.orders.closed]
        leases = {worker.lease for worker in there}
        if leases != self._known or waiting:
            self._known, self._calm = leases, now + CALM_S
        if now < self._calm or len(there) < 2:
            return
        self._calm = now + LOOK_S
        full = max(there, key=lambda worker: len(worker.groups))
        other = min(there, key=lambda worker: len(worker.groups))
        if len(full.groups) - len(other.groups) < max(APART, PART * len(full.groups)):
            return
        load = {full.lease: 0, other.lease: 0}
        for record in self._running():
            if record.lease in load:
                load[record.lease] += len(record.receivers)
        apart = load[full.lease] - load[other.lease]
        if apart < GAIN:
            return
        self._calm = now + CALM_S
        if (found := self._longest(full.lease, apart)) is not None:
            log.warning(
                "group %s: moved from worker %s, which has %d groups of %d receivers, to %s, which has %d of %d",
                found.id, full.name, len(full.groups), load[full.lease],
                other.name, len(other.groups), load[other.lease],
            )  # fmt: skip
            self._move(found)

    def _longest(self, lease: str, apart: int) -> Record | None:
        """Its group that goes on for longest, of those that another master can go on with; not one that has more than
        half of the receivers that the workers differ by, which would make the other the fuller one."""
        its = [r for r in self._running() if r.lease == lease and 2 * len(r.receivers) <= apart]
        found = [(left, r) for r in its if (left := left_s(r)) >= LEFT_S]
        return max(found, key=lambda pair: pair[0])[1] if found else None


def left_s(record: Record) -> float:
    """How long it goes on; 0: it does not run by itself now, or nobody knows."""
    known = record.progress
    steady = record.state == "running" and record.told_epoch == record.epoch and record.adopt is not None
    if not steady or known.size is None or known.rate_bps <= 0:
        return 0.0
    return known.size * (1 - known.fraction) * 8 / known.rate_bps
