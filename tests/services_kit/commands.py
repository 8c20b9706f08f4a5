"""`datacast` commands, services that are to end by themselves and runs in simulated time, each a process of its own,
forked from one that has loaded them.

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
from unittest import mock

from datacast.cli.main import COMMANDS
from datacast.services.forks import Forks
from datacast.services.nursery import Nursery

PATIENCE_S = 200.0
KIT = Path(__file__).parent
ALIKE = {"PYTHONHASHSEED": "0", "PYTHONPATH": f"{KIT.parent}:{KIT}"}
"""A simulation's sets are in the same order every time."""
_first = threading.Lock()


@cache
def _forks(module: str) -> Forks:
    if module == "clockwork":  # a program: what has run here would be seen there
        forks = Forks(Nursery("clockwork.loaded", "test-clockwork", here=False))
        with mock.patch.dict(os.environ, ALIKE):
            forks.load()
        return forks
    for name in COMMANDS if module == "cli" else (f"datacast.{module}.main",):
        importlib.import_module(name)
    return Forks(Nursery(__name__, f"test-{module}"))


def _loaded(module: str) -> Forks:
    with _first:
        return _forks(module)


def command(
    *words: object, environment: dict[str, str] | None = None, module: str = "cli", patience_s: float = PATIENCE_S
) -> tuple[int, str, str]:
    """Exit code, standard output, standard error. `environment`: all of it. `module`: of datacast, what has `main`;
    `clockwork`: a module there that has it is the first word."""
    with tempfile.TemporaryDirectory() as folder:
        files = [f"{folder}/out", f"{folder}/err"]
        own = os.environ | (ALIKE if module == "clockwork" else {}) if environment is None else environment
        order = [module, files, [*map(str, words)], own, os.getcwd()]
        try:
            forked = _loaded(module).start([module], order)
        except OSError:  # it stood still for too long, or was killed: those that come after need another one
            _forks.cache_clear()
            forked = _loaded(module).start([module], order)
        try:
            code = forked.wait(patience_s)
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
        if module == "clockwork":
            sys.exit(importlib.import_module(f"clockwork.{words[0]}").main(words[1:]))
        importlib.import_module(f"datacast.{module}.main").main(words)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
