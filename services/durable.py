"""A small file that is whole after a loss of power: the old one or the new one, and from the return on the new one."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path


def write(path: Path, content: bytes, mode: int, *, replace: bool, sync: bool = True) -> None:
    """Without `replace` a file that exists is left alone: FileExistsError; what root replaces stays its owner's, a
    service's that reads it as a user of its own. Its folder is synced too: a name lasts from then on. `sync` False:
    for throw-away files. Raises OSError."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
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
        if replace:
            os.replace(part, path)
        else:
            os.link(part, path)  # unlike a rename it never takes the place of another file
            part.unlink()
        if sync:
            folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
    finally:
        with contextlib.suppress(OSError):
            part.unlink()
