"""A group's line to the fabric manager: progress goes up, orders about the group come down."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from datacast.fabric_manager.api import FINAL_STATES, FabricManagerClient
from datacast.services.problems import Problem

log = logging.getLogger("datacast.master")

REPORT_PATIENCE_S = 60.0
RETRY_S = 0.5


class ManagerLink:
    """`progress()` gives the body for PUT /groups/{id}/progress. `cancel(reason)` and `receivers(event)` are called
    with what comes: `join`, `leave`, and `members` (all receivers there should be) whenever the stream begins."""

    def __init__(
        self,
        client: FabricManagerClient,
        group: str,
        progress: Callable[[], dict[str, Any]],
        cancel: Callable[[str], None],
        receivers: Callable[[dict[str, Any]], Awaitable[None]],
    ) -> None:
        self.client, self.group = client, group
        self._progress, self._cancel, self._receivers = progress, cancel, receivers

    async def push(self) -> None:
        """A fabric manager that is away is not waited for."""
        try:
            answer = await self.client.put_progress(self.group, self._progress())
        except Problem as problem:
            log.info("group %s: %s", self.group, problem)
            return
        if answer["state"] == "cancelling":
            self._cancel("cancelled on request")
        elif answer["state"] in FINAL_STATES:
            self._cancel(f"the fabric manager holds the group as {answer['state']}")

    async def push_final(self) -> None:
        """The final report is worth waiting for a fabric manager that starts again."""
        end = time.monotonic() + REPORT_PATIENCE_S
        while True:
            try:
                await self.client.put_progress(self.group, self._progress())
                return
            except Problem as problem:
                if problem.status != 503 or time.monotonic() > end:
                    log.error("group %s: the report could not be delivered: %s", self.group, problem)
                    return
            await asyncio.sleep(RETRY_S)

    async def follow(self) -> None:
        """Until cancelled."""
        while True:
            try:
                async for event in self.client.events(["control"], self.group):
                    if event["type"] == "cancel":
                        self._cancel("cancelled on request")
                    elif event["type"] in ("join", "leave", "members"):
                        await self._receivers(event)
            except Problem as problem:
                log.info("control stream: %s", problem)
            await asyncio.sleep(RETRY_S)
