"""The lab's processes: started with a log file each, watched, ended in reverse order."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datacast.lab import services
from datacast.lab.errors import LabError
from datacast.lab.services import Order, is_here
from datacast.lab.signals import Signals
from datacast.services.forks import Forked
from datacast.services.priority import be_ordinary

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


NICE = -10
STARTED_S = 1.0
"""Real-time priority comes after the start: a program that loads would hold a processor longer than a link may rest."""
FRAMES = "frames "
"""So begin the names of an agent's threads that have its data path (host_agent/shard.c)."""
FILES = "files"
"""The name of its threads that read, hash and write (host_agent/worker.c)."""
KILLED_S = 10.0
"""A process that was killed is waited for so long."""
DATA_PATH, CONTROL, STORAGE = 4, 3, 2
"""Real-time priorities: switches and agents first, then fabric manager and controller, then agents' files; workers are
below all of them (docs/priorities.md)."""


def may_be_realtime() -> bool:
    """Whether the kernel lets this process start real-time ones."""
    pid = os.fork()
    if pid == 0:
        try:
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(DATA_PATH))
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1] == 0


def in_child() -> None:
    """Be told when the lab dies, also from kill -9. Go before ordinary processes, but load as one of them."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    be_ordinary()
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, NICE)
    # Where the kernel divides processors by session first (autogroup), a nice value counts inside its session only.
    with contextlib.suppress(OSError), open("/proc/self/autogroup", "w") as group:
        group.write(str(NICE))


def go_first(process: Process) -> None:
    """As on a machine of its own a woken daemon runs at once (SCHED_RR). The kernel keeps 5 % of each core for others.
    Where that is not allowed, a raised priority has to serve."""
    with contextlib.suppress(OSError):
        if process.running:
            for task in Path(f"/proc/{process.pid}/task").iterdir():
                if level := _level(process, task):
                    os.sched_setscheduler(int(task.name), os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(level))


def _level(process: Process, task: Path) -> int:
    """Of one of its threads; 0: as it is."""
    name = (task / "comm").read_text().rstrip("\n")
    if task.name == str(process.pid) or name.startswith(FRAMES):
        return DATA_PATH
    return STORAGE if name == FILES else 0


@dataclass
class Process:
    """One started process."""

    name: str
    popen: subprocess.Popen[bytes] | Forked
    log: Path
    expected: bool = False
    """Its end is no accident."""

    @property
    def pid(self) -> int:
        return self.popen.pid

    @property
    def running(self) -> bool:
        return self.popen.poll() is None

    def tail(self) -> str:
        with contextlib.suppress(OSError):
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-12:])
        return ""


class Supervisor:
    """Starts processes and keeps them in order. `spawn` is subprocess.Popen or a node's own, inside its namespace."""

    def __init__(self, logs: Path, environment: dict[str, str], signals: Signals) -> None:
        self.logs = logs
        self.environment = environment
        self.signals = signals
        self.processes: list[Process] = []
        self._later: list[threading.Timer] = []

    def start(
        self, name: str, command: list[str], spawn: Callable[..., Any] = subprocess.Popen, realtime: bool = False
    ) -> Process:
        """Raises LabError when the program is not there."""
        self.signals.check()
        log = self.logs / f"{name}.log"
        with open(log, "ab") as out:
            try:
                # A session of its own: Ctrl-C in the terminal reaches the lab only.
                popen = spawn(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **self.environment},
                    start_new_session=True,
                    preexec_fn=in_child,
                )
            except OSError as error:
                raise LabError(
                    f"cannot start {command[0]}: {error.strerror}", what=command[0], remedy="build it with `make build`"
                ) from error
        process = Process(name, popen, log)
        self.processes.append(process)
        if realtime:
            later = threading.Timer(STARTED_S, go_first, (process,))
            later.daemon = True
            later.start()
            self._later = [one for one in self._later if one.is_alive()] + [later]
        return process

    def service(self, name: str, command: list[str], inside: int | None = None) -> Process:
        """One of this project's own in Python. `inside`: a process whose network and mounts it is to have. Raises
        LabError when it is not there."""
        if not is_here(command[0]):
            return self.start(name, command if inside is None else ["mnexec", "-a", str(inside), *command])
        self.signals.check()
        log = self.logs / f"{name}.log"
        log.touch()
        environment = {**os.environ, **self.environment}
        try:
            forked = services.start(Order(command, str(log.absolute()), environment, os.getcwd(), inside))
        except OSError as error:
            raise LabError(f"cannot start {command[0]}: {error}", what=command[0]) from error
        process = Process(name, forked, log)
        self.processes.append(process)
        return process

    def check(self) -> None:
        """Raises LabError with the end of its log when a process ended by itself."""
        for process in self.processes:
            if not process.running and not process.expected:
                raise LabError(
                    f"{process.name} ended with {_status(process.popen.returncode or 0)}:\n{process.tail()}",
                    what=process.name,
                    where=str(process.log),
                )

    def wait(self, ready: Callable[[], bool], seconds: float, what: str) -> None:
        """Until ready() while all processes live."""

        def step() -> bool:
            self.check()
            return ready()

        self.signals.wait(step, seconds, what, remedy=f"its log is in {self.logs}")

    def wait_for_priorities(self, seconds: float) -> None:
        """Until all who are to go before others do. Where a lab is busy sooner, those who do already leave the others
        no processor, nor this process one to change that, and their links seem to fail."""
        self.wait(lambda: not any(one.is_alive() for one in self._later), seconds, "real-time priorities")

    def stop(self, chosen: list[Process] | None = None, grace_s: float = 3.0) -> None:
        """SIGTERM to all, newest first; SIGKILL to those left after `grace_s`. One that not even that ends, as its disk
        stands still, is left: who takes the lab down hears of it (lab.clean)."""
        chosen = [process for process in (self.processes if chosen is None else chosen) if process.running]
        for process in reversed(chosen):
            process.expected = True
            with contextlib.suppress(ProcessLookupError):
                process.popen.send_signal(signal.SIGTERM)
                process.popen.send_signal(signal.SIGCONT)
        for process in self._left(chosen, grace_s):
            process.popen.kill()
        self._left(chosen, KILLED_S)

    @staticmethod
    def _left(chosen: list[Process], seconds: float) -> list[Process]:
        """Those that have not ended within so long, all together."""
        end = time.monotonic() + seconds
        for process in reversed(chosen):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.popen.wait(max(0.0, end - time.monotonic()))
        return [process for process in reversed(chosen) if process.running]


def _status(code: int) -> str:
    if code >= 0:
        return f"status {code}"
    with contextlib.suppress(ValueError):
        return signal.Signals(-code).name
    return f"signal {-code}"
