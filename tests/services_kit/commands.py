"""`datacast` commands and services that are to end by themselves, each a process of its own, forked from one that has
loaded them.

To load one takes a third to three quarters of a second of a processor, and the tests call hundreds. Whoever talks with
one while it runs starts the program.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import tempfile
import threading
from functools import cache
from pathlib import Path
from subprocess import TimeoutExpired

from datacast.cli.main import COMMANDS
from datacast.services.forks import Forks
from datacast.services.nursery import Nursery

PATIENCE_S = 200.0
_first = threading.Lock()


@cache
def _forks(module: str) -> Forks:
    for name in COMMANDS if module == "cli" else (f"datacast.{module}.main",):
        importlib.import_module(name)
    return Forks(Nursery(__name__, f"test-{module}"))


def _loaded(module: str) -> Forks:
    with _first:
        return _forks(module)


def command(*words: object, environment: dict[str, str] | None = None, module: str = "cli") -> tuple[int, str, str]:
    """Exit code, standard output, standard error. `environment`: all of it. `module`: of datacast, what has `main`."""
    with tempfile.TemporaryDirectory() as folder:
        files = [f"{folder}/out", f"{folder}/err"]
        own = os.environ.copy() if environment is None else environment
        order = [module, files, [*map(str, words)], own, os.getcwd()]
        try:
            forked = _loaded(module).start([module], order)
        except OSError:  # it stood still for too long, or was killed: those that come after need another one
            _forks.cache_clear()
            forked = _loaded(module).start([module], order)
        try:
            code = forked.wait(PATIENCE_S)
        except TimeoutExpired:
            forked.kill()
            forked.wait(60)
            raise
        out, err = (Path(file).read_text() for file in files)
    assert "Traceback" not in err, err
    return code, out, err


def main(arguments: list[str]) -> None:
    """In the new process."""
    module, files, words, environment, folder = json.loads(arguments[0])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, file in enumerate([os.devnull, *files]):
        opened = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = [module, *words]
    try:
        importlib.import_module(f"datacast.{module}.main").main(words)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
