"""What a tree was given, how far its source is, and how many links that crossed (paper, section 4.2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

Names = frozenset[str]
PAST = 64
"""Extents of a tree that are remembered when the source has sent them."""
ALL: Names = frozenset({""})
"""The receivers of a group whose trees reach every one of them."""


@dataclass(frozen=True, slots=True)
class Extent:
    """Sequence numbers [seq, seq + count) of a tree carry the pieces from `first` on, for the receivers `to`."""

    tree: int
    seq: int
    first: int
    count: int
    to: Names = ALL


@dataclass(frozen=True)
class Cut:
    """Nothing from `seq` on comes over this tree."""

    tree: int
    seq: int


@dataclass(slots=True)
class TreeQueue:
    """A tree's assignments and how far the source is. Rates are pieces per second."""

    id: int
    rate: float
    end: int = 0
    """One past the last number that was not cut off."""
    next: int = 0
    """One past the last number ever given: where the next extent begins."""
    sent: int = 0
    sent_at: float = 0.0
    guess: float = 0.0
    """How far it was thought to be when its rate changed, at `sent_at`."""
    bound: float | None = None
    """It may send no faster: its share of links that other groups use, too."""
    extents: list[Extent] = field(default_factory=list)
    past: list[Extent] = field(default_factory=list)
    """The last PAST of those that were sent."""
    cut_at: int | None = None
    """Waiting for the source's count after a cut."""
    lost: bool = False
    """Its links are gone; gets nothing until it is revived."""
    assigned: int = 0
    """Pieces given to it in all, less those taken back."""
    reach: Names = ALL
    meant: Counter[Names] = field(default_factory=Counter)
    """Pieces that were sent, by the receivers that waited for them."""
    dry_at: float | None = None
    """Since when it waits, with nothing to send, for receivers that get the rest over other trees."""
    turned: tuple[float, float] = (0.0, 0.0)
    """Before its links were others than now: numbers sent, and the links that these had to cross in all."""

    @property
    def usable(self) -> bool:
        return not self.lost and self.cut_at is None

    def expected(self, now: float) -> float:
        """How far the source is by now, guessed from its last report and its rate. Gaps take no time."""
        left, at = self.rate * max(0.0, now - self.sent_at), max(float(self.sent), self.guess)
        for extent in self.extents:
            at = max(at, extent.seq)
            step = min(left, max(0.0, extent.seq + extent.count - at))
            at, left = at + step, left - step
            if left <= 0:
                break
        return at

    def backlog(self, now: float) -> float:
        at = self.expected(now)
        return sum(max(0.0, e.seq + e.count - max(at, e.seq)) for e in self.extents)

    def left_s(self, now: float) -> float:
        """Seconds until it has sent what it has."""
        return self.backlog(now) / self.rate if self.rate > 0 else (float("inf") if self.end > self.sent else 0.0)


def turn(arcs: Sequence[tuple[str, str]], queue: TreeQueue, now: float) -> None:
    """Call before a tree gets other links than `arcs`: what went over these counts with them."""
    sent, crossed = queue.turned
    upto = max(sent, queue.expected(now))
    queue.turned = upto, crossed + (upto - sent) * _links_of(arcs, queue)


def links_needed(arcs: Sequence[tuple[str, str]], queue: TreeQueue) -> float:
    """Links that a piece of this tree had to cross, on the average: to those who waited for it, over the links that the
    tree had when it was sent."""
    sent, crossed = queue.turned
    needed = _links_of(arcs, queue)
    if sent:
        upto = max(sent, float(queue.sent))
        needed = (crossed + (upto - sent) * needed) / upto
    return round(needed, 4)


def _links_of(arcs: Sequence[tuple[str, str]], queue: TreeQueue) -> float:
    total = queue.meant.total()
    if set(queue.meant) <= {ALL, queue.reach} or total <= 0:
        return float(len(arcs))
    parent = {child: above for above, child in arcs}
    crossed = 0
    for names, pieces in queue.meant.items():
        nodes: set[str] = set()
        for node in names:
            while node in parent and node not in nodes:
                nodes.add(node)
                node = parent[node]
        crossed += pieces * len(nodes)
    return crossed / total
