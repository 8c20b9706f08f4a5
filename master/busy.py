"""Fetchers whose origins have no time: when they are asked again, and for how long. Pure."""

from __future__ import annotations

import random
from collections import Counter

AGAIN_S, AGAIN_MOST_S = 1.0, 8.0
"""Before an origin is asked again that does not say when: the first time, and at most."""


class Busy:
    def __init__(self, patience_s: float) -> None:
        self.waiting: dict[str, str] = {}
        """Why, by fetcher."""
        self._patience_s = patience_s
        self._since: dict[str, float] = {}
        self._due: dict[str, float] = {}
        self._times = Counter[str]()

    def refused(self, name: str, why: str, later_s: float, now: float) -> str:
        """`later_s`: as the origin says; 0: it does not. Why it is not asked again; "": it is."""
        wait_s = later_s or min(AGAIN_MOST_S, AGAIN_S * 2 ** self._times[name]) * random.uniform(0.5, 1.0)
        self._times[name] += 1
        if now + wait_s >= self._since.setdefault(name, now) + self._patience_s:
            said = f", for {later_s:g} s as it says" if later_s else ""
            return f"{why}{said}: longer than the group's lease_ms, {self._patience_s * 1000:.0f}"
        self.waiting[name], self._due[name] = why, now + wait_s
        return ""

    def next_s(self, now: float) -> float:
        """Until one of them is asked again."""
        return max(0.0, min(self._due.values()) - now)

    def again(self, now: float) -> None:
        """Whose time has come waits no more."""
        for name in [name for name, due in self._due.items() if due <= now]:
            del self._due[name], self.waiting[name]
