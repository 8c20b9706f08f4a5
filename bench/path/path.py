"""`make bench-path`: one file from one host to one, and whose processor seconds it takes. README.md: what is measured.

Every run is a lab of its own with the real daemons, services included; the cables' rate is more than two cores carry.
With `--beside FOLDER` the daemons of that folder take turns with this tree's, and the ratio is printed.
With `--workers 1,2,4` the agents have so many threads of frames, in turns.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass, field
from itertools import pairwise, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from datacast.controller.api import FINAL_STATES
from datacast.controller.api.records import GroupRecord
from datacast.core.quantities import parse_rate, parse_size
from datacast.fabric_manager.api import GroupSpec
from datacast.lab.content import sha256_of, write_random
from datacast.lab.lab import Lab, LabOptions
from datacast.lab.report import plain
from datacast.lab.run import Quiet, Transfer, get, post, send, settle
from datacast.lab.state import marked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from datacast.lab.credentials import Credentials

TICK = os.sysconf("SC_CLK_TCK")
GIB = 1 << 30
DAEMONS = ("datacast-agent", "datacast-switch")
BUILD = Path(__file__).resolve().parents[2] / "build"
ALL = os.sched_getaffinity(0)


@dataclass(frozen=True)
class Way:
    """How the two hosts are joined."""

    switches: int
    """In a row."""
    dataplane: str
    mtu: int
    rows: int = 1
    """Each has a tree, and so a worker, of its own."""
    files: int = 1
    """At once, of the whole size together; each has a tree of its own, likewise."""


WAYS = {
    "switch": Way(1, "dpdk", 9000),
    "switch-memif": Way(1, "memif", 9000),
    "switch-1500": Way(1, "dpdk", 1500),
    "tunnels": Way(2, "ip", 1500),
}
FOUR = {
    "four": Way(1, "dpdk", 9000, rows=4),
    "four-memif": Way(1, "memif", 9000, files=4),
    "four-1500": Way(1, "dpdk", 1500, rows=4),
    "four-tunnels": Way(2, "ip", 1500, files=4),
}
"""For several workers. Two hosts have one tunnel at most, over however many rows."""
APART = 8
"""Processors from which on each agent has three eighths for itself, as hosts have: workers are pinned, and both
agents' would share the first few."""


@dataclass
class Run:
    """One transfer. Seconds of processor per GiB of the file."""

    way: str
    build: str
    workers: int
    gbit_s: float
    source: float
    receiver: float
    switch: float
    rest: float
    duplicates: float
    whole: bool
    frames: dict[str, list[float]]
    """Seconds of each thread of frames, by role."""

    @property
    def agents(self) -> float:
        return self.source + self.receiver

    @property
    def total(self) -> float:
        return self.agents + self.switch + self.rest


def side_by_side(folder: Path, builds: dict[str, Path]) -> dict[str, Path]:
    """Copies of the daemons that lie alike: of one and the same agent that which lay elsewhere was ahead by a tenth."""
    for name, binaries in builds.items():
        (folder / name).mkdir()
        for program in DAEMONS:
            shutil.copy2(binaries / program, folder / name)
    return {name: folder / name for name in builds}


def rows(way: Way) -> dict[str, Any]:
    """Two hosts, and rows of switches between them, as a topology's file."""
    nodes = [{"id": name, "kind": "host"} for name in "ab"]
    edges = []
    for row in range(way.rows):
        names = [f"s{row}.{i}" for i in range(way.switches)]
        nodes += [{"id": name, "kind": "switch"} for name in names]
        edges += [{"source": u, "target": v} for u, v in pairwise(["a", *names, "b"])]
    return {"nodes": nodes, "edges": edges}


def role(pid: int) -> str:
    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    program = os.path.basename(words[0])
    if program == "datacast-agent":
        return "source" if words[words.index("--node") + 1] == "a" else "receiver"
    return "switch" if program == "datacast-switch" else "rest"


def seconds(stat: Path) -> float:
    """Of a process or a thread. Raises OSError."""
    text = stat.read_text()
    own = text[text.rindex(")") + 2 :].split()
    return (int(own[11]) + int(own[12])) / TICK


@dataclass
class Used:
    """Seconds of processor of the lab's processes so far, by role; frames: of each thread of an agent's frames."""

    spent: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys(("source", "receiver", "switch", "rest"), 0.0)
    )
    frames: dict[str, dict[str, float]] = field(default_factory=lambda: {"source": {}, "receiver": {}})

    @classmethod
    def now(cls, identity: str) -> Used:
        used = cls()
        for pid in marked(identity):
            try:
                who = role(pid)
                used.spent[who] += seconds(Path(f"/proc/{pid}/stat"))
                for task in Path(f"/proc/{pid}/task").iterdir() if who in used.frames else ():
                    name = (task / "comm").read_text().strip()
                    if name.startswith("frames "):
                        used.frames[who][name] = seconds(task / "stat")
            except OSError:
                continue
        return used


class Span(Quiet):
    """What the lab's processes had used at each step: what the bench does before and after takes seconds, in which
    services that wait would count."""

    def __init__(self, identity: str) -> None:
        self.identity = identity
        self.at: dict[str, Used] = {}

    def step(self, text: str) -> None:
        self.at[text] = Used.now(self.identity)

    def spent(self) -> dict[str, float]:
        before, after = self.at["sending"].spent, self.at["verifying"].spent
        return {who: after[who] - before[who] for who in after}

    def frames(self) -> dict[str, list[float]]:
        before, after = self.at["sending"].frames, self.at["verifying"].frames
        return {who: [after[who][name] - before[who][name] for name in sorted(after[who])] for who in after}


class Hosts(Lab):
    """Agents with workers, on processors of their own where there are enough."""

    workers = 1

    def agent_command(self, host: str, signalling: str, credentials: Credentials) -> list[str]:
        command = super().agent_command(host, signalling, credentials)
        command += ["--workers", str(self.workers)] if self.workers > 1 else []
        own = processors()[host]
        return ["taskset", "-c", ",".join(map(str, sorted(own))), *command] if own else command


def processors() -> dict[str, set[int]]:
    """Of each host, and under "" of all else."""
    may = sorted(ALL)
    each = len(may) * 3 // 8 if len(may) >= APART else 0
    return {"a": set(may[:each]), "b": set(may[each : 2 * each]), "": set(may[2 * each :])}


def one(lab: Lab, payload: Path, span: Span) -> tuple[float, float, bool]:
    """Seconds, duplicates per new packet, and whether the file is whole."""
    report = plain(send(lab, settle(lab.graph, Transfer(source="a", receivers=("b",), file=payload)), span))
    whole = bool(report["receivers"]["b"]["sha256_ok"])
    return report["finish_s"] or float("inf"), report["duplicate_ratio"] or 0.0, whole


def several(lab: Lab, payload: Path, files: int, span: Span) -> tuple[float, float, bool]:
    """Likewise of files that are sent at once, from the first request to the last end."""
    digest = sha256_of(payload, lambda done: None)
    span.step("sending")
    began = time.monotonic()
    specs = [GroupSpec(source="a", source_path=str(payload), receivers=["b"], dest_path=f"{i}") for i in range(files)]
    groups = [post(lab, spec) for spec in specs]
    while any(group.state not in FINAL_STATES for group in groups):
        lab.signals.sleep(0.02)
        groups = [g if g.state in FINAL_STATES else get(lab, GroupRecord, f"/groups/{g.id}") for g in groups]
    took = time.monotonic() - began
    span.step("verifying")
    whole = [sha256_of(lab.host_folder("b") / f"{i}", lambda done: None) == digest for i in range(files)]
    return took, 0.0, all(whole)


@dataclass
class Bench:
    size: int
    rate_bps: int
    work: Path
    files: Path
    queue: int = 100
    slot: int = 0
    runs: list[Run] = field(default_factory=list)

    def payload(self, size: int) -> Path:
        path = self.work / f"payload-{size}"
        if not path.exists():
            write_random(path, size, 7, lambda done: None)
            os.sync()  # or a disk is at it beside the runs
        return path

    def run(self, name: str, build: str, folder: Path, workers: int = 1) -> Run:
        way = (WAYS | FOUR)[name]
        graph = self.work / f"{name}.json"
        graph.write_text(json.dumps(rows(way)))
        os.environ["DATACAST_BIN"] = str(folder)
        self.slot = (self.slot + 1) % 16
        options = LabOptions(
            topology=str(graph),
            rate_bps=self.rate_bps,
            queue_packets=self.queue,
            mtu=way.mtu,
            dataplane=way.dataplane,
            rest_port=7790 + self.slot,
            fabric_port=7810 + self.slot,
            room=3 * self.size,
            work=str(self.files),
            realtime=False,
            apart=tuple(f"s{row}.0" for row in range(way.rows)) if way.rows > 1 else (),
        )
        with Hosts(options, f"path{os.getpid()}") as lab:
            lab.workers = workers
            lab.up()
            span = Span(lab.identity)
            payload = self.payload(self.size // way.files)
            finish, duplicates, whole = (
                several(lab, payload, way.files, span) if way.files > 1 else one(lab, payload, span)
            )
        spent = {who: seconds * GIB / self.size for who, seconds in span.spent().items()}
        frames = {who: [each * GIB / self.size for each in times] for who, times in span.frames().items()}
        run = Run(name, build, workers, self.size * 8 / finish / 1e9, **spent, duplicates=duplicates,
                  whole=whole, frames=frames)  # fmt: skip
        self.runs.append(run)
        show(run)
        return run


def show(run: Run) -> None:
    figures = (run.gbit_s, run.source, run.receiver, run.switch, run.rest, run.total)
    columns = " ".join(f"{figure:8.2f}" for figure in figures)
    frames = "  ".join(" ".join(f"{each:.2f}" for each in times) for times in run.frames.values())
    end = f"{run.duplicates:9.4f} {'yes' if run.whole else 'NO':>6}  {frames}"
    print(f"{run.way:12} {run.build:6} {run.workers:7} {columns} {end}", flush=True)


def middle(runs: list[Run], what: str) -> float:
    return statistics.median(getattr(run, what) for run in runs)


def ratios(own: list[Run], other: list[Run], label: str) -> str:
    """Medians of the one over those of the other."""
    parts = []
    for what in ("gbit_s", "source", "receiver", "switch", "total"):
        if (base := middle(other, what)) > 0:
            parts.append(f"{what} {middle(own, what) / base:.2f}")
    return f"{label}, medians of {len(own)}: " + ", ".join(parts)


def compared(runs: list[Run]) -> Iterator[str]:
    """This tree's runs with those of the other build, and those of several workers with those of the fewest."""
    sets: dict[tuple[str, int, str], list[Run]] = {}
    for run in runs:
        sets.setdefault((run.way, run.workers, run.build), []).append(run)
    for (way, workers, build), own in sets.items():
        if build == "beside":
            yield ratios(sets[way, workers, "here"], own, f"{way}, {workers} workers, here / beside")
        fewest = min(n for other, n, what in sets if (other, what) == (way, build))
        if workers > fewest:
            yield ratios(own, sets[way, fewest, build], f"{way}, {build}, {workers} / {fewest} workers")


def numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=parse_size, default=GIB)
    parser.add_argument("--rate", type=parse_rate, default=parse_rate("20gbit"), help="of the cables")
    parser.add_argument("--queue", type=int, default=100, help="packets that a port of a cable holds")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--workers", type=numbers, default=[1], help="threads of an agent's frames, such as 1,2,4")
    parser.add_argument("--beside", type=Path, help="folder with another build of datacast-agent and datacast-switch")
    parser.add_argument("--files", type=Path, default=Path("/dev/shm"), help="folder for both files")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    ways = args.ways.split(",")
    if unknown := set(ways) - set(WAYS | FOUR):
        parser.error(f"no such way: {', '.join(sorted(unknown))}; there are {', '.join(WAYS | FOUR)}")
    builds = {"here": BUILD, **({"beside": args.beside.resolve()} if args.beside else {})}
    os.sched_setaffinity(0, processors()[""])
    columns = " ".join(f"{word:>8}" for word in ("Gb/s", "source", "receiver", "switch", "rest", "all"))
    end = f"{'dup':>9} {'whole':>6}  threads of frames: source, receiver"
    print(f"{'':12} {'':6} {'workers':>7} {columns} {end}")
    with tempfile.TemporaryDirectory(dir=args.files) as folder, tempfile.TemporaryDirectory() as programs:
        work = Path(folder)
        if args.beside:
            builds = side_by_side(Path(programs), builds)
        bench = Bench(args.size, args.rate, work, args.files, args.queue)
        turn = list(product(args.workers, builds.items()))
        for way in ways:
            for i in range(args.repeat):
                for workers, (build, binaries) in turn if i % 2 == 0 else reversed(turn):
                    bench.run(way, build, binaries, workers)
    for text in compared(bench.runs):
        print(text)
    if args.json:
        args.json.write_text(json.dumps([asdict(run) for run in bench.runs], indent=1) + "\n")


if __name__ == "__main__":
    main()
