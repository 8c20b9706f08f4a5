"""Work inside another network namespace, from a process that stays in its own."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from typing import TypeVar

from datacast.lab.errors import LabError

CLONE_NEWNET, CLONE_NEWNS = 0x40000000, 0x00020000
_libc = ctypes.CDLL(None, use_errno=True)
T = TypeVar("T")


def enter(namespace: str, kind: int = CLONE_NEWNET) -> None:
    """The thread that calls, or a process of one thread. Raises OSError."""
    with open(namespace) as file:
        if _libc.setns(file.fileno(), kind) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), namespace)


def inside(namespace: str, make: Callable[[], T]) -> T:
    """make() in a network namespace, named by its file (/proc/PID/ns/net, /run/netns/NAME): sockets made there stay
    there. Raises LabError when it cannot be entered, and what make() raises."""
    result: list[T] = []
    problem: list[BaseException] = []

    def run() -> None:
        try:
            try:
                enter(namespace)
            except OSError as error:
                text = f"cannot enter the network namespace {namespace}: {error.strerror}"
                raise LabError(text, what=namespace, remedy="run as root") from error
            result.append(make())
        except BaseException as error:
            problem.append(error)

    thread = threading.Thread(target=run)  # its namespace ends with it
    thread.start()
    thread.join()
    if problem:
        raise problem[0]
    return result[0]
