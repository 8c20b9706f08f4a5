"""Processes that share what one of them has loaded.

A service in Python has some 50 MB of modules before it does anything, and its workers the same. A nursery is a process
that is forked when all of it is there, does nothing else, and forks one worker after another: they share its pages for
as long as nobody writes to them. It is let go when there are enough workers: what all others have written to since, it
alone would keep. For one more later a program is started that loads everything anew.

A worker is told by the end of its standard input that who asked for it has ended.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import gc
import importlib
import json
import logging
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from .priority import be_ordinary

ANSWER_S = 30.0
"""To fork takes some milliseconds, to load everything a second or, on a busy machine, several."""
CLOSE_S = 5.0
"""One that is to end and has not by then is killed."""
ARGUMENTS_MAX = 1 << 17
"""With an environment among them."""
FILES_MAX = 1 << 16
_PR_SET_NAME, _PR_SET_CHILD_SUBREAPER = 15, 36
Main = Callable[[list[str]], None]


@dataclass
class Child:
    """A worker. `process`: a pidfd; it can be read when the worker has ended. `stdin`: the other end of its standard
    input."""

    pid: int
    process: int
    stdin: int

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.process, signal.SIGKILL)

    def reap(self) -> None:
        """It has ended."""
        with contextlib.suppress(ChildProcessError):  # the nursery's
            os.waitpid(self.pid, os.WNOHANG)

    def close(self) -> None:
        """Nobody here asks for it any more."""
        os.close(self.process)
        os.close(self.stdin)


class Nursery:
    """Forks workers that run `main(arguments)` of a module. Make it early: what is loaded later is not shared."""

    def __init__(self, module: str, name: str, here: bool = True) -> None:
        """`name`: what processes are called in lists, at most 15 characters. `here`: it is forked from this process;
        otherwise a program from the first, which loads the module where this process has no use for it."""
        self._module, self._name = module, name
        self._program: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self.ended: dict[int, int] = {}
        """Those that were reaped as the last one was started, and their statuses, as of `os.wait`."""
        self.pid = 0
        if here:
            self._fork()

    def _fork(self) -> None:
        main: Main = importlib.import_module(self._module).main
        gc.collect()
        gc.freeze()  # a look at these objects would write to them
        here, there = _pair()
        self.pid = os.fork()
        if self.pid == 0:
            _alone(there, self._name)
            _serve(there, main)
        there.close()
        self._socket = here

    def load(self) -> None:
        """Where there is none, begin with one: a program, as this process has threads by now, and much that workers do
        not need. Raises OSError."""
        if self._socket is not None:
            return
        here, there = _pair()
        command = [sys.executable, "-m", "datacast.services.nursery", self._module, self._name]
        # Of its own session: Ctrl-C in a terminal is for who has asked.
        self._program = subprocess.Popen(command, stdin=there.fileno(), start_new_session=True)
        self.pid = self._program.pid
        there.close()
        self._socket = here

    def start(self, arguments: Sequence[str]) -> Child:
        """Raises OSError."""
        text = json.dumps(list(arguments)).encode()
        if len(text) > ARGUMENTS_MAX:
            raise OSError(errno.E2BIG, os.strerror(errno.E2BIG))
        for _ in range(2):
            self.load()
            assert self._socket
            try:
                self._socket.send(text)
                said, files, _, _ = socket.recv_fds(self._socket, ARGUMENTS_MAX, 2)
            except OSError:
                self.close()
                continue
            if len(files) == 2:
                pid, *ended = json.loads(said)
                self.ended = dict(ended)
                return Child(pid, *files)
            self.close()
        raise OSError("the process that starts workers does not answer")

    def close(self) -> None:
        """Enough workers: they live on."""
        if self._socket is None:
            return
        self._socket.close()  # it ends when it reads that
        self._socket = None
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            process = os.pidfd_open(self.pid)
            if not has_ended(process, CLOSE_S):  # it hangs: workers live on without it
                signal.pidfd_send_signal(process, signal.SIGKILL)
            os.close(process)
            if self._program is None:
                os.waitpid(self.pid, 0)
        if self._program is not None:
            self._program.wait()


def has_ended(process: int, seconds: float) -> bool:
    """Whether the process of a pidfd has ended, within so long. Not by select(), which takes no descriptor above 1023:
    a fabric manager has one for each of its agents."""
    poll = select.poll()
    poll.register(process, select.POLLIN)
    return bool(poll.poll(1000 * seconds))


def call(name: str) -> None:
    """This process, in lists."""
    ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode()[:15], 0, 0, 0)


def adopt() -> None:
    """Workers whose nursery is gone are this process's own children then."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _pair() -> tuple[socket.socket, socket.socket]:
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    here.settimeout(ANSWER_S)
    return here, there


def _alone(keep: socket.socket, name: str) -> None:
    """In the new process: nothing of the old one but its memory."""
    be_ordinary()
    at = keep.fileno()
    os.closerange(3, at)
    os.closerange(at + 1, FILES_MAX)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is its parent's
    logging.root.handlers.clear()
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(n, "r" if n == 0 else "w", closefd=False) for n in range(3))
    call(name)


def _serve(asked: socket.socket, main: Main) -> NoReturn:
    """Until nobody can ask any more."""
    code = 0
    try:
        while text := asked.recv(ARGUMENTS_MAX):
            _born(asked, main, json.loads(text), _reap())
    except OSError as error:
        print(f"workers cannot be started: {error}", file=sys.stderr, flush=True)
        code = 1
    finally:
        os._exit(code)


def _reap() -> list[tuple[int, int]]:
    """Those that have ended; not before they have a descriptor, by which who asked for them sees them end."""
    ended = []
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            ended.append(found)
    return ended


def _born(asked: socket.socket, main: Main, arguments: list[str], ended: list[tuple[int, int]]) -> None:
    """It begins when who asked knows of it: one that has waited too long has asked another nursery meanwhile."""
    stdin, its_end = os.pipe()
    waits, known = os.pipe()
    pid = os.fork()
    if pid == 0:
        asked.close()
        os.close(its_end)
        os.close(known)
        if not os.read(waits, 1):
            os._exit(1)
        os.close(waits)
        os.dup2(stdin, 0)
        os.close(stdin)
        _live(main, arguments)
    os.close(stdin)
    os.close(waits)
    process = os.pidfd_open(pid)
    socket.send_fds(asked, [json.dumps([pid, *ended]).encode()], [process, its_end])
    with contextlib.suppress(BrokenPipeError):  # it was killed: who asked sees it end
        os.write(known, b"1")
    for fd in (process, its_end, known):
        os.close(fd)


def _live(main: Main, arguments: list[str]) -> NoReturn:
    code: object = 1
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        # Not the standard output of who asked: who reads that must see its end when that one ends.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)
        main(arguments)
        code = 0
    except SystemExit as end:
        code = end.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        with contextlib.suppress(OSError):
            sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 0 if code is None else 1)


if __name__ == "__main__":
    be_ordinary()
    asked = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    run: Main = importlib.import_module(sys.argv[1]).main
    gc.freeze()
    _alone(asked, sys.argv[2])
    _serve(asked, run)
