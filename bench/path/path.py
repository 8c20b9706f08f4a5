"""`make bench-path`: one file from one host to one, and whose processor seconds it takes. README.md: what is measured.

Every run is a lab of its own with the real daemons, services included; the cables' rate is more than two cores carry.
With `--beside FOLDER` the daemons of that folder take turns with this tree's, and the ratio is printed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import statistics
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from datacast.core.quantities import parse_rate, parse_size
from datacast.lab.content import write_random
from datacast.lab.lab import Lab, LabOptions
from datacast.lab.report import plain
from datacast.lab.run import Quiet, Transfer, send, settle
from datacast.lab.state import marked

TICK = os.sysconf("SC_CLK_TCK")
GIB = 1 << 30
DAEMONS = ("datacast-agent", "datacast-switch")
BUILD = Path(__file__).resolve().parents[2] / "build"


@dataclass(frozen=True)
class Way:
    """How the two hosts are joined."""

    switches: int
    dataplane: str
    mtu: int


WAYS = {
    "switch": Way(1, "dpdk", 9000),
    "switch-memif": Way(1, "memif", 9000),
    "switch-1500": Way(1, "dpdk", 1500),
    "tunnels": Way(2, "ip", 1500),
}


@dataclass
class Run:
    """One transfer. Seconds of processor per GiB of the file."""

    way: str
    build: str
    gbit_s: float
    source: float
    receiver: float
    switch: float
    rest: float
    duplicates: float
    whole: bool

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


def line(switches: int) -> dict[str, Any]:
    """Two hosts at the ends of a line of switches, as a topology's file."""
    names = ["a", *(f"s{i}" for i in range(switches)), "b"]
    nodes = [{"id": name, "kind": "host" if name in "ab" else "switch"} for name in names]
    edges = [{"source": u, "target": v} for u, v in itertools.pairwise(names)]
    return {"nodes": nodes, "edges": edges}


def role(pid: int) -> str:
    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    program = os.path.basename(words[0])
    if program == "datacast-agent":
        return "source" if words[words.index("--node") + 1] == "a" else "receiver"
    return "switch" if program == "datacast-switch" else "rest"


def used(identity: str) -> dict[str, float]:
    """Seconds of processor of the lab's processes so far, by role."""
    spent = dict.fromkeys(("source", "receiver", "switch", "rest"), 0.0)
    for pid in marked(identity):
        try:
            text = Path(f"/proc/{pid}/stat").read_text()
            who = role(pid)
        except OSError:
            continue
        own = text[text.rindex(")") + 2 :].split()
        spent[who] += (int(own[11]) + int(own[12])) / TICK
    return spent


class Span(Quiet):
    """What the lab's processes had used at each step: what the bench does before and after takes seconds, in which
    services that wait would count."""

    def __init__(self, identity: str) -> None:
        self.identity = identity
        self.at: dict[str, dict[str, float]] = {}

    def step(self, text: str) -> None:
        self.at[text] = used(self.identity)

    def spent(self) -> dict[str, float]:
        before, after = self.at["sending"], self.at["verifying"]
        return {who: after[who] - before[who] for who in after}


@dataclass
class Bench:
    size: int
    rate_bps: int
    work: Path
    payload: Path
    files: Path
    queue: int = 100
    slot: int = 0
    runs: list[Run] = field(default_factory=list)

    def run(self, name: str, build: str, folder: Path) -> Run:
        way = WAYS[name]
        graph = self.work / f"line-{way.switches}.json"
        graph.write_text(json.dumps(line(way.switches)))
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
            room=2 * self.size,
            work=str(self.files),
            realtime=False,
        )
        with Lab(options, f"path{os.getpid()}") as lab:
            lab.up()
            span = Span(lab.identity)
            what = settle(lab.graph, Transfer(source="a", receivers=("b",), file=self.payload))
            report = plain(send(lab, what, span))
        spent = {who: seconds * GIB / self.size for who, seconds in span.spent().items()}
        done = report["receivers"]["b"]
        finish = report["finish_s"] or float("inf")
        run = Run(name, build, self.size * 8 / finish / 1e9, **spent, duplicates=report["duplicate_ratio"] or 0.0,
                  whole=bool(done["sha256_ok"]))  # fmt: skip
        self.runs.append(run)
        show(run)
        return run


def show(run: Run) -> None:
    figures = (run.gbit_s, run.source, run.receiver, run.switch, run.rest, run.total)
    columns = " ".join(f"{figure:8.2f}" for figure in figures)
    print(f"{run.way:12} {run.build:8} {columns} {run.duplicates:9.4f} {'yes' if run.whole else 'NO':>6}", flush=True)


def middle(runs: list[Run], what: str) -> float:
    return statistics.median(getattr(run, what) for run in runs)


def ratios(runs: list[Run], way: str) -> str:
    """This tree's medians over the other build's."""
    own = [run for run in runs if run.way == way and run.build == "here"]
    other = [run for run in runs if run.way == way and run.build == "beside"]
    parts = []
    for what in ("gbit_s", "source", "receiver", "switch", "total"):
        if (base := middle(other, what)) > 0:
            parts.append(f"{what} {middle(own, what) / base:.2f}")
    return f"{way}, here / beside, medians of {len(own)}: " + ", ".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=parse_size, default=GIB)
    parser.add_argument("--rate", type=parse_rate, default=parse_rate("20gbit"), help="of the cables")
    parser.add_argument("--queue", type=int, default=100, help="packets that a port of a cable holds")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--beside", type=Path, help="folder with another build of datacast-agent and datacast-switch")
    parser.add_argument("--files", type=Path, default=Path("/dev/shm"), help="folder for both files")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    ways = args.ways.split(",")
    if unknown := set(ways) - set(WAYS):
        parser.error(f"no such way: {', '.join(sorted(unknown))}; there are {', '.join(WAYS)}")
    builds = {"here": BUILD, **({"beside": args.beside.resolve()} if args.beside else {})}
    print(f"{'':12} {'':8} {'Gb/s':>8} " + " ".join(f"{w:>8}" for w in ("source", "receiver", "switch", "rest", "all"))
          + f" {'dup':>9} {'whole':>6}")  # fmt: skip
    with tempfile.TemporaryDirectory(dir=args.files) as folder, tempfile.TemporaryDirectory() as programs:
        work = Path(folder)
        if args.beside:
            builds = side_by_side(Path(programs), builds)
        payload = work / "payload.bin"
        write_random(payload, args.size, 7, lambda done: None)
        os.sync()  # or a disk is at it beside the runs
        bench = Bench(args.size, args.rate, work, payload, args.files, args.queue)
        for way in ways:
            for i in range(args.repeat):
                turn = list(builds.items())
                for build, binaries in turn if i % 2 == 0 else reversed(turn):
                    bench.run(way, build, binaries)
    if args.beside:
        for way in ways:
            print(ratios(bench.runs, way))
    if args.json:
        args.json.write_text(json.dumps([asdict(run) for run in bench.runs], indent=1) + "\n")


if __name__ == "__main__":
    main()
