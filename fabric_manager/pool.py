"""The workers that a fabric manager starts itself, on its own machine. Others may come from anywhere.

A worker lives on when the fabric manager ends, as long as it has groups: it finds the next one at the same addresses.
One without groups ends with it (its standard input ends).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Callable, Sequence

from datacast.services.nursery import Child, Nursery

from .api import child_name
from .workers import Worker

log = logging.getLogger("datacast.fabric_manager")

AGAIN_S = 0.2
"""Between a worker's end and the start of another."""
HANGS_S = 30.0
"""One that is not here for so long hangs: to load takes ten seconds where there is hardly a processor."""


def make_nursery() -> Nursery:
    """Where workers of this machine come from, which share what is loaded here: the module by its name, because it is
    another service's."""
    return Nursery("datacast.master.main", "datacast-master")


class Pool:
    """Keeps `count` workers; `back()` says how many an earlier fabric manager has left here, `here(pid)` whether one is
    heard of."""

    def __init__(
        self,
        nursery: Nursery,
        urls: str,
        count: int,
        back: Callable[[], int],
        here: Callable[[int], bool],
        options: Sequence[str] = (),
        died: Callable[[str], None] = lambda lease: None,
    ) -> None:
        self._nursery, self._arguments = nursery, ["--fabric-manager", urls, "--child", *options]
        self._count, self._back, self._here = count, back, here
        self._processes: dict[int, Child] = {}
        """By the descriptor that tells of the end."""
        self._heard: dict[int, float] = {}
        """When each was here last, or was started."""
        self._watched: dict[int, Worker] = {}
        """Workers on this machine, whoever has started them, by such a descriptor."""
        self._died = died
        self._task: asyncio.Task[None] | None = None
        self._starting: asyncio.Task[Child] | None = None

    def watch(self, worker: Worker) -> None:
        """`died` is called at the end of a worker's process, where that is on this machine."""
        if worker.pid is None or not worker.name.startswith(child_name()):
            return
        with contextlib.suppress(OSError):  # there is no such process any more
            descriptor = os.pidfd_open(worker.pid)
            self._watched[descriptor] = worker
            asyncio.get_running_loop().add_reader(descriptor, self._seen, descriptor)

    def _seen(self, descriptor: int) -> None:
        worker = self._watched.pop(descriptor)
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)
        self._died(worker.lease)

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._processes.values()]

    def start(self) -> None:
        self._task = asyncio.create_task(self._keep())

    async def _keep(self) -> None:
        while True:
            self._end_hanging()
            try:
                while len(self._processes) + self._back() < self._count:
                    await self._spawn()
                await asyncio.to_thread(self._nursery.close)  # which waits for a process that nobody hurries
            except OSError as error:
                log.error("cannot start a worker: %s", error)
            await asyncio.sleep(AGAIN_S)

    async def _spawn(self) -> None:
        """Where the nursery has been let go a program loads everything: a second, or ten where there is no processor.
        Agents and the store are heard meanwhile."""
        self._starting = asyncio.create_task(asyncio.to_thread(self._nursery.start, self._arguments))
        self._mind(await asyncio.shield(self._starting))
        self._starting = None

    def _mind(self, child: Child) -> None:
        self._processes[child.process] = child
        self._heard[child.process] = time.monotonic()
        asyncio.get_running_loop().add_reader(child.process, self._ended, child.process)

    def _ended(self, descriptor: int) -> None:
        log.warning("worker process %d has ended", self._processes[descriptor].pid)
        self._processes[descriptor].reap()
        self._forget(descriptor)

    def _forget(self, descriptor: int) -> None:
        asyncio.get_running_loop().remove_reader(descriptor)
        self._processes.pop(descriptor).close()
        del self._heard[descriptor]

    def _end_hanging(self) -> None:
        """Its groups are another's by now. It would be counted for ever, and no other take its place."""
        now = time.monotonic()
        for descriptor, child in self._processes.items():
            if self._here(child.pid):
                self._heard[descriptor] = now
            elif now - self._heard[descriptor] > HANGS_S:
                log.warning("worker process %d hangs, silent for %g s: it is killed", child.pid, HANGS_S)
                child.kill()
                self._heard[descriptor] = now  # said once

    async def stop(self) -> None:
        """No more are started. Workers that have nothing to do end by themselves; the others are left to work."""
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for descriptor in tuple(self._watched):
            del self._watched[descriptor]
            asyncio.get_running_loop().remove_reader(descriptor)
            os.close(descriptor)
        self._let_go()

    async def end(self) -> None:
        """After `stop`: lets go of one that was being started, too. A program that loads may take ten seconds, in which
        another fabric manager can lead."""
        if self._starting:
            with contextlib.suppress(OSError):
                self._mind(await self._starting)
        self._let_go()
        self._nursery.close()

    def _let_go(self) -> None:
        for descriptor in tuple(self._processes):
            self._forget(descriptor)
