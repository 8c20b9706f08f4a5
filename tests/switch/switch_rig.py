"""A switch under test: a network namespace with veth pairs, the switch on one end of each, raw sockets on the other."""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import yaml
from left_over import owned
from switch_control import ask_switch
from waiting import wait_for

from datacast.lab.namespace import inside

ROOT = Path(__file__).resolve().parents[2]
BINARY = ROOT / "build" / "datacast-switch"
BINARY_ASAN = ROOT / "build" / "asan" / "datacast-switch"
ETH_P_ALL = 3
PACKET_OUTGOING = 4
SO_RCVBUFFORCE = 33
AHEAD = ("nice", "-n", "-15")
"""Before a command: on a busy machine a switch may have no turn for longer than its neighbour bears its silence."""
_serial = itertools.count()
T = TypeVar("T")
PATIENCE = 60.0
"""Seconds: whoever waits for less fails on a busy machine."""


def ip(*args: str) -> None:
    done = subprocess.run(["ip", *args], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"ip {' '.join(args)}: {done.stderr.strip()}")


class Namespace:
    """A network namespace of its own, gone at close."""

    def __init__(self) -> None:
        self.name = owned("switch")
        ip("netns", "add", self.name)
        self.ip("link", "set", "lo", "up")
        self.command("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1")

    @property
    def enter(self) -> tuple[str, ...]:
        return "ip", "netns", "exec", self.name

    def ip(self, *args: str) -> None:
        ip("-n", self.name, *args)

    def command(self, *args: str) -> str:
        done = subprocess.run([*self.enter, *args], check=True, capture_output=True, text=True)
        return done.stdout

    def inside(self, make: Callable[[], T]) -> T:
        return inside(f"/run/netns/{self.name}", make)

    def close(self) -> None:
        ip("netns", "del", self.name)


class Wire:
    """The far end of a port: a raw socket."""

    def __init__(self, ns: Namespace, iface: str) -> None:
        self.iface = iface

        def make() -> socket.socket:
            s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
            s.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 8 << 20)
            s.bind((iface, ETH_P_ALL))
            return s

        self.socket = ns.inside(make)

    def send(self, frame: bytes) -> None:
        self.socket.send(frame)

    def receive(self, seconds: float = PATIENCE) -> bytes | None:
        """The next frame from the switch; None when none comes in time."""
        deadline = time.monotonic() + seconds
        while True:
            ready, _, _ = select.select([self.socket], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                return None
            frame, address = self.socket.recvfrom(65536)
            if address[2] != PACKET_OUTGOING:
                return frame

    def silent(self, seconds: float = 0.2) -> bool:
        return self.receive(seconds) is None


class Process:
    """A running datacast-switch."""

    def __init__(
        self,
        ns: Namespace,
        path: Path,
        config: dict[str, Any],
        binary: Path = BINARY,
        *options: str,
        first: bool = False,
    ) -> None:
        """`first`: it has its turn before others that want the processor, for what is about its own timing."""
        self.path = path
        self.control = config.get("control", str(path / "switch.sock"))
        config = {"control": self.control, "no_hello": True, **config}
        (path / "switch.yaml").write_text(yaml.safe_dump(config))
        self.log_path = path / "switch.log"
        self.log_file = self.log_path.open("w")
        env = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1", "UBSAN_OPTIONS": "print_stacktrace=1"}
        self.popen = subprocess.Popen(
            [*ns.enter, *AHEAD * first, str(binary), "--config", str(path / "switch.yaml"), *options],
            stdout=self.log_file, stderr=subprocess.STDOUT, env=env)

    @property
    def log(self) -> str:
        return self.log_path.read_text()

    def ready(self, seconds: float = PATIENCE) -> Process:
        def probe() -> bool:
            assert self.popen.poll() is None, f"exit code {self.popen.returncode}: {self.log}"
            return os.path.exists(self.control) and " ready: " in self.log

        wait_for("the switch to be ready", probe, seconds)
        return self

    def ask(self, op: str, **arguments: Any) -> dict[str, Any]:
        return ask_switch(self.control, op, **arguments)

    def counters(self, node: str = "s0.0") -> dict[str, Any]:
        return self.ask("counters")["nodes"][node]

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.popen.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def cpu_precise(self) -> float:
        """Seconds on a processor, all threads, to the nanosecond."""
        total = 0
        for task in Path(f"/proc/{self.popen.pid}/task").iterdir():
            with contextlib.suppress(OSError):
                total += int((task / "schedstat").read_text().split()[0])
        return total / 1e9

    def rss_mb(self) -> float:
        for line in Path(f"/proc/{self.popen.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        raise AssertionError("no VmRSS")

    def stop(self, sig: int = signal.SIGTERM, seconds: float = PATIENCE) -> int:
        if self.popen.poll() is None:
            self.popen.send_signal(sig)
        try:
            code = self.popen.wait(seconds)
        except subprocess.TimeoutExpired as error:
            waits = {t.name: (t / "wchan").read_text() for t in Path(f"/proc/{self.popen.pid}/task").iterdir()}
            self.popen.kill()
            self.popen.wait()
            raise AssertionError(f"it did not end within {seconds} s; threads wait in {waits}; {self.log}") from error
        self.log_file.close()
        return code


class Rig:
    """Namespace, interfaces and a switch with one node, unless told otherwise."""

    def __init__(self, path: Path, ports: int = 3, mtu: int = 9000) -> None:
        self.path, self.mtu = path, mtu
        self.ns = Namespace()
        self.processes: list[Process] = []
        tag = f"{os.getpid() % 10000}{next(_serial)}"
        self.ifaces = [f"s{tag}p{i}" for i in range(ports)]
        self.wires = [self.cable(iface, mtu) for iface in self.ifaces]

    def cable(self, iface: str, mtu: int) -> Wire:
        peer = "w" + iface[1:]
        self.ns.ip("link", "add", iface, "mtu", str(mtu), "type", "veth", "peer", "name", peer, "mtu", str(mtu))
        self.ns.ip("link", "set", iface, "up")
        self.ns.ip("link", "set", peer, "up")
        return Wire(self.ns, peer)

    def port_list(self, first: int = 0, last: int | None = None) -> list[dict[str, Any]]:
        chosen = self.ifaces[first:last]
        return [{"port": i, "iface": iface} for i, iface in enumerate(chosen)]

    def config(self, **more: Any) -> dict[str, Any]:
        node = {"name": "s0.0", "ports": self.port_list(), "cache": {"memory": "4M", **more.pop("cache", {})}}
        return {"nodes": [node], "mtu": self.mtu, **more}

    def start(self, config: dict[str, Any] | None = None, binary: Path = BINARY, *options: str,
              name: str = "", first: bool = False) -> Process:
        folder = self.path / (name or f"run{len(self.processes)}")
        folder.mkdir()
        config = config if config is not None else self.config()
        process = Process(self.ns, folder, config, binary, *options, first=first)
        self.processes.append(process)
        return process

    def close(self) -> None:
        for process in self.processes:
            if process.popen.poll() is None:
                process.stop()
        for wire in self.wires:
            wire.socket.close()
        self.ns.close()


@contextlib.contextmanager
def rig(path: Path, ports: int = 3, mtu: int = 9000) -> Iterator[Rig]:
    r = Rig(path, ports, mtu)
    try:
        yield r
    finally:
        r.close()
