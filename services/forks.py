"""Processes that a nursery has forked, with what `subprocess.Popen` has of its own, their status too."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

from .nursery import Child, Nursery, has_ended

LOOK_S = 0.005


class Forked:
    """One. Its status is with its parent, the nursery, until that is asked for the next one, and tells it then."""

    def __init__(self, command: list[str], child: Child, asking: threading.Lock) -> None:
        self.args = command
        self.pid = child.pid
        self.returncode: int | None = None
        self._child = child
        self._asking = asking

    def poll(self) -> int | None:
        with self._asking:
            if self.returncode is None and has_ended(self._child.process, 0):
                self.ended(self._status())
            return self.returncode

    def _status(self) -> int:
        """Of a process that nobody has waited for."""
        try:
            return int(Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[49])
        except OSError:
            return int(signal.SIGKILL)  # its parent was killed, and it too, or nobody knows

    def ended(self, status: int) -> None:
        """As of `os.wait`."""
        self.returncode = os.waitstatus_to_exitcode(status)
        self._child.close()

    def wait(self, timeout: float | None = None) -> int:
        """Raises subprocess.TimeoutExpired."""
        end = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if end is not None and time.monotonic() >= end:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            time.sleep(LOOK_S)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._child.process, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Forks:
    """Starts them, from any thread."""

    def __init__(self, nursery: Nursery) -> None:
        self._nursery = nursery
        self._asking = threading.Lock()
        self._all: list[Forked] = []

    def load(self) -> None:
        """Begin to, and do not wait for it. Raises OSError."""
        with self._asking:
            self._nursery.load()

    def start(self, command: list[str], order: Any) -> Forked:
        """Its one argument is `order` as JSON. Raises OSError."""
        with self._asking:
            child = self._nursery.start([json.dumps(order)])
            for one in self._all:
                if one.returncode is None and one.pid in self._nursery.ended:
                    one.ended(self._nursery.ended[one.pid])
            forked = Forked(command, child, self._asking)
            self._all = [*(one for one in self._all if one.returncode is None), forked]
            return forked

    def close(self) -> None:
        """No more of them, until one is asked for again."""
        with self._asking:
            self._nursery.close()
