"""Workers: processes that run masters, here or anywhere on the management network.

A worker keeps one stream of orders open and reports what is new a few times a second; each report renews its lease, and
an empty one goes when there was nothing to tell for a second. A worker whose stream has ended and does not come back at
once was killed; one that says nothing while its stream stands hangs. Either way its lease ends, and its groups go to
others. A worker that comes back after that finds its groups gone.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from datacast.services.nursery import has_ended

from .api import child_name
from .api.orders import ToWorker
from .hub import Subscription

log = logging.getLogger("datacast.fabric_manager")

SILENCE_S = 5.0
"""A worker that says nothing for so long hangs."""
STOOD_STILL_S = 0.4
BACK_S = 0.5
"""One whose stream has ended comes back within so long, or was killed."""
RETURN_S = 2.0
"""How long a fabric manager that has just begun to lead waits for the workers of the one before, of other machines. On
this one the process tells: it is gone, or comes, however little of a processor it has."""
WORKERS_MAX = 1024


@dataclass
class Worker:
    """`lease`: made up by the worker when it starts; it shows it with every report."""

    name: str
    lease: str
    pid: int | None
    orders: Subscription[ToWorker] | None
    heard: float
    groups: set[str] = field(default_factory=set)
    ended: float | None = None
    """Since when it has no stream."""

    def put(self, message: ToWorker) -> None:
        """Without a stream it is lost; the next stream begins with all that counts."""
        if self.orders:
            self.orders.put(message)


class Workers:
    """`lost(worker, how, planned)` is called when a worker's lease has ended, `came(worker)` when it opens a stream."""

    def __init__(self, lost: Callable[[Worker, str, bool], None], came: Callable[[Worker], None]) -> None:
        self._lost, self._came = lost, came
        self._workers: dict[str, Worker] = {}
        self.watch: Callable[[Worker], None] = lambda worker: None
        """Called with a new worker: whoever can see its process tells `died`."""
        self._began = self._swept = 0.0
        self._closed = False

    def begin(self) -> None:
        """This fabric manager leads from now on."""
        self._began = self._swept = time.monotonic()

    def all(self) -> list[Worker]:
        return list(self._workers.values())

    def find(self, lease: str | None) -> Worker | None:
        return self._workers.get(lease) if lease else None

    def may_return(self, name: str) -> bool:
        """A worker of the fabric manager before, which is not here, may still come."""
        here = name.startswith(child_name())
        if time.monotonic() - self._began >= (SILENCE_S if here else RETURN_S):
            return False
        return not here or _lives(name.removeprefix(child_name()))

    def connect(self, name: str, lease: str, pid: int | None) -> Worker | None:
        """A stream of orders begins. None: there are too many workers, or this fabric manager ends."""
        if self._closed:
            return None
        worker = self._workers.get(lease)
        if worker is None:
            if len(self._workers) >= WORKERS_MAX:
                return None
            log.info("worker %s is there", name)
            worker = self._workers[lease] = Worker(name, lease, pid, None, time.monotonic())
            self.watch(worker)
        if worker.orders:
            worker.orders.close()
        worker.orders, worker.ended, worker.heard = Subscription(lambda event: True), None, time.monotonic()
        self._came(worker)
        return worker

    def disconnect(self, worker: Worker, orders: Subscription[ToWorker]) -> None:
        """Its stream has ended."""
        if worker.orders is orders:
            worker.orders, worker.ended = None, time.monotonic()

    def heard(self, lease: str) -> bool:
        """A report renews the lease. False: it has ended, or never was."""
        worker = self._workers.get(lease)
        if worker is not None:
            worker.heard = time.monotonic()
        return worker is not None

    def pick(self) -> Worker | None:
        """The one with the fewest groups of those that listen."""
        there = [worker for worker in self._workers.values() if worker.orders and not worker.orders.closed]
        return min(there, key=lambda worker: len(worker.groups), default=None)

    def leave(self, lease: str) -> None:
        """It ends, and says so."""
        self._end(lease, "its worker was told to stop", planned=True)

    def died(self, lease: str) -> None:
        """Its process has ended: nobody need wait for it."""
        if not self._closed:
            self._end(lease, "its worker's process has ended")

    def _end(self, lease: str, how: str, planned: bool = False) -> None:
        worker = self._workers.pop(lease, None)
        if worker:
            if worker.orders:
                worker.orders.close()
            self._lost(worker, how, planned)

    def sweep(self) -> None:
        """Call ten times a second. What was not heard because this process itself stood still is nobody's silence."""
        now = time.monotonic()
        late, self._swept = now - self._swept, now
        if late > STOOD_STILL_S:
            self._began += late
            for worker in self.all():
                worker.heard += late
                worker.ended = None if worker.ended is None else worker.ended + late
        for worker in self.all() if not self._closed else ():
            if worker.ended is not None and now - worker.ended > BACK_S:
                how = "its worker is gone"
            elif now - worker.heard > SILENCE_S:
                how = f"its worker said nothing for {SILENCE_S:g} s"
            else:
                continue
            log.warning("worker %s: lost with %d groups: %s", worker.name, len(worker.groups), how)
            self._end(worker.lease, how)

    def close(self) -> None:
        """Workers find the next fabric manager; none is lost here any more."""
        self._closed = True
        for worker in self.all():
            if worker.orders:
                worker.orders.close()


def _lives(pid: str) -> bool:
    """A process of this machine, and has not ended."""
    try:
        process = os.pidfd_open(int(pid))
    except (OSError, ValueError, OverflowError):
        return False
    try:
        return not has_ended(process, 0)
    finally:
        os.close(process)
