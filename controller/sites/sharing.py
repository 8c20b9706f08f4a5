"""Of one group at a site: which of the sites that have it gives which pieces (origins/exchange.py), and what has come.

What each site has comes in as reports, what this one has from its master. Lines, some connections of this controller to
each site, take runs of pieces and read them ahead (exchanges.py); the master may let its hosts ask for what is begun. A
site that fails is asked for nothing until it tells again what it has.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from datacast.origins.exchange import Exchange, packed, runs_of, touched, unpacked
from datacast.origins.ranges import Range, piece_bytes
from datacast.services.ranges import Rows

from .store import Store

LINES_LEAST, LINES_MOST, LINES_ALL = 2, 16, 8
"""Connections to a site, and to all of them: while one asks for its next run others bring theirs. Twice as many to a
site that is receiving itself: they wait for what comes there."""
TRIPS = 10
"""A run takes so many round trips at least: then asking for the next costs little."""
SLOTS = 8
"""Requests of this site's hosts at a time. They wait for what is on its way where there are no more runs of it."""
SMALL = 1 << 20
"""Bytes of a piece. Of longer ones hosts always ask while they come: the room would not hold them."""
REQUEST_S, REQUEST_LEAST, REQUEST_MOST = 2.0, 256 << 10, 16 << 20
"""What a line asks for at once: hosts wait for what has been asked for."""
APART_MAX = 1024
NEAR = 1 << 20
"""Where there is no room, a line still brings a host what it waits for, when so little is in front of it."""
QUIET_S = 1.0
"""A site that brought something so lately is not away, though one of its connections broke off."""
ROOM = 32 << 20
GONE_S = 4.0
"""Pieces that hosts had and do not tell of any more are had for so long all the same: a group that is resumed hears of
them one host after another, and what was read again meanwhile would come twice."""


@dataclass
class _Run:
    pieces: Range
    at: int
    """The next byte, behind the last one, and behind the last one that its line has asked for."""
    end: int
    asked: int
    apart: list[tuple[int, int]] = field(default_factory=list)
    """First byte and end of what nobody here wants, and of what hosts have asked for meanwhile, past the line."""


@dataclass
class _Origin:
    held: np.ndarray
    known: np.ndarray
    """Pieces that it is known to have or to have begun."""
    lines: list[str] = field(default_factory=list)
    """That have had runs."""
    heard: float = 0.0
    receives: bool = False
    """It receives the same itself, or did: it is asked over twice as many connections until the end, for each has a
    window of a part of what the link carries."""


async def _happens(event: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


class Sharing:
    def __init__(
        self, size: int, seed: int = 0, early: int = 0, wanted: Rows | None = None, alone: bool = False
    ) -> None:
        """`early`: bytes that are begun before the master has told what hosts have. `wanted`: bytes, first and count,
        that hosts here want; None: all. Nothing else is read ahead. `alone`: no other site takes it from the same one:
        it is read from its beginning on."""
        self.size, self.piece = size, piece_bytes(size)
        self.total = -(-size // self.piece)
        self._rows = [(0, size)] if wanted is None else wanted
        self.wanted = touched(self._rows, size, self.piece) if size else np.zeros(0, bool)
        """Pieces of which hosts here want something."""
        self.mine = np.zeros(self.total, bool)
        """What hosts of this site have."""
        self.version = 1
        """Another one when there is something new to tell other sites."""
        self.store = Store(ROOM)
        self._early, self._told = early, False
        """The master has said what hosts have."""
        self._came = np.zeros(self.total, bool)
        """Pieces that have come whole, and that hosts may not have yet."""
        self._missed = np.full(self.total, np.inf)
        """Since when pieces of `mine` are not told of."""
        self._broken: dict[int, int] = {}
        """Of a piece that broke off: the byte from which on it is missing."""
        self._exchange = Exchange(self.total, run=2, seed=seed)
        for what in runs_of(~self.wanted):
            self._exchange.has(what)
        self._origins: dict[str, _Origin] = {}
        self._runs: dict[str, _Run] = {}
        """By line."""
        self._alone = alone
        self._waits: Counter[int] = Counter()
        """Hosts that wait for their next byte, by that."""
        self._refused = False
        """A site has refused and was not heard since: whoever asks it past the lines hears why."""
        self._news, self._more = asyncio.Event(), asyncio.Event()

    # ---- what comes in ----
    def told(self, site: str, held: str, begun: str = "", heads: str = "") -> None:
        """A site says what it has, what it has begun, and where its runs have got to. Raises DealingError."""
        none = np.zeros(self.total, bool)
        has, busy, now = (unpacked(text, self.total) if text else none for text in (held, begun, heads))
        origin = self._origins.get(site)
        if origin is None:
            origin = self._origins[site] = _Origin(none, none)
        for what in runs_of(origin.held & ~has):  # a host there was lost
            self._exchange.lacks(site, what)
            for line in [line for line in origin.lines if self._lacks(line, what)]:
                self.broke(line)
        for what in runs_of(has & ~origin.held):
            self._exchange.holds(site, what)
        if self._alone:
            self._exchange.in_order(site)
        self._exchange.receives(site, busy, now)
        for what in runs_of((has | busy) & ~origin.known):
            self._exchange.begun_elsewhere(what)
        if (has != origin.held).any():
            self.version += 1
        self._refused = False
        origin.held = has
        origin.known = origin.known | has | busy
        self.wake()

    def _lacks(self, line: str, what: Range) -> bool:
        """Whether some of these pieces are still to come over this line."""
        run = self._runs.get(line)
        return run is not None and run.at < what.end * self.piece and what.first * self.piece < run.end

    def will_have(self, site: str) -> None:
        """It receives the same itself, and passes it on: it may be asked for the front before it has told of any."""
        if site not in self._origins:
            nothing = np.zeros(self.total, bool)
            self.told(site, packed(nothing), packed(np.arange(self.total) < 2 * LINES_ALL), packed(nothing))

    def away(self, site: str) -> None:
        """It does not answer, or has not what it said."""
        if (origin := self._origins.pop(site, None)) is not None:
            for line in origin.lines:
                self.broke(line)
            self._exchange.forgets(site)
            self.version += 1
            self.wake()

    def fails(self, site: str, code: str) -> bool:
        """A connection to it broke off. Whether it is asked for nothing until it tells again what it has."""
        origin = self._origins.get(site)
        if origin is None or code == "not_yet":
            return False
        self._refused = code != "site_away"
        if code == "site_away" and time.monotonic() - origin.heard < QUIET_S:
            return False
        self.away(site)
        return True

    def have(self, told: str) -> None:
        """What hosts here have now. Raises DealingError."""
        now, self._told, at = unpacked(told, self.total), True, time.monotonic()
        missed = self.mine & ~now
        self._missed = np.where(missed, np.minimum(self._missed, at), np.inf)
        now |= missed & (at - self._missed < GONE_S)
        if (now == self.mine).all():
            return
        busy = self._busy()
        for what in runs_of(now & ~self.mine & ~busy):
            self._exchange.has(what)
        for what in runs_of(now & ~self.mine):
            self.store.done(what.first * self.piece, what.end * self.piece)
        gone = self.mine & ~now & ~busy
        for what in runs_of(gone):
            self._exchange.lost(what)
        self._came &= ~gone
        self.mine = now
        self.version += 1
        self.wake()

    def wake(self) -> None:
        """Whoever waits for news, or for bytes, looks again."""
        before, self._news = self._news, asyncio.Event()
        before.set()
        self._wake_readers()

    def _wake_readers(self) -> None:
        before, self._more = self._more, asyncio.Event()
        before.set()

    async def news(self, seconds: float) -> None:
        """Waits for some, so long at most: for what a line may do next. Bytes of other lines are none, and most of what
        happens."""
        await _happens(self._news, seconds)

    async def more(self, seconds: float) -> None:
        """Waits for bytes of any line, or for news, so long at most."""
        await _happens(self._more, seconds)

    # ---- lines ----
    def take(self, line: str, trip_s: float = 0.0) -> bool:
        """It begins its next run; False: there is nothing for it now. `trip_s`: a round trip of it."""
        site, _, number = line.rpartition("/")
        origin = self._origins.get(site)
        if origin is None or line in self._runs or int(number) >= self._lines(origin):
            return False
        if not self._may_begin():
            return False
        if line not in origin.lines:
            origin.lines.append(line)
            self._exchange.connects(line, site)
        if self.store.full() and not self._starving():
            return False
        fresh = not self._alone and not self._runs and not self._came.any() and not self.mine.any()
        one = self._exchange.take(line, least_s=TRIPS * trip_s, at=0 if fresh else None)
        if one is None:
            return False
        first = self._broken.pop(one.first, one.first * self.piece)
        end = min(self.size, one.end * self.piece)
        self._runs[line] = _Run(one, first, end, first, self._gaps(first, end))
        self.version += 1
        return True

    def _may_begin(self) -> bool:
        return self._told or int((self._busy() | self._came).sum()) * self.piece < self._early

    def _gaps(self, at: int, end: int) -> list[tuple[int, int]]:
        """First byte and end of what nobody here wants."""
        found = []
        for first, count in self._rows:
            if first >= end:
                break
            if at < first:
                found.append((at, first))
            at = max(at, first + count)
        return [*found, (at, end)] if at < end else found

    def ask(self, line: str) -> tuple[int, int] | None:
        """The first and the last byte of its next request; None: its run has come, or is not its any more."""
        run = self._runs.get(line)
        if run is None:
            return None
        while past := next((end for first, end in run.apart if first <= run.at < end), 0):
            self._on(run, past)
        if run.at >= run.end:
            return None
        most = max(REQUEST_LEAST, min(REQUEST_MOST, int(self._exchange.rate(line) * self.piece * REQUEST_S)))
        run.asked = min([run.end, run.at + most, *(first for first, _ in run.apart if first > run.at)])
        return run.at, run.asked - 1

    def _lines(self, origin: _Origin) -> int:
        """To this site."""
        usual = max(LINES_LEAST, LINES_ALL // max(1, len(self._origins)))
        origin.receives |= not origin.held.all()
        return min(LINES_MOST, 2 * usual if origin.receives else usual)

    def came(self, line: str, data: bytes) -> bool:
        """Bytes of its run. Whether it goes on: its site may be away by now."""
        run = self._runs.get(line)
        if run is None:
            return False
        self.store.put(run.at, data)
        self._origins[line.rpartition("/")[0]].heard = time.monotonic()
        self._on(run, run.at + len(data))
        return True

    def _on(self, run: _Run, at: int) -> None:
        before, run.at = run.at // self.piece, min(at, run.end)
        last = run.pieces.end if run.at == run.end else run.at // self.piece
        if last > before:
            self._came[before:last] = True
            self.version += 1
        self._wake_readers()

    def ended(self, line: str, seconds: float) -> None:
        """Its run has come."""
        if (run := self._runs.pop(line, None)) is not None:
            self._exchange.fetched(line, run.pieces, seconds)
            self.wake()

    def broke(self, line: str) -> None:
        """It broke off: the rest of its run is anybody's again."""
        if (run := self._runs.pop(line, None)) is None:
            return
        missing = run.at // self.piece
        got = missing - run.pieces.first if run.at < run.end else run.pieces.count
        if got < run.pieces.count:
            self._broken[missing] = run.at
        self._exchange.failed(line, run.pieces, got)
        for what in runs_of(_only(self.mine, run.pieces)):
            self._exchange.has(what)
        self.wake()

    def coming(self, at: int) -> bool:
        """Whether a line has asked for this byte, and there is room for it, or for a host that waits."""
        near = NEAR if self.store.full() else self.size
        return any(run.at <= at < min(run.asked, run.at + near) for run in self._runs.values())

    def may_read(self, line: str) -> bool:
        """Whether there is room for what its line brings next. For what a host waits for there is always."""
        run = self._runs.get(line)
        if run is None or not self.store.full():
            return True
        return any(run.at <= at < min(run.asked, run.at + NEAR) for at in self._waits)

    @contextlib.contextmanager
    def waiting(self, at: int) -> Iterator[None]:
        """A host waits for this byte meanwhile."""
        self._waits[at] += 1
        if self.store.full():
            self.wake()
        try:
            yield
        finally:
            self._waits[at] -= 1
            self._waits = +self._waits

    def _starving(self) -> bool:
        """Whether a host waits for what no line has begun."""
        return any(self._exchange.free(at // self.piece) for at in self._waits)

    def first(self, at: int) -> bool:
        """A host asks for this byte. True: no line brings it yet, and one will, before other pieces."""
        return self._may_begin() and not self._refused and self._exchange.first(at // self.piece)

    def due(self, at: int) -> bool:
        """Whether this byte is still to come: a line will bring it, or is yet to begin with its piece."""
        return any(run.at <= at < run.end for run in self._runs.values()) or self._exchange.free(at // self.piece)

    def apart(self, first: int, last: int) -> None:
        """A host asks for these bytes past the lines: none need bring them."""
        for run in self._runs.values():
            if run.asked <= first < run.end and len(run.apart) < APART_MAX:
                run.apart.append((first, last + 1))

    # ---- what goes out ----
    @property
    def origins(self) -> list[str]:
        return list(self._origins)

    def held(self, below: bool = False) -> str:
        """For other sites: what hosts here have or are about to have. `below`: and what is passed on to a site that
        hears of it from here alone."""
        here = (self.mine | self._came) & self.wanted
        return packed(here | (self._passed_on() & ~self.wanted) if below else here)

    def passed_on(self) -> str:
        """What the sites have that this one asks: of one that only passes on."""
        return packed(self._passed_on())

    def _passed_on(self) -> np.ndarray:
        found = np.zeros(self.total, bool)
        for origin in self._origins.values():
            found |= origin.held
        return found

    def begun(self) -> str:
        return packed(self._busy())

    def heads(self) -> str:
        """The pieces that lines are bringing now."""
        found = np.zeros(self.total, bool)
        found[[run.at // self.piece for run in self._runs.values() if run.at < run.end]] = True
        return packed(found)

    def _busy(self) -> np.ndarray:
        found = np.zeros(self.total, bool)
        for run in self._runs.values():
            found[run.pieces.first : run.pieces.end] = True
        return found

    def offers(self) -> list[tuple[int, int]]:
        """First and count, in order: the pieces that hosts may ask for now and do not have."""
        found = self._came.copy()
        if len(self._runs) <= SLOTS or self.piece > SMALL:
            found |= self._busy()
        return [(one.first, one.count) for one in runs_of(found & ~self.mine)]

    def way(self, first: int, last: int, avoided: set[str]) -> tuple[str | None, int]:
        """Who is asked for bytes from `first` on that no line brings, and up to which one; None: nobody has them."""
        at = first // self.piece
        site, free, end = self._who(at, avoided), self._exchange.free(at), at + 1
        while (
            end * self.piece <= last
            and self._who(end, avoided) == site
            and self._exchange.free(end) == free  # what is free lines may take meanwhile
            and not self._is_here(end * self.piece)
        ):
            end += 1
        return site, min(last, end * self.piece - 1)

    def _is_here(self, at: int) -> bool:
        return self.store.has(at) or self.coming(at)

    def _who(self, piece: int, avoided: set[str]) -> str | None:
        able = [name for name, o in self._origins.items() if name not in avoided and o.held[piece]]
        return max(able, key=self._rate, default=None)

    def _rate(self, site: str) -> float:
        return sum(self._exchange.rate(line) for line in self._origins[site].lines)


def _only(pieces: np.ndarray, what: Range) -> np.ndarray:
    found = np.zeros(len(pieces), bool)
    found[what.first : what.end] = pieces[what.first : what.end]
    return found
