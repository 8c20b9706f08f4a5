"""Digests of blocks on their way from those who have read the file to the receivers."""

from __future__ import annotations

import re
from typing import Any

SHA256 = re.compile("[0-9a-fA-F]{64}")
TOLD_MAX = 2000
"""In one order."""


class Digests:
    """Every block's digest costs an order to all members, so they are collected for a while."""

    def __init__(self) -> None:
        self._rows: list[list[Any]] = []
        self._since = 0.0
        self._told = 0

    def __len__(self) -> int:
        return len(self._rows)

    def put(self, rows: list[list[Any]], now: float) -> None:
        self._since = self._since if self._rows else now
        self._rows += rows

    def due(self, now: float, delay_s: float, blocks: int) -> bool:
        """Have the first waited for long enough, or are these the last of `blocks`?"""
        last = self._told + len(self._rows) >= blocks
        return bool(self._rows) and (last or now - self._since >= delay_s or len(self._rows) >= TOLD_MAX)

    def take(self) -> list[list[Any]]:
        """Rows for the next order."""
        rows, self._rows = self._rows[:TOLD_MAX], self._rows[TOLD_MAX:]
        self._told += len(rows)
        return rows


def is_digest(row: Any, blocks: int) -> bool:
    """[block, sha256 in hex]"""
    if not isinstance(row, list) or len(row) != 2:
        return False
    block, digest = row
    return type(block) is int and 0 <= block < blocks and isinstance(digest, str) and bool(SHA256.fullmatch(digest))
