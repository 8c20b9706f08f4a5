"""Where tables are printed, and what stands in them."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import msgspec

from datacast.core.visible import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

PIPE_COLUMNS = 180
"""Of what goes into a pipe or a file, where $COLUMNS does not say: rows stay whole for grep and awk."""


def output(stderr: bool = False) -> Console:
    """As wide as the terminal. What is printed is text: [brackets] of a message are no markup."""
    from rich.console import Console

    class Plain(Console):
        def render_str(self, text: str, **options: Any) -> Text:
            return super().render_str(visible(text), **options)

    wide = stderr or sys.stdout.isatty() or os.environ.get("COLUMNS")
    return Plain(stderr=stderr, width=None if wide else PIPE_COLUMNS, markup=False)


def new_table(*columns: str) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column in ("group", "state", "size", "receivers"))
    return table


def json_text(told: object) -> str:
    """A record, or several, for machines."""
    return json.dumps(msgspec.to_builtins(told))


def size_text(value: int | None) -> str:
    if value is None:
        return "-"
    size = float(value)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return ""


def rate_text(value: float | None) -> str:
    return "-" if not value else f"{value / 1e6:.1f} Mbit/s"
