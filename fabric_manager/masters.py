"""Processes of masters. One warm spare is started ahead and waits for its group on its standard input, so that a group
does not pay for the start of Python; a new spare is started when it is used.

A master lives on when the fabric manager dies (its standard input ends, which matters to spares only); it finds the new
one at the same address. In an orderly stop the masters are told first, and end their groups.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Callable
from dataclasses import asdict

from .api import StartOrder

log = logging.getLogger("datacast.fabric_manager")


class Masters:
    """`url`: where masters find the fabric manager. `exited(group, code)` is called when a group's master ends."""

    def __init__(self, url: str, exited: Callable[[str, int], None], *, command: list[str] | None = None) -> None:
        self.command = command or [sys.executable, "-m", "datacast.master.main", "--spare", "--fabric-manager", url]
        self.exited = exited
        self._spare: asyncio.subprocess.Process | None = None
        self._starting: asyncio.Task[None] | None = None
        self._running: dict[str, asyncio.subprocess.Process] = {}
        self._watchers: set[asyncio.Task[None]] = set()
        self._stopping = False

    async def warm(self) -> None:
        """Start a spare unless there is one. Raises OSError when no process can be started."""
        if self._stopping or (self._spare and self._spare.returncode is None):
            return
        # Not this process's standard output: who reads that must see its end when the fabric manager ends.
        self._spare = await asyncio.create_subprocess_exec(
            *self.command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL
        )

    def warm_soon(self, delay: float = 0.0) -> None:
        async def later() -> None:
            await asyncio.sleep(delay)
            try:
                await self.warm()
            except OSError as error:
                log.error("cannot start a spare master: %s", error)

        if not self._stopping and (self._starting is None or self._starting.done()):
            self._starting = asyncio.create_task(later())

    @property
    def spare_pid(self) -> int | None:
        return self._spare.pid if self._spare and self._spare.returncode is None else None

    def pid(self, group: str) -> int | None:
        process = self._running.get(group)
        return process.pid if process else None

    async def start(self, order: StartOrder) -> int:
        """Give the group to the spare (or to a new process when there is none). Returns its pid."""
        await self.warm()
        process, self._spare = self._spare, None
        assert process is not None and process.stdin is not None
        process.stdin.write(json.dumps(asdict(order)).encode() + b"\n")
        self._running[order.group] = process
        watcher = asyncio.create_task(self._watch(order.group, process))
        self._watchers.add(watcher)
        watcher.add_done_callback(self._watchers.discard)
        # Not at once: the new group's master needs the processor now.
        self.warm_soon(1.0)
        return process.pid

    async def _watch(self, group: str, process: asyncio.subprocess.Process) -> None:
        code = await process.wait()
        self._running.pop(group, None)
        self.exited(group, code)

    async def stop(self, grace: float = 5.0) -> None:
        """SIGTERM to all, then after `grace` seconds SIGKILL."""
        self._stopping = True
        if self._starting:
            self._starting.cancel()
        processes = list(self._running.values())
        if self._spare and self._spare.returncode is None:
            processes.append(self._spare)
        for process in processes:
            if process.returncode is None:
                process.terminate()
        waiting = [asyncio.create_task(p.wait()) for p in processes]
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=grace)
            if late:
                for process in processes:
                    if process.returncode is None:
                        log.error("master %d does not end; killed", process.pid)
                        process.kill()
                await asyncio.wait(late)
        if self._watchers:
            await asyncio.wait(tuple(self._watchers), timeout=1.0)
