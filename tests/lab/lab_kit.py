"""What the lab's tests share: free ports, a quiet watcher, and a look for anything a lab left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ports import free_ports

from datacast.controller.api.records import GroupRecord
from datacast.lab import run
from datacast.lab.report import plain
from datacast.lab.state import MARK, Registry

DATACAST = Path(sys.executable).parent / "datacast"


class Quiet(run.Quiet):
    """Calls `hook(group)` on every poll, with JSON."""

    def __init__(self, hook: Callable[[dict[str, Any]], None] | None = None) -> None:
        self.hook = hook

    def group(self, group: GroupRecord) -> None:
        if self.hook:
            self.hook(plain(group))


def finish(command: list[str], seconds: float) -> subprocess.CompletedProcess[str]:
    """Run a `lab run` to its end. One that takes too long, or whose test is over its time, takes its lab down."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            out, err = process.communicate(timeout=seconds)
        except BaseException as error:
            process.terminate()
            try:
                out, err = process.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
            if isinstance(error, subprocess.TimeoutExpired):
                raise AssertionError(f"not over after {seconds:g} s:\n{out}{err}") from error
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def eventually(ready: Callable[[], Any], seconds: float, what: str) -> Any:
    """The first true answer; fails naming `what`."""
    end = time.monotonic() + seconds
    while True:
        answer = ready()
        if answer:
            return answer
        assert time.monotonic() < end, f"{what}: not within {seconds} s"
        time.sleep(0.02)


def asked_again(report: dict[str, Any]) -> float:
    """What link stress may be more by: an agent that a busy machine holds up asks for what is on its way, and each time
    it does one more copy may come over every link."""
    return sum(row["retransmissions"] for row in report["receivers"].values()) / sum(report["trees"]["new_packets"])


def _taken(slot: int, name: str) -> bool:
    """By another lab than this one."""
    return any(state.slot == slot and state.name != name for state in Registry().all())


def traces(name: str, identity: str, slot: int, work: str) -> list[str]:
    """What is left of a lab on this machine."""
    left = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                environ, stat = Path(f"/proc/{entry}/environ").read_bytes(), Path(f"/proc/{entry}/stat").read_text()
            except OSError:
                continue
            if f"{MARK}={identity}".encode() in environ and stat.rpartition(")")[2].split()[0] not in "ZX":
                left.append(f"process {entry}: {Path(f'/proc/{entry}/cmdline').read_bytes()!r}")
    # Of another lab, which had its place at once: its state is there before the interface is, and goes after it.
    there = not _taken(slot, name) and os.path.exists(f"/sys/class/net/dclab{slot}")
    if there and not _taken(slot, name):
        left.append(f"interface dclab{slot}")
    left += [path for path in (work, str(Registry().folder(name))) if path and os.path.exists(path)]
    return left


def start_run(name: str, *arguments: str, verb: str = "run") -> subprocess.Popen[str]:
    """`datacast lab run` (or `up`) of a small lab as a process of its own.

    It hears every signal, whatever the tests were started to ignore: `nohup make test`, or a shell's `&`.
    """
    rest, fabric = free_ports(2)
    command = [
        "env",
        "--default-signal=HUP,INT",
        str(DATACAST),
        "lab",
        verb,
        "--topology",
        "bcube:2,1",
        "--name",
        name,
        "--rest-port",
        str(rest),
        "--fabric-port",
        str(fabric),
        *arguments,
    ]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def running_state(name: str, process: subprocess.Popen[str]) -> Any:
    """The lab's state as soon as it has one with a work folder."""

    def look() -> Any:
        state = Registry().load(name)
        assert process.poll() is None, process.communicate()
        return state if state and state.work else None

    return eventually(look, 60, "the lab's state file")
