"""Programs that tests need, made when they are not there. One `make` at a time: test processes run side by side."""

from __future__ import annotations

import fcntl
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def make(*targets: Path | str) -> subprocess.CompletedProcess[str]:
    """`make`, of files below the project's folder or of targets by name."""
    names = [str(target.relative_to(ROOT)) if isinstance(target, Path) else target for target in targets]
    (ROOT / "build").mkdir(exist_ok=True)
    with (ROOT / "build" / ".made.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        command = ["nice", "-n", "5", "make", "-s", "-C", str(ROOT), "-j2", *names]
        return subprocess.run(command, capture_output=True, text=True, check=False)


def made(*targets: Path | str) -> None:
    """They are there, or the test that needs them fails."""
    done = make(*targets)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
