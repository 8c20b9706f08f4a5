"""A file of which each source has some: who sends which blocks. Pure.

Blocks that one source alone has are its own from the beginning. What several have waits for whoever of them has little
left to do, so that none has to steal it back: a source that is fast, or has little of its own, sends more of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from datacast.services.ranges import Rows, union

from .shards import Wanted

Names = frozenset[str]


class Holdings:
    """`held`: by source, runs (first, count) of the file's `total` blocks."""

    def __init__(self, total: int, held: Mapping[str, Sequence[tuple[int, int]]]) -> None:
        self.total = total
        self._held, self._there = Wanted(held), frozenset(held)
        self._pools: dict[Names, deque[tuple[int, int]]] = {}
        self._wait([(0, total)] if total else [])

    def _wait(self, rows: Iterable[tuple[int, int]]) -> int:
        """Returns how many of these blocks somebody has."""
        found = 0
        for row in rows:
            for names, first, count in self._held.split(self._there, *row):
                self._pools.setdefault(names, deque()).append((first, count))
                found += count
        return found

    def has(self, block: int, name: str) -> bool:
        return name in self.holders(block)

    def holders(self, block: int) -> Names:
        """Of those that are there."""
        return next((names for names, _, _ in self._held.split(self._there, block, 1)), frozenset())

    def lacking(self, rows: Iterable[tuple[int, int]]) -> Rows:
        """Blocks of these that nobody has who is there."""
        found: Rows = []
        for first, count in rows:
            at = first
            for _, begin, n in self._held.split(self._there, first, count):
                found += [(at, begin - at)] if begin > at else []
                at = begin + n
            found += [(at, first + count - at)] if at < first + count else []
        return union(found)

    def left(self, name: str) -> int:
        """Blocks that wait, and that it has."""
        return sum(n for names, pool in self._pools.items() if name in names for _, n in pool)

    def sole(self, name: str) -> int:
        """Of these, those that nobody else has."""
        return sum(n for _, n in self._pools.get(frozenset({name}), ()))

    def take(self, name: str, most: int, rates: Mapping[str, float]) -> tuple[int, int] | None:
        """The next run for this source, of `most` blocks at most: of what fewest have, and of that where those who have
        it would need longest. `rates`: blocks/s of each."""
        able = [names for names in self._pools if name in names]
        if not able:
            return None

        def need_s(names: Names) -> float:
            return sum(n for _, n in self._pools[names]) / (sum(rates.get(one, 0.0) for one in names) or 1e-9)

        names = min(able, key=lambda names: (len(names), -need_s(names), sorted(names)))
        pool = self._pools[names]
        first, count = pool[0]
        taken = min(count, max(1, most))
        if taken < count:
            pool[0] = (first + taken, count - taken)
        else:
            pool.popleft()
        if not pool:
            del self._pools[names]
        return first, taken

    def again(self, blocks: Iterable[int]) -> Rows:
        """These are to be sent again. Returns those that nobody has any more: they wait for nobody."""
        rows = union((block, 1) for block in blocks)
        self._wait(rows)
        return self.lacking(rows)

    def gone(self, name: str) -> Rows:
        """It sends no more. Returns what waits, and nobody else has."""
        self._there -= {name}
        pools, self._pools = self._pools, {}
        rows = union(row for pool in pools.values() for row in pool)
        self._wait(rows)
        return self.lacking(rows)
