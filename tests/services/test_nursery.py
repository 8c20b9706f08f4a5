"""Workers that are forked from what is loaded already (services/nursery.py): real processes."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import sys
import uuid
from pathlib import Path

import pytest

from datacast.services import nursery as services_nursery
from datacast.services.nursery import Child, Nursery

OPENED = open(__file__)  # noqa: SIM115  (what workers must not have)


def files() -> set[str]:
    """What this process has open beyond its standard files, by what the kernel calls each."""
    found = (Path("/proc/self/fd") / name for name in os.listdir("/proc/self/fd") if int(name) > 2)
    return {os.readlink(path) for path in found if path.is_symlink()}


def main(arguments: list[str]) -> None:
    """What the workers here do."""
    what = arguments[0]
    if what == "files":
        Path(arguments[1]).write_text("\n".join(sorted(files())))
    elif what == "wait":
        Path(arguments[1]).write_text("there")
        sys.stdin.read()
        Path(arguments[1]).write_text("ended")
    elif what == "hang-up":
        Path(arguments[1]).write_text(signal.getsignal(signal.SIGHUP).name)
    elif what == "exit":
        sys.exit(3)


@pytest.fixture
def nursery():
    made = Nursery(__name__, "a-worker")
    yield made
    made.close()


def ended(child: Child) -> None:
    assert select.select([child.process], [], [], 60)[0], "it has ended"


def said(path: Path, text: str) -> None:
    for _ in range(6000):
        if path.exists() and path.read_text() == text:
            return
        select.select([], [], [], 0.01)
    raise AssertionError(f"{path} does not say {text}")


def called(name: str) -> bool:
    """Whether a process is."""
    for path in Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):
            if path.read_text().strip() == name:
                return True
    return False


@pytest.mark.parametrize("kind", [signal.SIG_DFL, signal.SIG_IGN])
def test_a_worker_of_a_service_under_nohup_is_under_nohup_too(kind: signal.Handlers, tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, kind)
    try:
        made = Nursery(__name__, "a-worker")
        ended(made.start(["hang-up", str(tmp_path / "kind")]))
        made.close()
    finally:
        signal.signal(signal.SIGHUP, before)
    said(tmp_path / "kind", kind.name)


def test_a_worker_has_its_standard_files_and_nothing_of_who_asked_for_it(nursery: Nursery, tmp_path: Path) -> None:
    child = nursery.start(["files", str(tmp_path / "files")])
    ended(child)
    found = set((tmp_path / "files").read_text().split("\n")) - {""}
    assert __file__ in files() and not found & files()  # libuv opens a pipe of its own in what is forked
    child.close()


def test_a_worker_reads_the_end_of_its_input_when_nobody_asks_for_it_any_more(nursery: Nursery, tmp_path: Path) -> None:
    first, second = (nursery.start(["wait", str(tmp_path / name)]) for name in ("first", "second"))
    said(tmp_path / "first", "there")
    said(tmp_path / "second", "there")
    assert Path(f"/proc/{first.pid}/comm").read_text() == "a-worker\n"
    first.close()
    said(tmp_path / "first", "ended")
    nursery.close()  # the other one lives on
    assert (tmp_path / "second").read_text() == "there"
    second.kill()
    ended(second)
    second.close()


def test_who_asked_and_did_not_wait_for_it_has_no_worker(tmp_path: Path) -> None:
    """The next nursery starts one in its place: there would be two for one order."""
    name = f"w-{uuid.uuid4().hex[:12]}"
    made = Nursery(__name__, name)
    os.kill(made.pid, signal.SIGSTOP)  # a machine that is full
    assert made._socket
    made._socket.send(json.dumps(["wait", str(tmp_path / "it")]).encode())
    made._socket.close()
    os.kill(made.pid, signal.SIGCONT)
    os.waitpid(made.pid, 0)
    for _ in range(6000):
        if not called(name):
            break
        select.select([], [], [], 0.01)
    assert not (tmp_path / "it").exists()


@pytest.mark.parametrize("killed", [True, False])
def test_for_one_more_it_is_made_again(nursery: Nursery, tmp_path: Path, killed: bool, monkeypatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))  # a program by itself has this module by its name
    before = nursery.pid
    if killed:
        os.kill(before, signal.SIGKILL)
    else:
        nursery.close()
    child = nursery.start(["files", str(tmp_path / "files")])
    ended(child)
    child.close()
    assert nursery.pid != before and (tmp_path / "files").read_text() == ""


def test_workers_share_the_pages_of_what_is_loaded(nursery: Nursery, tmp_path: Path) -> None:
    child = nursery.start(["wait", str(tmp_path / "it")])
    said(tmp_path / "it", "there")
    rows = dict(line.split(":", 1) for line in Path(f"/proc/{child.pid}/smaps_rollup").read_text().splitlines()[1:])
    resident, own = (int(rows[key].split()[0]) for key in ("Rss", "Private_Dirty"))
    assert own < resident / 4, rows
    child.kill()
    ended(child)
    child.close()


def test_it_ends_where_many_files_are_open(tmp_path: Path) -> None:
    """A fabric manager has one for each of its agents: it would start no worker any more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened = list[int]()
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    try:
        while not opened or opened[-1] < 1024:
            opened.append(os.open("/dev/null", os.O_RDONLY))
        made = Nursery(__name__, "a-worker")
        made.close()
        assert not Path(f"/proc/{made.pid}").exists()
    finally:
        for fd in opened:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("program", [False, True])
def test_one_that_hangs_is_not_waited_for_and_its_workers_live_on(
    tmp_path: Path, program: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    monkeypatch.setattr(services_nursery, "CLOSE_S", 0.05)
    made = Nursery(__name__, "a-worker", here=not program)
    child = made.start(["wait", str(tmp_path / "it")])
    said(tmp_path / "it", "there")
    os.kill(made.pid, signal.SIGSTOP)
    made.close()
    assert not Path(f"/proc/{made.pid}").exists() and (tmp_path / "it").read_text() == "there"
    child.close()
    said(tmp_path / "it", "ended")
