"""Workers that a fabric manager starts itself: its loop does not wait for them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
from collections.abc import Iterator

import pytest
from small import until

from datacast.fabric_manager import pool as module
from datacast.fabric_manager.api import child_name
from datacast.fabric_manager.pool import Pool
from datacast.fabric_manager.workers import Worker
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


def there(pid: int) -> bool:
    return True


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
    pool = Pool(nursery, "", 2, lambda: 0, there)
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
    pool = Pool(nursery, "", 2, lambda: 2, there)  # those of another fabric manager are here
    pool.start()
    await asyncio.sleep(0.05)
    nursery.heard.set()
    await until(lambda: nursery.waited is not None, "it has ended")
    await pool.stop()
    assert nursery.waited


async def test_one_that_is_started_while_the_fabric_manager_ends_is_let_go_too(nursery: Slow) -> None:
    pool = Pool(nursery, "", 1, lambda: 0, there)
    pool.start()
    await until(lambda: nursery.asked, "it is started")
    await pool.stop()
    assert not nursery.programs, "a fabric manager that ends lets its agents go meanwhile: nobody waits for it"
    ending = asyncio.create_task(pool.end())
    await asyncio.sleep(0)
    nursery.loaded.set()
    await ending
    assert nursery.closed and nursery.programs[0].wait(60) == 0, "its standard input has ended"


async def test_one_that_hangs_is_killed_and_another_takes_its_place(
    nursery: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that stands still for good was counted for ever: with one worker no group went on."""
    monkeypatch.setattr(module, "HANGS_S", 0.3)
    monkeypatch.setattr(module, "AGAIN_S", 0.01)
    nursery.loaded.set()
    silent: set[int] = set()
    pool = Pool(nursery, "", 2, lambda: 0, lambda pid: pid not in silent)
    pool.start()
    await until(lambda: len(pool.pids) == 2, "both are there")
    await asyncio.sleep(0.4)
    assert nursery.asked == 2
    nursery.programs[0].send_signal(signal.SIGSTOP)
    silent.add(nursery.programs[0].pid)
    await until(lambda: nursery.asked == 3 and len(pool.pids) == 2, "a third")
    assert nursery.programs[0].poll() is not None and nursery.programs[1].poll() is None
    await pool.stop()
    await pool.end()


async def test_a_worker_of_this_machine_that_ends_is_told_of_and_no_other(nursery: Slow) -> None:
    died: list[str] = []
    pool = Pool(nursery, "", 0, lambda: 0, there, died=died.append)
    program = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    nursery.programs.append(program)
    for name, pid in ((f"{child_name()}{program.pid}", program.pid), ("far-1", program.pid), (child_name(), None)):
        pool.watch(Worker(name, f"lease of {name}", pid, None, 0.0))
    program.kill()
    await until(lambda: died, "it has ended")
    assert died == [f"lease of {child_name()}{program.pid}"]
    await pool.stop()
