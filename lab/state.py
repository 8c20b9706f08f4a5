"""What a lab leaves for others to find: its state file, and how its processes are told from others.

A lab has a name and, each time it comes up, a new identity. Every process it starts carries the identity in its
environment (and hands it on to its children), so that `lab down` finds them all after the lab itself was killed at any
moment. A process is killed only when identity, or process id and start time, agree with the state file.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import time
import uuid
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from datacast.lab.errors import LabError

MARK = "DATACAST_LAB_ID"
NAME_ENV = "DATACAST_LAB"
DEFAULT_NAME = "lab"
SLOTS = 32
"""Labs at once: 198.18.0.0/15 (RFC 2544) in /20 networks of 4,094 addresses."""


def runtime_root() -> Path:
    return Path(os.environ.get("DATACAST_RUNTIME", "/run/datacast"))


def lab_name(name: str | None) -> str:
    """The given name, or the environment's, or the default. Raises LabError for one that makes no file name."""
    name = name or os.environ.get(NAME_ENV) or DEFAULT_NAME
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,31}", name):
        raise LabError(
            f"{name!r} is no name for a lab",
            what=name,
            remedy="use up to 32 letters, digits, dots, dashes and underscores",
        )
    return name


def start_time(pid: int) -> int | None:
    """Start of a process in clock ticks since boot; None when there is no such process (a zombie is none)."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def marked(identity: str) -> list[int]:
    """Processes, other than this one, that carry a lab's identity."""
    found, needle = [], f"{MARK}={identity}".encode()
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            with contextlib.suppress(OSError):
                if needle in Path(f"/proc/{entry}/environ").read_bytes().split(b"\0"):
                    found.append(int(entry))
    return [pid for pid in found if start_time(pid) is not None]


@dataclass
class State:
    """The contents of state.json."""

    name: str
    identity: str
    slot: int
    pid: int
    started: int
    """Start time of the lab's own process, as `start_time`."""
    work: str = ""
    """Folder with the hosts' files and the logs; removed with the lab unless kept."""
    keep: bool = False
    topology: str = ""
    status: str = "starting"
    rest: str = ""
    interfaces: list[str] = field(default_factory=list)
    """In the root namespace."""
    paths: list[str] = field(default_factory=list)
    """Further files and folders that go with the lab."""
    mounts: list[str] = field(default_factory=list)
    cgroups: list[str] = field(default_factory=list)
    """Folders on which a small file system lies."""
    hosts: dict[str, dict[str, str]] = field(default_factory=dict)
    namespaces: dict[str, int] = field(default_factory=dict)
    """Per host and switch a process inside its network namespace."""
    ports: dict[str, list[str]] = field(default_factory=dict)
    """Per host and switch its interfaces, by port."""
    neighbours: dict[str, list[str]] = field(default_factory=dict)
    """Per host and switch who is behind each port."""

    @property
    def alive(self) -> bool:
        return start_time(self.pid) == self.started


class Registry:
    """The state files of this machine's labs."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or runtime_root()

    def folder(self, name: str) -> Path:
        return self.root / name

    def _file(self, name: str) -> Path:
        return self.folder(name) / "state.json"

    def load(self, name: str) -> State | None:
        """The lab's state, None when there is none. A file nobody can read counts as none; what another version wrote
        can be read as far as it is known here."""
        try:
            told = json.loads(self._file(name).read_text())
            return State(**{f.name: told[f.name] for f in fields(State) if f.name in told})
        except (OSError, ValueError, TypeError):
            return None

    def all(self) -> list[State]:
        try:
            names = sorted(entry.name for entry in self.root.iterdir() if entry.is_dir())
        except OSError:
            return []
        return [state for name in names if (state := self.load(name))]

    def save(self, state: State) -> None:
        folder = self.folder(state.name)
        folder.mkdir(parents=True, exist_ok=True, mode=0o755)
        part = folder / "state.json.part"
        part.write_text(json.dumps(asdict(state), indent=1) + "\n")
        part.replace(self._file(state.name))

    def claim(self, name: str) -> State:
        """A new state under `name`. Raises LabError when a lab of that name runs or was left over."""
        try:
            self.root.mkdir(parents=True, exist_ok=True, mode=0o755)
            lock = open(self.root / ".lock", "w")  # noqa: SIM115 (closed below)
        except OSError as error:
            raise LabError(
                f"cannot write {self.root}: {error.strerror}", what=str(self.root), remedy="run as root"
            ) from error
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.refuse_taken(name)
            used = {state.slot for state in self.all()}
            free = [slot for slot in range(SLOTS) if slot not in used]
            if not free:
                raise LabError(
                    f"{SLOTS} labs are running, that is the most", remedy="stop one with `datacast lab down`"
                )
            pid = os.getpid()
            self.forget(name)  # what nobody can read, or came to be before there was a state
            state = State(name=name, identity=uuid.uuid4().hex, slot=free[0], pid=pid, started=start_time(pid) or 0)
            self.save(state)
            return state

    def refuse_taken(self, name: str) -> None:
        """Raises LabError when a lab of that name runs or was left over."""
        old = self.load(name)
        if old and old.alive:
            raise LabError(
                f"a lab is running already: {name!r}, process {old.pid}, {old.topology}",
                what=name,
                remedy=f"stop it with `datacast lab down{_option(name)}`, or give another --name, "
                "--rest-port and --fabric-port",
            )
        if old:
            raise LabError(
                f"a lab was left over: {name!r} of process {old.pid}, which is gone",
                what=name,
                remedy=f"clean it up with `datacast lab down{_option(name)}`",
            )

    def forget(self, name: str) -> None:
        shutil.rmtree(self.folder(name), ignore_errors=True)


def _option(name: str) -> str:
    return "" if name == DEFAULT_NAME else f" --name {name}"


def _gentle(pid: int) -> signal.Signals:
    """Mininet's shells are interactive: they ignore SIGTERM."""
    with contextlib.suppress(OSError):
        if b"\0mininet:" in Path(f"/proc/{pid}/cmdline").read_bytes():
            return signal.SIGHUP
    return signal.SIGTERM


def kill_marked(identity: str, grace_s: float = 3.0) -> list[int]:
    """End every process of a lab: SIGTERM (and SIGCONT, it may be stopped), later SIGKILL. Returns those left."""
    end = time.monotonic() + grace_s
    told: set[int] = set()
    while pids := marked(identity):
        late = time.monotonic() > end
        if time.monotonic() > end + 3.0:
            return pids
        for pid in pids:
            if late or pid not in told:
                told.add(pid)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL if late else _gentle(pid))
                    os.kill(pid, signal.SIGCONT)
        time.sleep(0.02)
    return []
