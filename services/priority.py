"""Real-time priority for the processes between a failed link and its repair (docs/priorities.md)."""

from __future__ import annotations

import contextlib
import os

from datacast.core.errors import DatacastError

PRIORITY_MAX = 99
REMEDY = (
    "run it as root, give it CAP_SYS_NICE (systemd: AmbientCapabilities=CAP_SYS_NICE) or LimitRTPRIO=, "
    "or leave --realtime out"
)


class PriorityError(DatacastError):
    """The system does not allow the priority."""


def go_realtime(priority: int) -> None:
    """SCHED_RR for this process at 1 (lowest) to 99; 0 changes nothing. Processes that it starts are ordinary ones:
    they ask for themselves. Raises PriorityError."""
    if priority == 0:
        return
    try:
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(priority))
    except OSError as error:
        raise PriorityError(f"real-time priority {priority}: {error.strerror}; {REMEDY}", what=str(priority)) from error


def below(priority: int) -> int:
    """Of processes that compute for one of this priority: SCHED_RR lets one that never waits run for 100 ms before the
    next of its own priority, and what everybody asks would wait for that. Between them stand agents' files."""
    return max(1, priority - 2) if priority else 0


def as_the_process() -> None:
    """The calling thread gets the process's own priority: threads begin as ordinary ones, also where everybody waits
    for what they do. Where that is not allowed it stays as it is."""
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.sched_getscheduler(os.getpid()), os.sched_getparam(os.getpid()))
