"""Where tables are printed."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

PIPE_COLUMNS = 180
"""Of what goes into a pipe or a file, where $COLUMNS does not say: rows stay whole for grep and awk."""


def output() -> Console:
    """The standard output: as wide as the terminal. What is printed is text: [brackets] of a message are no markup."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() or os.environ.get("COLUMNS") else PIPE_COLUMNS, markup=False)
