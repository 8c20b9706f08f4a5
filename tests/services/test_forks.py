"""Forked processes as `subprocess` has them (services/forks.py): real ones."""

from __future__ import annotations

import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from datacast.services.forks import Forked, Forks
from datacast.services.nursery import Nursery


def main(arguments: list[str]) -> None:
    """What they do."""
    if arguments == ["3"]:
        sys.exit(3)
    sys.stdin.read()


@pytest.fixture
def forks():
    made = Forks(Nursery(__name__, "forked"))
    yield made
    made.close()


def over(one: Forked) -> None:
    """It has ended; nobody here has asked for its status, but it may be known since another one was started."""
    assert one.returncode is not None or select.select([one._child.process], [], [], 60)[0]


def test_a_status_is_read_of_one_that_its_parent_has_not_waited_for(forks: Forks) -> None:
    one = forks.start(["it"], 3)
    over(one)
    assert one.returncode is None and one.poll() == 3 and one.wait() == 3


def test_a_status_is_told_when_its_parent_has_waited_for_it_to_start_another(forks: Forks) -> None:
    ending = [forks.start(["it"], 3) for _ in range(3)]
    for one in ending:
        over(one)
    last = forks.start(["it"], 0)
    assert not any(Path(f"/proc/{one.pid}").exists() for one in ending), "nothing is left of them"
    assert [one.returncode for one in ending] == [3, 3, 3] and last.poll() is None
    last.kill()
    assert last.wait(60) == -signal.SIGKILL


def test_one_that_does_not_end_is_waited_for_as_long_as_one_says(forks: Forks) -> None:
    one = forks.start(["it"], 0)
    with pytest.raises(subprocess.TimeoutExpired):
        one.wait(0.05)
    one.kill()
    assert one.wait(60) == -signal.SIGKILL
    one.kill()  # nobody is left to be killed
    assert one.poll() == -signal.SIGKILL


def test_an_order_that_is_too_long_starts_nothing_and_harms_nobody(forks: Forks) -> None:
    one = forks.start(["it"], 0)
    with pytest.raises(OSError, match="too long"):
        forks.start(["it"], "x" * (1 << 18))
    assert one.poll() is None
    one.kill()
    one.wait(60)
