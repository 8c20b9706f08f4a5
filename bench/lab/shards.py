"""Parts of a file to hosts on one switch: how near the source's link, and what each host's cable carries.

    bench/lab/shards.py --realtime
    bench/lab/shards.py --hosts 8 --size 64M --link 40mbit --ways scatter,twice

`scatter`: each host another part. `twice`: each part to two hosts. `all`: all of it to all. "Over the link": the
group's finish over the time in which the source's link carries what must leave it once, headers counted. "Cable": what
came over the worst host's cable, over the bytes that it wants. Each host's parts are compared with the file. Prints a
Markdown table; --json for the figures.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import networkx as nx
from alone import alone

from datacast import topologies
from datacast.controller.api import FINAL_STATES, GroupSpec
from datacast.controller.api.records import GroupRecord
from datacast.core.quantities import parse_rate, parse_size
from datacast.lab.content import write_random
from datacast.lab.lab import Lab, LabOptions
from datacast.lab.run import get, post

EDGE = 128 << 10
"""Parts begin and end where blocks do: so many bytes of one may be the neighbour's."""
HEAD = "| way | hosts | MiB | Mbit/s | finish s | over the link | left the source, MiB | source's duplicates | cable |"


@dataclass(frozen=True)
class Run:
    way: str
    hosts: int
    size: int
    link_bps: int
    finish_s: float
    over_link: float
    sent: int
    duplicates: float
    cable: float

    def row(self) -> str:
        head = f"| {self.way} | {self.hosts} | {self.size >> 20} | {self.link_bps / 1e6:g} | {self.finish_s:.2f} |"
        return f"{head} {self.over_link:.3f} | {self.sent / 2**20:.1f} | {self.duplicates:.2%} | {self.cable:.3f} |"


def wants(way: str, hosts: list[str]) -> dict[str, str]:
    """Which part each gets, as K/N."""
    parts = {"scatter": len(hosts), "twice": len(hosts) // 2, "all": 1}[way]
    return {host: f"{at % parts + 1}/{parts}" for at, host in enumerate(hosts)}


def range_of(part: str, size: int) -> tuple[int, int]:
    k, n = map(int, part.split("/"))
    return (k - 1) * size // n, k * size // n


def bytes_in(lab: Lab, host: str) -> int:
    machine = lab.plan.machine_of(host)
    path = f"/sys/class/net/{machine.ports[host][0].ifname}/statistics/rx_bytes"
    return int(lab.network.run_in(machine.name, ["cat", path]))


def check(lab: Lab, file: Path, host: str, first: int, end: int) -> None:
    with file.open("rb") as sent, (lab.host_folder(host) / "part").open("rb") as got:
        sent.seek(first)
        got.seek(first)
        for at in range(first, end, 1 << 20):
            if sent.read(min(1 << 20, end - at)) != got.read(min(1 << 20, end - at)):
                raise SystemExit(f"{host} has other bytes behind {at}")


def once(lab: Lab, way: str, file: Path, hosts: list[str], given: argparse.Namespace) -> Run:
    parts = wants(way, hosts)
    shards = {} if way == "all" else {host: [part] for host, part in parts.items()}
    spec = GroupSpec(source="h0", source_path=str(file), receivers=hosts, dest_path="part", shards=shards)
    before = {host: bytes_in(lab, host) for host in hosts}
    group = post(lab, spec)
    while group.state not in FINAL_STATES:
        time.sleep(0.1)
        group = get(lab, GroupRecord, f"/groups/{group.id}")
    report = group.report
    if group.state != "done" or report is None:
        raise SystemExit(f"{way}: {group.error}")
    cable = 0.0
    for host in hosts:
        first, end = range_of(parts[host], given.size)
        cable = max(cable, (bytes_in(lab, host) - before[host]) / (end - first))
        check(lab, file, host, first + EDGE if first else 0, end - EDGE if end < given.size else end)
        (lab.host_folder(host) / "part").unlink()
    finish, ideal, payload = report.finish_s or 0.0, report.ideal_s or 1.0, report.payload or 0
    return Run(
        way, len(hosts), given.size, given.link, finish, finish / ideal,
        report.new_packets * payload, report.dup_packets / report.new_packets, cable,
    )  # fmt: skip


def run(given: argparse.Namespace, folder: Path) -> list[Run]:
    hosts = [f"h{i}" for i in range(1, given.hosts + 1)]
    g = nx.Graph()
    g.add_node("s", kind="switch", forwards=True)
    for host in ("h0", *hosts):
        g.add_node(host, kind="host", forwards=False)
        g.add_edge(host, "s")
    net = folder / "net.json"
    net.write_text(json.dumps(topologies.to_json(g)))
    options = LabOptions(
        str(net), given.link, rest_port=given.ports[0], fabric_port=given.ports[1],
        room=(given.hosts + 2) * given.size, realtime=given.realtime,
    )  # fmt: skip
    runs = []
    with Lab(options, f"shards{os.getpid() % 1000}") as lab:
        lab.up()
        file = lab.host_folder("h0") / "data"
        write_random(file, given.size, 1)
        print(HEAD + "\n" + "| --- " * 9 + "|", flush=True)
        for way in given.ways:
            runs.append(once(lab, way, file, hosts, given))
            print(runs[-1].row(), flush=True)
    return runs


def parse_ways(text: str) -> list[str]:
    ways = text.split(",")
    if unknown := [way for way in ways if way not in ("scatter", "twice", "all")]:
        raise argparse.ArgumentTypeError(f"no way {unknown[0]!r}; there are scatter, twice, all")
    return ways


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=parse_size, default=24 << 20)
    parser.add_argument("--hosts", type=int, default=4, help="that receive, an even number")
    parser.add_argument("--link", type=parse_rate, default=50_000_000)
    parser.add_argument("--ways", type=parse_ways, default=["scatter", "twice", "all"])
    parser.add_argument("--realtime", action="store_true")
    parser.add_argument("--ports", type=int, nargs=2, default=(8765, 7565))
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if given.hosts < 2 or given.hosts % 2 or given.hosts > 64:
        parser.error("--hosts: an even number from 2 to 64")
    with alone(), tempfile.TemporaryDirectory(prefix="shards-") as folder:
        runs = run(given, Path(folder))
    if given.json:
        given.json.write_text(json.dumps([asdict(one) for one in runs], indent=1) + "\n")


if __name__ == "__main__":
    main()
