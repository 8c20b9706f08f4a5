"""Which blocks of the file receivers want, in a group in which not all want all of it. Pure.

A tree carries a block to those that ask for it, so ranges need no trees of their own: each receiver is told its blocks
and passes the others, and the scheduler keeps what waits for the same receivers together (schedule.py).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from datacast.services.ranges import Rows, blocks, union

Names = frozenset[str]


@dataclass(frozen=True)
class Shards:
    """`rows`: by receiver, (first, count) in blocks of `block` bytes; others want all. `size`: the file's."""

    rows: Mapping[str, Rows]
    size: int
    block: int

    @classmethod
    def of(cls, ranges: Mapping[str, Sequence[str]], size: int, block: int) -> Shards:
        """Raises RangeProblem."""
        return cls({name: blocks(texts, size, block) for name, texts in ranges.items()}, size, block)

    def bytes_of(self, name: str) -> int | None:
        """That it gets; None: all."""
        rows = self.rows.get(name)
        return None if rows is None else self._bytes(rows)

    def anybodys(self, receivers: Iterable[str]) -> Rows:
        """Blocks that at least one of these wants."""
        whole = -(-self.size // self.block)
        return union(row for name in receivers for row in self.rows.get(name, [(0, whole)]))

    def bytes_sent(self, receivers: Iterable[str]) -> int:
        """Once over the source's links."""
        return self._bytes(self.anybodys(receivers))

    def pieces(self, per_block: int) -> dict[str, Rows]:
        """As a scheduler counts."""
        return {name: [(a * per_block, n * per_block) for a, n in rows] for name, rows in self.rows.items()}

    def _bytes(self, rows: Rows) -> int:
        return sum(min(self.size, (first + count) * self.block) - first * self.block for first, count in rows)


class Wanted:
    """Which receivers want a piece: of those named in `wants` the ones with a run of pieces that holds it, and all that
    are not named."""

    def __init__(self, wants: Mapping[str, Sequence[tuple[int, int]]]) -> None:
        self._named = frozenset(wants)
        edges: dict[int, tuple[list[str], list[str]]] = {0: ([], [])}
        for name, rows in wants.items():
            for first, count in rows:
                edges.setdefault(first, ([], []))[0].append(name)
                edges.setdefault(first + count, ([], []))[1].append(name)
        self._edges = sorted(edges)
        self._sets: list[Names] = []
        """From an edge to the next one."""
        now: set[str] = set()
        for edge in self._edges:
            begins, ends = edges[edge]
            now = (now - set(ends)) | set(begins)
            self._sets.append(frozenset(now))

    def __bool__(self) -> bool:
        return bool(self._named)

    def split(self, names: Names, first: int, count: int) -> Iterator[tuple[Names, int, int]]:
        """Runs of pieces, each with those of `names` that want it; none that nobody wants."""
        if not self._named:
            if names and count:
                yield names, first, count
            return
        others, end = names - self._named, first + count
        at = bisect_right(self._edges, first) - 1
        while first < end:
            stop = min(end, self._edges[at + 1]) if at + 1 < len(self._edges) else end
            if found := others | (names & self._sets[at]):
                yield found, first, stop - first
            first, at = stop, at + 1
