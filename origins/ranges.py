"""Runs of pieces: what is fetched, dealt out and stolen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


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
            return [*taken, first], [rest, *ranges[at + 1:]]
        taken.append(one)
        count -= one.count
    return taken, []
