"""Makes a process slow: less of the processor, a slower disk. Control groups do it, of the first or second version."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path

from datacast.lab.errors import LabError

ROOT = Path("/sys/fs/cgroup")
PERIOD_US = 100_000
SPARE = 8 << 20
"""Bytes of a disk that are the file system's own."""


def make_disk(image: Path, folder: Path, size: int) -> None:
    """A file system of its own in a file, every write of which waits until it is done: a page cache knows no limits.
    Raises LabError."""
    with open(image, "wb") as file:
        file.truncate(size + SPARE)
    for command in (
        ["mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", "-E", "lazy_itable_init=1", str(image)],
        ["mount", "-o", "loop,sync", str(image), str(folder)],
    ):
        done = subprocess.run(command, capture_output=True, text=True, start_new_session=True)
        if done.returncode:
            raise LabError(
                f"no disk of its own for {folder.name}: {done.stderr.strip()}",
                what=folder.name,
                remedy="this needs mkfs.ext4, a free loop device and the right to mount (CAP_SYS_ADMIN)",
            )


class Limits:
    """Of one process, in a control group (one per controller in version 1) called `name`. Raises LabError."""

    def __init__(self, name: str, pid: int) -> None:
        self.name, self.pid = name, pid
        self.folders: list[Path] = []

    def cpu(self, share: float) -> None:
        """So much of one processor. A real-time process is one no longer: these know no shares."""
        for tid in os.listdir(f"/proc/{self.pid}/task"):
            with contextlib.suppress(OSError):
                os.sched_setscheduler(int(tid), os.SCHED_OTHER, os.sched_param(0))
        folder, second = self._group("cpu")
        if second:
            self._write(folder / "cpu.max", f"{round(share * PERIOD_US)} {PERIOD_US}")
        else:
            self._write(folder / "cpu.cfs_period_us", str(PERIOD_US))
            self._write(folder / "cpu.cfs_quota_us", str(max(1000, round(share * PERIOD_US))))
        self._write(folder / "cgroup.procs", str(self.pid))

    def disk(self, folder: Path, bps: int) -> None:
        """Bytes per second that it writes to the device under `folder`, which make_disk made."""
        device = os.stat(folder).st_dev
        number = f"{os.major(device)}:{os.minor(device)}"
        group, second = self._group("io" if self._second() else "blkio")
        if second:
            self._write(group / "io.max", f"{number} wbps={bps}")
        else:
            self._write(group / "blkio.throttle.write_bps_device", f"{number} {bps}")
        self._write(group / "cgroup.procs", str(self.pid))

    def lift(self) -> None:
        """The process is as free as it was."""
        for folder in self.folders:
            with contextlib.suppress(LabError):
                self._write(folder.parent / "cgroup.procs", str(self.pid))
            with contextlib.suppress(OSError):
                folder.rmdir()

    @staticmethod
    def _second() -> bool:
        return (ROOT / "cgroup.controllers").exists()

    def _group(self, controller: str) -> tuple[Path, bool]:
        second = self._second()
        if second:
            with contextlib.suppress(LabError):  # it may be handed on already
                self._write(ROOT / "cgroup.subtree_control", f"+{controller}")
        parent = ROOT if second else ROOT / controller
        folder = parent / self.name
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise LabError(
                f"no control group {folder}: {error.strerror}",
                what=controller,
                remedy=f"this needs the {controller} controller under {ROOT} and the right to use it",
            ) from error
        if folder not in self.folders:
            self.folders.append(folder)
        return folder, second

    @staticmethod
    def _write(path: Path, text: str) -> None:
        try:
            path.write_text(text)
        except OSError as error:
            raise LabError(f"{path} does not take {text!r}: {error.strerror}", what=str(path)) from error
