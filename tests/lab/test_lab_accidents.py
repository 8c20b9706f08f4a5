"""Ctrl-C at any moment, kill -9, two labs of one name: nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
from itertools import chain

import pytest
from commands import command
from lab_kit import DATACAST, eventually, running_state, start_run, traces
from left_over import unique_name
from ports import free_ports

from datacast.lab.state import Registry

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow]


def wait_for(process: subprocess.Popen[str], word: str) -> None:
    for line in process.stderr:
        if line.startswith(word):
            return
    pytest.fail(f"the lab ended before {word!r}: {process.communicate()}")


def run_again(name: str) -> tuple[int, str, str]:
    """A `lab run` that is refused."""
    ports = zip(("--rest-port", "--fabric-port"), free_ports(2), strict=True)
    return command("lab", "run", "--topology", "bcube:2,1", "--name", name, "--size", "1K", *chain(*ports))


@pytest.mark.parametrize(
    ("word", "number"),
    [
        ("management", signal.SIGINT),
        ("namespace", signal.SIGTERM),
        ("ports", signal.SIGINT),
        ("switches", signal.SIGINT),
        ("agent", signal.SIGHUP),
        ("sending", signal.SIGINT),
    ],
)
def test_an_interrupt_leaves_nothing_behind(word, number):
    name = unique_name(f"int-{word}")
    process = start_run(name, "--size", "64M")
    wait_for(process, word)
    state = Registry().load(name)
    process.send_signal(number)
    out, err = process.communicate(timeout=90)
    assert process.returncode == 130, out + err
    assert "interrupted" in err
    assert traces(name, state.identity, state.slot, state.work) == []


def test_impatient_ctrl_c_does_not_break_the_clean_up():
    """While all register."""
    name = unique_name("impatient")
    process = start_run(name, "--size", "64M")
    wait_for(process, "registration")
    state = Registry().load(name)
    for _ in range(20):
        process.send_signal(signal.SIGINT)
        if process.poll() is not None:
            break
        try:
            process.wait(0.05)
        except subprocess.TimeoutExpired:
            continue
    process.communicate(timeout=90)
    assert process.returncode == 130
    assert traces(name, state.identity, state.slot, state.work) == []


def test_a_reader_that_goes_away_does_not_keep_the_lab_from_cleaning_up():
    name = unique_name("pipe")
    process = start_run(name, "--size", "8M")
    wait_for(process, "agent")
    state = Registry().load(name)
    process.stdout.close()
    process.stderr.close()
    process.send_signal(signal.SIGHUP)
    process.wait(60)
    assert traces(name, state.identity, state.slot, state.work) == []


@pytest.mark.parametrize("word", ["cable", "registration", "sending"])
def test_lab_down_cleans_up_after_a_kill(word):
    name = unique_name(f"kill-{word}")
    process = start_run(name, "--size", "64M")
    wait_for(process, word)
    state = Registry().load(name)
    process.kill()
    process.communicate()
    code, _, err = run_again(name)
    assert code == 3 and "left over" in err and f"datacast lab down --name {name}" in err
    code, _, err = command("lab", "down", "--name", name)
    assert code == 0, err
    assert traces(name, state.identity, state.slot, state.work) == []


def test_a_lab_that_runs_is_named_and_lab_down_ends_it():
    name = unique_name("twice")
    first = start_run(name, "--size", "256M")
    state = running_state(name, first)
    code, _, err = run_again(name)
    assert code == 3
    assert f"running already: '{name}', process {first.pid}" in err and "datacast lab down" in err
    code, _, err = command("lab", "down", "--name", name)
    assert code == 0, err
    first.communicate(timeout=60)
    assert first.returncode == 130
    assert traces(name, state.identity, state.slot, state.work) == []


def test_a_taken_port_is_named_before_anything_is_made():
    import socket

    name = unique_name("port")
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
        code, _, err = command("lab", "up", "--name", name, "--rest-port", port)
    assert code == 3
    assert f"port {port}" in err and f"process {os.getpid()}" in err and "--rest-port" in err
    assert Registry().load(name) is None


def test_without_root_the_lab_says_so():
    done = subprocess.run(
        ["setpriv", "--reuid", "65534", "--clear-groups", str(DATACAST), "lab", "up", "--name", unique_name("nobody")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 3 and "not root" in done.stderr


def test_a_daemon_that_ends_by_itself_ends_the_lab_with_its_log():
    name = unique_name("daemon")
    process = start_run(name, verb="up")
    assert process.stdout.readline().startswith("The lab is up")
    state = Registry().load(name)
    switch = eventually(
        lambda: [int(p) for p in os.listdir("/proc") if p.isdigit() and _is(p, "datacast-switch", state.identity)],
        5,
        "the switch's process",
    )
    os.kill(switch[0], signal.SIGKILL)
    _, err = process.communicate(timeout=90)
    assert process.returncode == 3 and "sw0 ended with SIGKILL" in err
    assert traces(name, state.identity, state.slot, state.work) == []


def _is(pid: str, program: str, identity: str) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as cmdline, open(f"/proc/{pid}/environ", "rb") as environ:
            return program.encode() in cmdline.read() and identity.encode() in environ.read()
    except OSError:
        return False
