"""Which of the groups that wait may begin. Pure."""

from __future__ import annotations

from collections import Counter

from .record import Record

GROUPS_MAX = 256
"""Groups that run at once."""
HOST_MAX = 48
"""Groups that a host is a member of at once: an agent takes 64, and those that end take a moment to leave."""


def admit(queued: list[Record], running: list[Record]) -> list[Record]:
    """Of those that wait those that begin now: background groups after the others, otherwise oldest first. One that
    waits for a host holds its place there, so that no later one gets in front of it for ever; elsewhere others go on.
    """
    room = GROUPS_MAX - len(running)
    if room <= 0 or not queued:
        return []
    taken = Counter(name for record in running for name in _members(record))
    begins: list[Record] = []
    for record in sorted(queued, key=lambda r: (r.spec.priority == "background", r.created_ns)):
        members = _members(record)
        fits = all(taken[name] < HOST_MAX for name in members)
        taken.update(members)
        if fits:
            begins.append(record)
            if len(begins) == room:
                break
    return begins


def _members(record: Record) -> list[str]:
    """Whose agents have something to do for it."""
    return [record.spec.source, *record.receivers]
