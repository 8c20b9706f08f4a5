"""Where the hosts' files lie: in memory while they are small beside it, else on disk.

Tried once and left: a tmpfs of huge pages. A profile showed twice the time in writes, spent on clearing whole pages.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from datacast.lab.errors import LabError

MEMORY = Path("/dev/shm")
SPARE = 256 << 20
"""Room beside the copies: logs, the database, small files of further transfers."""


def in_memory(total: int) -> bool:
    """Whether copies of `total` bytes take at most a quarter of the memory that is free, and fit /dev/shm."""
    with open("/proc/meminfo") as lines:
        available = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable")) * 1024
    return total + SPARE <= min(available // 4, shutil.disk_usage(MEMORY).free)


def choose(total: int, wanted: str | None = None) -> Path:
    """The folder given, /dev/shm, $TMPDIR, or /var/tmp. Raises LabError when it is not there or has not the room."""
    if not wanted and MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and in_memory(total):
        return MEMORY
    disk = Path(wanted or os.environ.get("TMPDIR", "/var/tmp"))
    if not disk.is_dir():
        raise LabError(f"{disk} is no folder", what=str(disk), remedy="make it, or give another --work")
    free = shutil.disk_usage(disk).free
    if total + SPARE > free:
        raise LabError(
            f"{disk} has {free >> 20} MiB free, the copies take {total >> 20} MiB",
            what=str(disk),
            remedy="use a smaller --size or fewer receivers, or give a larger file system with --work",
        )
    return disk
