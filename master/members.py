"""The members of a group as the master sees them, and the numbered log of what they must be told in order."""

from __future__ import annotations

import operator
import struct
import sys
from array import array
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from datacast.fabric_manager.api.reports import GroupFailure, ReceiverFigures, ReceiverState, Slowness

from .answers import Answer, TreeCounts
from .requests import Assign, Cut, Digest, Entry

COUNTED = ("seq", "low", "bytes", "credits", "data", "duplicates", "interests", "retransmitted", "srtt_us")
"""Of what a receiver counts of a tree: what is kept."""
_AT = {name: at for at, name in enumerate(COUNTED)}
_row = operator.attrgetter(*COUNTED)
UNKNOWN = -1
LEFT = "left"
"""Why a receiver is cancelled that the group goes on without."""


class Counts(Mapping[str, Mapping[str, int]]):
    """What a receiver's agent counts, by tree. There is one for each receiver of each group, so its numbers lie side by
    side, and the names of trees are shared with the group's others. Never changes."""

    __slots__ = "_trees", "_values"
    _trees: dict[str, int]
    _values: array[int]

    def __init__(self, told: Mapping[str, TreeCounts] | None = None, like: Counts | None = None) -> None:
        """`like`: another of the group, whose trees may be the same."""
        told = told or {}
        if like is not None and list(told) == list(like._trees):
            self._trees = like._trees
        else:
            self._trees = {sys.intern(tree): at for at, tree in enumerate(told)}
        rows: list[int] = []
        for counts in told.values():
            rows += _row(counts)
        self._values = array("q", rows)  # from a list: with no room to grow

    def of(self, tree: int | str, name: str) -> int | None:
        """None: it has not told."""
        row = self._trees.get(str(tree))
        value = UNKNOWN if row is None else self._values[row * len(COUNTED) + _AT[name]]
        return None if value == UNKNOWN else value

    @staticmethod
    def column(counts: Sequence[Counts], tree: int | str, name: str) -> list[int | None]:
        """`of` each of these: most have the same trees."""
        trees = counts[0]._trees if counts else {}
        row = trees.get(str(tree))
        if row is None or not all([one._trees is trees for one in counts]):
            return [one.of(tree, name) for one in counts]
        at = row * len(COUNTED) + _AT[name]
        values = [one._values[at] for one in counts]
        return [None if value == UNKNOWN else value for value in values] if UNKNOWN in values else [*values]

    def total(self, name: str) -> int:
        """Over all trees."""
        return sum(self._values[_AT[name] :: len(COUNTED)])

    def __getitem__(self, tree: str) -> Mapping[str, int]:
        at = self._trees[tree] * len(COUNTED)
        row = zip(COUNTED, self._values[at : at + len(COUNTED)], strict=True)
        return {name: value for name, value in row if value != UNKNOWN}

    def __iter__(self) -> Iterator[str]:
        return iter(self._trees)

    def __len__(self) -> int:
        return len(self._trees)


NOTHING = Counts()


@dataclass(slots=True)
class Member:
    """A source or receiver."""

    name: str
    role: str
    addr: str
    state: ReceiverState = "waiting"
    error: GroupFailure | None = None
    opened: bool = False
    position: int = 0
    """Entries of the log it has acknowledged, all of them without a gap."""
    suspect: bool = False
    """Did not answer: asked over a connection of its own, out of the common tree, until it answers again."""
    reopened: int = 0
    """How often in a row it had no idea of a tree: its `open` was under way as the tree was planned."""
    heard: float = 0.0
    aside: bool = False
    """Was away or behind for too long: it is served when the others are done."""
    away_since: float | None = None
    """Since when nothing is heard of it, or no link reaches it."""
    wants: int | None = None
    """Bytes of the file that it is to have; None: all."""
    bytes: int = 0
    unwritten: int = 0
    """Of these, not in its file yet: its disk is behind."""
    blocks: str = ""
    """Which parts it has, as its agent tells (docs/signalling.md)."""
    last_bytes: int = 0
    resuming: int | None = None
    """Blocks held from before that it has not told of yet; None: it has not been heard."""
    rate_bps: float = 0.0
    bad_blocks: int = 0
    blocks_ok: int = 0
    t_first_ns: int | None = None
    t_done_ns: int | None = None
    sha256_ok: bool | None = None
    sends: bool = False
    """Trees begin at it."""
    refused_for_now: Slowness | None = None
    """What its origin says, which it asks again."""
    met: bool = False
    """It knows this master."""
    trees: Counts = field(default_factory=lambda: NOTHING)

    @property
    def final(self) -> bool:
        return self.state in ("done", "failed", "cancelled")

    @property
    def left(self) -> bool:
        """It was asked for no more (Attendance.leave)."""
        return self.state == "cancelled" and self.error is not None and self.error.code == LEFT

    @property
    def over(self) -> bool:
        """Nothing is to be told to it any more."""
        return self.final and not self.sends

    def seq(self, tree: int) -> int | None:
        """The next number of a tree that it will ask for; None: it has told nothing of it."""
        return self.trees.of(tree, "seq")

    def low(self, tree: int) -> int:
        """It lacks nothing below that number of a tree, as it has told."""
        return self.trees.of(tree, "low") or 0

    def asked(self, tree: int) -> int:
        """By now it may have asked for every number of a tree below that: since it told, as many as it has credits."""
        return (self.seq(tree) or 0) + (self.trees.of(tree, "credits") or 0)

    def refused(self, answer: Answer) -> None:
        """It has refused an order, and says why."""
        self.fail(answer.code or "error", answer.why)

    def fail(self, code: str, message: str) -> None:
        self.sends = False
        if not self.final:
            self.state, self.error = "failed", GroupFailure.cut(code, message)

    def fraction(self, size: int | None) -> float:
        """Of the file that it holds."""
        if self.state == "done":
            return 1.0
        whole = self.whole(size)
        return min(1.0, self.bytes / whole) if whole else 0.0

    def whole(self, size: int | None) -> int | None:
        """What it is to have of a file of this size."""
        return size if self.wants is None else self.wants

    def figures(self, size: int | None, first_ns: int | None, trees: bool, blocks: bool = True) -> ReceiverFigures:
        """Of a receiver; times count from the source's first data packet. `trees`: of each tree, too.
        `blocks`: which parts it has."""
        fraction = self.fraction(size)
        finish_s = (self.t_done_ns - first_ns) / 1e9 if self.t_done_ns and first_ns else None
        if finish_s is not None and finish_s < 0:  # it had it before the group was resumed
            finish_s = None
        size = self.whole(size)
        held = size if self.state == "done" and size is not None else self.bytes
        return ReceiverFigures(
            state="aside" if self.aside and not self.final else self.state,
            error=self.error,
            bytes=held,
            fraction=fraction,
            rate_bps=round(self.rate_bps) if not self.final else 0,
            finish_s=finish_s,
            goodput_mbps=size * 8 / finish_s / 1e6 if finish_s and finish_s > 0 and size is not None else None,
            sha256_ok=self.sha256_ok,
            unwritten=self.unwritten,
            blocks=self.blocks if blocks else "",
            blocks_ok=self.blocks_ok,
            bad_blocks=self.bad_blocks,
            duplicates=self.trees.total("duplicates"),
            retransmissions=self.trees.total("retransmitted"),
            interests=self.trees.total("interests"),
            t_first_ns=self.t_first_ns,
            t_done_ns=self.t_done_ns,
            trees={tree: dict(self.trees[tree]) for tree in self.trees} if trees else None,
        )


DIGEST = struct.Struct("!I32s")
"""A block's number, and its digest."""


_assign, _cut = msgspec.json.Decoder(Assign), msgspec.json.Decoder(Cut)


def packed(entry: Entry) -> bytes:
    """Who comes late is told all of it, so a group keeps every block's digest: a tenth of what its objects take."""
    if isinstance(entry, Digest):
        return b"".join(DIGEST.pack(block, bytes.fromhex(digest)) for block, digest in entry.blocks)
    return msgspec.json.encode(entry)


def unpacked(form: type[Entry], text: bytes, n: int) -> Entry:
    if form is Digest:
        return Digest(tuple((block, digest.hex()) for block, digest in DIGEST.iter_unpack(text)), n)
    return _assign.decode(text) if form is Assign else _cut.decode(text)


class Log:
    """What every member has to be told, in order and numbered from 1. What a later `cut` takes back nobody is given any
    more: a member that comes late would wait for numbers that no root sends, and its tables would be full of them."""

    def __init__(self) -> None:
        self._entries: list[tuple[type[Entry], bytes]] = []
        self._given: dict[int, list[tuple[int, int]]] = defaultdict(list)
        """By tree: where its numbers end after an entry, and which one."""

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, index: int) -> Entry:
        return unpacked(*self._entries[index], index + 1)

    def add(self, entry: Entry) -> Entry:
        """Returns it with its number."""
        for tree, seq, _, count in entry.extents if isinstance(entry, Assign) else ():
            self._given[tree].append((seq + count, len(self._entries)))
        for tree, seq in entry.trees if isinstance(entry, Cut) else ():
            self._take_back(tree, seq)
        entry = msgspec.structs.replace(entry, n=len(self._entries) + 1)
        self._entries.append((type(entry), packed(entry)))
        return entry

    def _take_back(self, tree: int, upto: int) -> None:
        given, kept = self._given[tree], list[tuple[int, int]]()
        while given and given[-1][0] > upto:
            _, index = given.pop()
            rows = _assign.decode(self._entries[index][1]).extents
            # As many rows as before: a member may have taken the first of them.
            left = tuple([(t, seq, first, max(0, min(n, upto - seq)) if t == tree else n) for t, seq, first, n in rows])
            self._entries[index] = Assign, packed(Assign(left, index + 1))
            if any(row[0] == tree and row[3] for row in left):
                kept.append((upto, index))
        given.extend(reversed(kept))
