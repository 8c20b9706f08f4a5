"""Of one group at a site: which of the sites that have it gives which pieces (origins/exchange.py), and what is begun.

What each site has comes in as reports, what this one has from its master; what the master may let its hosts ask for
goes out, and, when they ask, who is asked. So much is begun with each site as it brings in a second or so: what was
asked of a slow one is nobody else's. A site that fails is asked for nothing until it tells again what it has.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from datacast.origins.exchange import Exchange, packed, runs_of, unpacked
from datacast.origins.ranges import Range, piece_bytes

AHEAD_S, AHEAD_LEAST_S = 1.5, 0.6
"""Begun with a site: what it brings in so long; towards the end less, so that all end together."""
AHEAD_LEAST = 4
"""Pieces, also of a site whose rate is not known."""
STALE_S = 8.0
"""What has not come after so long is anybody's again."""
WEIGHT = 0.4
"""Of the newest measurement of a rate."""


@dataclass
class _Run:
    pieces: Range
    since: float


@dataclass
class _Origin:
    held: np.ndarray
    known: np.ndarray
    """Pieces that it is known to have or to have begun."""
    runs: list[_Run] = field(default_factory=list)
    streams: int = 0
    came: int = 0
    """Bytes since the last look."""


class Sharing:
    """Times are seconds of a clock that only runs on."""

    def __init__(self, size: int, seed: int = 0) -> None:
        self.size, self.piece = size, piece_bytes(size)
        self.total = -(-size // self.piece)
        self.mine = np.zeros(self.total, bool)
        """What hosts of this site have."""
        self.version = 1
        """Another one when there is something new to tell other sites."""
        self._passed = np.zeros(self.total, np.int64)
        """Bytes of each piece that have come."""
        self._exchange = Exchange(self.total, run=AHEAD_LEAST // 2, seed=seed)
        self._origins: dict[str, _Origin] = {}
        self._looked = 0.0

    # ---- what comes in ----
    def told(self, site: str, held: str, begun: str) -> None:
        """A site says what it has and what it has begun. Raises DealingError."""
        has, busy = unpacked(held, self.total), unpacked(begun, self.total)
        origin = self._origins.get(site)
        if origin is not None and (origin.held & ~has).any():  # a host there was lost
            self.away(site)
            origin = None
        if origin is None:
            origin = _Origin(np.zeros(self.total, bool), np.zeros(self.total, bool))
            self._origins[site] = origin
            self._exchange.connects(site, site)
        for what in runs_of(has & ~origin.held):
            self._exchange.holds(site, what)
        for what in runs_of((has | busy) & ~origin.known):
            self._exchange.begun_elsewhere(what)
        if (has != origin.held).any():
            self.version += 1
        origin.held = has
        origin.known |= has | busy

    def away(self, site: str) -> None:
        """It does not answer, or has not what it said."""
        if (origin := self._origins.pop(site, None)) is not None:
            self._exchange.forgets(site)
            self._keep([run.pieces for run in origin.runs])
            self.version += 1

    def _keep(self, begun: list[Range]) -> None:
        """Runs were given up: what had come of them is here all the same."""
        for run in begun:
            self._passed[run.first : run.end] = 0
            for what in runs_of(_only(self.mine, run)):
                self._exchange.has(what)

    def have(self, told: str) -> None:
        """What hosts here have now. Raises DealingError."""
        now = unpacked(told, self.total)
        if (now == self.mine).all():
            return
        for origin, name in [(origin, name) for name, origin in self._origins.items()]:
            for run in [run for run in origin.runs if now[run.pieces.first : run.pieces.end].all()]:
                origin.runs.remove(run)
                self._exchange.fetched(name, run.pieces, 0.0)
        busy = self._busy()
        for what in runs_of(now & ~self.mine & ~busy):
            self._exchange.has(what)
        for what in runs_of(self.mine & ~now & ~busy):
            self._exchange.lost(what)
        self._passed[self.mine & ~now] = 0
        self.mine = now
        self.version += 1

    def asked(self, site: str) -> None:
        """A range of this site begins to come, until `answered`."""
        if site in self._origins:
            self._origins[site].streams += 1

    def came(self, site: str, first: int, count: int) -> None:
        """Bytes of it, from `first` on: what the hosts here have is heard of later."""
        if site in self._origins:
            self._origins[site].came += count
        while count > 0:
            n = min(count, self.piece - first % self.piece)
            self._passed[first // self.piece] += n
            first, count = first + n, count - n

    def answered(self, site: str) -> None:
        if site in self._origins:
            self._origins[site].streams = max(0, self._origins[site].streams - 1)

    # ---- what goes out ----
    @property
    def origins(self) -> list[str]:
        return list(self._origins)

    def held(self) -> str:
        """For other sites: what hosts here have; where none is to have it, what those sites have that are asked."""
        return packed(self.mine)

    def passed_on(self) -> str:
        """What the sites have that this one asks: of one that only passes on."""
        return packed(np.logical_or.reduce([np.zeros(self.total, bool), *(o.held for o in self._origins.values())]))

    def begun(self) -> str:
        return packed(self._busy())

    def _busy(self) -> np.ndarray:
        found = np.zeros(self.total, bool)
        for origin in self._origins.values():
            for run in origin.runs:
                found[run.pieces.first : run.pieces.end] = True
        return found

    def offers(self, now: float) -> list[tuple[int, int]]:
        """First and count, in order: the pieces that hosts may ask for now and do not have."""
        self._measure(now)
        for name, origin in self._origins.items():
            for run in [run for run in origin.runs if now - run.since > STALE_S]:
                origin.runs.remove(run)
                self._exchange.failed(name, run.pieces)
                self._keep([run.pieces])
        for name in sorted(self._origins, key=self._exchange.rate, reverse=True):
            # the fastest first: what a slow one has left is not its again
            origin = self._origins[name]
            while self._pending(origin) < self._ahead(name):
                one = self._exchange.take(name)
                if one is None:
                    break
                origin.runs.append(_Run(one, now))
                self.version += 1
        return [(one.first, one.count) for one in runs_of(self._busy() & ~self.mine)]

    def _pending(self, origin: _Origin) -> float:
        """Pieces that are begun with it and have not come."""
        return sum(self._missing(run.pieces) for run in origin.runs)

    def _missing(self, run: Range) -> float:
        rest = self.piece - np.minimum(self._passed[run.first : run.end], self.piece)
        return float((rest * ~self.mine[run.first : run.end]).sum()) / self.piece

    def _ahead(self, name: str) -> float:
        every = sum(self._exchange.rate(other) for other in self._origins)
        rest = self._exchange.left / every if every else AHEAD_S
        return max(AHEAD_LEAST, self._exchange.rate(name) * min(AHEAD_S, max(AHEAD_LEAST_S, rest)))

    def _measure(self, now: float) -> None:
        took, self._looked = now - self._looked, now
        for name, origin in self._origins.items():
            if origin.came or origin.streams:
                rate, known = origin.came / self.piece / max(took, 1e-3), self._exchange.rate(name)
                self._exchange.measured(name, rate if not known else known + WEIGHT * (rate - known))
            origin.came = 0

    def way(self, first: int, last: int, avoided: set[str]) -> tuple[str | None, int]:
        """Who is asked for bytes from `first` on, and up to which of them; None: nobody has them."""
        at = first // self.piece
        site, end = self._who(at, avoided), at + 1
        while end * self.piece <= last and self._who(end, avoided) == site:
            end += 1
        return site, min(last, end * self.piece - 1)

    def _who(self, piece: int, avoided: set[str]) -> str | None:
        able = [name for name, o in self._origins.items() if name not in avoided and o.held[piece]]
        for name in able:
            if any(run.pieces.first <= piece < run.pieces.end for run in self._origins[name].runs):
                return name
        # nobody was chosen, or the one that was is not there: whoever would have it soonest
        return min(
            able, key=lambda n: (self._pending(self._origins[n]) / (self._exchange.rate(n) or 1e-9), n), default=None
        )


def _only(pieces: np.ndarray, what: Range) -> np.ndarray:
    found = np.zeros(len(pieces), bool)
    found[what.first : what.end] = pieces[what.first : what.end]
    return found
