"""Who did what: a line of JSON for every request that changes something, written before it is answered."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from datacast.core.errors import DatacastError


class AuditError(DatacastError):
    """The audit log cannot be written."""


class Audit:
    """Appends to `path` (mode 0600). An operator's logrotate moves it away: it is opened for every line."""

    def __init__(self, path: Path) -> None:
        """Raises AuditError."""
        self.path = path
        try:
            os.close(self._open())
        except OSError as error:
            raise AuditError(f"cannot write the audit log {path}: {error.strerror}", what=str(path)) from error

    def _open(self) -> int:
        return os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def write(self, who: str, token: str, client: str, method: str, path: str, status: int) -> None:
        """Raises OSError."""
        line = {
            "t_ns": time.time_ns(), "who": who, "token": token, "from": client, "method": method, "path": path[:512],
            "status": status,
        }  # fmt: skip
        fd = self._open()
        try:
            os.write(fd, json.dumps(line).encode() + b"\n")
        finally:
            os.close(fd)
