"""A layer that is not here: one group brings it to all hosts that want such layers, and this host waits for it.

Many hosts ask for the same layer at the same moment. All of them ask the controller in the same words, under the same
Idempotency-Key, so one group comes of it; who comes later finds it running.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from datacast.controller.api import FINAL_STATES, ControllerClient, GroupSpec
from datacast.controller.api.records import GroupRecord, GroupSummary
from datacast.services.problems import Problem

from .store import Store

log = logging.getLogger("datacast.mirror")

POLL_S, LOOK_S = 1.0, 0.1
RETRY_S = 10.0
"""A controller that does not answer, or cannot, is asked again for so long: else each host would go to the registry."""
AT_ONCE = 16
"""Layers that are waited for."""
AGAIN_S = 60.0
"""What has failed is not tried again for so long: containerd goes on to the registry."""
FAILURES_MAX = 4096
LABEL = "datacast.blob"


@dataclass(frozen=True)
class Wish:
    """`to`: a request's receivers or receiver_set. `registries`: upstream names that may be asked for. `dest`: where
    the store is, as the agents' destinations have it."""

    to: GroupSpec
    registries: frozenset[str]
    dest: str
    patience_s: float = 600.0


class OnDemand:
    def __init__(self, client: Callable[[], ControllerClient], store: Store, wish: Wish) -> None:
        self._client, self._store, self._wish = client, store, wish
        self._waits: dict[str, asyncio.Task[Path | None]] = {}
        self._failed: dict[str, float] = {}
        self._askers = ThreadPoolExecutor(AT_ONCE, "asks")
        """Of their own: a controller that hangs keeps nobody from what is here."""

    async def fetch(self, registry: str, name: str, digest: str) -> Path | None:
        """The layer, once it is here; None: it does not come, somebody else is to be asked."""
        if registry not in self._wish.registries or time.monotonic() < self._failed.get(digest, 0.0):
            return None
        task = self._waits.get(digest)
        if task is None:
            if len(self._waits) >= AT_ONCE:
                return None
            task = self._waits[digest] = asyncio.create_task(self._fetch(registry, name, digest))
            task.add_done_callback(lambda _: self._waits.pop(digest, None))
        return await asyncio.shield(task)

    async def _fetch(self, registry: str, name: str, digest: str) -> Path | None:
        answered = time.monotonic()
        end = answered + self._wish.patience_s
        group: GroupRecord | GroupSummary | None = None
        while True:
            try:
                asked = (self._state_of, group.id) if group else (self._ask, registry, name, digest)
                group = await asyncio.get_running_loop().run_in_executor(self._askers, *asked)
                answered, over = time.monotonic(), group is None or group.state in FINAL_STATES
                what = f"group {group.id} is {group.state}" if group else "it had come"
                reason = group.error.message if group and group.error else "it is not here"
            except Problem as problem:
                # In the same words it makes no second group; and one that runs goes on.
                over = problem.status < 500 or time.monotonic() > answered + RETRY_S
                what, reason = "it cannot be ordered", str(problem)
            if (path := await self._look(digest, POLL_S)) is not None:  # first: it has come before its group has ended
                return path
            if over or time.monotonic() > end:
                break
        log.warning("%s of %s/%s: %s: %s", digest, registry, name, what, reason)
        if len(self._failed) >= FAILURES_MAX:
            self._failed.clear()
        self._failed[digest] = time.monotonic() + AGAIN_S
        return None

    async def _look(self, digest: str, seconds: float) -> Path | None:
        end = time.monotonic() + seconds
        while (path := await asyncio.to_thread(self._store.find, digest)) is None and time.monotonic() < end:
            await asyncio.sleep(LOOK_S)
        return path

    def _state_of(self, group: str) -> GroupRecord:
        with self._client() as client:
            return client.group(group)

    def _ask(self, registry: str, name: str, digest: str) -> GroupRecord | GroupSummary | None:
        """The group that brings it; None: one has brought it. Raises Problem."""
        host = "registry-1.docker.io" if registry == "docker.io" else registry
        spec = replace(
            self._wish.to,
            url=f"https://{host}/v2/{name}/blobs/{digest}",
            sha256=digest.removeprefix("sha256:"),
            dest_path=f"{self._wish.dest}/blobs/{digest.removeprefix('sha256:')}",
            labels={LABEL: digest},
        )
        with self._client() as client:
            known = client.groups(label=f"{LABEL}={digest}")
            running = next((row for row in known if row.state not in FINAL_STATES), None)
            if running is None and self._store.find(digest) is not None:
                return None  # its group has ended since this host looked: another would fetch it again
            last = known[-1].id if known else "none"  # not their number: the controller forgets old ones
            return running or client.create_group(spec, key=f"mirror/{digest}/{last}")
