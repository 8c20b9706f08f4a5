"""`datacast lab down` and `lab status`: other terminals' view of a lab, also of one that was killed."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass

from datacast.lab.errors import LabError
from datacast.lab.lab import clean
from datacast.lab.state import Registry, State, marked

PATIENCE_S = 20.0
"""For an end that was asked for, and for one that was not."""


def take_down(name: str, registry: Registry | None = None) -> State:
    """Ask a living lab to end and wait for it; clean up after a dead one. Raises LabError when there is none, or when
    something could not be ended."""
    registry = registry or Registry()
    state = registry.load(name)
    if state is None:
        raise LabError(
            f"no lab {name!r} is running", what=name, remedy="`datacast lab status` lists the labs there are"
        )
    if os.geteuid() != 0:
        raise LabError(f"the lab {name!r} belongs to root", what=name, remedy="run as root")
    if state.alive:
        with suppress(ProcessLookupError):
            os.kill(state.pid, signal.SIGTERM)
            os.kill(state.pid, signal.SIGCONT)
        if not _ended(state):  # it hangs: its process id and start time are those it wrote down
            with suppress(ProcessLookupError):
                os.kill(state.pid, signal.SIGKILL)
            if not _ended(state):
                text = f"process {state.pid} of the lab {name!r} does not end, not even by SIGKILL"
                remedy = "it waits for the kernel, most likely for a disk: run `datacast lab down` again"
                raise LabError(text, what=name, remedy=remedy)
        found = registry.load(name)
        if found is None or found.identity != state.identity:
            return state  # it has cleaned up itself; what is there now is another one
        state = found
    left = clean(registry, state)
    if left:
        raise LabError(f"could not end: {', '.join(left)}", what=name, remedy="run `datacast lab down` again")
    return state


def _ended(state: State) -> bool:
    """Within PATIENCE_S."""
    end = time.monotonic() + PATIENCE_S
    while state.alive:
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


@dataclass(frozen=True)
class LabStatus:
    """What `lab status` tells of one."""

    name: str
    status: str
    pid: int
    topology: str
    rest: str
    work: str
    hosts: dict[str, dict[str, str]]
    processes: int


def describe(state: State) -> LabStatus:
    return LabStatus(
        name=state.name,
        status=state.status if state.alive else "left over",
        pid=state.pid,
        topology=state.topology,
        rest=state.rest,
        work=state.work,
        hosts=state.hosts,
        processes=len(marked(state.identity)),
    )
