"""How the Python services begin and end: one form of log line, one form of error, one set of exit statuses."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import logging
import sys
from collections.abc import Coroutine
from typing import Any

from datacast.core.errors import DatacastError, UsageError
from datacast.core.visible import visible

from . import eventloop, garbage, version


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        print(f"{parser.prog} {version.installed()}")
        parser.exit()


def add_options(parser: argparse.ArgumentParser) -> None:
    """What all services take."""
    parser.add_argument("-v", "--verbose", action="store_true", help="log what it does, not only what goes wrong")
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")


class Line(logging.Formatter):
    """Of a log: whatever a message holds, it is one line. A traceback has its own."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = visible(record.message)
        return super().formatMessage(record)


def load_ahead(*modules: str) -> None:
    """When a program begins, what it would load later, with somebody waiting. One that is absent is missed later."""
    for module in modules:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)


def run(program: str, main: Coroutine[Any, Any, None], verbose: bool) -> None:
    """Runs the service `program` until it ends. What it cannot go on from is one line on standard error and exit
    status 1 (2 where the command line is at fault, 130 after Ctrl-C). Logs warnings, and with `verbose` its work."""
    log = logging.StreamHandler(sys.stderr)
    log.setFormatter(Line("%(asctime)s %(name)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, handlers=[log])
    try:
        eventloop.run(garbage.beside(main))
    except DatacastError as error:
        print(f"{program}: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, UsageError) else 1)
    except KeyboardInterrupt:
        sys.exit(130)
