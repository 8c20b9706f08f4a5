"""Fabric manager and controller go before the workers, which may have seconds of trees to compute."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from datacast.lab.processes import may_be_realtime
from datacast.services.priority import below

realtime = pytest.mark.skipif(
    os.geteuid() == 0 and not may_be_realtime(), reason="the kernel allows no real-time priority here"
)


def test_a_worker_is_two_below_as_far_as_there_is_one() -> None:
    assert [below(priority) for priority in (0, 1, 2, 3, 99)] == [0, 1, 1, 1, 97]


SAID = """
import asyncio, os, select, sys, threading
from datacast.services.nursery import Nursery
from datacast.services.priority import go_realtime

def mine():
    return os.sched_getparam(0).sched_priority

def main(arguments):
    print(mine(), file=sys.stderr, flush=True)

async def say():
    there, asked, said = threading.Event(), threading.Event(), []

    def before():
        there.set()
        asked.wait()
        said.append(mine())

    thread = threading.Thread(target=before)
    thread.start()
    there.wait()
    go_realtime(2)
    asked.set()
    thread.join()
    print(mine(), *said, await asyncio.to_thread(mine), file=sys.stderr, flush=True)

asyncio.run(say())
nursery = Nursery("__main__", "said")
select.select([nursery.start([]).process], [], [])
nursery.close()
"""


@pytest.mark.root
@realtime
def test_threads_have_the_priority_of_their_process_and_what_it_forks_has_none() -> None:
    """An ordinary thread that has Python's lock, and no processor, would hold up the others."""
    said = subprocess.run([sys.executable, "-c", SAID], stderr=subprocess.PIPE, text=True, check=True).stderr
    assert said.split() == ["2", "2", "2", "0"]


PROGRAMS = {
    "fabric_manager": "--topology bcube:2,1 --store :memory: --workers 0 --http 127.0.0.1:0 --signalling 127.0.0.1:0",
    "controller": "--listen 127.0.0.1:0",
}

ASKED = """
import sys
from datacast.{0} import main
from datacast.services import priority

def said(priority):
    print(priority, file=sys.stderr, flush=True)

main.go_realtime = said
main.main(sys.argv[1:])
"""


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_service_loads_at_its_workers_priority(program: str) -> None:
    """Two seconds of a processor that one which is started again takes are nobody's hurry."""
    service = subprocess.Popen(
        [sys.executable, "-c", ASKED.format(program), "--realtime", "5", *PROGRAMS[program].split()],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert service.stdout and service.stdout.readline()
    service.send_signal(signal.SIGTERM)
    said = service.communicate(timeout=60)[1]
    assert [line for line in said.splitlines() if line.isdigit()] == ["5", "3", "5"], "5 first: is it allowed at all"


@pytest.mark.root
@realtime
def test_the_workers_of_a_fabric_manager_stand_below_it(tmp_path: Path) -> None:
    manager = subprocess.Popen(
        [
            sys.executable, "-m", "datacast.fabric_manager.main", "--topology", "bcube:4,1", "--workers", "1",
            "--realtime", "4", "--store", str(tmp_path / "s"), "--http", "127.0.0.1:0", "--signalling", "127.0.0.1:0",
        ],
        stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert manager.stdout and manager.stdout.readline()
        children, end = Path(f"/proc/{manager.pid}/task/{manager.pid}/children"), time.monotonic() + 60
        found: set[int] = set()
        # The process that forks workers is none, and is let go when there are enough.
        while 2 not in found and time.monotonic() < end:
            found = {os.sched_getparam(int(pid)).sched_priority for pid in children.read_text().split()}
            time.sleep(0.05)
        assert found == {2}
        assert os.sched_getparam(manager.pid).sched_priority == 4
    finally:
        manager.send_signal(signal.SIGTERM)
        manager.wait(60)
