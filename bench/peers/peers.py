"""`make bench-peers`: Datacast beside libtorrent, UFTP and udpcast, on the same links. README.md says what is compared.

A star: every host has one shaped cable to a bridge, and IP addresses. Datacast runs over tunnels there, as the others
run over TCP and multicast; what it does over a DPDK switch on cables of the same rate stands beside it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from datacast.core.quantities import parse_rate, parse_size
from datacast.fabric_manager.api import GroupOptions
from datacast.lab.content import sha256_of, write_random
from datacast.lab.faults import Fault, parse_faults
from datacast.lab.ip import IpPlane, address
from datacast.lab.lab import Lab, LabOptions
from datacast.lab.plan import Machine
from datacast.lab.report import plain
from datacast.lab.run import Quiet, Transfer, send, settle
from datacast.lab.state import marked

HERE = Path(__file__).resolve().parent
TICK = os.sysconf("SC_CLK_TCK")
SLOW = 10
"""The slow receiver's cable has this part of the others' rate."""
PATIENCE_S = 240.0


class BridgePlane(IpPlane):
    """One network for all: multicast reaches everybody, as UFTP and udpcast need it."""

    def start(self, lab: Lab, machine: Machine) -> None:
        ports = [port.ifname for node in machine.nodes for port in machine.ports[node]]
        lines = ["ip link add br0 type bridge mcast_snooping 0", "ip link set br0 up"]
        lab.network.script(machine.name, "\n".join(lines + [f"ip link set {port} master br0" for port in ports]) + "\n")

    def start_host(self, lab: Lab, host: str) -> None:
        ifname = lab.plan.hosts[host].ports[host][0].ifname
        lab.network.script(
            host, f"ip addr add {host_address(lab, host)}/9 brd + dev {ifname}\nip route add 224.0.0.0/4 dev {ifname}\n"
        )


def host_address(lab: Lab, host: str) -> str:
    for i, cable in enumerate(lab.plan.cables):
        for end, port in enumerate((cable.a, cable.b)):
            if port.node == host:
                return address(i, end)
    raise KeyError(host)


@dataclass
class Figures:
    """Of one transfer."""

    what: str
    case: str
    wall_s: float
    cpu_s: float
    egress: float
    """Bytes that left the source, headers and all, per byte of the file."""
    finished: int
    wanted: int
    notes: list[str] = field(default_factory=list)


def sent_bytes(lab: Lab, host: str) -> int:
    ifname = lab.plan.hosts[host].ports[host][0].ifname
    stats = json.loads(lab.network.run_in(host, ["ip", "-j", "-s", "link", "show", "dev", ifname]))[0]
    return int(stats["stats64"]["tx"]["bytes"])


def used_cpu(pid: int) -> float:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0.0
    rest = text[text.rindex(")") + 2 :].split()
    return (int(rest[11]) + int(rest[12])) / TICK


class Programs:
    """The programs of a peer in the hosts' namespaces; their processor time is kept when they end."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.running: dict[str, subprocess.Popen[str]] = {}
        self.cpu = 0.0

    def start(self, host: str, command: list[str], **options: Any) -> subprocess.Popen[str]:
        popen = self.lab.network.spawn(self.lab.plan.hosts[host])
        log = (_folder(self.lab, "logs") / f"{os.path.basename(command[0])}-{host}").open("w")
        quiet = {"stdout": log, "stderr": log, "stdin": subprocess.DEVNULL}
        self.running[host] = popen(command, text=True, **{**quiet, **options})
        return self.running[host]

    def wait(self, host: str, timeout_s: float) -> bool:
        """Until it ends; its processor time is read on the way, as the kernel forgets it."""
        end = time.monotonic() + timeout_s
        process, cpu = self.running[host], 0.0
        while time.monotonic() < end:
            pid, _, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                process.returncode = 0
                self.cpu += usage.ru_utime + usage.ru_stime
                del self.running[host]
                return True
            cpu = max(cpu, used_cpu(process.pid))
            time.sleep(0.01)
        return False

    def kill(self, host: str) -> None:
        if host in self.running:
            os.kill(self.running[host].pid, 9)  # Popen.kill would reap it, and its processor time with it
            self.wait(host, 5)

    def close(self) -> None:
        for host in list(self.running):
            self.kill(host)


@dataclass
class Case:
    """What is sent, and what goes wrong."""

    name: str
    path: Path
    digest: str
    hosts: list[str]
    rate_bps: int
    together: bool = False
    """Datacast holds everybody to the slowest one's pace, as UFTP and udpcast do."""

    @property
    def source(self) -> str:
        return self.hosts[0]

    @property
    def receivers(self) -> list[str]:
        return self.hosts[1:]

    @property
    def size(self) -> int:
        return self.path.stat().st_size

    @property
    def lost(self) -> str | None:
        return self.hosts[-1] if self.name == "killed" else None

    @property
    def kill_after_s(self) -> float:
        """A third of what the links need."""
        return self.size * 8 / self.rate_bps / 3


def good(case: Case, path: Path) -> bool:
    return path.is_file() and path.stat().st_size == case.size and sha256_of(path) == case.digest


def datacast(lab: Lab, case: Case) -> tuple[float, float, list[str]]:
    pids = marked(lab.identity)
    before = {pid: used_cpu(pid) for pid in pids}
    faults: tuple[Fault, ...] = ()
    if case.lost:
        spec = f"kill agent {case.lost} at {case.kill_after_s:.2f}s"
        faults = parse_faults([spec], lab.graph, lab.options.dataplane)
    options = GroupOptions(delivery="together" if case.together else None)
    transfer = Transfer(
        source=case.source, receivers=tuple(case.receivers), file=case.path, faults=faults, options=options
    )
    report = plain(send(lab, settle(lab.graph, transfer), Quiet(), dest=f"{case.name}.bin"))
    spent = sum(max(used_cpu(pid) - before.get(pid, 0), 0) for pid in {*pids, *marked(lab.identity)})
    done = [name for name, r in report["receivers"].items() if r["sha256_ok"]]
    return report["finish_s"] or 0.0, spent, done


def libtorrent(lab: Lab, case: Case) -> tuple[float, float, list[str]]:
    import libtorrent as lt

    torrent = lt.create_torrent([lt.create_file_entry(case.path.name, case.size)], 1 << 20)
    lt.set_piece_hashes(torrent, str(case.path.parent))
    file = lab.work / "file.torrent"
    file.write_bytes(lt.bencode(torrent.generate()))
    programs = Programs(lab)
    try:
        for i, host in enumerate(case.hosts):
            folder = case.path.parent if i == 0 else _folder(lab, host)
            role = "seed" if i == 0 else "leech"
            others = [host_address(lab, other) for other in case.hosts[:i]]
            command = [sys.executable, str(HERE / "torrent.py"), str(file), str(folder), host_address(lab, host), role]
            process = programs.start(host, command + others, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            assert process.stdout and process.stdout.readline() == "ready\n"
        before = {host: used_cpu(p.pid) for host, p in programs.running.items()}
        started = time.monotonic()
        for process in programs.running.values():
            assert process.stdin
            process.stdin.write("go\n")
            process.stdin.flush()
        spent = 0.0
        if case.lost:
            time.sleep(case.kill_after_s)
            spent += used_cpu(programs.running[case.lost].pid) - before[case.lost]
            programs.kill(case.lost)
        done = []
        for host in case.receivers:
            if host in programs.running:
                out = programs.running[host].stdout
                assert out
                if out.readline() == "done\n":
                    done.append(host)
        wall = time.monotonic() - started
        spent += sum(used_cpu(p.pid) - before[host] for host, p in programs.running.items())
        return wall, spent, [host for host in done if good(case, _folder(lab, host) / case.path.name)]
    finally:
        programs.close()


def _folder(lab: Lab, host: str) -> Path:
    folder = lab.work / "peers" / host
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def uftp(lab: Lab, case: Case) -> tuple[float, float, list[str]]:
    programs = Programs(lab)
    try:
        for host in case.receivers:
            own, folder = host_address(lab, host), _folder(lab, host)
            programs.start(host, ["uftpd", "-d", "-I", own, "-D", str(folder), "-B", str(8 << 20)])
        time.sleep(0.3)
        rate = case.rate_bps * 95 // 100 // 1000
        limit = ["-C", "tfmcc"] if case.name == "slow" else ["-R", str(rate)]
        command = ["uftp", "-I", host_address(lab, case.source), "-B", str(8 << 20), "-b", "1400", *limit]
        started = time.monotonic()
        programs.start(case.source, [*command, str(case.path)])
        if case.lost:
            time.sleep(case.kill_after_s)
            programs.kill(case.lost)
        ended = programs.wait(case.source, PATIENCE_S)
        wall = time.monotonic() - started
        programs.close()
        done = [h for h in case.receivers if good(case, _folder(lab, h) / case.path.name)] if ended else []
        return wall, programs.cpu, done
    finally:
        programs.close()


def udpcast(lab: Lab, case: Case) -> tuple[float, float, list[str]]:
    programs = Programs(lab)
    try:
        for host in case.receivers:
            ifname = lab.plan.hosts[host].ports[host][0].ifname
            file = _folder(lab, host) / case.path.name
            programs.start(host, ["udp-receiver", "--file", str(file), "--interface", ifname, "--nokbd"])
        time.sleep(0.3)
        ifname = lab.plan.hosts[case.source].ports[case.source][0].ifname
        command = ["udp-sender", "--file", str(case.path), "--interface", ifname, "--nokbd", "--full-duplex"]
        command += ["--min-receivers", str(len(case.receivers)), "--max-bitrate", f"{case.rate_bps * 95 // 100000}k"]
        started = time.monotonic()
        programs.start(case.source, command)
        if case.lost:
            time.sleep(case.kill_after_s)
            programs.kill(case.lost)
        ended = programs.wait(case.source, PATIENCE_S)
        for host in list(programs.running):
            programs.wait(host, 10)
        wall = time.monotonic() - started
        done = [h for h in case.receivers if good(case, _folder(lab, h) / case.path.name)] if ended else []
        return wall, programs.cpu, done
    finally:
        programs.close()


PEERS: dict[str, Callable[[Lab, Case], tuple[float, float, list[str]]]] = {
    "datacast": datacast,
    "libtorrent": libtorrent,
    "uftp": uftp,
    "udpcast": udpcast,
}


@contextlib.contextmanager
def star(rate_bps: int, hosts: int, size: int, dpdk: bool, slot: int) -> Iterator[Lab]:
    options = LabOptions(
        topology=f"leafspine:1,1,{hosts}",
        rate_bps=rate_bps,
        mtu=9000 if dpdk else 1500,
        dataplane="dpdk" if dpdk else "ip",
        rest_port=7710 + slot,
        fabric_port=7730 + slot,
        room=size * (hosts + 1) * 2,
        realtime=False,
    )
    lab = Lab(options, f"peers{os.getpid()}")
    if not dpdk:
        lab.plane = BridgePlane()
    with lab:
        lab.up()
        yield lab


def slow_down(lab: Lab, host: str, rate_bps: int) -> None:
    """The bridge's side of its cable: what comes to it."""
    port = lab.plan.hosts[host].ports[host][0]
    machine = lab.plan.machine_of(port.neighbour)
    ifname = next(p.ifname for p in machine.ports[port.neighbour] if p.port == port.neighbour_port)
    command = f"tc qdisc change dev {ifname} root handle 5: tbf rate {rate_bps}bit burst 60000 limit {1 << 30}\n"
    lab.network.script(machine.name, command)


def measure(what: str, name: str, rate_bps: int, hosts: int, size: int, slot: int) -> Figures:
    with star(rate_bps, hosts, size, what.startswith("datacast-dpdk"), slot) as lab:
        path = lab.work / "payload.bin"
        digest = write_random(path, size, 7, lambda done: None)
        case = Case(name, path, digest, list(lab.plan.hosts), rate_bps, what.endswith("-together"))
        if name == "slow":
            slow_down(lab, case.hosts[-1], rate_bps // SLOW)
        before = sent_bytes(lab, case.source)
        wall, cpu, done = PEERS[what.partition("-")[0]](lab, case)
        egress = (sent_bytes(lab, case.source) - before) / size
        wanted = [host for host in case.receivers if host != case.lost]
        return Figures(what, name, wall, cpu, egress, len(set(done) & set(wanted)), len(wanted))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=parse_size, default=parse_size("256M"))
    parser.add_argument("--rate", type=parse_rate, default=parse_rate("2gbit"))
    parser.add_argument("--hosts", type=int, default=4, help="the source among them")
    parser.add_argument("--only", default="datacast,datacast-dpdk,libtorrent,uftp,udpcast",
                        help="also datacast-together, datacast-dpdk-together")  # fmt: skip
    parser.add_argument("--cases", default="clean,slow,killed")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = []
    print(f"{'':22} {'case':8} {'wall s':>8} {'cpu s':>8} {'egress':>7} {'whole':>6}")
    for slot, (case, what) in enumerate((c, w) for c in args.cases.split(",") for w in args.only.split(",")):
        row = measure(what, case, args.rate, args.hosts, args.size, slot % 16)
        rows.append(row)
        whole = f"{row.finished}/{row.wanted}"
        print(f"{row.what:22} {row.case:8} {row.wall_s:8.2f} {row.cpu_s:8.2f} {row.egress:7.3f} {whole:>6}", flush=True)
    if args.json:
        args.json.write_text(json.dumps([row.__dict__ for row in rows], indent=1) + "\n")


if __name__ == "__main__":
    main()
