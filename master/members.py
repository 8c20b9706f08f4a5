"""The members of a group as the master sees them, and the numbered log of what they must be told in order."""

from __future__ import annotations

import json
import struct
import sys
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Figures = Mapping[str, int | float]


def counted(figures: Any) -> dict[str, int | float]:
    """What an agent counts of a tree, without what it says beside."""
    return {
        sys.intern(k): v
        for k, v in (figures.items() if isinstance(figures, dict) else ())
        if type(v) in (int, float) and 0 <= v < 1 << 63
    }


class Counts(Mapping[str, Figures]):
    """What a receiver's agent counts, by tree. There is one for each receiver of each group, so its numbers lie side by
    side, and the names of trees and of what is counted are shared with the group's others. Never changes."""

    __slots__ = "_names", "_trees", "_values"
    _names: dict[str, int]
    _trees: dict[str, int]
    _values: Sequence[int | float | None]

    def __init__(self, told: Any = None, like: Counts | None = None) -> None:
        """`told`: by tree, as it came. `like`: another of the group, whose names may be the same."""
        told = told if isinstance(told, dict) else {}
        if like is not None and (values := like._alike(told)) is not None:
            self._trees, self._names, self._values = like._trees, like._names, values
            return
        clean = {sys.intern(tree): counted(figures) for tree, figures in told.items()}
        names = dict.fromkeys(name for figures in clean.values() for name in figures)
        self._trees = {tree: at for at, tree in enumerate(clean)}
        self._names = {name: at for at, name in enumerate(names)}
        rows = [figures.get(name) for figures in clean.values() for name in names]
        self._values = (
            array("q", rows) if all(type(v) is int for v in rows) else tuple(rows)  # type: ignore[type-var]
        )

    def _alike(self, told: dict[str, Any]) -> Sequence[int] | None:
        """As nearly all are: the same trees, the same names, whole numbers. Thousands a second come of large groups."""
        names = list(self._names)
        if list(told) != list(self._trees):
            return None
        rows: list[int] = []
        try:
            for figures in told.values():
                if list(figures) != names:
                    return None
                rows += figures.values()
            values = array("q", rows)  # from a list: with no room to grow
        except (TypeError, AttributeError, OverflowError):
            return None
        return values if not values or min(values) >= 0 else None

    def of(self, tree: int | str, name: str) -> int | float | None:
        row, column = self._trees.get(str(tree)), self._names.get(name)
        return None if row is None or column is None else self._values[row * len(self._names) + column]

    @staticmethod
    def column(counts: Iterable[Counts], tree: int | str, name: str) -> list[int | float | None]:
        """`of` each of these: most have the same names."""
        key, found, names, at = str(tree), list[int | float | None](), None, None
        for one in counts:
            if one._names is not names:
                names, row, column = one._names, one._trees.get(key), one._names.get(name)
                at = None if row is None or column is None else row * len(names) + column
            found.append(None if at is None else one._values[at])
        return found

    def total(self, name: str) -> int:
        """Over all trees."""
        column = self._names.get(name)
        if column is None:
            return 0
        return sum(int(value or 0) for value in self._values[column :: len(self._names)])

    def __getitem__(self, tree: str) -> Figures:
        at, width = self._trees[tree], len(self._names)
        row = self._values[at * width : (at + 1) * width]
        return {name: value for name, value in zip(self._names, row, strict=True) if value is not None}

    def __iter__(self) -> Iterator[str]:
        return iter(self._trees)

    def __len__(self) -> int:
        return len(self._trees)


NOTHING = Counts()


@dataclass(slots=True)
class Member:
    """A source or receiver. `state`: waiting, open, running, done, failed, cancelled."""

    name: str
    role: str
    addr: str
    state: str = "waiting"
    error: dict[str, str] | None = None
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
    rate_bps: float = 0.0
    bad_blocks: int = 0
    blocks_ok: int = 0
    t_first_ns: int | None = None
    t_done_ns: int | None = None
    sha256_ok: bool | None = None
    sends: bool = False
    """Trees begin at it."""
    met: bool = False
    """It knows this master."""
    trees: Counts = field(default_factory=lambda: NOTHING)

    @property
    def final(self) -> bool:
        return self.state in ("done", "failed", "cancelled")

    @property
    def over(self) -> bool:
        """Nothing is to be told to it any more."""
        return self.final and not self.sends

    def seq(self, tree: int) -> int | None:
        """The next number of a tree that it will ask for; None: it has told nothing of it."""
        seq = self.trees.of(tree, "seq")
        return seq if isinstance(seq, int) else None

    def low(self, tree: int) -> int:
        """It lacks nothing below that number of a tree, as it has told."""
        low = self.trees.of(tree, "low")
        return low if isinstance(low, int) else 0

    def asked(self, tree: int) -> int:
        """By now it may have asked for every number of a tree below that: since it told, as many as it has credits."""
        return (self.seq(tree) or 0) + int(self.trees.of(tree, "credits") or 0)

    def fail(self, code: str, message: str) -> None:
        self.sends = False
        if not self.final:
            self.state, self.error = "failed", {"code": code, "message": message}

    def fraction(self, size: int | None) -> float:
        """Of the file that it holds."""
        if self.state == "done":
            return 1.0
        whole = self.whole(size)
        return min(1.0, self.bytes / whole) if whole else 0.0

    def whole(self, size: int | None) -> int | None:
        """What it is to have of a file of this size."""
        return size if self.wants is None else self.wants

    def to_json(self, size: int | None, first_ns: int | None, trees: bool, blocks: bool = True) -> dict[str, Any]:
        """Figures for a receiver; times count from the source's first data packet. `trees`: of each tree, too.
        `blocks`: which parts it has."""
        fraction = self.fraction(size)
        finish_s = (self.t_done_ns - first_ns) / 1e9 if self.t_done_ns and first_ns else None
        if finish_s is not None and finish_s < 0:  # it had it before the group was resumed
            finish_s = None
        size = self.whole(size)
        held = size if self.state == "done" and size is not None else self.bytes
        return {
            "state": "aside" if self.aside and not self.final else self.state,
            "error": self.error,
            "bytes": held,
            "fraction": fraction,
            "rate_bps": round(self.rate_bps) if not self.final else 0,
            "finish_s": finish_s,
            "goodput_mbps": size * 8 / finish_s / 1e6 if finish_s and finish_s > 0 and size is not None else None,
            "sha256_ok": self.sha256_ok,
            "unwritten": self.unwritten,
            "blocks": self.blocks if blocks else "",
            "blocks_ok": self.blocks_ok,
            "bad_blocks": self.bad_blocks,
            "duplicates": self.trees.total("duplicates"),
            "retransmissions": self.trees.total("retransmitted"),
            "interests": self.trees.total("interests"),
            "t_first_ns": self.t_first_ns,
            "t_done_ns": self.t_done_ns,
            "trees": dict(self.trees) if trees else {},
        }


DIGEST = struct.Struct("!I32s")
"""A block's number, and its digest."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What every member has to be told, in order: an `assign`, a `cut` or a `digest`. Who comes late is told all of it,
    so a group keeps every block's digest: packed, a tenth of what its objects take."""

    op: str
    packed: bytes

    @classmethod
    def of(cls, op: str, body: dict[str, Any]) -> Entry:
        if op == "digest":
            return cls(op, b"".join(DIGEST.pack(block, bytes.fromhex(digest)) for block, digest in body["blocks"]))
        return cls(op, json.dumps(body, separators=(",", ":")).encode())

    @property
    def body(self) -> dict[str, Any]:
        if self.op == "digest":
            return {"blocks": [[block, digest.hex()] for block, digest in DIGEST.iter_unpack(self.packed)]}
        body: dict[str, Any] = json.loads(self.packed)
        return body


class Log:
    """Entries in order. What a later `cut` takes back nobody is given any more: a member that comes late would wait for
    numbers that no root sends, and its tables would be full of them."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._given: dict[int, list[tuple[int, int]]] = defaultdict(list)
        """By tree: where its numbers end after an entry, and which one."""

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, index: int) -> Entry:
        return self._entries[index]

    def add(self, op: str, body: dict[str, Any]) -> None:
        for tree, seq, _, count in body["extents"] if op == "assign" else ():
            self._given[tree].append((seq + count, len(self._entries)))
        for tree, seq in body["trees"] if op == "cut" else ():
            self._take_back(tree, seq)
        self._entries.append(Entry.of(op, body))

    def _take_back(self, tree: int, upto: int) -> None:
        given, kept = self._given[tree], list[tuple[int, int]]()
        while given and given[-1][0] > upto:
            _, index = given.pop()
            rows = self._entries[index].body["extents"]
            # As many rows as before: a member may have taken the first of them.
            left = [[t, seq, first, max(0, min(n, upto - seq)) if t == tree else n] for t, seq, first, n in rows]
            self._entries[index] = Entry.of("assign", {"extents": left})
            if any(row[0] == tree and row[3] for row in left):
                kept.append((upto, index))
        given.extend(reversed(kept))
