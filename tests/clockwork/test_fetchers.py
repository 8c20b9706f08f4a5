"""Fetchers that are silent for a while, or die, or are started again, in simulated time (fetchers.py)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
EACH = 4
"""Blocks of a request."""


def fetch(size: int, what: str, for_s: float, many: int) -> dict[str, Any]:
    """In a process of its own: it replaces the clock."""
    command = [sys.executable, "-m", "clockwork.fetchers", str(size), what, str(for_s), str(many)]
    environment = {**os.environ, "PYTHONPATH": str(TESTS), "PYTHONHASHSEED": "0"}
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=280, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    told: dict[str, Any] = json.loads(ran.stdout)
    assert told["state"] == "done" and not told["violations"], told
    return told


def busy_again(told: dict[str, Any]) -> int:
    """How many fetched after they were back."""
    return sum(told["by"][name] > told["by_before"][name] for name in told["by"])


def test_seven_of_eight_fetchers_that_are_silent_for_three_seconds_are_waited_for() -> None:
    """Nobody is given up who is only slow to answer, so nothing is fetched twice, and it costs the time that
    they did not fetch."""
    told = fetch(512 << 20, "pause", 3, 7)
    assert told["gone"] == 0 and told["asked"] == told["blocks"] and busy_again(told) == 8, told
    assert told["took_s"] < 10.0, "5.5 without"


def test_fetchers_that_are_gone_fetch_again_when_they_are_back() -> None:
    """Silent for so long that the fabric manager has lost them. Of what they had been ordered some is fetched twice."""
    told = fetch(256 << 20, "pause", 8, 7)
    assert told["gone"] == 7 and busy_again(told) == 8, told
    assert told["again"] <= 7 * 15 * EACH, told


def test_fetchers_that_are_started_again_lose_what_was_on_its_way() -> None:
    """And a block each that had come, of which nobody had heard."""
    told = fetch(256 << 20, "kill", 1, 7)
    assert told["gone"] == 7 and busy_again(told) == 8, told
    assert told["again"] <= 7 * (EACH + 1), told


def test_fetchers_that_do_not_come_back_are_done_without() -> None:
    """Until the other receivers have it; they are served when they are back."""
    told = fetch(256 << 20, "kill", 20, 7)
    assert told["gone"] == 7 and told["by"] == told["by_before"], told
    assert told["again"] <= 2 * 7 * EACH, told
