"""Lists in sentences."""

from __future__ import annotations

from collections.abc import Iterable


def few(names: Iterable[object], most: int = 8, by: str = ", ") -> str:
    """The first of them, and how many more there are: a fabric has thousands, and a sentence is to be read."""
    found = [str(name) for name in names]
    more = len(found) - most
    return by.join(found[:most]) + (f" and {more} more" if more > 0 else "")
