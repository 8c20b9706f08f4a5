"""What one site fetches from which others, while they receive too.

An origin here holds parts: it is a site that has the data, or one that is receiving it. A site wants every piece once.
Of what an origin holds it takes first what fewest sites have or fetch: so what only the first site has leaves it once
for all, and sites have something for each other (rarest first). Among equals it goes on behind its last run, or begins
anywhere. A fetcher, a connection to an origin, takes runs of about half a second, and single pieces towards the end, as
in dealing.py. A run may go on into what the origin itself is receiving, and where it holds nothing more for us begin
there: the bytes follow each other through it.

A site's controller chooses with it (controller/sites/sharing.py), and so do the simulated clusters (simulation/wan).

Pure: what others hold and have begun comes in as reports, ranges go out. Reports may be late or missing; then a
choice is worse, but nothing is fetched twice or forgotten.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from datacast.origins.dealing import AVERAGE, RUN_S, DealingError
from datacast.origins.ranges import Range

COPIES_MOST = 255


def packed(pieces: np.ndarray) -> str:
    """A bit for each piece, the first one highest, as hexadecimal digits."""
    return np.packbits(pieces).tobytes().hex()


def unpacked(text: str, total: int) -> np.ndarray:
    """Raises DealingError for what `packed` does not make of so many pieces."""
    try:
        bits = np.unpackbits(np.frombuffer(bytes.fromhex(text), np.uint8))
    except ValueError as error:
        raise DealingError("pieces are told by hexadecimal digits", text[:32]) from error
    if len(bits) != -(-total // 8) * 8 or bits[total:].any():
        raise DealingError(f"{len(bits)} bits tell nothing of {total} pieces", text[:32])
    return bits[:total].astype(bool)


def runs_of(pieces: np.ndarray) -> list[Range]:
    """Of pieces that are set, in order, with neighbours made one."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], pieces, [False])).astype(np.int8)))
    return [Range(int(first), int(end - first)) for first, end in edges.reshape(-1, 2)]


def touched(rows: Iterable[tuple[int, int]], size: int, piece: int) -> np.ndarray:
    """The pieces of an object that hold any of these bytes: first and count, above zero."""
    found = np.zeros(-(-size // piece), bool)
    for first, count in rows:
        found[first // piece : -(-(first + count) // piece)] = True
    return found


@dataclass
class _Connection:
    origin: str
    rate: float = 0.0
    begun: list[Range] = field(default_factory=list)


class Exchange:
    """One site's view of `total` pieces."""

    def __init__(self, total: int, *, run: int = 4, seed: int = 0) -> None:
        """`run`: pieces of the first run of a connection. Raises DealingError."""
        if total < 0 or run < 1:
            raise DealingError(f"{total} pieces in runs of {run}", str(total))
        self.total, self._run = total, run
        self._random = random.Random(seed)
        self._free = np.ones(total, bool)
        """Pieces that this site neither has nor fetches."""
        self._left = total
        self._copies = np.zeros(total, np.uint8)
        """Sites that have or fetch each, as far as is known."""
        self._held: dict[str, np.ndarray] = {}
        self._coming: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        self._connections: dict[str, _Connection] = {}
        self._next: dict[str, int] = {}
        """Behind the last run of each origin."""
        self._broken: set[int] = set()
        """Where runs broke off, or somebody waits: there a run begins, before others."""

    @property
    def left(self) -> int:
        """Pieces that nobody here has begun."""
        return self._left

    def connects(self, name: str, origin: str) -> None:
        """A connection more. Raises DealingError when it is there."""
        if name in self._connections:
            raise DealingError(f"{name} fetches already", name)
        self._connections[name] = _Connection(origin)
        self._held.setdefault(origin, np.zeros(self.total, bool))

    def gone(self, name: str) -> None:
        """A connection is lost; what it had begun is anybody's again."""
        for one in self._connections.pop(self._known(name, None)).begun:
            self._free[one.first : one.end] = True
            self._left += one.count
            self._broken.add(one.first)

    def holds(self, origin: str, what: Range) -> None:
        """An origin has these pieces now. Raises DealingError for pieces that there are not."""
        self._inside(what)
        self._held.setdefault(origin, np.zeros(self.total, bool))[what.first : what.end] = True

    def receives(self, origin: str, pieces: np.ndarray, heads: np.ndarray) -> None:
        """An origin receives these itself, a bit for each piece, run by run, each in order, and is at `heads` now; it
        receives no others."""
        self._coming[origin] = pieces, heads

    def lacks(self, origin: str, what: Range) -> None:
        """It has these pieces no more."""
        self._held[origin][what.first : what.end] = False

    def in_order(self, origin: str) -> None:
        """Nobody else fetches from it: the first run begins in front, and the others behind it."""
        self._next.setdefault(origin, 0)

    def forgets(self, origin: str) -> None:
        """It has nothing for us now: its connections are gone, and what it held must be told again."""
        for name in [name for name, one in self._connections.items() if one.origin == origin]:
            self.gone(name)
        self._held.pop(origin, None)
        self._coming.pop(origin, None)
        self._next.pop(origin, None)

    def begun_elsewhere(self, what: Range) -> None:
        """Another site has, or fetches, these pieces."""
        self._inside(what)
        part = self._copies[what.first : what.end]
        part += part < COPIES_MOST

    def has(self, what: Range) -> None:
        """This site has these pieces already: of an earlier run that broke off."""
        self._inside(what)
        self._left -= int(self._free[what.first : what.end].sum())
        self._free[what.first : what.end] = False

    def lost(self, what: Range) -> None:
        """This site had these pieces, and has them no more. Raises DealingError for pieces that are begun or free."""
        self._inside(what)
        begun = any(
            one.first < what.end and what.first < one.end for c in self._connections.values() for one in c.begun
        )
        if begun or self._free[what.first : what.end].any():
            raise DealingError(f"{what} was not had here", str(what.first))
        self._free[what.first : what.end] = True
        self._left += what.count

    def first(self, piece: int) -> bool:
        """Somebody here waits for this piece: a run begins with it soon. False: it is here, or begun. Raises
        DealingError as `free`."""
        if not self.free(piece):
            return False
        self._broken.add(piece)
        return True

    def free(self, piece: int) -> bool:
        """Whether this site neither has nor fetches it. Raises DealingError for a piece that there is not."""
        self._inside(Range(piece, 1))
        return bool(self._free[piece])

    def rate(self, name: str) -> float:
        """Pieces per second, as measured; 0: not known yet."""
        return self._connections[self._known(name, None)].rate

    def measured(self, name: str, rate: float) -> None:
        """Pieces per second, of late: for who measures it another way than by whole runs."""
        self._connections[self._known(name, None)].rate = rate

    def take(self, name: str, *, least_s: float = 0.0, at: int | None = None) -> Range | None:
        """What this connection fetches next; None: its origin has nothing for us now. First what broke off or
        is waited for, then the rarest, behind the last run of this origin where that is among them: whoever passes
        runs on likes them in order.
        `least_s`: so long a run should take, where half a second is too short; `at`: its first piece, one alone."""
        who = self._connections[self._known(name, None)]
        held = self._held[who.origin]
        coming, heads = self._coming.get(who.origin, (held, held))
        for some in (held, heads, coming):
            able = np.flatnonzero(self._free & some)
            if len(able):
                break
        else:
            return None
        if some is coming and some is not held:
            able = able[:1]  # it comes there after what is in front
        one = self._chosen(who, able, self._free & (held | coming), self._length(who, least_s), at)
        self._free[one.first : one.end] = False
        self._left -= one.count
        self._broken -= {one.first}
        if at is None:
            self._next[who.origin] = one.end
        who.begun.append(one)
        return one

    def _chosen(self, who: _Connection, able: np.ndarray, there: np.ndarray, most: int, at: int | None) -> Range:
        """`able`: where it may begin; `there`: what it may have, a bit for each piece."""
        if at is not None and able[np.searchsorted(able, at) % len(able)] == at:
            return Range(at, 1)
        broken = [piece for piece in self._broken if able[np.searchsorted(able, piece) % len(able)] == piece]
        if broken:
            return self._from(min(broken), there, most)
        copies = self._copies[able]
        rare = able[copies == copies.min()]
        like = there & (self._copies == copies.min())
        behind = self._next.get(who.origin, -1)
        start = int(np.searchsorted(rare, behind)) % len(rare)
        if rare[start] == behind:
            return self._from(behind, like, most)
        anywhere = self._random.randrange(len(rare))
        edges = np.flatnonzero(np.diff(rare) != 1) + 1  # where there is a gap before
        first = int(edges[np.searchsorted(edges, anywhere, "right") - 1]) if (edges <= anywhere).any() else 0
        return self._from(int(rare[anywhere - (anywhere - first) % most]), like, most)

    def _from(self, first: int, among: np.ndarray, most: int) -> Range:
        """As many neighbours as there are, so many at most. Where one broke off another begins."""
        end = first + 1
        while end < self.total and end - first < most and among[end] and end not in self._broken:
            end += 1
        return Range(first, end - first)

    def _length(self, who: _Connection, least_s: float) -> int:
        usual = max(1, round(who.rate * max(RUN_S, least_s))) if who.rate else self._run
        return max(1, min(usual, self._left // (2 * len(self._connections))))

    def fetched(self, name: str, done: Range, seconds: float) -> None:
        """A run is whole. Raises DealingError for one that was not begun."""
        who = self._connections[self._known(name, done)]
        who.begun.remove(done)
        if seconds > 0:
            now = done.count / seconds
            who.rate = now if not who.rate else who.rate + AVERAGE * (now - who.rate)

    def failed(self, name: str, missing: Range, got: int) -> None:
        """A run broke off after `got` pieces; the rest is anybody's again."""
        who = self._connections[self._known(name, missing)]
        if not 0 <= got <= missing.count:
            raise DealingError(f"{got} of {missing}", name)
        who.begun.remove(missing)
        self._free[missing.first + got : missing.end] = True
        self._left += missing.count - got
        if got < missing.count:
            self._broken.add(missing.first + got)

    def _known(self, name: str, begun: Range | None) -> str:
        if name not in self._connections:
            raise DealingError(f"{name} does not fetch", name)
        if begun is not None and begun not in self._connections[name].begun:
            raise DealingError(f"{name} did not begin {begun}", name)
        return name

    def _inside(self, what: Range) -> None:
        if what.end > self.total:
            raise DealingError(f"{what} of {self.total} pieces", str(what.first))
