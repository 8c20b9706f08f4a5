"""Signals that wait for a safe moment.

An exception out of a signal handler can strike between the start of a process and the note of its id. Here a handler
only notes the signal; the lab asks `check()` between its steps, and every wait is cut into short ones.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from collections.abc import Callable
from types import FrameType

from datacast.lab.errors import Interrupted, LabError

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
POLL_S = 0.02


class Signals:
    """`with Signals() as signals:` from before the first process is started until the last one is gone.

    last: the program ends after the block, so later signals are ignored instead of hitting its last breath.
    """

    def __init__(self, last: bool = False) -> None:
        self.last = last
        self.pending: int | None = None
        self.cleaning = False
        self._old: dict[int, object] = {}

    def __enter__(self) -> Signals:
        for signum in STOPPING:
            if signum == signal.SIGHUP and signal.getsignal(signum) is signal.SIG_IGN:
                continue  # nohup: it goes on when its terminal is closed
            self._old[signum] = signal.signal(signum, self._note)
        return self

    def __exit__(self, *exc: object) -> None:
        for signum, handler in self._old.items():
            signal.signal(signum, signal.SIG_IGN if self.last else handler)  # type: ignore[arg-type]

    def _note(self, signum: int, frame: FrameType | None) -> None:
        if self.cleaning:
            with contextlib.suppress(OSError, RuntimeError):
                print("the lab is being taken down, a moment", file=sys.stderr)
        if self.pending is None:
            self.pending = signum

    def check(self) -> None:
        """Raises Interrupted when a signal has come and the clean-up has not begun yet."""
        if self.pending is not None and not self.cleaning:
            raise Interrupted(self.pending)

    def sleep(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while True:
            self.check()
            left = end - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(POLL_S, left))

    def wait(self, ready: Callable[[], bool], seconds: float, what: str, remedy: str = "") -> None:
        """Until `ready()`. Raises LabError naming `what` when the time is over."""
        end = time.monotonic() + seconds
        while not ready():
            if time.monotonic() > end:
                raise LabError(f"{what}: not within {seconds:g} s", what=what, remedy=remedy)
            self.check()
            time.sleep(POLL_S)
        self.check()
