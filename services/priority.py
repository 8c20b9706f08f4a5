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
    """SCHED_RR for this process at 1 (lowest) to 99; 0 changes nothing. All threads that it has get it, and those that
    are started later: they take turns at Python's lock, and an ordinary one that holds it and gets no processor holds
    up all others, for most of a second. Raises PriorityError."""
    if priority == 0:
        return
    try:
        for thread in os.listdir("/proc/self/task"):
            with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                os.sched_setscheduler(int(thread), os.SCHED_RR, os.sched_param(priority))
    except OSError as error:
        raise PriorityError(f"real-time priority {priority}: {error.strerror}; {REMEDY}", what=str(priority)) from error


def below(priority: int) -> int:
    """Of processes that compute for one of this priority: SCHED_RR lets one that never waits run for 100 ms before the
    next of its own priority, and what everybody asks would wait for that. Between them stand agents' files."""
    return max(1, priority - 2) if priority else 0


def be_ordinary() -> None:
    """In a new process that a real-time one has started: it is to ask for itself, once it has loaded what it needs."""
    if os.sched_getscheduler(0) == os.SCHED_RR:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
