"""Figures want the machine for themselves: one bench of this folder at a time, and none beside `make figures`."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

LOCK = Path(__file__).parents[2] / "build" / "figures.lock"


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Waits for the others of this checkout."""
    LOCK.parent.mkdir(exist_ok=True)
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
