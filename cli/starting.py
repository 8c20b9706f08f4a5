"""Groups that a command starts and answers for: each is started once, and whoever ends the command ends it."""

from __future__ import annotations

import secrets
import signal
import time
from typing import Any

import typer

from datacast.controller.api import ControllerClient
from datacast.controller.api.records import GroupRecord
from datacast.fabric_manager.api import GroupSpec
from datacast.services.problems import Unreachable

from .following import REFRESH_S, cancel_and_wait, follow
from .output import json_text

LOST_S = 10.0
"""So long an answer that was lost is asked for again."""


class Ending:
    """SIGTERM as Ctrl-C: whoever ends the command, `timeout` or a job's end, wants no transfer that goes on. What comes
    while a group is made waits: a group that nobody knows of must not come about."""

    def __init__(self) -> None:
        self.told = 0
        self._waits = False
        self._before: list[Any] = []

    def __enter__(self) -> Ending:
        self._before = [signal.signal(number, self._on) for number in (signal.SIGINT, signal.SIGTERM)]
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in zip((signal.SIGINT, signal.SIGTERM), self._before, strict=True):
            signal.signal(number, handler)

    def _on(self, number: int, _: object) -> None:
        self.told = number
        if not self._waits:
            raise KeyboardInterrupt

    def carried_out(
        self, client: ControllerClient, spec: GroupSpec, *, watch: bool = True, as_json: bool
    ) -> GroupRecord:
        """The group at its end, or with no `watch` as it begins. Where the command is told to end meanwhile it is
        cancelled, and typer.Exit raised."""
        self._waits = True
        group = _started(client, spec)
        if watch:
            # What `follow` needs. Python ends by SIGINT, whatever is caught, where a KeyboardInterrupt has met an exec
            # of a text, such as each dataclass that is loaded.
            import rich.progress  # noqa: F401
        try:
            self._waits = False
            if self.told:
                raise KeyboardInterrupt
            return follow(client, group, quiet=as_json) if watch else group
        except KeyboardInterrupt:
            group = cancel_and_wait(client, group.id)
            if as_json:
                print(json_text(group))
            raise typer.Exit(128 + self.told) from None


def _started(client: ControllerClient, spec: GroupSpec) -> GroupRecord:
    """Once: where the answer is lost, it is asked for again under the same key. Raises Problem."""
    key, until = secrets.token_hex(16), None
    while True:
        try:
            return client.create_group(spec, key)
        except Unreachable as problem:
            if until is None and not problem.asked:
                raise
            until = until or time.monotonic() + LOST_S
            if time.monotonic() > until:
                problem.remedy = "it may have been started all the same: `datacast groups` lists it then"
                raise
        time.sleep(REFRESH_S)
