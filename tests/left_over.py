"""What a test run that was killed leaves on this machine bears its process's number, and the next run takes it away."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import subprocess
from pathlib import Path

from datacast.lab.down import take_down
from datacast.lab.errors import LabError
from datacast.lab.state import Registry

NAMESPACES = Path("/run/netns")
_serial = itertools.count(1)


def owned(what: str) -> str:
    """A new name for a network namespace, or for what its namespaces' names begin with."""
    return f"dct-{what}{os.getpid()}-{next(_serial)}"


def unique_name(what: str) -> str:
    """Of a lab, a new one for each call: a test that is tried again does not meet what its first try left."""
    return f"t{os.getpid()}-{what}{next(_serial)}"


def _gone(owner: str) -> bool:
    return not Path(f"/proc/{owner}").exists()


def remove(namespaces: Path = NAMESPACES, registry: Registry | None = None) -> list[str]:
    """Labs and empty namespaces of processes that are gone; their names."""
    registry, removed = registry or Registry(), []
    for state in registry.all():
        if (owner := re.match(r"t(\d+)-", state.name)) and _gone(owner[1]) and not state.alive:
            with contextlib.suppress(LabError):
                take_down(state.name, registry)
                removed.append(state.name)
    for path in sorted(namespaces.glob("dct-*")):
        if (owner := re.match(r"dct-\D*(\d+)-", path.name)) and _gone(owner[1]):
            inside = subprocess.run(["ip", "netns", "pids", path.name], capture_output=True, text=True)
            if inside.returncode == 0 and not inside.stdout.split():
                subprocess.run(["ip", "netns", "del", path.name], capture_output=True)
                removed.append(path.name)
    return removed
