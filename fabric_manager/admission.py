"""Which of the groups that wait may begin. Pure."""

from __future__ import annotations

from .record import Record

GROUPS_MAX = 256
"""Groups that run at once."""


def admit(queued: list[Record], running: int) -> list[Record]:
    """Of those that wait, oldest first, those that begin now. `running`: how many have begun and not ended."""
    return queued[: max(0, GROUPS_MAX - running)]
