"""Which cables between our switches carry, and which of their ends must not flood. Kept by changes: an event costs the
ends it touches, and a new spanning tree when a cable came or went. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from datacast.controller.southbound.loops import End, Link, blocked_ends
from datacast.controller.southbound.state import Session


class Cables:
    """Call `touched` for ends whose session, port or finding has changed."""

    def __init__(self, sessions: Mapping[str, Session]) -> None:
        self._sessions = sessions
        self._claims: dict[End, End] = {}
        """Where an end leads: as discovered, else as configured."""
        self._claimed_by: dict[End, set[End]] = {}
        self._links: set[Link] = set()
        self._blocked: dict[str, set[int]] = {}
        for name in sessions:
            self.touched(name)

    def blocked(self, switch: str) -> set[int]:
        """Its ports that would close a loop."""
        return self._blocked.get(switch, set())

    def touched(self, switch: str, ports: Iterable[int] | None = None) -> set[str]:
        """Look again at these ports of a switch, None: at all. Returns the switches that have other blocked ports than
        before."""
        changed = False
        for port in self._sessions[switch].numbers if ports is None else ports:
            end = (switch, port)
            for one in {end, *self._claimed_by.get(end, ())}:
                changed |= self._look(one)
        return self._divide() if changed else set()

    def _claim(self, end: End) -> End | None:
        """Where it leads now; None: to no switch of ours, or nobody knows."""
        session = self._sessions.get(end[0])
        if session is None or end[1] not in session.numbers:
            return None
        found, configured = session.seen.get(end[1]), session.neighbours.get(end[1])
        far = (found[0], found[1]) if found else configured
        return far if far and far[0] in self._sessions and far[1] in self._sessions[far[0]].numbers else None

    def _look(self, end: End) -> bool:
        """Whether the cables of an end are others than before."""
        was, now = self._claims.get(end), self._claim(end)
        if was != now:
            if was:
                self._claimed_by[was].discard(end)
            self._claims.pop(end, None)
            if now:
                self._claims[end] = now
                self._claimed_by.setdefault(now, set()).add(end)
        changed = False
        for far in {far for far in (was, now) if far}:
            link: Link = (min(end, far), max(end, far))
            claimed = self._claims.get(end) == far or self._claims.get(far) == end
            there = claimed and self._carries(end) and self._carries(far)
            if there != (link in self._links):
                (self._links.add if there else self._links.discard)(link)
                changed = True
        return changed

    def _carries(self, end: End) -> bool:
        """Could the port carry? A switch that is not there is taken to: a loop is worse than a detour."""
        session = self._sessions[end[0]]
        return not session.ports or session.port_up(end[1])

    def _divide(self) -> set[str]:
        before, self._blocked = self._blocked, {}
        for name, port in blocked_ends(self._links):
            self._blocked.setdefault(name, set()).add(port)
        return {name for name in {*before, *self._blocked} if before.get(name) != self._blocked.get(name)}
