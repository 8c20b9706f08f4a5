"""A place where Mininet can hurt nobody: after an error `mn` kills every Mininet process of the machine and empties
/tmp of logs. Here it sees processes, network, /tmp and /dev/shm of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SETUP = """
set -e
mkdir -p /run/box-source
mount --bind "$PWD" /run/box-source
case "$PWD/" in /tmp/*) here=$PWD ;; *) here= ;; esac
mount -t tmpfs none /tmp
mount -t tmpfs none /dev/shm
if [ -n "$here" ]; then mkdir -p "$here"; mount --bind /run/box-source "$here"; cd "$here"; fi
mkdir /tmp/run
ip link set lo up
export DATACAST_RUNTIME=/tmp/run TMPDIR=/tmp
exec "$@"
"""


def run(*command: str, timeout: float = 90.0) -> subprocess.CompletedProcess[str]:
    """Output and errors as one text. Ended as a whole when it takes too long."""
    box = ["unshare", "--net", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc", "sh", "-c", SETUP, "box"]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [*box, *command],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
    )


def script(name: str, *arguments: str) -> str:
    """Run one of examples/. Its output; fails with it when it failed."""
    done = run(sys.executable, f"examples/{name}.py", *arguments)
    assert done.returncode == 0, done.stdout
    return done.stdout
