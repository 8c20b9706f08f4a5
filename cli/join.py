"""`datacast join`: enrols this machine. It is a script, packaging/join, so that hosts need no Python for it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import typer

from datacast.core.errors import DatacastError

PLACES = (Path(sys.prefix) / "join", Path(__file__).resolve().parents[1] / "packaging" / "join")
"""Of the packages, and of the source tree."""


def register(app: typer.Typer) -> None:
    anything = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
    app.command("join", context_settings=anything)(join)


def join(context: typer.Context) -> None:
    """Enrol this machine in a site: datacast join URL TOKEN, as `datacast admit` prints it."""
    for script in PLACES:
        if script.is_file():
            os.execv("/bin/sh", ["sh", str(script), *context.args])
    raise DatacastError(f"{PLACES[0]} is missing: install the package datacast-common", what=str(PLACES[0]))
