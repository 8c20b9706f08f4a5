"""Runs a program under forget.c and hands its journal back."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import disk
import pytest

ROOT = Path(__file__).resolve().parents[2]
SHIM = ROOT / "build" / "forget.so"


@dataclass(frozen=True)
class Witness:
    """A folder whose changes are written down. `marks`: where a program says what it has promised."""

    folder: Path

    @property
    def root(self) -> Path:
        return self.folder / "disk"

    @property
    def marks(self) -> Path:
        return self.folder / "marks"

    @property
    def journal(self) -> Path:
        return self.folder / "journal"

    def environment(self) -> dict[str, str]:
        """What a program needs in its environment to be watched."""
        assert SHIM.exists(), "build/forget.so is not built (make build)"
        return {
            "LD_PRELOAD": str(SHIM),
            "FORGET_ROOT": str(self.root),
            "FORGET_MARKS": str(self.marks),
            "FORGET_JOURNAL": str(self.journal),
        }

    def python(self, program: str, *arguments: str) -> list[disk.Op]:
        """Run a Python program to its end. It finds the folder in ROOT, and `mark(text)`."""
        head = (
            f"import os, sys\nROOT = {str(self.root)!r}\n"
            f"_marks = os.open({str(self.marks)!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)\n"
            "def mark(text): os.write(_marks, (text + '\\n').encode())\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", head + program, *arguments],
            env={**os.environ, **self.environment()},
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert done.returncode == 0, done.stderr
        return disk.read(self.journal)

    def mark(self, text: str) -> None:
        """A promise that was seen from outside, such as a message that came."""
        with self.journal.open("ab", buffering=0) as journal:
            journal.write(disk.ENTRY.pack(ord("K"), 0, len(text) + 1, 0, 0, 0) + text.encode() + b"\n")

    def lay_out(self, content: dict[str, bytes], where: Path) -> Path:
        """The folder as a program finds it after the cut; what a cut before has left there goes: ten thousand of them
        would not fit into memory."""
        shutil.rmtree(where, ignore_errors=True)
        disk.lay_out(content, self.root, where)
        return where


@pytest.fixture
def witness(tmp_path: Path) -> Witness:
    folder = Path(os.path.realpath(tmp_path)) / "witness"
    (folder / "disk").mkdir(parents=True)
    return Witness(folder)
