"""Which version of the project this is. Looked up only when somebody asks: it reads files."""

from __future__ import annotations

from functools import cache


@cache
def installed() -> str:
    """Of the package; "unknown" where none is installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("datacast")
    except PackageNotFoundError:
        return "unknown"
