"""Who gets how much of a shaped cable: Datacast groups beside each other, and beside the kernel's own TCP.

Two switches (or, with `ip`, two Linux routers) joined by one cable; sources stand on one side, receivers on the other.
TCP is iperf3 between two machines behind the switches, whose kernels route it over the cable: its packets wait in the
same queue, behind the same token bucket. (Begun at the switch itself they would not: a kernel lets a connection have no
more than a millisecond in its own queues.) A share is what a receiver has had, and of a connection what iperf3's server
counted, over the cable's rate divided among all. `frames` is Ethernet between datacast-switches, `ip` MPLS in UDP at an
MTU of 1,500 between routers.

Prints Markdown tables; --json the figures, --plot a picture of rates over time. iperf3 is Debian's.

    bench/lab/beside.py --realtime
    bench/lab/beside.py --ways frames --flavours bbr --counts 3 --delay 5 --seconds 30 --plot beside.svg
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import msgspec
import networkx as nx
from alone import alone

from datacast import topologies
from datacast.controller.api import FINAL_STATES, GroupSpec
from datacast.controller.api.records import GroupRecord
from datacast.core.quantities import parse_rate
from datacast.lab.content import write_random
from datacast.lab.errors import LabError
from datacast.lab.lab import Lab, LabOptions
from datacast.lab.run import get, post

STEP_S = 0.25
"""Between two looks at the counters, and of iperf3's own."""
STEADY = 0.3
"""Part of a case after which its shares count."""
ALONE_S = 2.0
"""What runs first has the cable for itself so long."""
WAYS = {"frames": ("dpdk", 9000), "ip": ("ip", 1500)}
ADDRESS = {"a": "10.77.0.1", "b": "10.77.0.2"}
OUTSIDE = {"a": "10.78.1", "b": "10.78.2"}
"""Networks of the machines behind the switches: the first three numbers."""


@dataclass
class Flow:
    """A group's slowest receiver, or a connection: its rate over time."""

    name: str
    at_s: list[float] = field(default_factory=list)
    bps: list[float] = field(default_factory=list)

    def mean(self, since: float, until: float) -> float:
        seen = [bps for at, bps in zip(self.at_s, self.bps, strict=True) if since < at <= until]
        return statistics.fmean(seen) if seen else 0.0


@dataclass
class Case:
    """What ran side by side, and what each had."""

    way: str
    what: str
    fair_bps: float
    since_s: float
    until_s: float
    cable_bps: int
    flows: list[Flow]

    def shares(self, kind: str) -> list[float]:
        """Means over fair, of the flows whose names begin with `kind`."""
        return [f.mean(self.since_s, self.until_s) / self.fair_bps for f in self.flows if f.name.startswith(kind)]

    @property
    def used(self) -> float:
        return sum(f.mean(self.since_s, self.until_s) for f in self.flows) / self.cable_bps


def jain(values: list[float]) -> float:
    return sum(values) ** 2 / (len(values) * sum(v * v for v in values)) if any(values) else 0.0


class Cable:
    """A lab of two switches and what runs over the cable between them."""

    def __init__(self, lab: Lab, way: str, rate_bps: int) -> None:
        self.lab, self.way, self.rate_bps = lab, way, rate_bps
        self.payload = lab.work / "payload.bin"
        self._made = 0
        self.room = {node: f"beside-{os.getpid()}-{node}" for node in "ab"}

    def __enter__(self) -> Self:
        for node in "ab":
            subprocess.run(["ip", "netns", "add", self.room[node]], check=True)
            self._connect(node)
        return self

    def __exit__(self, *exc: object) -> None:
        for room in self.room.values():
            subprocess.run(["ip", "netns", "del", room], check=False)

    def _connect(self, node: str) -> None:
        """A machine of its own behind a switch, whose kernel routes between it and the cable."""
        other = "ba"["ab".index(node)]
        machine = self.lab.plan.machine_of(node)
        port = next(p for p in machine.ports[node] if p.neighbour == other)
        pid = self.lab.network.nodes[machine.name].pid
        mtu = WAYS[self.way][1]
        subprocess.run(
            f"ip link add out mtu {mtu} netns {self.room[node]} type veth peer name tcp mtu {mtu} netns {pid}".split(),
            check=True,
        )
        inside = ["ip", "netns", "exec", self.room[node], "sh", "-eu", "-c"]
        lines = f"ethtool -K out gso off tso off gro off >/dev/null; ip addr add {OUTSIDE[node]}.2/30 dev out\n"
        lines += f"ip link set lo up; ip link set out up; ip route add default via {OUTSIDE[node]}.1\n"
        subprocess.run([*inside, lines], check=True)
        lines = f"ip addr add {OUTSIDE[node]}.1/30 dev tcp; ip link set tcp up\n"
        lines += f"ip addr add {ADDRESS[node]}/30 dev {port.ifname}\n"
        lines += "ethtool -K tcp gso off tso off gro off >/dev/null; echo 1 >/proc/sys/net/ipv4/ip_forward\n"
        lines += f"ip neigh replace {ADDRESS[other]} lladdr {port.neighbour_mac} dev {port.ifname}\n"
        lines += f"ip route add {OUTSIDE[other]}.0/30 via {ADDRESS[other]}\n"
        self.lab.network.script(machine.name, lines)

    def received(self, host: str) -> int:
        """Bytes that a host's data ports have taken, frames whole."""
        machine = self.lab.plan.hosts[host]
        names = {port.ifname for port in machine.ports[host]}
        text = Path(f"/proc/{self.lab.network.nodes[machine.name].pid}/net/dev").read_text()
        rows = (line.split(":", 1) for line in text.splitlines() if ":" in line)
        return sum(int(counts.split()[0]) for name, counts in rows if name.strip() in names)

    @contextmanager
    def group(self, number: int, options: dict[str, Any] | None = None, **more: Any) -> Iterator[str]:
        """A group from s`number` to r`number`, cancelled at the end."""
        self._made += 1
        spec = {
            "source": f"s{number}",
            "source_path": str(self.payload),
            "receivers": [f"r{number}"],
            "dest_path": f"file-{self._made}",
            "options": options or {},
            **more,
        }
        group = post(self.lab, msgspec.convert(spec, GroupSpec)).id
        before = self.received(f"r{number}")
        end = time.monotonic() + 30
        while self.received(f"r{number}") - before < 100_000:
            if time.monotonic() > end:
                raise LabError(f"group {group} does not begin: {get(self.lab, GroupRecord, f'/groups/{group}')}")
            time.sleep(0.02)
        try:
            yield group
        finally:
            self.lab.rest_json("POST", f"/groups/{group}/cancel")
            while get(self.lab, GroupRecord, f"/groups/{group}").state not in FINAL_STATES:
                time.sleep(0.05)
            (self.lab.host_folder(f"r{number}") / spec["dest_path"]).unlink(missing_ok=True)

    @contextmanager
    def watched(self, numbers: list[int], began: float) -> Iterator[list[Flow]]:
        """The rates of what the receivers take, as a thread reads them."""
        flows, over = [Flow(f"group {n}") for n in numbers], threading.Event()

        def watch() -> None:
            last = [(time.monotonic(), self.received(f"r{n}")) for n in numbers]
            while not over.wait(STEP_S):
                for k, n in enumerate(numbers):
                    now = (time.monotonic(), self.received(f"r{n}"))
                    flows[k].at_s.append(now[0] - began)
                    flows[k].bps.append(8 * (now[1] - last[k][1]) / (now[0] - last[k][0]))
                    last[k] = now

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield flows
        finally:
            over.set()
            thread.join()

    def tcp(self, flavour: str, count: int, seconds: float, began: float) -> Callable[[], list[Flow]]:
        """Begin connections from a to b; call the answer to wait for them and have their rates."""
        out = Path(tempfile.mkstemp(prefix="iperf3-", suffix=".json")[1])
        server, client = (["ip", "netns", "exec", self.room[node]] for node in "ba")
        server += ["iperf3", "-s", "-1", "-J", "-i", str(STEP_S), "--logfile", str(out)]
        listens = subprocess.Popen(server, stdout=subprocess.DEVNULL)
        time.sleep(0.3)
        offset = time.monotonic() - began
        client += ["iperf3", "-c", f"{OUTSIDE['b']}.2", "-C", flavour, "-P", str(count), "-t", f"{seconds:g}", "-J"]
        sends = subprocess.Popen(client, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

        def end() -> list[Flow]:
            said = sends.communicate(timeout=seconds + 30)[0]
            listens.wait(10)
            told = json.loads(out.read_text())
            out.unlink()
            if "error" in told or sends.returncode:
                raise LabError(f"iperf3: {told.get('error')}; {said.decode(errors='replace')[-300:]}")
            flows = [Flow(f"{flavour} {k}") for k in range(count)]
            head = 1 + 20 / 1448 if self.lab.plane.ip else 1.0
            for interval in told["intervals"]:
                for flow, stream in zip(flows, interval["streams"], strict=True):
                    flow.at_s.append(offset + stream["end"])
                    flow.bps.append(stream["bits_per_second"] * head)
            return flows

        return end

    def beside(self, flavour: str, count: int, seconds: float, first: str, **group: Any) -> Case:
        """One group beside connections; `first`: which of them has the cable for a while before."""
        began = time.monotonic()
        more = ALONE_S + 0.5
        if first == "tcp":
            end = self.tcp(flavour, count, seconds + more, began)
            time.sleep(ALONE_S)
            with self.group(0, **group), self.watched([0], began) as flows:
                time.sleep(seconds)
        else:
            with self.group(0, **group), self.watched([0], began) as flows:
                time.sleep(ALONE_S)
                end = self.tcp(flavour, count, seconds, began)
                time.sleep(seconds + 0.5)
        others = end()
        last = min(flows[0].at_s[-1], max(flow.at_s[-1] for flow in others))
        since = last - seconds * (1 - STEADY)
        what = f"{group.get('priority', 'group')} beside {count} {flavour}, {first} first"
        return Case(self.way, what, self.rate_bps / (1 + count), since, last, self.rate_bps, [*flows, *others])

    def groups(self, count: int, seconds: float) -> Case:
        """Groups that begin a second after each other."""
        began, running = time.monotonic(), []
        with self.watched(list(range(count)), began) as flows:
            try:
                for n in range(count):
                    running.append(self.group(n))
                    running[-1].__enter__()
                    time.sleep(1)
                since = time.monotonic() - began
                time.sleep(seconds)
            finally:
                last = time.monotonic() - began
                for one in running:
                    one.__exit__(None, None, None)
        return Case(self.way, f"{count} groups", self.rate_bps / count, since, last, self.rate_bps, flows)


def network(rate_bps: int, groups: int, delay_ms: float) -> nx.Graph:
    """Access links have four times the rate of the cable."""
    g = nx.Graph()
    for switch in "ab":
        g.add_node(switch, kind="switch", forwards=True)
    g.add_edge("a", "b", rate_bps=rate_bps, delay_ms=delay_ms)
    for n in range(groups):
        for host, switch in ((f"s{n}", "a"), (f"r{n}", "b")):
            g.add_node(host, kind="host", forwards=False)
            g.add_edge(host, switch, rate_bps=4 * rate_bps)
    return g


@contextmanager
def cable(way: str, groups: int, args: argparse.Namespace) -> Iterator[Cable]:
    plane, mtu = WAYS[way]
    rest, fabric = (int(port) for port in args.ports.split(","))
    rate = parse_rate(args.link)
    size = int(rate / 8 * (args.seconds + 15) * 1.2)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cable.json"
        path.write_text(json.dumps(topologies.to_json(network(rate, groups, args.delay))))
        options = LabOptions(
            str(path),
            rate,
            mtu,
            queue_packets=args.queue,
            dataplane=plane,
            rest_port=rest,
            fabric_port=fabric,
            room=(groups + 2) * size,
            realtime=args.realtime,
            apart=("a", "b"),
        )
        with Lab(options, f"beside-{os.getpid()}") as lab:
            lab.up()
            with Cable(lab, way, rate) as made:
                write_random(made.payload, size, 1, lambda done: lab.signals.check())
                yield made


def rows(cases: list[Case]) -> Iterator[str]:
    yield "| way | what | group over fair | TCP over fair, least to most | of the cable | Jain |"
    yield "| --- " * 6 + "|"
    for case in cases:
        groups, tcp = case.shares("group"), [s for k in ("cubic", "bbr") for s in case.shares(k)]
        mine = f"{min(groups):.2f}" + (f" to {max(groups):.2f}" if len(groups) > 1 else "")
        theirs = f"{min(tcp):.2f} to {max(tcp):.2f}" if tcp else "-"
        yield f"| {case.way} | {case.what} | {mine} | {theirs} | {case.used:.3f} | {jain(groups + tcp):.3f} |"


def draw(cases: list[Case], path: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    plt.rcParams["svg.fonttype"] = "none"  # letters, not their outlines: a fifth of the size
    columns = min(3, len(cases))
    lines = -(-len(cases) // columns)
    figure, axes = plt.subplots(lines, columns, figsize=(4.2 * columns, 2.6 * lines), squeeze=False)
    for axis in axes.flat[len(cases) :]:
        axis.set_visible(False)
    for axis, case in zip(axes.flat, cases, strict=False):
        for flow in case.flows:
            mine = flow.name.startswith("group")
            several = sum(f.name.startswith("group") for f in case.flows) > 1
            colour = None if several else "C0" if mine else "0.6"
            axis.plot(flow.at_s, [bps / 1e6 for bps in flow.bps], color=colour, lw=1.6 if mine and not several else 0.8)
        axis.axhline(case.fair_bps / 1e6, color="k", ls=":", lw=0.8)
        axis.set_title(f"{case.way}: {case.what}", fontsize=8)
        axis.set_ylim(0, case.cable_bps * 1.1 / 1e6)
        axis.set_xlabel("s", fontsize=7)
        axis.set_ylabel("Mb/s", fontsize=7)
        axis.tick_params(labelsize=7)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--link", default="50mbit", help="rate of the shared cable")
    parser.add_argument("--queue", type=int, default=100, help="packets of 9,000 bytes in front of it, or their bytes")
    parser.add_argument("--delay", type=float, default=0, help="one way, ms, by the lab's delay line")
    parser.add_argument("--seconds", type=float, default=15, help="of each case, after both have begun")
    parser.add_argument("--ways", default="frames,ip", help=f"of {', '.join(WAYS)}")
    parser.add_argument("--flavours", default="cubic,bbr", help="of the kernel's; empty: no TCP")
    parser.add_argument("--counts", default="1,3,9", help="connections beside the group")
    parser.add_argument("--first", default="group", help="who begins: group, tcp, or both in turns: group,tcp")
    parser.add_argument("--groups", type=int, default=10, help="that share the cable, frames only; 0: none")
    parser.add_argument("--background", action="store_true", help="the group is a background one")
    parser.add_argument("--ports", default="7980,7901", help="REST's and the fabric manager's")
    parser.add_argument("--realtime", action="store_true", help="daemons of the data path go before others")
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    flavours = [flavour for flavour in args.flavours.split(",") if flavour]
    if flavours and not shutil.which("iperf3"):
        raise SystemExit("iperf3 is missing: apt-get install iperf3, or --flavours '' for groups alone")
    cases: list[Case] = []

    def note(case: Case) -> None:
        cases.append(case)
        if len(cases) == 1:
            print("\n".join(rows(cases)), flush=True)
        else:
            print(list(rows([case]))[-1], flush=True)

    more = {"priority": "background"} if args.background else {}
    with alone():
        for way in args.ways.split(","):
            if flavours:
                with cable(way, 1, args) as one:
                    for flavour in flavours:
                        for count in (int(text) for text in args.counts.split(",")):
                            for first in args.first.split(","):
                                note(one.beside(flavour, count, args.seconds, first, **more))
            if args.groups and way == "frames":
                with cable(way, args.groups, args) as one:
                    note(one.groups(args.groups, args.seconds))
    if args.plot:
        draw(cases, args.plot)
    if args.json:
        args.json.write_text(json.dumps([asdict(case) for case in cases], indent=1) + "\n")


if __name__ == "__main__":
    main()
