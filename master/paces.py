"""What receivers turn out to take, and when that is worth a new plan. Pure: measurements and `now` in, caps out.

A receiver whose disk, processor or link is slower than declared holds its trees up: all of their receivers fall behind
the plan, and it is the last of them. When it is BEHIND_S behind, and so far behind the others that it is not chance, it
gets a cap: what it was seen to take. One that keeps up with its cap is given half as much again after PROBE_S; each
time that was too much the next attempt waits twice as long. So a rate that swings makes few plans, and there is never
more than one in PLAN_EVERY_S. The last receiver of a group has no cap.
"""

from __future__ import annotations

import statistics
from collections import deque
from dataclasses import dataclass

PLAN_EVERY_S = 1.0
BEHIND_S = 0.25
"""Of its own planned rate."""
WORTH = 0.75
"""A receiver that takes more than this part of its plan is left as it is: a busy machine, not a slow one."""
LOOKS = 2
KEEPS_UP = 0.95
PROBE_S, PROBE_MAX_S = 2.0, 64.0
PROBE_BY = 1.5
LEAST = 0.01
"""No cap below this share of what a receiver could have. Who stands still is set aside."""


@dataclass
class Pace:
    cap: int | None = None
    since: float = 0.0
    wait_s: float = PROBE_S
    probing: bool = False


@dataclass(frozen=True)
class Seen:
    """A receiver now: bytes it holds, bit/s measured and planned, and what it could have."""

    name: str
    held: int
    measured: float
    planned: float
    bound: float


class Paces:
    """`near`: bytes by which receivers of one tree may differ by chance."""

    def __init__(self, near: int) -> None:
        self.near = near
        self._pace: dict[str, Pace] = {}
        self._begun: float | None = None
        self._held: dict[str, int] = {}
        """When the present plan began, and what each receiver held then."""
        self._looks: deque[tuple[float, dict[str, int]]] = deque(maxlen=LOOKS)

    @property
    def caps(self) -> dict[str, int]:
        return {name: pace.cap for name, pace in self._pace.items() if pace.cap is not None}

    def begin(self, seen: list[Seen], now: float) -> None:
        """There is a plan, for whatever reason: count from here."""
        self._begun, self._held = now, {one.name: one.held for one in seen}

    def look(self, seen: list[Seen], now: float) -> bool:
        """Is a new plan due? `caps` says what it must keep to. Of several slow receivers the last one is dealt with
        first: the others may be behind because of it."""
        self._looks.append((now, {one.name: one.held for one in seen}))
        if self._begun is None:
            if any(one.held for one in seen):
                self._begun, self._held = now, {one.name: 0 for one in seen}
            return False
        if now - self._begun < PLAN_EVERY_S:
            return False
        due = self._alone(seen) or self._slow(seen, now) or self._more(seen, now)
        if due:
            self.begin(seen, now)
        return due

    def _alone(self, seen: list[Seen]) -> bool:
        """The last receiver holds nobody up: it takes what it can."""
        return len(seen) == 1 and self._pace.pop(seen[0].name, Pace()).cap is not None

    def _slow(self, seen: list[Seen], now: float) -> bool:
        assert self._begun is not None
        known = [one for one in seen if one.planned > 0 and one.name in self._held]
        # Seconds of its own plan that each has done.
        done = {one.name: (one.held - self._held[one.name]) * 8 / one.planned for one in known}
        last = min(known, key=lambda one: done[one.name], default=None)
        others = [done[one.name] for one in known if one is not last]
        if last is None or not others or now - self._begun - done[last.name] < BEHIND_S:
            return False
        if (statistics.median_high(others) - done[last.name]) * last.planned / 8 < self.near:
            return False  # all are late alike: somebody else's traffic, or the source
        cap = int(max(min(last.measured, self._lately(last, now)), LEAST * last.bound))
        pace = self._pace.setdefault(last.name, Pace())
        if pace.cap is not None:
            # After a plan it catches up with what the old trees brought to the others: look at all of that time.
            since = int((last.held - self._held[last.name]) * 8 / (now - self._begun))
            cap = max(cap, since, pace.cap // 2)
        if cap >= WORTH * last.planned:
            return False
        if pace.probing:
            pace.wait_s = min(2 * pace.wait_s, PROBE_MAX_S)
        pace.cap, pace.since, pace.probing = cap, now, False
        return True

    def _lately(self, one: Seen, now: float) -> float:
        """Its rate over the last looks: the measured one is smoothed, and still counts what was before."""
        at, held = self._looks[0]
        return (one.held - held[one.name]) * 8 / (now - at) if one.name in held and now > at else one.measured

    def _more(self, seen: list[Seen], now: float) -> bool:
        for one in seen:
            pace = self._pace.get(one.name)
            if pace is None or pace.cap is None or now - pace.since < pace.wait_s:
                continue
            if one.measured >= KEEPS_UP * min(pace.cap, one.planned):
                more = int(pace.cap * PROBE_BY)
                pace.cap, pace.since, pace.probing = (more if more < one.bound else None), now, True
                return True
        return False
