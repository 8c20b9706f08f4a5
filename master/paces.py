"""What receivers turn out to take, and what that calls for. Pure: measurements and `now` in, caps out.

A receiver whose disk, processor or link is slower than its group's plan holds its trees up: all of their receivers fall
behind the plan, and it is the last of them. When it is BEHIND_S behind, and so far behind the others that it is not
chance, it gets a cap: what it was seen to take. One that keeps up with its cap is given half as much again after
PROBE_S; each time that was too much the next attempt waits twice as long. The last receiver of a group has no cap.

The plan that it is held against is what the fabric manager leaves the group's trees beside others: whoever shares a
link with other groups is slow together with its whole tree, and that is no reason for another plan.

Rates may swing: there is never more than one plan in PLAN_EVERY_S, and each plan of the last DAMP_S makes the next one
wait half as long again.

Rate zero is the end of the same scale: one that stands still while others go on gets no tree at all, it is set aside.
Where no plan can help (one rate is wanted for all), so is one that falls too far behind.
"""

from __future__ import annotations

import statistics
from collections import deque
from dataclasses import dataclass

PLAN_EVERY_S = 1.0
DAMP_S, DAMP_BY, DAMP_MAX = 30.0, 1.5, 10
BEHIND_S = 0.25
"""Of its own planned rate."""
WORTH = 0.75
"""A receiver that takes more than this part of its plan is left as it is: a busy machine, not a slow one."""
LOOKS = 3
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
    """A receiver now: bytes it holds, bit/s measured and planned, and what it could have. `behind_s`: for how long the
    others have been ahead of it."""

    name: str
    held: int
    measured: float
    planned: float
    bound: float
    behind_s: float = 0.0


@dataclass
class _Look:
    """Bytes that each held, and that the plan had meant for it by then."""

    at: float
    held: dict[str, int]
    due: dict[str, float]


class Paces:
    """`near`: bytes by which receivers of one tree may differ by chance. `aside_s`: how long one may stand still."""

    def __init__(self, near: int, aside_s: float = 2.0) -> None:
        self.near, self.aside_s = near, aside_s
        self._pace: dict[str, Pace] = {}
        self._begun: _Look | None = None
        """When the present plan began."""
        self._due: dict[str, float] = {}
        self._looks: deque[_Look] = deque(maxlen=LOOKS)
        self._moved: dict[str, _Look] = {}
        """When each last got anything, and what all held then."""
        self._plans: deque[float] = deque(maxlen=DAMP_MAX)

    @property
    def caps(self) -> dict[str, int]:
        return {name: pace.cap for name, pace in self._pace.items() if pace.cap is not None}

    def note(self, seen: list[Seen], now: float) -> None:
        """Count on; before anything is asked about these."""
        last = self._looks[-1] if self._looks else None
        for one in seen:
            if last is not None and one.name in last.held:
                self._due[one.name] = self._due.get(one.name, 0.0) + one.planned * (now - last.at) / 8
        look = _Look(now, {one.name: one.held for one in seen}, dict(self._due))
        self._looks.append(look)
        for one in seen:
            before = self._moved.get(one.name)
            if before is None or before.held.get(one.name) != one.held:
                self._moved[one.name] = look
        if self._begun is None and any(look.held.values()):
            self._begun = _Look(now, dict.fromkeys(look.held, 0), look.due)

    # ---- rate zero ----
    def aside(self, seen: list[Seen], now: float, plans: bool) -> list[str]:
        """Those that are to be served when the others are done. `plans`: slow ones can have trees of their own."""
        if not plans:
            return [one.name for one in seen if one.behind_s > self.aside_s]
        return [one.name for one in seen if self._still(one, seen, now)]

    def _still(self, one: Seen, seen: list[Seen], now: float) -> bool:
        """Nothing came for too long though something was due, and to others it did."""
        since = self._moved[one.name]
        if now - since.at <= self.aside_s or self._due.get(one.name, 0.0) - since.due.get(one.name, 0.0) < self.near:
            return False
        return any(other.held - since.held.get(other.name, other.held) >= self.near for other in seen)

    # ---- plans ----
    def look(self, seen: list[Seen], now: float) -> bool:
        """Is a new plan due? `caps` says what it must keep to. Of several slow receivers the last one is dealt with
        first: the others may be behind because of it."""
        self.note(seen, now)
        if self._begun is None or now - self._begun.at < self._wait(now):
            return False
        due = self._alone(seen) or self._slow(seen, now) or self._more(seen, now)
        if due:
            self._begun = self._looks[-1]
            self._plans.append(now)
        return due

    def _wait(self, now: float) -> float:
        return PLAN_EVERY_S * DAMP_BY ** sum(now - at < DAMP_S for at in self._plans)

    def _alone(self, seen: list[Seen]) -> bool:
        """The last receiver holds nobody up: it takes what it can."""
        return len(seen) == 1 and self._pace.pop(seen[0].name, Pace()).cap is not None

    def _slow(self, seen: list[Seen], now: float) -> bool:
        begun = self._begun
        assert begun is not None
        known = [one for one in seen if one.planned > 0 and one.name in begun.held]
        # The part of its own plan that each has done.
        done = {one.name: (one.held - begun.held[one.name]) / max(1.0, self._owed(one, begun)) for one in known}
        last = min(known, key=lambda one: done[one.name], default=None)
        others = [done[one.name] for one in known if one is not last]
        if last is None or not others or (now - begun.at) * (1 - done[last.name]) < BEHIND_S:
            return False
        if (statistics.median_high(others) - done[last.name]) * self._owed(last, begun) < self.near:
            return False  # all are late alike: somebody else's traffic, or the source
        lately = [self._rate(last, look, now) for look in list(self._looks)[:-1]]
        if not lately or max(lately) >= WORTH * last.planned:
            return False
        cap = int(max(min(lately), LEAST * last.bound))
        pace = self._pace.setdefault(last.name, Pace())
        if pace.cap is not None:
            # After a plan it catches up with what the old trees brought to the others: look at all of that time.
            cap = max(cap, int(self._rate(last, begun, now)), pace.cap // 2)
        if cap >= WORTH * last.planned:
            return False
        if pace.probing:
            pace.wait_s = min(2 * pace.wait_s, PROBE_MAX_S)
        pace.cap, pace.since, pace.probing = cap, now, False
        return True

    def _owed(self, one: Seen, since: _Look) -> float:
        return self._due.get(one.name, 0.0) - since.due.get(one.name, 0.0)

    def _rate(self, one: Seen, since: _Look, now: float) -> float:
        held = since.held.get(one.name)
        return (one.held - held) * 8 / (now - since.at) if held is not None and now > since.at else one.measured

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
