"""A group until its end, with a bar for each receiver on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from datacast.controller.api import FINAL_STATES, ControllerClient
from datacast.controller.api.records import Event, GroupRecord
from datacast.fabric_manager.api.records import AllGroups, GroupChange
from datacast.services.problems import Problem

from .output import output, rate_text

if TYPE_CHECKING:
    from rich.progress import TaskID

REFRESH_S = 0.2
PLAIN_S = 10.0
"""Between lines where there is no terminal, as in a log."""
CANCEL_PATIENCE_S = 15.0
ROWS_MAX = 24
WAITED = (429, 503)
"""Answers that may be others in a moment: more is asked with this token than it may, or the controller is away."""
INTERRUPTED = 130
"""The exit code of who was told to stop by Ctrl-C."""


def follow(
    client: ControllerClient, group: GroupRecord, *, quiet: bool, pause: Callable[[float], None] = time.sleep
) -> GroupRecord:
    """Until the group has ended, with a bar per receiver on a terminal, elsewhere a line now and then. A controller
    that is away for a while (it keeps no state) is waited for."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = output(stderr=True)
    progress = Progress(
        TextColumn("{task.description:>8}"),
        BarColumn(),
        TextColumn("{task.percentage:>5.1f} %"),
        TextColumn("{task.fields[rate]:>14}"),
        TextColumn("{task.fields[state]}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=quiet or not console.is_terminal,
    )
    rows: dict[str, TaskID] = {}
    away_since: float | None = None
    said, told, changes = "", time.monotonic(), _changes(client, group.id, pause)
    with progress:
        while group.state not in FINAL_STATES:
            what, why = _reason(group)
            if what and what != said and not quiet:
                console.print(f"{group.id} {why}", highlight=False, soft_wrap=True)
            said = what or said
            if not console.is_terminal and not quiet and time.monotonic() >= told + PLAIN_S:
                told = time.monotonic()
                console.print(
                    f"{group.id} {group.state} {group.fraction:.1%}, {rate_text(group.rate_bps)}", highlight=False
                )
            for name, receiver in list(group.receivers.items())[:ROWS_MAX]:
                if name not in rows:
                    rows[name] = progress.add_task(name, total=1.0, rate="", state="")
                progress.update(
                    rows[name],
                    completed=receiver.fraction,
                    rate=rate_text(receiver.rate_bps),
                    state=receiver.state,
                )
            more = len(group.receivers) - ROWS_MAX
            if more > 0:
                rest = list(group.receivers.values())[ROWS_MAX:]
                if "…" not in rows:
                    rows["…"] = progress.add_task(f"{more} more", total=1.0, rate="", state="")
                progress.update(
                    rows["…"],
                    completed=sum(r.fraction for r in rest) / more,
                    state=f"{sum(r.state == 'done' for r in rest)} done",
                )
            next(changes)
            try:
                group, away_since = client.group(group.id), None
            except Problem as problem:
                away_since = away_since or time.monotonic()
                if problem.status not in WAITED or time.monotonic() - away_since > 30:
                    if problem.status != 404:
                        on = f"{group.id} was not cancelled: `datacast status {group.id}` tells how it stands"
                        problem.remedy = "; ".join(filter(None, (problem.remedy, on)))
                    raise
    return group


def _reason(group: GroupRecord) -> tuple[str, str]:
    """Why a group that has not ended does not go on as it should: what is said once, and its words, with the hosts that
    are concerned just now."""
    if group.error:
        return group.error.message, f"waits: {group.error.message}"
    return (group.slow.code, f"is slow: {group.slow.message}") if group.slow else ("", "")


def wait(client: ControllerClient, group: GroupRecord, patience_s: float) -> GroupRecord:
    """The record when the group has ended, or as it is after so long. Events tell when to look."""
    end = time.monotonic() + patience_s
    while group.state not in FINAL_STATES and time.monotonic() < end:
        try:
            for event in client.events(group.id, pings=True):
                if is_over(event) or isinstance(event, AllGroups) or time.monotonic() > end:
                    break
            group = client.group(group.id)
        except Problem as problem:
            if problem.status not in WAITED:
                raise
            time.sleep(REFRESH_S)  # it is away for a moment: it keeps no state
    return group


def _changes(client: ControllerClient, group: str, pause: Callable[[float], None]) -> Iterator[None]:
    """Yields when the group may be another than before, at most every REFRESH_S while it runs."""
    while True:
        try:
            shown = 0.0
            for event in client.events(group, pings=True):
                if is_over(event) or time.monotonic() - shown >= REFRESH_S:
                    shown = time.monotonic()
                    yield
        except Problem:
            pass  # who asks for the record will hear it
        pause(REFRESH_S)
        yield


def is_over(event: Event) -> bool:
    """A group has ended."""
    return isinstance(event, GroupChange) and event.state in FINAL_STATES


def cancel_and_wait(client: ControllerClient, group: str) -> GroupRecord:
    print(f"datacast: cancelling {group} …", file=sys.stderr)
    record = wait(client, _cancelled(client, group), CANCEL_PATIENCE_S)
    print(f"datacast: {group} is {record.state}", file=sys.stderr)
    return record


def _cancelled(client: ControllerClient, group: str) -> GroupRecord:
    """A controller that is away for a moment hears of it when it is back. Raises Problem, which says what goes on."""
    end = time.monotonic() + CANCEL_PATIENCE_S
    while True:
        try:
            return client.cancel_group(group)
        except Problem as problem:
            if problem.status not in WAITED or time.monotonic() > end:
                if problem.status != 404:
                    on = f"{group} was not cancelled: `datacast cancel {group}` ends it"
                    problem.remedy = "; ".join(filter(None, (problem.remedy, on)))
                raise
        time.sleep(REFRESH_S)
