"""Runs of pieces: what is fetched, dealt out and stolen."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

PIECES_MAX, PIECE_LEAST = 1024, 256 << 10
"""Of an object that sites exchange: what each says to have is a bit for each piece."""

AT_SITE, A_FOLDER = "site:", "?folder"
"""How the URL of such an object begins; how it ends when it is the stream of a directory."""


def piece_bytes(size: int) -> int:
    """Of one piece of an object of this size; the same at every site."""
    return max(PIECE_LEAST, -(-size // PIECES_MAX))


@dataclass(frozen=True, order=True)
class Range:
    """Pieces first … first + count - 1; count above zero."""

    first: int
    count: int

    def __post_init__(self) -> None:
        if self.first < 0 or self.count <= 0:
            raise ValueError(f"a range of {self.count} pieces from {self.first}")

    @property
    def end(self) -> int:
        return self.first + self.count

    def split(self, count: int) -> tuple[Range, Range]:
        """The first `count` pieces and the rest; 0 < count < self.count."""
        return Range(self.first, count), Range(self.first + count, self.count - count)


def joined(ranges: Iterable[Range]) -> list[Range]:
    """In order, with neighbours made one. Raises ValueError where two overlap."""
    found: list[Range] = []
    for one in sorted(ranges):
        if found and one.first < found[-1].end:
            raise ValueError(f"{one} overlaps {found[-1]}")
        if found and one.first == found[-1].end:
            found[-1] = Range(found[-1].first, found[-1].count + one.count)
        else:
            found.append(one)
    return found


def pieces(ranges: Iterable[Range]) -> int:
    return sum(one.count for one in ranges)


def head(ranges: list[Range], count: int) -> tuple[list[Range], list[Range]]:
    """The first `count` pieces of a list of ranges, and the rest."""
    taken: list[Range] = []
    for at, one in enumerate(ranges):
        if count <= 0:
            return taken, ranges[at:]
        if one.count > count:
            first, rest = one.split(count)
            return [*taken, first], [rest, *ranges[at + 1 :]]
        taken.append(one)
        count -= one.count
    return taken, []


def common(ranges: list[Range], held: list[Range]) -> list[Range]:
    """What of `ranges` is in `held` too; `held` in order and joined. About log(held) a range, and its overlaps."""
    found = []
    for one in ranges:
        at = max(0, bisect_right(held, one.first, key=lambda h: h.first) - 1)
        while at < len(held) and held[at].first < one.end:
            first, end = max(one.first, held[at].first), min(one.end, held[at].end)
            if first < end:
                found.append(Range(first, end - first))
            at += 1
    return found


def without(ranges: list[Range], gone: Range) -> list[Range]:
    """`ranges` less `gone`."""
    left = []
    for one in ranges:
        if gone.end <= one.first or one.end <= gone.first:
            left.append(one)
            continue
        if one.first < gone.first:
            left.append(Range(one.first, gone.first - one.first))
        if gone.end < one.end:
            left.append(Range(gone.end, one.end - gone.end))
    return left


def added(held: list[Range], new: Range) -> None:
    """`new` into an ordered, joined list that does not have it; in place. Raises ValueError where it overlaps."""
    at = bisect_right(held, new.first, key=lambda h: h.first)
    if at and held[at - 1].end > new.first:
        raise ValueError(f"{new} overlaps {held[at - 1]}")
    if at < len(held) and held[at].first < new.end:
        raise ValueError(f"{new} overlaps {held[at]}")
    first, end = new.first, new.end
    if at < len(held) and held[at].first == end:
        end = held.pop(at).end
    if at and held[at - 1].end == first:
        first = held.pop(at := at - 1).first
    held.insert(at, Range(first, end - first))
