"""Groups that move to a worker that has less to do, such as one that has come anew.

New groups go to the worker with the fewest. Those that run move one at a time, each as if its worker had been told to
end: another master adopts it, in another epoch, while data flows. That costs a look at all members and some pieces that
are sent twice, so only groups that go on for long move, and only while workers differ by much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .record import Record
from .workers import Worker, Workers

CALM_S = 2.0
"""A worker that has just come is left alone for so long, and so is everybody after a move."""
LEFT_S = 30.0
"""A group that ends sooner stays where it is."""
APART, PART = 2, 0.25
"""Workers that differ by fewer groups, or by less than this part of what the fuller one has, are alike."""


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
        full = max(there, key=lambda worker: len(worker.groups))
        least = min(len(worker.groups) for worker in there)
        if len(full.groups) - least < max(APART, PART * len(full.groups)):
            return
        self._calm = now + CALM_S
        record = self._longest(full)
        if record is not None:
            self._move(record)

    def _longest(self, worker: Worker) -> Record | None:
        """Its group that goes on for longest, of those that another master can go on with."""
        found = [(left, r) for r in self._running() if r.lease == worker.lease and (left := left_s(r)) >= LEFT_S]
        return max(found, key=lambda pair: pair[0])[1] if found else None


def left_s(record: Record) -> float:
    """How long it goes on; 0: it does not run by itself now, or nobody knows."""
    known = record.progress
    steady = record.state == "running" and record.told_epoch == record.epoch and record.adopt is not None
    if not steady or known.size is None or known.rate_bps <= 0:
        return 0.0
    return known.size * (1 - known.fraction) * 8 / known.rate_bps
