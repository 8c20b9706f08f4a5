"""Services that a lab forks from what is loaded (lab/services.py): what others see of them is what they would be as
programs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from lab_kit import eventually

from datacast.lab.errors import LabError
from datacast.lab.processes import Process, Supervisor
from datacast.lab.services import forks
from datacast.lab.signals import Signals
from datacast.lab.state import MARK, kill_marked, marked

CONTROLLER = str(Path(sys.executable).parent / "datacast-controller")
IDENTITY = ""
"""A new one for each test."""


@pytest.fixture
def lab(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "IDENTITY", uuid.uuid4().hex)
    monkeypatch.setenv("GONE", "before")
    with Signals() as signals:
        made = Supervisor(tmp_path, {MARK: IDENTITY, "GONE": "now"}, signals)
        yield made
        made.stop()
    forks.close()  # it has this test's folder and files


def controller(lab: Supervisor, name: str = "it", **options) -> Process:
    process = lab.service(name, [CONTROLLER, "--listen", f"unix:{lab.logs}/{name}"], **options)
    lab.wait(lambda: "REST at" in process.tail(), 60, "the controller")
    return process


def of(process: Process, file: str) -> list[str]:
    return Path(f"/proc/{process.pid}/{file}").read_bytes().decode().split("\0")


def test_it_has_the_command_line_and_the_environment_that_it_was_given(lab) -> None:
    process = controller(lab)
    assert of(process, "cmdline")[:2] == [CONTROLLER, "--listen"] and of(process, "comm") == ["datacast-contro\n"]
    assert f"{MARK}={IDENTITY}" in of(process, "environ") and marked(IDENTITY) == [process.pid]
    assert os.getsid(process.pid) == process.pid, "Ctrl-C in a terminal does not reach it"
    assert os.readlink(f"/proc/{process.pid}/cwd") == os.getcwd()
    assert os.readlink(f"/proc/{process.pid}/fd/0") == os.devnull
    nowhere_else = {os.readlink(f"/proc/{process.pid}/fd/{number}") for number in (1, 2)}
    assert nowhere_else == {str(process.log)}


def test_two_share_what_one_process_has_loaded(lab) -> None:
    parents = {Path(f"/proc/{controller(lab, name).pid}/stat").read_text().split()[3] for name in ("one", "two")}
    assert len(parents) == 1 and parents != {str(os.getpid())}


def test_one_that_ends_by_itself_is_told_with_its_status_and_the_end_of_its_log(lab) -> None:
    lab.service("it", [CONTROLLER, "--no-such-option"])
    with pytest.raises(LabError, match=r"(?s)it ended with status 2:.*unrecognized arguments: --no-such-option"):
        lab.wait(lambda: False, 60, "it")
    lab.processes.clear()


def test_its_end_is_known_after_the_next_one_was_started(lab) -> None:
    first = controller(lab)
    first.expected = True
    first.popen.kill()
    controller(lab, "next")
    assert first.popen.wait(60) == -signal.SIGKILL and not first.running
    first.popen.kill()  # another process may have its number: nobody is killed


def test_it_is_waited_for_as_long_as_one_says(lab) -> None:
    process = controller(lab)
    with pytest.raises(subprocess.TimeoutExpired):
        process.popen.wait(0.01)
    process.popen.send_signal(signal.SIGTERM)
    assert process.popen.wait(60) == 0


@pytest.mark.root
def test_one_inside_has_the_network_and_the_mounts_of_another_process(lab) -> None:
    with subprocess.Popen(["unshare", "--net", "--mount", "sleep", "600"]) as other:
        eventually(lambda: Path(f"/proc/{other.pid}/comm").read_text() == "sleep\n", 60, "a namespace")
        process = controller(lab, inside=other.pid)
        for kind in ("net", "mnt"):
            there = os.readlink(f"/proc/{other.pid}/ns/{kind}")
            assert os.readlink(f"/proc/{process.pid}/ns/{kind}") == there != os.readlink(f"/proc/self/ns/{kind}")
        other.kill()


@pytest.mark.slow
@pytest.mark.parametrize("known", [True, False])
def test_it_ends_when_the_lab_is_killed(lab, known: bool) -> None:
    """Also where it had not begun."""
    code = f"""import pathlib, time
from datacast.lab.processes import Supervisor
from datacast.lab.signals import Signals
it = Supervisor(pathlib.Path({str(lab.logs)!r}), {{{MARK!r}: {IDENTITY!r}}}, Signals())
it.service('it', [{CONTROLLER!r}, '--listen', 'unix:{lab.logs}/it'])
print('started', flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            process.stdout.readline()
            if known:
                eventually(lambda: marked(IDENTITY), 60, "a service")
        finally:
            process.kill()
        process.stderr.read()  # to its end: whatever was forked has begun, or ended
    try:
        eventually(lambda: not marked(IDENTITY), 60, "its end")
    finally:
        kill_marked(IDENTITY)


@pytest.mark.slow
def test_when_that_which_has_loaded_them_is_killed_the_next_one_is_loaded_anew(lab) -> None:
    first = controller(lab)
    first.expected = True
    os.kill(int(Path(f"/proc/{first.pid}/stat").read_text().split()[3]), signal.SIGKILL)
    assert first.popen.wait(60) == 0 or first.popen.returncode == -signal.SIGKILL, "it is told to end"
    assert controller(lab, "next").running


def test_a_service_of_another_python_is_started_as_a_program(lab, tmp_path) -> None:
    program = tmp_path / "datacast-controller"
    shutil.copy(CONTROLLER, program)
    process = lab.service("it", [str(program), "--listen", f"unix:{tmp_path}/it"])
    assert Path(f"/proc/{process.pid}/stat").read_text().split()[3] == str(os.getpid())
