"""How fast a fetcher has been of late, and how long it has been silent. Pure."""

from __future__ import annotations

from collections import deque

WINDOW_S, WINDOW_BLOCKS = 1.0, 4
"""Over which a fetcher's rate is measured: so long, and so many blocks at least."""


class Arrivals:
    """Blocks of one fetcher as they come, those of a request together."""

    def __init__(self) -> None:
        self._came: deque[tuple[float, int]] = deque()
        self._count = 0
        self._since = self._last = 0.0
        """When the first of those blocks began to come; when something came at last."""

    def begin(self, now: float) -> None:
        """It had nothing to do before."""
        self._came.clear()
        self._count, self._since, self._last = 0, now, now

    def came(self, now: float) -> None:
        if self._came and self._came[-1][0] == now:
            self._came[-1] = (now, self._came[-1][1] + 1)
        else:
            self._came.append((now, 1))
        self._count, self._last = self._count + 1, now

    def rate(self, now: float) -> float:
        """Blocks a second; 0: not known yet."""
        while self._came and self._came[0][0] < now - WINDOW_S and self._count - self._came[0][1] >= WINDOW_BLOCKS:
            self._since, count = self._came.popleft()
            self._count -= count
        return self._count / max(0.05, now - self._since) if self._count >= WINDOW_BLOCKS else 0.0

    def silent_s(self, now: float) -> float:
        return now - self._last
