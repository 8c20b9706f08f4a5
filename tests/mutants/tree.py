"""A copy of the committed tree: a mutant is built and tested in it. Several may work side by side."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WORK = ROOT / "build" / "mutants"
PROGRAMS = ["build/datacast-agent", "build/datacast-agent-asan", "build/datacast-switch", "build/asan/datacast-switch"]

STOOD_S = 10.0
"""A wait of one second that took so long: the machine, or who runs this, stopped it."""


class Tree:
    """Its programs are built quickly and say what they reach (bin/gcc)."""

    def __init__(self, number: int = 0) -> None:
        self.path = WORK / ("tree" if number == 0 else f"tree-{number}")
        self.log = WORK / f"{self.path.name}.log"
        self.built = "true"
        """The command of the last change: what it built still has that change."""
        self.stood = False
        self.running = 0
        """The process group of the command that runs."""
        self.made: dict[str, bytes | None] = {}
        """What the compiler makes of a file in C that is not changed."""
        reached = self.path / "build" / "reached.o"
        path = f"{self.path / 'tests/mutants/bin'}:{os.environ['PATH']}"
        self.environment = {
            **os.environ,
            "PATH": path,
            "DATACAST_REACHED": str(reached),
            "MUTANTS": str(HERE),
            "DATACAST_SIM_LIBRARY": str(self.path / "build/mutant-core"),
        }

    def run(self, command: str, limit: float | None = None) -> int | None:
        """The exit code of a shell command; None: it hung and was ended with all that it had started. Seconds in which
        this process was stopped are not counted; `stood` says that there were some."""
        process = subprocess.Popen(
            command,
            shell=True,
            cwd=self.path,
            env=self.environment,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=self.log.open("wb"),
            stderr=subprocess.STDOUT,
        )
        self.running, self.stood = process.pid, False
        left = math.inf if limit is None else limit
        try:
            while left > 0:
                began = time.monotonic()
                try:
                    return process.wait(1.0)
                except subprocess.TimeoutExpired:
                    left -= 1.0
                    self.stood |= time.monotonic() - began > STOOD_S
            return None
        finally:
            self.end()
            process.wait()

    def end(self) -> None:
        """What runs in it, and all that that has started."""
        with contextlib.suppress(ProcessLookupError):
            if self.running:
                os.killpg(self.running, signal.SIGKILL)
        self.running = 0

    def must(self, command: str) -> None:
        if self.run(command) != 0:
            sys.exit(f"{command} failed in {self.path}: see {self.log}")

    def prepare(self, revision: str) -> None:
        """A clean copy of that commit, built."""
        WORK.mkdir(parents=True, exist_ok=True)
        if not self.path.exists():
            subprocess.run(["git", "clone", "-q", "--shared", str(ROOT), str(self.path)], check=True)
        subprocess.run(["git", "fetch", "-q", "origin", revision], cwd=self.path, check=True)
        subprocess.run(["git", "checkout", "-qf", "--detach", revision], cwd=self.path, check=True)
        if not (self.path / ".venv").exists():
            subprocess.run(["cp", "-a", "--reflink=auto", str(ROOT / ".venv"), str(self.path)], check=True)
            self.moved(ROOT)
        print(f"building {revision[:10]} in {self.path.relative_to(ROOT)}", flush=True)
        self.must(f"mkdir -p build && /usr/bin/gcc -O2 -fPIC -Wall -c {HERE}/reached.c -o build/reached.o")
        self.must("make build && make -s " + " ".join(PROGRAMS))
        self.must(f"make -j2 -f {HERE}/core.mk")

    def unchanged(self, builds: Iterable[str]) -> None:
        """What a run before had changed is as it was, and what these commands build, too."""
        subprocess.run(["git", "checkout", "-qf", "."], cwd=self.path, check=True)
        for build in set(builds):
            self.must(build + " built" if "core.mk" in build else build)

    def like(self, other: Tree) -> None:
        """The same as another that is built, at a place of its own."""
        shutil.rmtree(self.path, ignore_errors=True)
        subprocess.run(["cp", "-a", "--reflink=auto", str(other.path), str(self.path)], check=True)
        self.moved(other.path)
        # Programs that look for the core where the other has it are linked again.
        for path in (self.path / "build/mutant-core").rglob("*"):
            if path.is_symlink() or (path.is_file() and path.suffix != ".o"):
                path.unlink()
        self.must(f"make -j2 -f {HERE}/core.mk built")

    def moved(self, was: Path) -> None:
        """The Python environment says where it is: it was copied from another place."""
        packages = list((self.path / ".venv").glob("lib/python*/site-packages"))
        told = [*(self.path / ".venv" / "bin").iterdir()]
        told += [path for folder in packages for path in folder.glob("__editable__*")]
        for path in told:
            if path.is_file() and not path.is_symlink() and str(was) in (text := _text(path)):
                path.write_text(text.replace(str(was), str(self.path)))


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except UnicodeDecodeError:
        return ""
