"""How long a plan took."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Times:
    """Of planning, in milliseconds; None: nothing was planned."""

    median: float | None
    p99: float | None

    @classmethod
    def of(cls, times: list[float]) -> Times:
        """In order."""
        if not times:
            return cls(None, None)
        return cls(times[len(times) // 2], times[min(len(times) - 1, int(len(times) * 0.99))])
