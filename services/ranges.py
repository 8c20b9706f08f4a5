"""Parts of a file as people write them, and the blocks that hold them. Pure.

`FIRST-LAST` are bytes, both counted in, as in HTTP; `FIRST-` goes to the end; `K/N` is the K-th of N parts that are
equal to a block.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

PATTERN = r"^([0-9]{1,16}-([0-9]{1,16})?|[1-9][0-9]{0,4}/[1-9][0-9]{0,4})$"
Rows = list[tuple[int, int]]
"""First and count, ascending, with room between any two."""


class RangeProblem(ValueError):
    """A range that means none, or none of this file."""


def check(text: str) -> str:
    """The range as it is. Raises RangeProblem where it means none."""
    first, _, last = text.partition("-")
    part, _, parts = text.partition("/")
    if not re.fullmatch(PATTERN[1:-1], text) or (last and int(first) > int(last)) or (parts and int(part) > int(parts)):
        raise RangeProblem(f"{text!r} is no range: give FIRST-LAST in bytes, FIRST-, or K/N")
    return text


def blocks(texts: Iterable[str], size: int, block: int) -> Rows:
    """Blocks of `block` bytes, of a file of `size`, that hold these ranges. Raises RangeProblem: one begins behind the
    end."""
    total = -(-size // block)
    return union(_blocks(check(text), size, block, total) for text in texts)


def spans(texts: Iterable[str], size: int, unit: int) -> Rows:
    """Bytes that these ranges are, of a file of `size`; parts are equal to `unit` bytes. Raises RangeProblem."""
    total = -(-size // unit)
    return union(_bytes(check(text), size, unit, total) for text in texts)


def within(texts: Iterable[str], size: int, block: int) -> Rows:
    """Blocks that lie in these ranges, whole: of a host that has nothing but them. `K/N` is as `blocks` has it. Raises
    RangeProblem."""
    total = -(-size // block)
    return _whole([_bytes(check(text), size, block, total) for text in texts], size, block)


def _bytes(text: str, size: int, block: int, total: int) -> tuple[int, int]:
    """First and count."""
    at, count = _blocks(text, size, block, total)
    if "/" in text:
        return at * block, min(size, (at + count) * block) - at * block
    first, _, last = text.partition("-")
    return int(first), (min(size, int(last) + 1) if last else size) - int(first)


def _whole(rows: Iterable[tuple[int, int]], size: int, block: int) -> Rows:
    found: Rows = []
    for first, count in union(rows):
        begin, end = -(-first // block), first + count
        last = -(-size // block) if end == size else end // block
        found += [(begin, last - begin)] if last > begin else []
    return found


def _blocks(text: str, size: int, block: int, total: int) -> tuple[int, int]:
    part, _, parts = text.partition("/")
    if parts:
        begin, end = (int(part) - 1) * total // int(parts), int(part) * total // int(parts)
        return begin, end - begin
    first, _, last = text.partition("-")
    if int(first) >= size > 0:
        raise RangeProblem(f"{text} begins behind the end: the file has {size} bytes")
    end = min(size, int(last) + 1 if last else size)
    return int(first) // block, max(0, -(-end // block) - int(first) // block)


def union(rows: Iterable[tuple[int, int]]) -> Rows:
    """Each number once."""
    found: Rows = []
    for first, count in sorted(row for row in rows if row[1] > 0):
        if found and first <= sum(found[-1]):
            found[-1] = (found[-1][0], max(found[-1][1], first + count - found[-1][0]))
        else:
            found.append((first, count))
    return found
