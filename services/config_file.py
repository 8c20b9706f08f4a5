"""`--config FILE`: a daemon's options as YAML, for those who start it from a service file.

A mapping of an option's name to its value, to a list of values, or, for an option without a value, to true or false.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

BYTES_MAX = 1 << 20
HELP = "the first option: read options from a YAML file (listen: 127.0.0.1:7580); what follows is added"


def parse_args(parser: argparse.ArgumentParser, argv: list[str] | None) -> argparse.Namespace:
    """As `parser.parse_args`, with a file's options before those of the command line. Ends the program with a usage
    error that names the file and the option."""
    argv = sys.argv[1:] if argv is None else argv
    parser.add_argument("--config", metavar="FILE", help=HELP)
    if argv[:1] == ["--config"] and len(argv) > 1:
        argv = [*_arguments(parser, Path(argv[1])), *argv[2:]]
    args = parser.parse_args(argv)
    if args.config is not None:
        parser.error("--config is wanted once, as the first option, with a space before FILE")
    return args


def _arguments(parser: argparse.ArgumentParser, path: Path) -> list[str]:
    from . import yaml_file

    try:
        content = yaml_file.read(path, BYTES_MAX)
    except OSError as error:
        parser.error(f"{path}: {error.strerror}")
    except yaml_file.YamlError as error:
        parser.error(f"{path} {error}")
    if content is None:
        return []
    if not isinstance(content, dict):
        parser.error(f"{path}: wanted lines such as `listen: 127.0.0.1:7580`")
    found: list[str] = []
    for name, value in content.items():
        action = parser._option_string_actions.get(f"--{name}")
        if action is None:
            parser.error(f"{path}: there is no option {name!r}")
        if action.nargs == 0:
            if not isinstance(value, bool):
                parser.error(f"{path}: {name}: wanted true or false")
            found += [f"--{name}"] if value else []
            continue
        for item in value if isinstance(value, list) else [value]:
            if not isinstance(item, (str, int, float)) or isinstance(item, bool):
                parser.error(f"{path}: {name}: wanted a value or a list of them, not {item!r}")
            found.append(f"--{name}={item}")
    return found
