"""A server that somebody else wrote, in a process of its own for as long as a test wants it."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self


class Served(ABC):
    """At ADDRESS:PORT; `start` says by `run` what it is. `enter`: a command that runs another one where the address is
    (`ip netns exec NAME`). `inside`: does the same for a function of this process."""

    def __init__(
        self,
        address: str,
        port: int,
        enter: tuple[str, ...] = (),
        inside: Callable[[Callable[[], Any]], Any] = lambda act: act(),
    ) -> None:
        self.address, self.port, self.enter, self.inside = address, port, enter, inside
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, command: list[str], log: Path, env: dict[str, str] | None = None) -> None:
        """Until it answers. `log`: what it says."""
        with log.open("ab") as said:
            self._process = subprocess.Popen([*self.enter, *command], env=env, stdout=said, stderr=said)
        end = time.monotonic() + 60
        while not self._answers():
            assert time.monotonic() < end and self._process.poll() is None, log.read_text()
            time.sleep(0.05)

    def _answers(self) -> bool:
        try:
            self.inside(lambda: socket.create_connection((self.address, self.port), 1).close())
        except OSError:
            return False
        return True

    @abstractmethod
    def start(self) -> None: ...

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(60)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()
