"""Processes of masters. Warm spares are started ahead and wait for a group on their standard input, so that a group
does not pay for the start of Python; a new spare is started when one is used.

A master lives on when the fabric manager dies (its standard input ends, which matters to spares only); it finds the new
one at the same address, and the new one knows it by its process id and start time. In an orderly stop the masters are
told first, and end their groups.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .api import StartOrder

log = logging.getLogger("datacast.fabric_manager")


def identity_of(pid: int) -> dict[str, Any] | None:
    """What tells a process from every other, also after it has ended; None when there is none (a zombie is none)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None
    return None if fields[0] in "ZX" else {"pid": pid, "start": int(fields[19]), "boot": boot}


class Masters:
    """`url`: where masters find the fabric manager. `exited(group, code)` is called when a group's master ends.
    `spares`: how many are kept warm. `options`: more for a master's command line."""

    def __init__(
        self,
        url: str,
        exited: Callable[[str, int | None], None],
        *,
        spares: int = 2,
        command: list[str] | None = None,
        options: Sequence[str] = (),
    ) -> None:
        program = [sys.executable, "-m", "datacast.master.main", "--fabric-manager", url]
        self.command = command or [*program, *options]
        self.exited = exited
        self.spares = spares
        self._waiting: list[asyncio.subprocess.Process] = []
        self._warming: asyncio.Task[None] | None = None
        self._running: dict[str, asyncio.subprocess.Process] = {}
        self._left: dict[str, tuple[int, int]] = {}
        """Processes of an earlier fabric manager: pid and a descriptor that tells of the end."""
        self._watchers: set[asyncio.Task[None]] = set()
        self._stopping = False

    def _alive(self) -> list[asyncio.subprocess.Process]:
        self._waiting = [process for process in self._waiting if process.returncode is None]
        return self._waiting

    async def _spawn(self) -> asyncio.subprocess.Process:
        # Not this process's standard output: who reads that must see its end when the fabric manager ends.
        return await asyncio.create_subprocess_exec(
            *self.command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL
        )

    def warm_soon(self, delay: float = 0.0) -> None:
        """Have all spares there, after a while."""

        async def later() -> None:
            await asyncio.sleep(delay)
            try:
                while len(self._alive()) < self.spares:
                    self._waiting.append(await self._spawn())
            except OSError as error:
                log.error("cannot start a spare master: %s", error)

        if not self._stopping and (self._warming is None or self._warming.done()):
            self._warming = asyncio.create_task(later())

    @property
    def spare_pids(self) -> list[int]:
        return [process.pid for process in self._alive()]

    def pid(self, group: str) -> int | None:
        process = self._running.get(group)
        return process.pid if process else self._left[group][0] if group in self._left else None

    def identity(self, group: str) -> dict[str, Any] | None:
        """For `watch` of a later fabric manager."""
        pid = self.pid(group)
        return identity_of(pid) if pid is not None else None

    def watch(self, group: str, identity: dict[str, Any]) -> bool:
        """Look after a master that an earlier fabric manager started. False when it is gone."""
        try:
            descriptor = os.pidfd_open(identity["pid"])
        except OSError:
            return False
        if identity_of(identity["pid"]) != identity:
            os.close(descriptor)
            return False
        self._left[group] = (identity["pid"], descriptor)
        asyncio.get_running_loop().add_reader(descriptor, self._left_ended, group)
        return True

    def _forget(self, group: str) -> None:
        _, descriptor = self._left.pop(group)
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)

    def _left_ended(self, group: str) -> None:
        self._forget(group)
        self.exited(group, None)

    def kill(self, group: str) -> bool:
        """End a group's master that hangs. False when there is none."""
        if group in self._left:
            signal.pidfd_send_signal(self._left[group][1], signal.SIGKILL)
        elif group in self._running:
            self._running[group].kill()
        else:
            return False
        return True

    async def start(self, order: StartOrder) -> int:
        """Give the group to the oldest spare, or to a new process when there is none. Returns its pid. Raises OSError
        when no process can be started."""
        waiting = self._alive()
        process = waiting.pop(0) if waiting else await self._spawn()
        assert process.stdin is not None
        process.stdin.write(json.dumps(asdict(order)).encode() + b"\n")
        self._running[order.group] = process
        watcher = asyncio.create_task(self._watch(order.group, process))
        self._watchers.add(watcher)
        watcher.add_done_callback(self._watchers.discard)
        # Not at once: the new group's master needs the processor now.
        self.warm_soon(0.5)
        return process.pid

    async def _watch(self, group: str, process: asyncio.subprocess.Process) -> None:
        code = await process.wait()
        self._running.pop(group, None)
        self.exited(group, code)

    async def stop(self, grace: float = 5.0) -> None:
        """SIGTERM to all, then after `grace` seconds SIGKILL."""
        self._stopping = True
        if self._warming:
            self._warming.cancel()
            await asyncio.gather(self._warming, return_exceptions=True)
        processes = [*self._running.values(), *self._alive()]
        for process in processes:
            if process.returncode is None:
                process.terminate()
        for _, descriptor in self._left.values():
            signal.pidfd_send_signal(descriptor, signal.SIGTERM)
        end = time.monotonic() + grace
        waiting = [asyncio.create_task(p.wait()) for p in processes]
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=grace)
            if late:
                for process in processes:
                    if process.returncode is None:
                        log.error("master %d does not end; killed", process.pid)
                        process.kill()
                await asyncio.wait(late)
        while self._left and time.monotonic() < end:
            await asyncio.sleep(0.02)
        for group in tuple(self._left):
            log.error("master %d does not end; killed", self._left[group][0])
            signal.pidfd_send_signal(self._left[group][1], signal.SIGKILL)
            self._forget(group)
        if self._watchers:
            await asyncio.wait(tuple(self._watchers), timeout=1.0)
