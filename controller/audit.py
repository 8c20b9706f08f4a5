"""Who did what: a line of JSON for every request that changes something, written before it is answered."""

from __future__ import annotations

import errno
import json
import logging
import os
import time
from pathlib import Path

from datacast.core.errors import DatacastError

log = logging.getLogger("datacast.controller")


class AuditError(DatacastError):
    """The audit log cannot be written."""


class Audit:
    """Appends to `path` (mode 0600). An operator's logrotate moves it away: it is opened for every line."""

    def __init__(self, path: Path) -> None:
        """Raises AuditError."""
        self.path = path
        self.lost = 0
        """Lines that could not be written."""
        self._lost_now = 0
        """Of them since the last that was."""
        try:
            os.close(self._open())
        except OSError as error:
            raise AuditError(f"cannot write the audit log {path}: {error.strerror}", what=str(path)) from error

    def _open(self) -> int:
        return os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def write(self, who: str, token: str, client: str, method: str, path: str, status: int) -> None:
        """A line that cannot be written is counted, and costs nobody an answer: what it tells of has happened. The log
        says when that begins and when it ends; a disk that is full would fill the log too."""
        line = {
            "t_ns": time.time_ns(), "who": who, "token": token, "from": client, "method": method, "path": path[:512],
            "status": status,
        }  # fmt: skip
        try:
            self._append(json.dumps(line).encode() + b"\n")
        except OSError as error:
            self.lost += 1
            self._lost_now += 1
            if self._lost_now == 1:
                log.error("the audit log %s cannot be written: %s", self.path, error.strerror)
            return
        if self._lost_now:
            log.warning("the audit log %s is written again: %d lines are missing", self.path, self._lost_now)
            self._lost_now = 0

    def _append(self, line: bytes) -> None:
        """All of it or nothing: half a line would spoil the next one."""
        fd = self._open()
        try:
            end = os.fstat(fd).st_size
            written = os.write(fd, line)
            if written < len(line):
                os.ftruncate(fd, end)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finally:
            os.close(fd)
