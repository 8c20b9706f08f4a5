"""At a real-time priority go an agent's frames and its signalling, below them threads that read, hash and write."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from agent_harness import Net, make_pair

from datacast.lab.processes import DATA_PATH, FILES, FRAMES, STORAGE, Process, Supervisor, go_first, may_be_realtime
from datacast.lab.signals import Signals

ALLOWED = os.geteuid() != 0 or may_be_realtime()
pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(not ALLOWED, reason="the kernel allows no real-time priority here"),
]


@pytest.fixture
def realtime() -> Iterator[None]:
    """What this thread starts is of the data path's priority."""
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(DATA_PATH))
    yield
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def realtime_of(pid: int) -> dict[str, int]:
    """Priorities by the threads' names, 0 where a thread is an ordinary one; those of one name are alike."""
    found: dict[str, int] = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        name = "home" if task.name == str(pid) else (task / "comm").read_text().strip()
        realtime = os.sched_getscheduler(int(task.name)) & ~os.SCHED_RESET_ON_FORK == os.SCHED_RR
        level = os.sched_getparam(int(task.name)).sched_priority if realtime else 0
        assert found.setdefault(name, level) == level
    return found


EXPECTED = {"home": DATA_PATH, f"{FRAMES}0": DATA_PATH, FILES: STORAGE}


@pytest.mark.usefixtures("realtime")
def test_threads_stand_at_and_below_the_priority_that_the_agent_was_started_with(make_net: Callable[[], Net]) -> None:
    assert realtime_of(make_pair(make_net()).agents["a"].process.pid) == EXPECTED


def test_a_lab_gives_it_to_frames_too(make_net: Callable[[], Net]) -> None:
    agent = make_pair(make_net()).agents["a"]
    assert not any(realtime_of(agent.process.pid).values())
    go_first(Process("a", agent.process, agent.log))
    assert realtime_of(agent.process.pid) == EXPECTED


def test_a_lab_is_up_when_all_have_it(tmp_path: Path) -> None:
    with Signals() as signals:
        lab = Supervisor(tmp_path, {}, signals)
        daemon = lab.start("daemon", ["sleep", "60"], realtime=True)
        try:
            lab.wait_for_priorities(60)
            assert os.sched_getscheduler(daemon.pid) & ~os.SCHED_RESET_ON_FORK == os.SCHED_RR
        finally:
            lab.stop()
