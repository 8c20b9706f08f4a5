"""Which of the groups that wait may begin. Pure; a change costs the members of the group that changes.

A host takes part in HOST_SOON groups at once as a rule. More would not end sooner: they share its links, fill the
queues on the way, and each costs its agent and its master something all the time. Where groups last longer one of them
counts no more each ROOM_S, up to the cap: so a short one never waits for long ones to end. Room that is not used is
kept: groups of many hosts, any two of which share one, would otherwise begin one after another.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from .record import Record

GROUPS_MAX = 256
"""Groups that run at once, unless the operator says otherwise."""
HOST_MAX = 48
"""Groups that a host is a member of at once: an agent takes 64, and those that end take a moment to leave."""
HOST_SOON = 8
ROOM_S = 1.0


@dataclass(frozen=True)
class Caps:
    """What runs at once at most: in the fabric, and on a host."""

    groups: int = GROUPS_MAX
    host: int = HOST_MAX


class Admission:
    """`follow` after every change of a record; `next` says who begins now, `begin` that one does."""

    def __init__(self, caps: Caps | None = None) -> None:
        self.caps = caps or Caps()
        self._begun: dict[str, tuple[list[str], list[str]]] = {}
        """Members and receivers of those that have had their turn."""
        self._fresh: dict[str, tuple[float, float]] = {}
        """By host: how many of its groups counted when, which was when one began there. One less each ROOM_S since."""
        self._taken: Counter[str] = Counter()
        """By host: how many of them it is a member of."""
        self._queued: dict[str, tuple[Record, list[str]]] = {}
        """With its members."""
        self._wanted: Counter[str] = Counter()
        """By host: how many of those that wait it would be a member of."""

    def follow(self, record: Record, ended: bool) -> None:
        """What the group is now: it waits, runs, or has ended."""
        if ended:
            self._unqueue(record.id)
            self._leave(record.id)
        elif record.id in self._begun or record.state != "queued":
            self._enter(record)
        else:
            self._unqueue(record.id)
            members = _members(record)
            self._queued[record.id] = record, members
            self._wanted.update(members)

    def begin(self, record: Record, now: float) -> None:
        """It has its turn. `now` in seconds."""
        self._enter(record)
        for name in _members(record):
            self._fresh[name] = self._counting(name, now) + 1.0, now

    def _enter(self, record: Record) -> None:
        self._unqueue(record.id)
        known = self._begun.get(record.id)
        if known is not None and known[1] is record.receivers:
            return
        self._leave(record.id)
        members = _members(record)
        self._begun[record.id] = members, record.receivers
        self._taken.update(members)

    def _leave(self, group: str) -> None:
        members, _ = self._begun.pop(group, ([], []))
        for name in members:
            self._taken[name] -= 1
            if self._taken[name] <= 0:
                del self._taken[name]
                self._fresh.pop(name, None)
            elif name in self._fresh:
                counted, at = self._fresh[name]
                self._fresh[name] = max(0.0, min(counted - 1.0, self._taken[name])), at

    def _unqueue(self, group: str) -> None:
        before = self._queued.pop(group, None)
        if before is not None:
            self._wanted.subtract(before[1])

    def fits(self, record: Record, now: float) -> bool:
        """Whether one that comes now, behind all that wait, may begin at once."""
        if len(self._begun) >= self.caps.groups:
            return False
        return all(self._room(name, now) - self._wanted[name] >= 1.0 for name in _members(record))

    def _counting(self, host: str, now: float) -> float:
        counted, at = self._fresh.get(host, (0.0, now))
        return max(0.0, counted - (now - at) / ROOM_S)

    def _room(self, host: str, now: float) -> float:
        """So many may begin there."""
        soon = HOST_SOON - self._counting(host, now) if host in self._fresh else HOST_SOON
        return min(soon + 1e-6, self.caps.host - self._taken.get(host, 0))

    def next(self, now: float) -> list[Record]:
        """Of those that wait those that begin now: background groups after the others, otherwise oldest first. One that
        waits for a host holds its place there, so that no later one gets in front of it for ever; elsewhere others go
        on."""
        left = self.caps.groups - len(self._begun)
        if left <= 0 or not self._queued:
            return []
        room: dict[str, float] = {}
        """By host: without the places of those that are before the one that is looked at, also those that begin."""
        begins: list[Record] = []
        for record, members in sorted(
            self._queued.values(), key=lambda one: (one[0].spec.priority == "background", one[0].created_ns)
        ):
            fits = True
            for name in members:
                there = room.get(name)
                if there is None:
                    there = self._room(name, now)
                room[name] = there - 1.0
                fits = fits and there >= 1.0
            if fits:
                begins.append(record)
                if len(begins) == left:
                    break
        return begins


def _members(record: Record) -> list[str]:
    """Whose agents have something to do for it."""
    return list(dict.fromkeys([*record.spec.roots, *record.receivers]))
