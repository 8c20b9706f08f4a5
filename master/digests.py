"""Digests of blocks on their way from those who have read the file to the receivers."""

from __future__ import annotations

import re

HEX = re.compile("[0-9a-fA-F]{64}")
Row = tuple[int, str]
"""A block, and its digest in hex."""
TOLD_MAX = 2000
"""In one order."""


class Digests:
    """Every block's digest costs an order to all members, so they are collected for a while."""

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self._since = 0.0
        self._told = 0
        self.patient = False
        """The next look takes them along."""

    def __len__(self) -> int:
        return len(self._rows)

    def put(self, rows: list[Row], now: float) -> None:
        self._since = self._since if self._rows else now
        self._rows += rows

    def urgent(self, blocks: int) -> bool:
        """Are these the last of `blocks`, or as many as an order holds?"""
        return self._told + len(self._rows) >= blocks or len(self._rows) >= TOLD_MAX

    def due(self, now: float, delay_s: float, blocks: int) -> bool:
        """Have the first waited for long enough, or are they `urgent`?"""
        return bool(self._rows) and (self.urgent(blocks) or now - self._since >= delay_s)

    def take(self) -> list[Row]:
        """Rows for the next order."""
        rows, self._rows = self._rows[:TOLD_MAX], self._rows[TOLD_MAX:]
        self._told += len(rows)
        return rows


def of_blocks(rows: list[Row], blocks: int) -> list[Row]:
    """Those that are a digest, and of one of so many blocks."""
    return [row for row in rows if row[0] < blocks and HEX.fullmatch(row[1])]
