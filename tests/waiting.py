"""Waiting for conditions in tests without an event loop (services_kit/small.py has the one for loops)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_for(what: str, probe: Callable[[], T], seconds: float = 60.0) -> T:
    """probe() as soon as it is true; fails with the last value when that does not happen."""
    deadline = time.monotonic() + seconds
    while not (value := probe()):
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s (last: {value!r})"
        time.sleep(0.005)
    return value
