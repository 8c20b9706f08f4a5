"""A lab's traces: claimed once, found after a kill -9, and nobody else's process ever touched."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys

import pytest
from ports import free_ports

from datacast.lab import down, processes
from datacast.lab import lab as lab_module
from datacast.lab.checks import Check, port_taken, require
from datacast.lab.down import take_down
from datacast.lab.errors import Interrupted, LabError
from datacast.lab.lab import Lab, LabOptions, clean
from datacast.lab.processes import Supervisor
from datacast.lab.signals import Signals
from datacast.lab.state import MARK, SLOTS, Registry, kill_marked, lab_name, marked, start_time


@pytest.fixture
def registry(tmp_path):
    return Registry(tmp_path / "run")


def sleeper(identity: str, code: str = "import time; time.sleep(60)") -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", code], env={**os.environ, MARK: identity})


def gone(process: subprocess.Popen) -> bool:
    return process.wait(60) is not None


def test_a_running_lab_is_named_with_its_process_and_the_remedy(registry):
    registry.claim("one")
    with pytest.raises(LabError, match=f"running already: 'one', process {os.getpid()}") as caught:
        registry.claim("one")
    assert "datacast lab down --name one" in caught.value.remedy


def test_labs_of_different_names_take_different_networks(registry):
    assert [registry.claim(name).slot for name in ("a", "b", "c")] == [0, 1, 2]
    registry.forget("b")
    assert registry.claim("d").slot == 1


def test_a_lab_that_was_killed_is_told_and_cleaned_up(registry, tmp_path):
    state = registry.claim("dead")
    work = tmp_path / "work"
    work.mkdir()
    (work / "file").write_text("x")
    state.started -= 1  # the process id now belongs to somebody else
    state.work = str(work)
    registry.save(state)
    with pytest.raises(LabError, match="left over"):
        registry.claim("dead")
    child = sleeper(state.identity)
    take_down("dead", registry)
    assert gone(child)
    assert not work.exists() and registry.load("dead") is None
    assert registry.claim("dead").slot == 0


@pytest.mark.parametrize("follows", [False, True])
def test_a_lab_that_has_ended_itself_leaves_nothing_to_take_down_not_even_the_next_one_of_its_name(
    registry, tmp_path, follows
):
    """That one may have its name, its place and its interface by the time the first one's process is gone."""
    code = (
        "import pathlib, signal, sys; from datacast.lab.state import Registry, start_time\n"
        "registry, parent = Registry(pathlib.Path(sys.argv[1])), int(sys.argv[2])\n"
        "state = registry.claim('x')\n"
        "def end(*_):\n"
        "    registry.forget('x')\n"
        "    if parent:\n"
        "        state.identity, state.pid, state.started = 'e' * 32, parent, start_time(parent)\n"
        "        registry.save(state)\n"
        "    sys.exit()\n"
        "signal.signal(signal.SIGTERM, end); print('up', flush=True); signal.pause()"
    )
    parent = str(os.getpid() if follows else 0)
    lab = subprocess.Popen([sys.executable, "-c", code, str(registry.root), parent], stdout=subprocess.PIPE)
    other = sleeper("e" * 32)
    cleaned = []
    try:
        assert lab.stdout.readline() == b"up\n"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(down, "clean", lambda registry, state: cleaned.append(state.identity) or [])
            assert take_down("x", registry).pid == lab.pid
        assert cleaned == [] and bool(registry.load("x")) == follows and other.poll() is None
    finally:
        for process in (lab, other):
            process.kill()
            process.wait()
        lab.stdout.close()


def test_a_lab_that_even_sigkill_does_not_end_is_waited_for_no_longer_than_a_while(registry, monkeypatch):
    """One that waits for a disk that does not answer."""
    lab = sleeper("f" * 32)
    state = registry.claim("x")
    state.pid = lab.pid
    registry.save(state)
    monkeypatch.setattr(type(state), "alive", True)
    monkeypatch.setattr(down, "PATIENCE_S", 0.1)
    with pytest.raises(LabError, match=f"process {lab.pid} of the lab 'x' does not end"):
        take_down("x", registry)
    assert gone(lab) and registry.load("x")


def test_only_processes_with_the_lab_s_identity_are_ended(registry):
    ours, theirs = sleeper("a" * 32), sleeper("b" * 32)
    try:
        assert ours.pid in marked("a" * 32) and theirs.pid not in marked("a" * 32)
        assert kill_marked("a" * 32) == []
        assert gone(ours) and theirs.poll() is None
    finally:
        theirs.kill()
        theirs.wait()


def test_a_process_that_ignores_sigterm_or_is_stopped_is_killed_after_the_grace():
    deaf = sleeper("c" * 32, "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)")
    stopped = sleeper("c" * 32)
    stopped.send_signal(signal.SIGSTOP)
    assert kill_marked("c" * 32, grace_s=0.5) == []
    assert gone(deaf) and gone(stopped)


def test_kept_files_stay(registry, tmp_path):
    state = registry.claim("kept")
    work = tmp_path / "work"
    work.mkdir()
    state.work, state.keep = str(work), True
    assert clean(registry, state) == []
    assert work.is_dir()


@pytest.mark.root
def test_a_mount_that_somebody_is_in_is_named_and_taken_away_later(registry, tmp_path):
    state = registry.claim("busy")
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "datacast-test", str(folder)], check=True)
    state.mounts, state.started = [str(folder)], state.started - 1
    registry.save(state)
    try:
        with open(folder / "file", "w"), pytest.raises(LabError, match=f"could not end: mount {folder} .*busy"):
            take_down("busy", registry)
        assert registry.load("busy")
        take_down("busy", registry)
        assert registry.load("busy") is None and not os.path.ismount(folder)
    finally:
        if os.path.ismount(folder):
            subprocess.run(["umount", "-l", str(folder)], check=True)


def test_an_unreadable_state_file_is_no_lab(registry):
    registry.claim("x")
    (registry.folder("x") / "state.json").write_text("{")
    assert registry.load("x") is None and registry.all() == []


def test_a_lab_of_another_version_is_still_one(registry):
    state = registry.claim("x")
    path = registry.folder("x") / "state.json"
    told = json.loads(path.read_text())
    del told["cgroups"]  # did not exist then
    path.write_text(json.dumps({**told, "colour": "blue"}))
    assert registry.load("x") == state
    with pytest.raises(LabError, match="running already"):
        registry.claim("x")


def test_what_an_unreadable_lab_has_left_is_in_nobody_s_way(registry):
    registry.claim("x")
    (registry.folder("x") / "state.json").write_text("{")
    (registry.folder("x") / "token").write_text("old\n")
    registry.claim("x")
    assert os.listdir(registry.folder("x")) == ["state.json"]


@pytest.mark.root
def test_another_s_interface_is_left_alone(registry, monkeypatch):
    monkeypatch.setenv("DATACAST_RUNTIME", str(registry.root))
    for i in range(SLOTS - 1):
        registry.claim(f"x{i}")
    ifname = f"dclab{SLOTS - 1}"
    subprocess.run(["ip", "link", "add", ifname, "type", "bridge"], check=True)
    try:
        rest, fabric = free_ports(2)
        lab = Lab(LabOptions(topology="bcube:2,0", rest_port=rest, fabric_port=fabric), "mine")
        with pytest.raises(LabError, match=f"interface {ifname} already"), lab:
            lab.up()
        assert os.path.exists(f"/sys/class/net/{ifname}")
    finally:
        subprocess.run(["ip", "link", "del", ifname])
    assert registry.load("mine") is None


@pytest.mark.root
def test_who_has_a_lab_s_name_or_its_port_is_told_by_name(registry, monkeypatch):
    monkeypatch.setenv("DATACAST_RUNTIME", str(registry.root))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        options = LabOptions(topology="bcube:2,0", rest_port=listening.getsockname()[1])
        state = registry.claim("theirs")
        state.rest = f"http://127.0.0.1:{options.rest_port}"
        registry.save(state)
        with pytest.raises(LabError, match="running already: 'theirs'"), Lab(options, "theirs"):
            pass
        with pytest.raises(LabError, match=r"in use by lab 'theirs'\n.*--rest-port and"), Lab(options, "mine"):
            pass
    assert registry.load("mine") is None


def test_one_port_for_two_services_is_told_before_anything_starts(registry, monkeypatch):
    monkeypatch.setenv("DATACAST_RUNTIME", str(registry.root))
    (port,) = free_ports(1)
    options = LabOptions(topology="bcube:2,0", rest_port=port, fabric_port=port)
    with pytest.raises(LabError, match=f"port {port} is asked for twice"), Lab(options, "mine"):
        pass
    assert registry.load("mine") is None


def test_who_ends_a_lab_hears_what_could_not_be_taken_down(registry, monkeypatch, capsys):
    """Not that everything was."""
    monkeypatch.setenv("DATACAST_RUNTIME", str(registry.root))
    monkeypatch.setattr(lab_module, "clean", lambda registry, state: ["mount /disk (target is busy)"])
    said = r"could not end: mount /disk \(target is busy\)"
    lab = Lab(LabOptions(topology="bcube:2,0"), "mine")
    lab.state = registry.claim("mine")
    with pytest.raises(LabError, match=said) as caught:
        lab.__exit__(Interrupted, Interrupted(signal.SIGINT), None)
    assert "datacast lab down --name mine" in caught.value.remedy and lab.state is None
    for kind in (None, LabError):  # who has a report, or knows why, is not robbed of it
        lab.state = registry.load("mine")
        lab.__exit__(kind, None, None)
        assert re.search(said, capsys.readouterr().err)


def test_a_start_time_tells_a_process_from_its_successor():
    process = sleeper("d" * 32)
    assert start_time(process.pid) is not None
    process.kill()
    process.wait()
    assert start_time(process.pid) is None


@pytest.mark.parametrize("name", ["", "../x", "a/b", "x" * 40, "-x"])
def test_a_name_that_makes_no_file_name_is_refused(name, monkeypatch):
    monkeypatch.delenv("DATACAST_LAB", raising=False)
    if name == "":
        assert lab_name(name) == "lab"
    else:
        with pytest.raises(LabError, match="no name for a lab"):
            lab_name(name)


# ---- signals ----
def test_a_signal_waits_for_a_safe_moment_and_ends_a_wait():
    with Signals() as signals:
        os.kill(os.getpid(), signal.SIGINT)
        assert signals.pending == signal.SIGINT  # noted, nothing raised
        with pytest.raises(Interrupted):
            signals.check()
        signals.cleaning = True
        signals.check()  # the clean-up is not interrupted


def test_a_wait_ends_soon_after_a_signal():
    """Not at its end: that is beyond pytest's own limit."""
    with Signals() as signals:  # before there is somebody who sends one
        child = subprocess.Popen([sys.executable, "-c", f"import os; os.kill({os.getpid()}, 15)"])
        with pytest.raises(Interrupted):
            signals.sleep(3600)
        child.wait()


def test_under_nohup_a_terminal_that_is_closed_ends_nothing():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Signals() as signals:
            os.kill(os.getpid(), signal.SIGHUP)
            assert signals.pending is None
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_wait_that_takes_too_long_names_what_was_awaited():
    with Signals() as signals, pytest.raises(LabError, match="the moon: not within"):
        signals.wait(lambda: False, 0.1, "the moon")


# ---- processes ----
def test_a_process_that_ends_by_itself_is_told_with_the_end_of_its_log(tmp_path):
    with Signals() as signals:
        supervisor = Supervisor(tmp_path, {}, signals)
        supervisor.start("brief", [sys.executable, "-c", "import sys; print('no such port'); sys.exit(3)"])
        with pytest.raises(LabError, match=r"brief ended with status 3:\nno such port"):
            supervisor.wait(lambda: False, 60, "brief")


def test_a_program_that_is_missing_is_told_with_the_remedy(tmp_path):
    with Signals() as signals, pytest.raises(LabError, match="cannot start /no/such/program") as caught:
        Supervisor(tmp_path, {}, signals).start("none", ["/no/such/program"])
    assert "make build" in caught.value.remedy


def test_stop_ends_all_and_those_that_will_not_are_killed(tmp_path):
    with Signals() as signals:
        supervisor = Supervisor(tmp_path, {}, signals)
        code = "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
        deaf = supervisor.start("deaf", [sys.executable, "-c", code])
        supervisor.start("good", [sys.executable, "-c", "import time; time.sleep(60)"])
        supervisor.wait(lambda: "deaf" in deaf.tail(), 60, "deaf")
        supervisor.stop(grace_s=2.0)  # more than it takes a busy machine to end the other one
        assert [p.popen.returncode for p in supervisor.processes] == [-signal.SIGKILL, -signal.SIGTERM]


def test_stop_leaves_what_not_even_sigkill_ends(tmp_path, monkeypatch):
    """A process whose disk stands still: the lab is taken down all the same, and names it."""

    class Stands:
        pid, args, returncode = 1, ["stands"], None

        def poll(self):
            return None

        def wait(self, timeout=None):
            assert timeout is not None, "without a limit"
            raise subprocess.TimeoutExpired(self.args, timeout)

        def send_signal(self, number):
            asked.append(number)

        def kill(self):
            asked.append(signal.SIGKILL)

    asked = []
    monkeypatch.setattr(processes, "KILLED_S", 0.1, raising=False)
    with Signals() as signals:
        supervisor = Supervisor(tmp_path, {}, signals)
        supervisor.processes.append(processes.Process("stands", Stands(), tmp_path / "log"))
        supervisor.stop(grace_s=0.1)
    assert asked == [signal.SIGTERM, signal.SIGCONT, signal.SIGKILL]


# ---- checks ----
def test_everything_that_is_missing_is_named_at_once_with_its_remedy():
    with pytest.raises(LabError) as caught:
        require(
            [
                Check("a", True, True, "here"),
                Check("b", False, True, "not there", "get b"),
                Check("c", False, False, "not there", "get c"),
                Check("d", False, True, "gone", "get d"),
            ]
        )
    assert "b: not there" in caught.value.message and "d: gone" in caught.value.message
    assert caught.value.remedy == "get b\nget d"


def test_a_taken_port_names_its_user():
    code = (
        "import socket, sys; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True)\n"
        "sys.stdin.read()"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        port = process.stdout.readline().strip()
        assert f"process {process.pid}" in (port_taken(f"127.0.0.1:{port}") or "")
    finally:
        process.communicate()
    assert port_taken(f"127.0.0.1:{port}") is None


def test_the_state_file_is_json_that_others_can_read(registry):
    registry.claim("y")
    assert json.loads((registry.folder("y") / "state.json").read_text())["pid"] == os.getpid()
