"""Where this project's own programs are."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from datacast.lab.errors import LabError

ROOT = Path(__file__).resolve().parents[1]


def find_program(name: str) -> Path | None:
    """`$DATACAST_BIN`, the source tree's build folder, the folder of this Python, then the PATH."""
    folders = [os.environ.get("DATACAST_BIN"), ROOT / "build", Path(sys.executable).parent]
    for folder in folders:
        if folder and os.access(path := Path(folder) / name, os.X_OK) and path.is_file():
            return path
    found = shutil.which(name)
    return Path(found) if found else None


def need_program(name: str) -> str:
    """Raises LabError when it is not built."""
    path = find_program(name)
    if path is None:
        raise LabError(f"{name} is not built", what=name, remedy="run `make build`")
    return str(path)
