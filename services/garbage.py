"""When Python looks through all objects whenever a quarter more have come, and what services read (reports, status of
thousands of members) comes and goes faster than that: a worker of five hundred groups spent 40 % of its time on it, up
to half a second at once. Here young objects are looked through as ever, more of them at a time, those that stayed once
more, and all only when the process has grown. What was there before (nursery.py) is never looked at: its pages are
other processes', too.

The C library keeps what is freed: after the start of many groups a fabric manager had 50 MB that nobody used, and 170
while it divided the links of a thousand. Large pieces (arrays of that, reports) are the system's again at once, the
rest is given back by a thread, which the loop does not wait for.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import os
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

YOUNG, OLDER, NEVER = 2_000, 2, 1 << 30
"""One look at the young takes less than a millisecond. At 20,000 it took 9 ms, at worst 18, about once a second in a
worker of two hundred groups: news of a link waited for it. What three of these looks found in use is looked through
once more (with six it took 10 ms): requests that were on their way then, with all that they brought, would wait for the
process to grow."""
LOOK_S = 0.1
"""Between looks at the young: Python counts what comes less what goes, and figures replace others. Once a second took 6
to 10 ms, at worst 33, four times a second up to 4."""
GROWN, GROWN_MIN = 1.4, 32 << 20
FREED_MIN, TRIM_S = 8 << 20, 20.0
"""So much more than after the last time there must be to look for what is free, or it was so long ago: a start leaves
more than a process that has grown no further would ever look for."""
LARGE, _M_MMAP_THRESHOLD = 256 << 10, -3
_PAGE = os.sysconf("SC_PAGE_SIZE")


def resident(statm: int | None = None) -> int:
    """Bytes of memory that this process has. `statm`: its own /proc/self/statm, open: to open it takes the longest."""
    told = Path("/proc/self/statm").read_bytes() if statm is None else os.pread(statm, 128, 0)
    return int(told.split()[1]) * _PAGE


async def beside(main: Coroutine[Any, Any, T]) -> T:
    """Runs `main`, and sees to this process's garbage meanwhile."""
    before = gc.get_threshold()
    gc.set_threshold(YOUNG, OLDER, NEVER)
    give_back_large()
    keeping = asyncio.create_task(_keep())
    try:
        return await main
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
        keeping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await keeping


def give_back_large() -> None:
    """The C library would take ever larger pieces for small ones, up to 32 MB, and keep them."""
    option = getattr(ctypes.CDLL(None), "mallopt", None)
    if option is not None:
        option(_M_MMAP_THRESHOLD, LARGE)


def give_back() -> None:
    """What the C library keeps and nobody uses goes back to the system; nothing happens where it cannot do that."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


async def _keep() -> None:
    with open("/proc/self/statm", "rb", buffering=0) as file:
        statm = file.fileno()
        after = trimmed = resident(statm)
        looked = time.monotonic()
        while True:
            await asyncio.sleep(LOOK_S)
            gc.collect(1 if gc.get_count()[1] > OLDER else 0)
            has = resident(statm)
            if has > max(after * GROWN, after + GROWN_MIN):
                gc.collect()
                after = has = resident(statm)
            if has > trimmed + FREED_MIN or time.monotonic() - looked > TRIM_S:
                await asyncio.to_thread(give_back)
                trimmed, looked = resident(statm), time.monotonic()
