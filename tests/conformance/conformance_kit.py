"""Namespaces, wires and processes for switches under test."""

from __future__ import annotations

import errno
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from left_over import owned
from waiting import wait_for

from datacast.lab import services
from datacast.lab.namespace import inside
from datacast.services.forks import Forked

ROOT = Path(__file__).resolve().parents[2]
ETH_P_ALL = 3
PACKET_OUTGOING = 4
MTU = 9000
T = TypeVar("T")


class Namespace:
    """A network namespace of its own: all that runs in it goes with `close`."""

    def __init__(self) -> None:
        self.name = owned("plane")
        self._run("ip", "netns", "add", self.name)
        self.command("sh", "-c", "echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6; ip link set lo up")
        self.processes: list[Process] = []

    @staticmethod
    def _run(*command: str) -> str:
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, f"{' '.join(command)}: {done.stderr.strip()}"
        return done.stdout

    def command(self, *command: str) -> str:
        return self._run("ip", "netns", "exec", self.name, *command)

    def cable(self, a: str, b: str, mtu: int = MTU) -> None:
        """A veth pair, both ends here and up, without offloads."""
        self.command("ip", "link", "add", a, "mtu", str(mtu), "type", "veth", "peer", "name", b, "mtu", str(mtu))
        for name in (a, b):
            self.command("ethtool", "-K", name, "tx", "off", "rx", "off", "gso", "off", "tso", "off", "gro", "off")
            self.command("ip", "link", "set", name, "arp", "off", "up")

    def inside(self, make: Callable[[], T]) -> T:
        return inside(f"/run/netns/{self.name}", make)

    def start(self, name: str, command: Sequence[str], folder: Path, env: Mapping[str, str] | None = None) -> Process:
        """Our services are forked from what is loaded, and need another process that runs here."""
        log, environment = folder / f"{name}.log", {**os.environ, **(env or {})}
        popen: subprocess.Popen[bytes] | Forked
        if services.is_here(command[0]):
            log.write_text("")
            here = next(process.popen.pid for process in self.processes if process.popen.poll() is None)
            wait_for(f"process {here} in {self.name}", lambda: self._entered(here))
            popen = services.start(services.Order(list(command), str(log), environment, os.getcwd(), here))
        else:
            with log.open("w") as out:
                popen = subprocess.Popen(["ip", "netns", "exec", self.name, *command], stdin=subprocess.DEVNULL,
                                         stdout=out, stderr=subprocess.STDOUT, env=environment)
        process = Process(name, popen, log)
        self.processes.append(process)
        return process

    @staticmethod
    def _entered(pid: int) -> bool:
        """A process that is `ip netns exec` still may be in our namespace: who joins it would be there, too."""
        return os.path.basename(os.readlink(f"/proc/{pid}/exe")) != "ip"

    def close(self) -> None:
        for process in reversed(self.processes):
            process.stop()
        self._run("ip", "netns", "del", self.name)


class Process:
    """A program in a namespace, with its log."""

    def __init__(self, name: str, popen: subprocess.Popen[bytes] | Forked, log: Path) -> None:
        self.name = name
        self.popen = popen
        self._log = log

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def alive(self) -> bool:
        assert self.popen.poll() is None, f"{self.name} ended with {self.popen.returncode}:\n{self.log[-2000:]}"
        return True

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self.popen.poll() is None:
            self.popen.send_signal(number)
            try:
                self.popen.wait(5)
            except subprocess.TimeoutExpired:
                self.popen.kill()
                self.popen.wait()


class Wire:
    """The far end of a port: a raw socket."""

    def __init__(self, ns: Namespace, iface: str) -> None:
        self.iface = iface

        def make() -> socket.socket:
            sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
            sock.bind((iface, ETH_P_ALL))
            return sock

        self.socket = ns.inside(make)

    def send(self, frame: bytes) -> None:
        self.socket.send(frame)

    def read(self) -> bytes | None:
        """A frame that has arrived from the switch; None: there is none."""
        while True:
            try:
                frame, address = self.socket.recvfrom(65536, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return None
            except OSError as error:
                if error.errno != errno.ENETDOWN:  # told once when the interface goes down
                    raise
                continue
            if address[2] != PACKET_OUTGOING and frame[12:14] != b"\x88\xcc":  # discovery is not under test here
                return frame

    def close(self) -> None:
        self.socket.close()


def gather(wires: Sequence[Wire], expected: int, quiet_s: float, patience_s: float = 60.0) -> dict[int, list[bytes]]:
    """What arrives at the wires: until `expected` frames came and then nothing for `quiet_s`, at most `patience_s`."""
    found: dict[int, list[bytes]] = {}
    count, end = 0, time.monotonic() + patience_s
    quiet = time.monotonic() + quiet_s
    while (now := time.monotonic()) < end and (count < expected or now < quiet):
        until = end if count < expected else min(end, quiet)
        ready, _, _ = select.select([w.socket for w in wires], [], [], max(0.0, until - now))
        for i, wire in enumerate(wires):
            while wire.socket in ready and (frame := wire.read()) is not None:
                found.setdefault(i, []).append(frame)
                count += 1
                quiet = time.monotonic() + quiet_s
    return found
