"""A group's record in this process, beside what the store has."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from .record import Record


@dataclass
class Held:
    """A record as the store has it, but for progress since."""

    record: Record
    revision: int
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    unsure: bool = False
    """A write was answered with an error: what the store has must be looked up."""
    accepted_ns: int = 0
    counted: frozenset[str] = frozenset()
    """Receivers that are in the totals."""
