"""Which of the groups that wait may begin. Pure; a change costs the members of the group that changes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from .record import Record

GROUPS_MAX = 256
"""Groups that run at once, unless the operator says otherwise."""
HOST_MAX = 48
"""Groups that a host is a member of at once: an agent takes 64, and those that end take a moment to leave."""


@dataclass(frozen=True)
class Caps:
    """What runs at once at most: in the fabric, and on a host."""

    groups: int = GROUPS_MAX
    host: int = HOST_MAX


class Admission:
    """`follow` after every change of a record; `next` says who begins now, `begin` that one does."""

    def __init__(self, caps: Caps | None = None) -> None:
        self.caps = caps or Caps()
        self._begun: dict[str, tuple[str, list[str]]] = {}
        """Source and receivers of those that have had their turn."""
        self._taken: Counter[str] = Counter()
        """By host: how many of them it is a member of."""
        self._queued: dict[str, Record] = {}
        self._wanted: Counter[str] = Counter()
        """By host: how many of those that wait it would be a member of."""

    def follow(self, record: Record, ended: bool) -> None:
        """What the group is now: it waits, runs, or has ended."""
        if ended:
            self._unqueue(record.id)
            self._leave(record.id)
        elif record.id in self._begun or record.state != "queued":
            self.begin(record)
        else:
            self._unqueue(record.id)
            self._queued[record.id] = record
            self._wanted.update(_members(record))

    def begin(self, record: Record) -> None:
        """It has its turn."""
        self._unqueue(record.id)
        known = self._begun.get(record.id)
        if known is not None and known[1] is record.receivers:
            return
        self._leave(record.id)
        self._begun[record.id] = record.spec.source, record.receivers
        self._taken.update(_members(record))

    def _leave(self, group: str) -> None:
        source, receivers = self._begun.pop(group, ("", []))
        if source:
            self._taken.subtract((source, *receivers))

    def _unqueue(self, group: str) -> None:
        before = self._queued.pop(group, None)
        if before is not None:
            self._wanted.subtract(_members(before))

    def fits(self, record: Record) -> bool:
        """Whether one that comes now, behind all that wait, may begin at once."""
        if len(self._begun) >= self.caps.groups:
            return False
        return all(self._taken[name] + self._wanted[name] < self.caps.host for name in _members(record))

    def next(self) -> list[Record]:
        """Of those that wait those that begin now: background groups after the others, otherwise oldest first. One that
        waits for a host holds its place there, so that no later one gets in front of it for ever; elsewhere others go
        on."""
        room = self.caps.groups - len(self._begun)
        if room <= 0 or not self._queued:
            return []
        held: Counter[str] = Counter()
        """By host: those that wait and are before the one that is looked at."""
        begins: list[Record] = []
        for record in sorted(self._queued.values(), key=lambda r: (r.spec.priority == "background", r.created_ns)):
            members = _members(record)
            fits = all(self._taken[name] + held[name] < self.caps.host for name in members)
            held.update(members)
            if fits:
                begins.append(record)
                if len(begins) == room:
                    break
        return begins


def _members(record: Record) -> list[str]:
    """Whose agents have something to do for it."""
    return list(dict.fromkeys([*record.spec.roots, *record.receivers]))
