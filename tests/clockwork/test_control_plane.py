"""Fabric managers, workers, the store and agents under faults in simulated time: forty seeds (README.md)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(900)
SEEDS = os.environ.get("DATACAST_CLOCKWORK", "0:40")
TESTS = Path(__file__).resolve().parents[1]


def clockwork(*arguments: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own: it replaces the clock."""
    command = [sys.executable, "-m", "clockwork", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(TESTS), "PYTHONHASHSEED": "0"}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=3600, check=False)


def test_whatever_dies_groups_end_once_and_nobody_fetches_a_verified_byte_again() -> None:
    ran = clockwork(SEEDS, "-j", "2")
    assert ran.returncode == 0, ran.stdout + ran.stderr[-2000:]


@pytest.mark.parametrize(
    ("seed", "bug", "seen"),
    [
        ("10", "bounds that a stream lost are not told again", "does not end"),
        ("530", "members' leases end before it is written down how the group ended", "once more that it had verified"),
    ],
)
def test_a_seed_that_failed_once_holds_and_fails_without_its_mend(seed: str, bug: str, seen: str) -> None:
    ran = clockwork(seed)
    assert ran.returncode == 0, ran.stdout + ran.stderr[-2000:]
    ran = clockwork(seed, "--bug", bug)
    assert ran.returncode == 1 and seen in ran.stdout, ran.stdout + ran.stderr[-2000:]


def test_a_seed_is_the_same_run_every_time() -> None:
    one, two = clockwork("7"), clockwork("7")
    assert "history=" in one.stdout
    assert one.stdout.partition("history=")[2].split(",")[0] == two.stdout.partition("history=")[2].split(",")[0]


def test_it_finds_a_bug_that_is_put_back() -> None:
    """All of them, over many seeds: `make clockwork-bugs`."""
    ran = clockwork("4", "--bug", "another owner keeps the epoch")
    assert ran.returncode == 1 and "another owner, epoch" in ran.stdout, ran.stdout + ran.stderr[-2000:]
