"""What processes have of the memory, in MB."""

from __future__ import annotations

import re
from pathlib import Path


def status_mb(what: str, pid: int | str = "self") -> float:
    """`RSS` now, `HWM` the most it ever had; what it shares counted whole."""
    return _field(Path(f"/proc/{pid}/status"), f"Vm{what}")


def pss_mb(pid: int) -> float:
    """What it shares divided among those who do."""
    return _field(Path(f"/proc/{pid}/smaps_rollup"), "Pss")


def _field(file: Path, name: str) -> float:
    return int(re.search(rf"^{name}:\s+(\d+)", file.read_text(), re.M)[1]) / 1024  # type: ignore[index]
