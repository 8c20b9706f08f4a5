"""In the process that has loaded the services (services.py), and in those that it forks."""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import sys
from pathlib import Path

from datacast.lab.namespace import CLONE_NEWNS, enter
from datacast.lab.processes import in_child
from datacast.lab.services import MODULES, Order
from datacast.services.nursery import call

for module in (*MODULES.values(), "datacast.master.main"):  # the last one for workers, which fabric managers fork
    importlib.import_module(module)

_OWN = os.getpid()
_ARGUMENTS = slice(45, 49)
"""Where the kernel says, in /proc/PID/stat, that arguments and environment begin and end."""


def main(arguments: list[str]) -> None:
    """In a new process."""
    order = Order(**json.loads(arguments[0]))
    os.setsid()
    in_child()
    if os.getppid() != _OWN:
        sys.exit(1)  # it ended before this process was to be told
    _open(order.log)
    os.environ.clear()
    os.environ.update(order.environment)
    _show(order)
    if order.inside is not None:
        enter(f"/proc/{order.inside}/ns/net")
        enter(f"/proc/{order.inside}/ns/mnt", CLONE_NEWNS)
    os.chdir(order.folder)
    sys.argv = order.command
    name = Path(order.command[0]).name
    call(name)
    try:
        importlib.import_module(MODULES[name]).main(order.command[1:])
    finally:
        sys.stdout.flush()


def _open(log: str) -> None:
    nothing, out = os.open(os.devnull, os.O_RDONLY), os.open(log, os.O_WRONLY | os.O_APPEND)
    for number, file in enumerate((nothing, out, out)):
        os.dup2(file, number)
    os.close(nothing)
    os.close(out)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)


def _show(order: Order) -> None:
    """What others read of this process in /proc is memory of its own, as long as it was for the one that was forked."""
    begin, end, env_begin, env_end = (
        int(word) for word in Path("/proc/self/stat").read_text().rpartition(")")[2].split()[_ARGUMENTS]
    )
    ours_first = sorted(order.environment, key=lambda name: not name.startswith("DATACAST"))
    _write(begin, end, order.command)
    _write(env_begin, env_end, [f"{name}={order.environment[name]}" for name in ours_first])


def _write(begin: int, end: int, words: list[str]) -> None:
    text = b"".join(os.fsencode(word) + b"\0" for word in words)[: end - begin - 1]
    ctypes.memmove(begin, text.ljust(end - begin, b"\0"), end - begin)
