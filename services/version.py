"""Which version of the project this is. Looked up only when somebody asks: it reads files."""

from __future__ import annotations


def told(program: str) -> str:
    """The line of `--version`."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"{program} {version('datacast')}"
    except PackageNotFoundError:
        return f"{program} (not installed as a package)"
