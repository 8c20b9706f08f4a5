"""Workers that a fabric manager starts itself: its loop does not wait for them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
from collections.abc import Iterator

import pytest
from small import until

from datacast.fabric_manager.pool import Pool
from datacast.services.nursery import Child


class Slow:
    """A nursery whose program loads until `loaded`."""

    def __init__(self) -> None:
        self.loaded, self.asked, self.closed = threading.Event(), 0, 0
        self.programs: list[subprocess.Popen[bytes]] = []

    def start(self, arguments: list[str]) -> Child:
        self.asked += 1
        if not self.loaded.wait(60.0):
            raise OSError("nobody else had a turn")
        stdin, its_end = os.pipe()
        self.programs.append(subprocess.Popen(["cat"], stdin=stdin))
        os.close(stdin)
        return Child(self.programs[-1].pid, os.pidfd_open(self.programs[-1].pid), its_end)

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def nursery() -> Iterator[Slow]:
    slow = Slow()
    yield slow
    for program in slow.programs:
        program.kill()
        program.wait()


async def test_agents_are_heard_while_a_worker_is_started(nursery: Slow) -> None:
    """One that was killed is followed by a program that loads everything: a fabric manager stood still for 11 s, and
    its lease to lead ended. Found by killing services (seed 22)."""
    pool = Pool(nursery, "", 2, lambda: 0)
    pool.start()
    await until(lambda: nursery.asked, "the first is started")
    nursery.loaded.set()
    await until(lambda: len(pool.pids) == 2 and nursery.closed, "both are there")
    await pool.stop()
    await pool.end()
    assert nursery.asked == 2


async def test_agents_are_heard_while_the_one_that_starts_workers_ends() -> None:
    """It is an ordinary process, and gets no processor on a full machine."""

    class Lasting(Slow):
        heard = threading.Event()
        waited: bool | None = None

        def close(self) -> None:
            if self.waited is None:
                self.waited = self.heard.wait(5.0)

    nursery = Lasting()
    pool = Pool(nursery, "", 2, lambda: 2)  # those of another fabric manager are here
    pool.start()
    await asyncio.sleep(0.05)
    nursery.heard.set()
    await until(lambda: nursery.waited is not None, "it has ended")
    await pool.stop()
    assert nursery.waited


async def test_one_that_is_started_while_the_fabric_manager_ends_is_let_go_too(nursery: Slow) -> None:
    pool = Pool(nursery, "", 1, lambda: 0)
    pool.start()
    await until(lambda: nursery.asked, "it is started")
    await pool.stop()
    assert not nursery.programs, "a fabric manager that ends lets its agents go meanwhile: nobody waits for it"
    ending = asyncio.create_task(pool.end())
    await asyncio.sleep(0)
    nursery.loaded.set()
    await ending
    assert nursery.closed and nursery.programs[0].wait(60) == 0, "its standard input has ended"
