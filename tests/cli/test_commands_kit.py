"""What the tests of commands stand on: one process that forks them (services_kit/commands.py)."""

from __future__ import annotations

import os
import signal

import commands


def test_commands_are_called_after_the_process_that_forks_them_was_killed() -> None:
    assert commands.command("--version")[0] == 0
    os.kill(commands._forks("cli")._nursery.pid, signal.SIGKILL)
    assert commands.command("--version")[0] == 0
    assert commands.command("--no-such-option")[0] == 2
