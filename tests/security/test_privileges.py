"""What the Python services may still do once they run."""

from __future__ import annotations

import contextlib
import os
import pwd
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from datacast.services.privileges import KEPT

FABRIC_MANAGER = [sys.executable, "-m", "datacast.fabric_manager.main", "--topology", "bcube:2,1"]
ADDRESSES = ["--signalling", "127.0.0.1:0", "--http", "127.0.0.1:0"]
NOBODY = "nobody"


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """Pytest's own folders are for their owner only: another run that begins makes them so again."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        yield Path(name)


@contextlib.contextmanager
def running(command: list[str]) -> Iterator[dict[str, str]]:
    """/proc/PID/status of a program that says that it is ready."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None and "datacast-" in process.stdout.readline()
        lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
        yield {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}
    finally:
        process.terminate()
        process.wait(60)
        if process.stdout:
            process.stdout.close()


@pytest.mark.slow
def test_nothing_started_gains_rights_and_the_database_is_its_owners_alone(tmp_path: Path) -> None:
    database = tmp_path / "db" / "fabric.sqlite"
    with running([*FABRIC_MANAGER, *ADDRESSES, "--store", str(database)]) as status:
        assert status["NoNewPrivs"] == "1"
        assert {path.stat().st_mode & 0o077 for path in (database.parent, *database.parent.iterdir())} == {0}
    with running([sys.executable, "-m", "datacast.controller.main", "--listen", "127.0.0.1:0"]) as status:
        assert status["NoNewPrivs"] == "1"


@pytest.mark.root
def test_root_without_a_user_keeps_little(tmp_path: Path) -> None:
    """And all of that, as far as it had it."""
    had = Path("/proc/self/status").read_text().partition("CapPrm:")[2].split()[0]
    kept = {i for i in KEPT if int(had, 16) >> i & 1}
    for command in (
        [*FABRIC_MANAGER, *ADDRESSES, "--store", str(tmp_path / "fabric.sqlite"), "--workers", "1"],
        [sys.executable, "-m", "datacast.controller.main", "--listen", "127.0.0.1:0"],
    ):
        with running(command) as status:
            for kind in ("CapEff", "CapPrm", "CapBnd"):
                assert {i for i in range(64) if int(status[kind], 16) >> i & 1} == kept, (kind, status[kind])
            assert int(status["CapInh"], 16) == 0


@pytest.mark.root
def test_root_becomes_an_ordinary_user(open_to_all: Path) -> None:
    if subprocess.run([sys.executable, "-c", "import datacast.core"], user=NOBODY, capture_output=True).returncode:
        pytest.skip(f"{NOBODY} cannot read this source tree")
    folder = open_to_all / "db"
    folder.mkdir()
    entry = pwd.getpwnam(NOBODY)
    os.chown(folder, entry.pw_uid, entry.pw_gid)
    options = ["--user", NOBODY, "--store", str(folder / "fabric.sqlite"), "--workers", "1"]
    commands = [
        [*FABRIC_MANAGER, *ADDRESSES, *options],
        [sys.executable, "-m", "datacast.controller.main", "--listen", "127.0.0.1:0", "--user", NOBODY],
    ]
    for command in commands:
        with running(command) as status:
            assert set(status["Uid"].split()) == {str(entry.pw_uid)} and set(status["Gid"].split()) == {
                str(entry.pw_gid)
            }
            assert status["Groups"] == "" and int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0


@pytest.mark.root
def test_a_user_that_is_none_is_named() -> None:
    done = subprocess.run([*FABRIC_MANAGER, "--user", "no-such-user"], capture_output=True, text=True, timeout=90)
    assert done.returncode == 1 and "there is no such user" in done.stderr


def test_root_becomes_a_user_with_the_priority_that_was_asked_for_or_says_why_not() -> None:
    """A kernel that allows none is not asked: what it would be told is looked at, in a process of its own. Whoever has
    become another user first could not let go of groups any more."""
    program = f"""
import os, pwd, resource
from datacast.services import privileges
uid, gid = pwd.getpwnam({NOBODY!r})[2:4]
told, fails = [], {{}}
def kernel(name):
    def call(*what):
        told.append((name, *what))
        if name in fails:
            raise fails[name]
    return call
resource.setrlimit = kernel("setrlimit")
for name in ("setgroups", "setresgid", "setresuid"):
    setattr(os, name, kernel(name))
os.geteuid = lambda: 0
becomes = [("setgroups", []), ("setresgid", gid, gid, gid), ("setresuid", uid, uid, uid)]
for asked, limit in ((0, []), (7, [("setrlimit", resource.RLIMIT_RTPRIO, (7, 7))])):
    told.clear()
    privileges.drop({NOBODY!r}, asked)
    assert told == limit + becomes, (asked, told)
for name, error, why in (
    ("setrlimit", ValueError(), "the right to real-time priority cannot be kept; leave --realtime out"),
    ("setresuid", PermissionError(1, "not permitted"), "not permitted; start it as root, or as {NOBODY}"),
):
    fails = {{name: error}}
    try:
        privileges.drop({NOBODY!r}, 7)
    except privileges.PrivilegeError as said:
        assert (said.message, said.what) == ("--user {NOBODY}: " + why, {NOBODY!r}), said.message
    else:
        raise AssertionError(name)
fails, os.geteuid = {{}}, lambda: uid
told.clear()
privileges.drop({NOBODY!r}, 7)
assert told == [], "it is that user"
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stderr
