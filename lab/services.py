"""Services in Python, forked from a process that has loaded them.

To load a service takes half a second to a second of a processor, and a lab starts two, or two for every site. One
process loads what they need (loaded.py), once, while the network is made, and is kept for the next lab of this program.
What it forks is the service as its program would be: with the command line and the environment that it was given, also
for those who look from outside, in a session of its own.
"""

from __future__ import annotations

import atexit
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from datacast.services.forks import Forked, Forks
from datacast.services.nursery import Nursery

MODULES = {
    "datacast-fabric-manager": "datacast.fabric_manager.main",
    "datacast-controller": "datacast.controller.main",
}
"""By their names, because they are other rooms'."""


def is_here(program: str) -> bool:
    """Whether it is a service of this Python: that of another is started as a program."""
    path = Path(program)
    return path.name in MODULES and path.parent == Path(sys.executable).parent


@dataclass(frozen=True)
class Order:
    """What the new process is to be."""

    command: list[str]
    log: str
    environment: dict[str, str]
    folder: str
    inside: int | None
    """A process whose network and mounts it has."""


forks = Forks(Nursery("datacast.lab.loaded", "datacast-lab", here=False))
atexit.register(forks.close)  # what was forked ends with it (loaded.py)


def start(order: Order) -> Forked:
    """Raises OSError."""
    return forks.start(order.command, asdict(order))
