"""The scheduler of a group whose pieces are fetched while it runs: one Scheduler for each root, as one. Pure.

A root sends what it has fetched, over its own trees; so each has its own pool, which grows as blocks come in.
"""

from __future__ import annotations

from .schedule import Scheduler
from .tree_queue import Cut, Extent, Names, TreeQueue


class Collective:
    """What the rest of the master needs of a Scheduler. `parts`: by root, with empty pools."""

    def __init__(self, parts: dict[str, Scheduler]) -> None:
        self._parts = parts
        self._cutter: Scheduler | None = None
        self.home: dict[int, str] = {}
        """The root that sends a block; "": it did, and is gone."""
        self.homeless: set[int] = set()
        """Blocks that somebody may lack, and no root sends."""

    @property
    def trees(self) -> dict[int, TreeQueue]:
        return {number: queue for part in self._parts.values() for number, queue in part.trees.items()}

    @property
    def everyone(self) -> Names:
        return frozenset().union(*(part.everyone for part in self._parts.values()))

    def _of(self, tree: int) -> Scheduler | None:
        return next((part for part in self._parts.values() if tree in part.trees), None)

    def offer(self, block: int, root: str) -> None:
        """This root has a block, and sends it."""
        self.home[block] = root
        self.homeless.discard(block)
        if root in self._parts:  # not a lone host, which has nobody to send to
            self._parts[root].again(block)

    def rate(self, root: str) -> float:
        """Pieces/s of all its trees that may be used."""
        part = self._parts.get(root)
        return sum(q.rate for q in part.trees.values() if q.usable) if part else 0.0

    def left_s(self, root: str, now: float) -> float:
        """Seconds until it has sent what it was offered."""
        part, rate = self._parts[root], self.rate(root)
        left = part.pooled + sum(q.backlog(now) for q in part.trees.values())
        return left / rate if rate else float("inf") if left else 0.0

    def sent(self, tree: int, seq: int, now: float) -> None:
        if part := self._of(tree):
            part.sent(tree, seq, now)

    def status(self, tree: int, seq: int, rate: float | None, now: float, asked: float | None = None) -> None:
        if part := self._of(tree):
            part.status(tree, seq, rate, now, asked)

    def rest(self) -> list[tuple[int, int]]:
        """All pieces: another master asks the members what they have."""
        pieces = max((part.pieces for part in self._parts.values()), default=0)
        return [(0, pieces)] if pieces else []

    def assign(self, now: float) -> list[Extent]:
        return [extent for part in self._parts.values() for extent in part.assign(now)]

    def steal(self, now: float) -> Cut | None:
        for part in () if self._cutter else self._parts.values():
            if cut := part.steal(now):
                self._cutter = part
                return cut
        return None

    def release(self, tree: int, now: float) -> Cut | None:
        part = self._of(tree)
        cut = part.release(tree, now) if part and not self._cutter else None
        self._cutter = part if cut else self._cutter
        return cut

    @property
    def cutting(self) -> bool:
        return self._cutter is not None

    def cut_done(self, now: float) -> None:
        part, self._cutter = self._cutter, None
        if part is not None:
            part.cut_done(now)

    def lose(self, tree: int) -> None:
        if part := self._of(tree):
            part.lose(tree)

    def bound(self, tree: int, rate: float | None, now: float) -> None:
        if part := self._of(tree):
            part.bound(tree, rate, now)

    def slow_down(self, tree: int, rate: float | None) -> None:
        if part := self._of(tree):
            part.slow_down(tree, rate)

    def revive(self, tree: int, now: float) -> None:
        if part := self._of(tree):
            part.revive(tree, now)

    def gone(self, names: Names) -> None:
        for part in self._parts.values():
            part.gone(names)

    def come(self, names: Names) -> None:
        """Each root sends what it sends to the others, and what it has yet to get it will be offered."""
        for root, part in self._parts.items():
            part.come(names - {root}, [block for block, home in self.home.items() if home == root])

    def again(self, block: int, to: Names | None = None) -> bool:
        root = self.home.get(block)
        if root == "":
            self.homeless.add(block)
            return True
        return root in self._parts and self._parts[root].again(block, to)

    def drop(self, root: str) -> None:
        """It sends no more: what none of its trees had been given yet nobody has got."""
        self.home = {block: "" if home == root else home for block, home in self.home.items()}
        if part := self._parts.get(root):
            for queue in part.trees.values():
                queue.extents.clear()
            self.homeless |= part.drain()
