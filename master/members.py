"""The members of a group as the master sees them, and the numbered log of what they must be told in order."""

from __future__ import annotations

import json
import sys
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

KEYS_MAX = 64
_keys: dict[tuple[str, ...], tuple[str, ...]] = {}


class Numbers(Mapping[str, int | float]):
    """What an agent counts of a tree, without what it says beside. There is one for each tree of each receiver of each
    group, so the names are shared and the numbers lie side by side."""

    __slots__ = "_names", "_values"
    _names: tuple[str, ...]
    _values: Sequence[int | float]

    def __init__(self, figures: Any) -> None:
        # As nearly all are: names that were seen before, whole numbers. Thousands a second come of large groups.
        if isinstance(figures, dict) and (known := _keys.get(tuple(figures))):
            try:
                values = array("q", figures.values())
            except (TypeError, OverflowError):
                values = array("q", [-1])
            if min(values) >= 0:
                self._names, self._values = known, values
                return
        counts = {
            sys.intern(k): v
            for k, v in (figures.items() if isinstance(figures, dict) else ())
            if type(v) in (int, float) and 0 <= v < 1 << 63
        }
        names = tuple(counts)
        self._names = _keys.setdefault(names, names) if len(_keys) < KEYS_MAX else _keys.get(names, names)
        whole = all(type(v) is int for v in counts.values())
        self._values = array("q", counts.values()) if whole else tuple(counts.values())

    def __getitem__(self, name: str) -> int | float:
        try:
            return self._values[self._names.index(name)]
        except ValueError:
            raise KeyError(name) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


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
    trees: dict[str, Numbers] = field(default_factory=dict)

    @property
    def final(self) -> bool:
        return self.state in ("done", "failed", "cancelled")

    @property
    def over(self) -> bool:
        """Nothing is to be told to it any more."""
        return self.final and not self.sends

    def seq(self, tree: int) -> int | None:
        """The next number of a tree that it will ask for; None: it has told nothing of it."""
        told = self.trees.get(str(tree))
        seq = told.get("seq") if told else None
        return seq if isinstance(seq, int) else None

    def low(self, tree: int) -> int:
        """It lacks nothing below that number of a tree, as it has told."""
        told = self.trees.get(str(tree))
        low = told.get("low") if told else None
        return low if isinstance(low, int) else 0

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

        def total(key: str) -> int:
            return sum(int(t.get(key, 0)) for t in self.trees.values())

        fraction = self.fraction(size)
        finish_s = (self.t_done_ns - first_ns) / 1e9 if self.t_done_ns and first_ns else None
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
            "duplicates": total("duplicates"),
            "retransmissions": total("retransmitted"),
            "interests": total("interests"),
            "t_first_ns": self.t_first_ns,
            "t_done_ns": self.t_done_ns,
            "trees": {name: dict(told) for name, told in self.trees.items()} if trees else {},
        }


@dataclass(frozen=True, slots=True)
class Entry:
    """What every member has to be told, in order: an `assign`, a `cut` or a `digest`. Kept as text, a third of what its
    objects take: who comes late is told all of it, so a group keeps every block's digest."""

    op: str
    text: bytes

    @classmethod
    def of(cls, op: str, body: dict[str, Any]) -> Entry:
        return cls(op, json.dumps(body, separators=(",", ":")).encode())

    @property
    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(self.text)
        return body
