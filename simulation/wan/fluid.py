"""Flows over shared capacities, event by event: every flow has its max-min share of what it crosses.

A pipe is a connection: a queue of parcels over some resources (cards, access links, WAN links). While it has parcels it
takes its share; a parcel is there when its bytes are through and `delay` has passed. Rates change when pipes begin or
end to carry, and when a resource changes its capacity; between two such moments everything is linear. TCP's slow start
and losses are not modelled, nor are headers: capacities are those of payload.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

Done = Callable[[], None]


def max_min(paths: np.ndarray, capacity: np.ndarray, most: np.ndarray) -> np.ndarray:
    """Each flow's rate. `paths`: per flow, the resources it crosses, filled up with the last one, which has no limit.
    `most`: what a flow wants at most. A resource whose share is the least that any of its flows can get is settled at
    once, all such resources in one round."""
    rate = np.zeros(len(paths))
    left = capacity.astype(float)
    open_ = np.arange(len(paths))
    while len(open_):
        used = paths[open_]
        users = np.bincount(used.ravel(), minlength=len(left))
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(users > 0, left / users, np.inf)
        share[-1] = np.inf
        level = share[used].min(axis=1)
        settled = most[open_] <= level
        level = np.minimum(level, most[open_])
        least = np.full(len(left), np.inf)
        np.minimum.at(least, used.ravel(), np.repeat(level, used.shape[1]))
        settled |= (share[used] <= least[used] * (1 + 1e-9)).any(axis=1)
        now = open_[settled]
        rate[now] = level[settled]
        np.subtract.at(left, paths[now].ravel(), np.repeat(rate[now], used.shape[1]))
        left = np.maximum(left, 0.0)
        open_ = open_[~settled]
    return rate


@dataclass
class Pipe:
    """One connection. `sent`: bytes that are through. `lane`: the rate of one that shares nothing with others."""

    at: int
    delay: float
    lane: float = 0.0
    queue: deque[tuple[float, Done]] = field(default_factory=deque)
    sent: float = 0.0


class Fluid:
    """Resources, pipes and a clock. `quantum`: rates are found anew at most so often (0: at every change)."""

    def __init__(self, quantum: float = 0.0) -> None:
        self.now = 0.0
        self.quantum = quantum
        self._capacity: list[float] = []
        self._paths: list[Sequence[int]] = []
        self._most: list[float] = []
        self._pipes: list[Pipe] = []
        self._events: list[tuple[float, int, Done]] = []
        self._order = itertools.count()
        self._dirty = True
        self._solved = -np.inf

    def resource(self, capacity: float) -> int:
        """Bytes per second."""
        self._capacity.append(capacity)
        return len(self._capacity) - 1

    def change(self, resource: int, capacity: float) -> None:
        self._capacity[resource] = capacity
        self._dirty = True

    def pipe(self, path: Sequence[int], delay: float = 0.0, most: float = np.inf) -> Pipe:
        """A connection over these resources. All are made before the clock runs. One over nothing has `most` for
        itself, and costs no search for rates."""
        if not path:
            return Pipe(-1, delay, most)
        self._paths.append(path)
        self._most.append(most)
        self._pipes.append(Pipe(len(self._pipes), delay))
        return self._pipes[-1]

    def at(self, when: float, then: Done) -> None:
        heapq.heappush(self._events, (when, next(self._order), then))

    def after(self, seconds: float, then: Done) -> None:
        self.at(self.now + seconds, then)

    def send(self, pipe: Pipe, size: float, then: Done) -> None:
        """`then` is called when the parcel is there."""
        pipe.queue.append((size, then))
        if pipe.lane:
            if len(pipe.queue) == 1:
                self.after(size / pipe.lane, lambda: self._passed(pipe))
        elif len(pipe.queue) == 1:
            self._active[pipe.at] = True
            self._rest[pipe.at] = size
            self._rate[pipe.at] = 0.0
            self._ends[pipe.at] = np.inf
            self._dirty = True

    def begin(self) -> None:
        """Before the first parcel: the pipes are fixed now."""
        count, wide = len(self._pipes), max((len(p) for p in self._paths), default=1)
        self._table = np.full((count, max(1, wide)), len(self._capacity))
        for i, path in enumerate(self._paths):
            self._table[i, : len(path)] = path
        self._active = np.zeros(count, bool)
        self._rest, self._rate = np.zeros(count), np.zeros(count)
        self._ends = np.full(count, np.inf)
        self._limits = np.array(self._most)

    def run(self, until: Callable[[], bool], most_s: float = 1e7) -> None:
        """Until `until()` or nothing happens any more. Raises RuntimeError after `most_s` of simulated time."""
        while not until():
            due = self._solved + self.quantum
            if self._dirty and due <= self.now:
                self._solve()
                due = self._solved + self.quantum
            ends = self._ends.min() if len(self._ends) else np.inf
            event = self._events[0][0] if self._events else np.inf
            solve = due if self._dirty else np.inf
            when = min(ends, event, solve)
            if not np.isfinite(when):
                return
            if when > most_s:
                raise RuntimeError(f"nothing ends: {when:.0f} s of simulated time")
            self.now = max(self.now, float(when))
            if event <= when:
                heapq.heappop(self._events)[2]()
            elif ends <= when:
                self._through(int(self._ends.argmin()))

    def drop(self, pipe: Pipe) -> int:
        """Take back what has not begun; how many parcels that were."""
        count = 0
        while len(pipe.queue) > 1:
            pipe.queue.pop()
            count += 1
        return count

    def _passed(self, pipe: Pipe) -> None:
        size, then = pipe.queue.popleft()
        pipe.sent += size
        if pipe.queue:
            self.after(pipe.queue[0][0] / pipe.lane, lambda: self._passed(pipe))
        self.after(pipe.delay, then)

    def _through(self, at: int) -> None:
        pipe = self._pipes[at]
        size, then = pipe.queue.popleft()
        pipe.sent += size
        if pipe.queue:
            self._rest[at] = pipe.queue[0][0]
            self._ends[at] = self.now + self._rest[at] / self._rate[at]
        else:
            self._active[at] = False
            self._ends[at] = np.inf
            self._dirty = True
        if pipe.delay:
            self.after(pipe.delay, then)
        else:
            then()

    def _solve(self) -> None:
        carrying = np.isfinite(self._ends)
        self._rest[carrying] = np.maximum(0.0, (self._ends[carrying] - self.now) * self._rate[carrying])
        self._ends[:] = np.inf
        open_ = np.flatnonzero(self._active)
        capacity = np.array([*self._capacity, np.inf])
        rate = max_min(self._table[open_], capacity, self._limits[open_])
        self._rate[:] = 0.0
        self._rate[open_] = rate
        with np.errstate(divide="ignore"):
            self._ends[open_] = np.where(rate > 0, self.now + self._rest[open_] / rate, np.inf)
        self._dirty, self._solved = False, self.now
