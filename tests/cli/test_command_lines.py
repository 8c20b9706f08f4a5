"""What commands and services take, beside tests/golden/commands.txt: a default or a bound that changes is seen there.

Where one was to change, write the file anew and look at the difference:
    .venv/bin/python tests/cli/test_command_lines.py >tests/golden/commands.txt
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

from typer.main import get_command

from datacast.cli.main import COMMANDS, build

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "commands.txt"


def taken(parameter: Any) -> str:
    words = ["|".join([*parameter.opts, *parameter.secondary_opts])]
    low, high = (getattr(parameter, name, None) for name in ("min", "max"))
    if low is not None or high is not None:
        words.append(f"{'' if low is None else low}..{'' if high is None else high}")
    words += [word for word in ("required", "multiple", "hidden") if getattr(parameter, word, False)]
    if parameter.default is not None and not callable(parameter.default):
        words.append(f"default={parameter.default!r}")
    return " ".join(words)


def lines(command: Any, name: str) -> Iterator[str]:
    yield name
    yield from (f"  {taken(parameter)}" for parameter in command.params if parameter.name != "help")
    for sub in getattr(command, "commands", {}).values():
        yield from lines(sub, f"{name} {sub.name}")


class Asked(Exception):
    """Instead of a service."""


def parsed(service: str) -> Iterator[str]:
    """What the program of a service takes."""
    seen: list[argparse.ArgumentParser] = []

    def note(parser: argparse.ArgumentParser, *_: object) -> None:
        seen.append(parser)
        raise Asked

    with patch.object(argparse.ArgumentParser, "parse_args", note), patch.dict("os.environ", clear=True):
        try:
            importlib.import_module(f"datacast.{service}.main").main([])
        except Asked:
            yield seen[0].prog
    for action in seen[0]._actions[1:]:  # after --help
        words = ["|".join(action.option_strings) or action.dest]
        words += [f"choices={','.join(map(str, action.choices))}"] if action.choices else []
        words += [word for word in ("required",) if getattr(action, word)]
        words += [f"nargs={action.nargs}"] if action.nargs is not None else []
        words += [f"default={action.default!r}"] if action.default is not None else []
        yield "  " + " ".join(words)


def whole() -> str:
    found = []
    for module in COMMANDS.values():
        for name in module:
            commands = get_command(build([name])).commands  # type: ignore[attr-defined]
            found += list(lines(commands[name], name))
    for service in ("fabric_manager", "controller", "master", "mirror"):
        found += list(parsed(service))
    return "\n".join(found) + "\n"


def test_every_command_and_every_service_takes_what_it_took() -> None:
    assert whole() == GOLDEN.read_text()


if __name__ == "__main__":
    print(whole(), end="")
