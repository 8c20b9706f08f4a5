"""Bytes of one group that have come from other sites and that hosts here have not asked for yet, or a moment ago.

Read ahead, so that the way to another site is never idle while a host is told what it may ask for. What was given stays
until its room is needed: sites that ask for it then need no host here. What was not given stays until it is: thrown
away it has to come again, with hosts that are slower than the way here 1.4 times the file.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import deque
from dataclasses import dataclass

EACH = 256
"""Bytes that each piece of what came takes beside its own: of a site that trickles a piece is a single one."""


@dataclass
class _Chunk:
    data: bytes
    given: int = 0


class Store:
    """`limit`: bytes that it should hold at most; who puts asks `full` first."""

    def __init__(self, limit: int) -> None:
        self.limit, self.used = limit, 0
        self._starts: list[int] = []
        self._chunks: dict[int, _Chunk] = {}
        """By first byte."""
        self._given: deque[int] = deque()

    def put(self, at: int, data: bytes) -> None:
        """Bytes from `at` on; none of what is there already."""
        if not data or at in self._chunks:
            return
        self._chunks[at] = _Chunk(data)
        insort(self._starts, at)
        self.used += len(data)

    def get(self, at: int, last: int) -> bytes:
        """Some of the bytes from `at` to `last`; none that are not here. One byte alone is a question for the size."""
        found = self._find(at)
        if found is None:
            return b""
        start, chunk = found
        data = chunk.data[at - start : last + 1 - start]
        if last > at and chunk.given < len(chunk.data):
            chunk.given += len(data)
            if chunk.given >= len(chunk.data):
                self._given.append(start)
        return data

    def peek(self, at: int, last: int) -> bytes:
        """The same for another site: hosts here may still ask for it."""
        found = self._find(at)
        return b"" if found is None else found[1].data[at - found[0] : last + 1 - found[0]]

    def has(self, at: int) -> bool:
        return self._find(at) is not None

    def done(self, first: int, end: int) -> None:
        """Hosts here have these bytes: none of them will be asked for by one."""
        for start in self._starts[bisect_right(self._starts, first - 1) : bisect_right(self._starts, end - 1)]:
            chunk = self._chunks[start]
            if chunk.given < len(chunk.data) and start + len(chunk.data) <= end:
                chunk.given = len(chunk.data)
                self._given.append(start)

    def full(self) -> bool:
        """Whether nothing more should be put, after what was given was thrown away."""
        while self._is_full() and self._given:
            self._drop(self._given.popleft())
        return self._is_full()

    def _is_full(self) -> bool:
        return self.used + EACH * len(self._chunks) >= self.limit

    def _find(self, at: int) -> tuple[int, _Chunk] | None:
        index = bisect_right(self._starts, at) - 1
        if index < 0:
            return None
        start = self._starts[index]
        chunk = self._chunks[start]
        return (start, chunk) if at < start + len(chunk.data) else None

    def _drop(self, start: int) -> None:
        chunk = self._chunks.pop(start, None)
        if chunk is not None:
            self.used -= len(chunk.data)
            del self._starts[bisect_right(self._starts, start) - 1]
