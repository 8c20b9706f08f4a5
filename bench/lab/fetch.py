"""A collective fetch from S3 in a lab: hosts on one switch, two at a fifth of the others' rate.

    bench/lab/fetch.py --realtime
    bench/lab/fetch.py --realtime --change 2            every 2 s two others are the slow ones
    bench/lab/fetch.py --realtime --change 2 --kill h4@3

The object is served by versitygw behind an nginx, whose log tells which host got which range. The origin's rate is each
host's own: what comes from nginx is shaped at the host's port of the management bridge. That counts all bytes on the
wire; of a packet of 1514 the object has 1448, so fetchers together bring it in no less than size / (0.956 * sum of
rates): the bound, or, where that is slower, size / a link. Heads of HTTP are not in it. Printed: the last receiver's
end over it, the bytes on the wire over the least (heads, packets sent twice), what left the origin over the object, the
spread between the first receiver and the last; and after --kill what was fetched again: of what the killed host had not
got whole, and of what it had, by the table in its unfinished file.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import networkx as nx
from alone import alone

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "services_kit"))
from s3 import BUCKET, S3, program
from twice import Answer, Twice, twice, verified
from web import Nginx, put

from datacast import topologies
from datacast.core.quantities import parse_rate, parse_size
from datacast.lab.faults import parse_faults
from datacast.lab.lab import Lab, LabOptions
from datacast.lab.report import plain
from datacast.lab.run import Quiet, Transfer, send

PORT, S3_PORT = 8099, 7070
AHEAD = 16 << 10
PAYLOAD = 1448 / 1514
"""Of what TCP puts on an Ethernet wire with packets of 1500 bytes."""


@dataclass(frozen=True)
class Rates:
    """Of `hosts`, `slow` have a fifth of `fast` at any time, from one change to the next the ones that follow."""

    hosts: list[str]
    fast: int
    slow: int
    change_s: float
    """0: never."""

    def at(self, change: int) -> dict[str, int]:
        first = change * self.slow % len(self.hosts)
        some = {self.hosts[(first + i) % len(self.hosts)] for i in range(self.slow)}
        return {name: self.fast // 5 if name in some else self.fast for name in self.hosts}

    def bound_s(self, size: int, link: int, start_s: float, gone: tuple[str, float] | None) -> float:
        """From `start_s` after the order on, until all have brought `size` bytes."""
        left, now, step = size * 8.0, start_s, 0.001
        while left > 0:
            rates = self.at(int(now / self.change_s) if self.change_s else 0)
            if gone and now >= gone[1]:
                rates.pop(gone[0])
            left -= min(sum(rates.values()) * PAYLOAD, link) * step
            now += step
        return now - start_s


class Shapers(Quiet):
    """Sets rates, from the moment on when a transfer is ordered."""

    def __init__(self, lab: Lab, rates: Rates) -> None:
        self._rates = rates
        self._ports = {name: lab.network.management_port(name) for name in rates.hosts}
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        lines = []
        for name, bps in rates.at(0).items():
            port = self._ports[name][1]
            lines += [
                f"qdisc replace dev {port} root handle 1: htb default 1",
                f"class add dev {port} parent 1: classid 1:1 htb rate 10gbit",
                f"class add dev {port} parent 1: classid 1:2 htb rate {bps}bit burst 16kb",
                f"filter add dev {port} parent 1: protocol ip u32 match ip sport {PORT} 0xffff flowid 1:2",
            ]
        self._tc(lines)

    def _tc(self, lines: list[str]) -> None:
        pid = next(pid for pid, _ in self._ports.values())
        command = ["mnexec", "-a", str(pid), "tc", "-batch", "-"]
        subprocess.run(command, input="\n".join(lines) + "\n", text=True, check=True)

    def step(self, text: str) -> None:
        if text == "sending" and self._rates.change_s:
            self._thread = threading.Thread(target=self._change)
            self._thread.start()

    def _change(self) -> None:
        change = 0
        while not self._over.wait(self._rates.change_s):
            change += 1
            rows = ((self._ports[name][1], bps) for name, bps in self._rates.at(change).items())
            self._tc([f"class change dev {p} parent 1: classid 1:2 htb rate {bps}bit burst 16kb" for p, bps in rows])

    def wire(self) -> int:
        """Bytes that went through the shapers."""
        sent = 0
        for pid, port in self._ports.values():
            show = ["mnexec", "-a", str(pid), "tc", "-s", "class", "show", "dev", port, "classid", "1:2"]
            told = subprocess.run(show, capture_output=True, text=True, check=True).stdout
            sent += int(told.split(" Sent ")[1].split()[0])
        return sent

    def stop(self) -> None:
        self._over.set()
        if self._thread:
            self._thread.join()


def answers(log: Path) -> Iterator[Answer]:
    """What nginx has sent of the object; the probes' single bytes left out."""
    for client, first, last, sent in _rows(log):
        if last > first:
            yield Answer(client, first, last + 1, sent)


def _rows(log: Path) -> Iterator[tuple[str, int, int, int]]:
    for line in log.read_text().splitlines():
        if found := re.fullmatch(r"(\S+) 206 (\d+) bytes=(\d+)-(\d+)", line):
            yield found[1], int(found[3]), int(found[4]), int(found[2])


@dataclass(frozen=True)
class Seen:
    report: dict[str, Any]
    rates: Rates
    told: list[Answer]
    wire: int
    twice: Twice | None


def run(given: argparse.Namespace, folder: Path) -> Seen:
    hosts = [f"h{i}" for i in range(given.hosts)]
    g = nx.Graph()
    g.add_node("s", kind="switch", forwards=True)
    for name in hosts:
        g.add_node(name, kind="host", forwards=False)
        g.add_edge(name, "s")
    net, allowed, original = folder / "net.json", folder / "origins.json", folder / "object"
    net.write_text(json.dumps(topologies.to_json(g)))
    allowed.write_text("{}")
    allowed.chmod(0o600)
    put(original, given.size)
    rates = Rates(hosts, given.origin, given.slow, given.change)
    options = LabOptions(
        str(net), given.link, rest_port=given.ports[0], fabric_port=given.ports[1], room=given.size * (given.hosts + 1),
        realtime=given.realtime, origins=str(allowed),
    )  # fmt: skip
    with Lab(options, f"fetch{os.getpid() % 1000}") as lab:
        lab.up()
        shapers, address = Shapers(lab, rates), lab.plan.root_address
        front = (
            f"location / {{ proxy_pass http://{address}:{S3_PORT}; proxy_set_header Host $http_host; "
            "proxy_http_version 1.1; proxy_max_temp_file_size 0; }"
        )
        with (
            S3(folder / "s3", address, S3_PORT) as s3,
            Nginx(folder / "nginx", address, PORT, more=front, ahead=AHEAD) as nginx,
        ):
            s3.put("object", original.read_bytes())
            allowed.write_text(json.dumps({"origins": [s3.entry(endpoint=nginx.url)]}))
            faults = [f"kill agent {given.kill[0]} at {given.kill[1]:g}s"] if given.kill else []
            transfer = Transfer(
                source=hosts[0], receivers=tuple(hosts), file=original, url=f"s3://{BUCKET}/object",
                fetchers="all", policy=given.policy, faults=parse_faults(faults, lab.graph, "dpdk"),
            )  # fmt: skip
            before = shapers.wire()
            try:
                report = plain(send(lab, transfer, shapers))
            finally:
                shapers.stop()
            wire = shapers.wire() - before
        told, again = list(answers(nginx.log)), None
        if given.kill:
            killed = given.kill[0]
            again = twice(told, lab.plan.machine_of(killed).address, verified(lab.host_folder(killed)))
        return Seen(report, rates, told, wire, again)


def show(given: argparse.Namespace, seen: Seen) -> None:
    report, rates, told = seen.report, seen.rates, seen.told
    ends = [row["finish_s"] for row in report["receivers"].values() if row["finish_s"] and row["sha256_ok"]]
    if not ends:
        raise SystemExit(f"nobody has the object: {report['error']}")
    start, last = report["start_s"] or 0.0, max(ends)
    after_first = rates.bound_s(given.size, given.link, start, given.kill)
    after_order = rates.bound_s(given.size, given.link, 0.0, given.kill)
    sent = sum(one.sent for one in told)
    change = f", others every {given.change:g} s" if given.change else ""
    print(f"policy               {given.policy}, {given.hosts} hosts at {given.origin / 1e6:g} Mbit/s,")
    print(f"                     {given.slow} of them at a fifth of it{change}; {given.size >> 20} MiB from S3")
    print(f"finish               {last:.3f} s after the first packet, {start + last:.3f} s after the order")
    print(f"bound                {after_first:.3f} s and {after_order:.3f} s")
    print(f"over it              {last / after_first:.3f} and {(start + last) / after_order:.3f}")
    print(f"over size / rates    {last / (PAYLOAD * after_first):.3f}, headers of TCP and IP not taken off")
    print(f"wire                 {seen.wire * PAYLOAD / given.size:.4f} of the least for the object")
    print(f"origin bytes         {sent / given.size:.4f} of the object")
    print(f"spread of receivers  {(last - min(ends)) / last * 100:.2f} %")
    print(f"receivers            {len(ends)} of {given.hosts}")
    if given.kill and seen.twice:
        print(f"{given.kill[0]} killed            it had {seen.twice.unfinished >> 10} KiB asked for and not whole")
        print(
            f"fetched again        {seen.twice.of_that >> 10} KiB of those, {seen.twice.of_held >> 10} that it had got"
        )


def parse_kill(text: str) -> tuple[str, float]:
    host, _, seconds = text.partition("@")
    return host, float(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=parse_size, default=64 << 20)
    parser.add_argument("--hosts", type=int, default=8)
    parser.add_argument("--link", type=parse_rate, default=100_000_000)
    parser.add_argument("--origin", type=parse_rate, default=12_000_000)
    parser.add_argument("--slow", type=int, default=2, help="hosts that get a fifth of it")
    parser.add_argument("--change", type=float, default=0.0, metavar="S", help="every S seconds others are slow")
    parser.add_argument("--kill", type=parse_kill, metavar="HOST@S", help="SIGKILL for the agent of a host after S")
    parser.add_argument("--policy", default="steal")
    parser.add_argument("--realtime", action="store_true")
    parser.add_argument("--ports", type=int, nargs=2, default=(8745, 7545))
    given = parser.parse_args()
    program()
    with alone(), tempfile.TemporaryDirectory(prefix="fetch-") as folder:
        show(given, run(given, Path(folder)))


if __name__ == "__main__":
    main()
