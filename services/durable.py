"""A small file that is whole after a loss of power: the old one or the new one, and from the return on the new one."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

LOCK_S, LOOK_S = 10.0, 0.02
"""Whoever changes a file has it for some milliseconds."""


def write(path: Path, content: bytes, mode: int, *, replace: bool, sync: bool = True) -> None:
    """Without `replace` a file that exists is left alone: FileExistsError; what root replaces stays its owner's, a
    service's that reads it as a user of its own. Its folder is synced too: a name lasts from then on. `sync` False:
    for throw-away files. Raises OSError."""
    write_all([(path, content, mode)], replace=replace, sync=sync)


def write_all(files: list[tuple[Path, bytes, int]], *, replace: bool, sync: bool = True) -> None:
    """The same of files that belong together, of one folder: none takes its place before there was room for all."""
    parts = [path.with_name(f".{path.name}.{os.getpid()}.part") for path, _, _ in files]
    try:
        for part, (path, content, mode) in zip(parts, files, strict=True):
            _write_part(part, path, content, mode, sync)
        for part, (path, _, _) in zip(parts, files, strict=True):
            if replace:
                os.replace(part, path)
            else:
                os.link(part, path)  # unlike a rename it never takes the place of another file
                part.unlink()
        if sync:
            folder = os.open(files[0][0].parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
    finally:
        for part in parts:
            with contextlib.suppress(OSError):
                part.unlink()


def _write_part(part: Path, path: Path, content: bytes, mode: int, sync: bool) -> None:
    with contextlib.suppress(FileNotFoundError):
        part.unlink()
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    with open(fd, "wb") as out:
        if os.geteuid() == 0:
            with contextlib.suppress(FileNotFoundError):
                there = path.lstat()
                if stat.S_ISREG(there.st_mode):
                    os.fchown(fd, there.st_uid, there.st_gid)
        os.fchmod(fd, mode)
        out.write(content)
        out.flush()
        if sync:
            os.fsync(fd)


def stamp(path: str | os.PathLike[str]) -> tuple[int, ...] | None:
    """Another one where a file has changed, its owner and its rights too; None: there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ctime_ns, found.st_ino, found.st_size


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """One at a time of those who read a file, change it and write it again. Raises OSError, also when somebody else has
    had it for LOCK_S."""
    lock = path.with_name(f".{path.name}.lock")
    fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with open(fd, "w"):
        end = time.monotonic() + LOCK_S
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    text = f"another process changes it, and has {lock} for more than {LOCK_S:g} s"
                    raise TimeoutError(errno.ETIMEDOUT, text) from None
            time.sleep(LOOK_S)
        yield
