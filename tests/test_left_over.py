"""A test run that was killed leaves namespaces and labs; the next one takes them away, and nothing of a living one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from left_over import owned, remove, unique_name

from datacast.lab.state import Registry

CLAIM = (
    "import sys; from pathlib import Path; from datacast.lab.state import Registry; "
    "Registry(Path(sys.argv[1])).claim(sys.argv[2])"
)


def gone() -> str:
    """The number of a process that has ended."""
    process = subprocess.Popen(["true"])
    process.wait()
    return str(process.pid)


@pytest.mark.root
def test_namespaces_go_with_their_processes_and_no_others() -> None:
    mine, left = owned("tidy"), owned("tidy").replace(str(os.getpid()), gone())
    used = left + "-used"
    for name in (mine, left, used):
        subprocess.run(["ip", "netns", "add", name], check=True)
    inside = subprocess.Popen(["ip", "netns", "exec", used, "sleep", "60"])
    try:
        while str(inside.pid) not in subprocess.check_output(["ip", "netns", "pids", used], text=True).split():
            assert inside.poll() is None
        removed = remove()
        there = os.listdir("/run/netns")
        assert left in removed and left not in there
        assert {mine, used} <= set(there) and not {mine, used} & set(removed)
        inside.kill()
        inside.wait()
        assert used in remove()
    finally:
        inside.kill()
        for name in (mine, left, used):
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


@pytest.mark.root
def test_labs_go_with_their_processes_and_no_others(tmp_path: Path) -> None:
    left = unique_name("tidy").replace(str(os.getpid()), gone())
    for name in (left, "a-users"):  # each of a process that has ended since
        subprocess.run([sys.executable, "-c", CLAIM, str(tmp_path), name], check=True)
    registry = Registry(tmp_path)
    registry.claim(mine := unique_name("tidy"))
    assert remove(tmp_path, registry) == [left]
    assert sorted(state.name for state in registry.all()) == sorted(["a-users", mine])
