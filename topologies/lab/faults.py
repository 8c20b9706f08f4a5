"""Faults on demand: what `--fault` says, done at its time, and what the fabric did about it.

    link 00:0 down at 2s              the carrier of a cable, both ends
    link 00:0 up at 4s
    kill switch s1.0 at 3s            SIGKILL; the switch has a process of its own in such a lab
    kill appliance s0.0 at 1s, restart at 3s      of the cache appliance beside an ovs or bmv2 switch
    kill agent 21 at 2s, restart at 4s
    stop agent 31 for 5s at 2s        SIGSTOP, then SIGCONT
    blackhole s0.0:1 at 1s            a switch's port swallows all frames both ways, its carrier stays
    corrupt s0.0 1e-4                 so many of the data packets that arrive there get one bit flipped
    kill master at 2s                 SIGKILL of the group's master
    kill fabric-manager at 2s         SIGKILL; it and the controller start again after 0.5 s, or as `restart at` says
    kill controller at 2s

Times count from the request for the group.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import re
import signal
import socket
import struct
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from datacast.topologies.lab.counters import ask_control
from datacast.topologies.lab.errors import LabError

if TYPE_CHECKING:
    import networkx as nx

    from datacast.topologies.lab.lab import Lab

TIME = r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s)"
RESTART_S = 0.5
CLONE_NEWNET = 0x40000000
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
FORMS = (
    "forms: 'link 00:0 down at 2s', 'link 00:0 up at 4s', 'kill switch s1.0 at 3s', 'kill appliance s0.0 at 1s', "
    "'kill agent 21 at 2s, restart at 4s', "
    "'stop agent 31 for 5s at 2s', 'blackhole s0.0:1 at 1s', 'corrupt s0.0 1e-4', 'kill master at 2s', "
    "'kill fabric-manager at 2s', 'kill controller at 2s'"
)
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Fault:
    """One `--fault`. Times in seconds from the request for the group."""

    spec: str
    kind: str
    """link, switch, appliance, agent, stop, blackhole, corrupt, master, fabric-manager, controller"""
    at_s: float = 0.0
    node: str = ""
    port: int = -1
    up: bool = False
    end_s: float | None = None
    """When it is over: a restart, the end of a stop."""
    share: float = 0.0
    links: frozenset[frozenset[str]] = field(default_factory=frozenset)
    """The cables concerned, by their ends."""


def _seconds(number: str, unit: str) -> float:
    return float(number) / (1000 if unit == "ms" else 1)


def parse_fault(spec: str, graph: nx.Graph) -> Fault:
    """Raises LabError: a form that is none, a node or port that the topology does not have."""
    text = " ".join(spec.split())

    def match(pattern: str) -> re.Match[str] | None:
        return re.fullmatch(pattern, text)

    def node(name: str, kind: str | None) -> str:
        if name not in graph:
            raise LabError(f"--fault {spec!r}: the topology has no node {name!r}", what=name, remedy=FORMS)
        if kind and graph.nodes[name]["kind"] != kind:
            raise LabError(f"--fault {spec!r}: {name} is a {graph.nodes[name]['kind']}, not a {kind}", what=name)
        return name

    def cable(name: str, port: str) -> frozenset[frozenset[str]]:
        for u, v, data in graph.edges(name, data=True):
            if int(data["ports"][name]) == int(port):
                return frozenset([frozenset((u, v))])
        ports = sorted(int(data["ports"][name]) for _, _, data in graph.edges(name, data=True))
        raise LabError(
            f"--fault {spec!r}: {name} has no port {port}", what=f"{name}:{port}", remedy=f"its ports are {ports}"
        )

    def cables(name: str) -> frozenset[frozenset[str]]:
        return frozenset(frozenset(edge) for edge in graph.edges(name))

    if m := match(rf"link (\S+):(\d+) (down|up) at {TIME}"):
        name = node(m[1], None)
        return Fault(spec, "link", _seconds(m[4], m[5]), name, int(m[2]), m[3] == "up", links=cable(name, m[2]))
    if m := match(rf"kill (switch|appliance|agent) (\S+?) at {TIME}(?:, ?restart at {TIME})?"):
        name = node(m[2], "host" if m[1] == "agent" else "switch")
        at, end = _seconds(m[3], m[4]), _seconds(m[5], m[6]) if m[5] else None
        if end is not None and end <= at:
            raise LabError(f"--fault {spec!r}: the restart is not after the kill", what=spec)
        return Fault(spec, m[1], at, name, end_s=end, links=frozenset() if m[1] == "appliance" else cables(name))
    if m := match(rf"stop agent (\S+) for {TIME} at {TIME}"):
        at = _seconds(m[4], m[5])
        name = node(m[1], "host")
        return Fault(spec, "stop", at, name, end_s=at + _seconds(m[2], m[3]), links=cables(name))
    if m := match(rf"blackhole (\S+):(\d+) at {TIME}(?:, ?off at {TIME})?"):
        name = node(m[1], "switch")
        end = _seconds(m[5], m[6]) if m[5] else None
        return Fault(spec, "blackhole", _seconds(m[3], m[4]), name, int(m[2]), end_s=end, links=cable(name, m[2]))
    if m := match(rf"corrupt (\S+) ([0-9.]+(?:e-?\d+)?)(?: at {TIME})?"):
        share = float(m[2])
        if not 0 < share <= 1:
            raise LabError(f"--fault {spec!r}: the share must be above 0 and at most 1", what=m[2])
        return Fault(spec, "corrupt", _seconds(m[3], m[4]) if m[3] else 0.0, node(m[1], "switch"), share=share)
    if m := match(rf"kill (master|fabric-manager|controller) at {TIME}(?:, ?restart at {TIME})?"):
        at = _seconds(m[2], m[3])
        end = _seconds(m[4], m[5]) if m[4] else at + RESTART_S
        return Fault(spec, m[1], at, end_s=None if m[1] == "master" else end)
    raise LabError(f"--fault {spec!r} is none that there is", what=spec, remedy=FORMS)


def parse_faults(specs: list[str], graph: nx.Graph, dataplane: str) -> tuple[Fault, ...]:
    """All of them, in the order of time. Raises LabError, also for what the data plane cannot do."""
    faults = [parse_fault(spec, graph) for spec in specs]
    for fault in faults:
        only = "dpdk" if fault.kind in ("blackhole", "corrupt", "switch") else ""
        if dataplane != (only or dataplane) or (fault.kind == "appliance" and dataplane == "dpdk"):
            raise LabError(
                f"--fault {fault.spec!r}: the data plane {dataplane} cannot do that",
                what=fault.spec,
                remedy=f"use --dataplane {only or 'ovs or bmv2'}",
            )
    return tuple(sorted(faults, key=lambda fault: fault.at_s))


def switches_apart(faults: tuple[Fault, ...]) -> tuple[str, ...]:
    """Switches that need a process of their own, because it is to be killed."""
    return tuple(dict.fromkeys(fault.node for fault in faults if fault.kind == "switch"))


def appliances_apart(faults: tuple[Fault, ...]) -> tuple[str, ...]:
    """Switches whose cache appliance needs a process of its own, because it is to be killed."""
    return tuple(dict.fromkeys(fault.node for fault in faults if fault.kind == "appliance"))


class Interfaces:
    """Sets interfaces of other namespaces up and down with one system call: the moment of a failure is known."""

    def __init__(self) -> None:
        self._sockets: dict[int, socket.socket] = {}

    def prepare(self, pid: int) -> None:
        """Have a socket inside the namespace of a process."""

        def enter() -> None:
            with open(f"/proc/{pid}/ns/net") as namespace:
                if _libc.setns(namespace.fileno(), CLONE_NEWNET) == 0:
                    self._sockets[pid] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

        if pid not in self._sockets:
            thread = threading.Thread(target=enter)  # its namespace ends with it
            thread.start()
            thread.join()
        if pid not in self._sockets:
            raise LabError(f"cannot enter the namespace of process {pid}", what=str(pid), remedy="run as root")

    def set(self, pid: int, ifname: str, up: bool) -> None:
        """Raises LabError."""
        self.prepare(pid)
        try:
            request = struct.pack("16sH22x", ifname.encode(), 0)
            flags = struct.unpack_from("H", fcntl.ioctl(self._sockets[pid], SIOCGIFFLAGS, request), 16)[0]
            flags = flags | IFF_UP if up else flags & ~IFF_UP
            fcntl.ioctl(self._sockets[pid], SIOCSIFFLAGS, struct.pack("16sH22x", ifname.encode(), flags))
        except OSError as error:
            raise LabError(f"interface {ifname}: {error.strerror}", what=ifname) from error

    def close(self) -> None:
        for sock in self._sockets.values():
            sock.close()


class FabricEvents:
    """The fabric manager's view from `start` to `stop`: `seen` holds its `link` and `node` events, with the time when
    they arrived here."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.seen: list[dict[str, Any]] = []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Does not wait for a stream that is silent."""
        self._end.set()

    def _listen(self) -> None:
        url = self.lab.fabric_url + "/events?topics=topology"
        while not self._end.is_set():
            try:
                with self.lab.credentials.open("GET", url) as answer:
                    for line in answer:
                        event = json.loads(line)
                        if event["type"] in ("link", "node"):
                            self.seen.append({**event, "received_ns": time.time_ns()})
                        if self._end.is_set():
                            return
            except (OSError, ValueError):
                self._end.wait(0.1)


class Injector:
    """Carries faults out beside a transfer. `with Injector(lab, faults) as injector: injector.go(group id)`."""

    def __init__(self, lab: Lab, faults: tuple[Fault, ...]) -> None:
        self.lab, self.faults = lab, faults
        self.interfaces = Interfaces()
        self.failed_ns: dict[int, int] = {}
        self.errors: dict[int, str] = {}
        self.events = FabricEvents(lab)
        self._group = ""
        self._started: list[Any] = []
        self._end = threading.Event()

    def __enter__(self) -> Injector:
        for fault in self.faults:
            if fault.kind == "link":
                self.interfaces.prepare(self._pid(fault.node))
        if self.faults:
            self.events.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._end.set()
        self.events.stop()
        for fault in self.faults:  # nobody stays stopped
            if fault.kind == "stop":
                with contextlib.suppress(LabError, ProcessLookupError):
                    self._process(f"agent-{fault.node}").popen.send_signal(signal.SIGCONT)
        self.interfaces.close()

    def _pid(self, node: str) -> int:
        return int(self.lab.network.nodes[self.lab.plan.machine_of(node).name].pid)

    def go(self, group: str, started: float) -> None:
        """`started`: time.monotonic() of the request."""
        self._group = group
        steps = [(f.at_s, i, "begin") for i, f in enumerate(self.faults)]
        steps += [(f.end_s, i, "end") for i, f in enumerate(self.faults) if f.end_s is not None]

        def run() -> None:
            for at, index, what in sorted(steps):
                if self._end.wait(max(0.0, started + at - time.monotonic())):
                    return
                try:
                    (self._begin if what == "begin" else self._finish)(index, self.faults[index])
                except (LabError, OSError) as error:
                    self.errors[index] = str(error)

        def stay() -> None:
            run()
            # The kernel ends what a thread has started together with the thread (PR_SET_PDEATHSIG).
            while any(process.running for process in self._started):
                time.sleep(0.2)

        if self.faults:
            threading.Thread(target=stay, daemon=True).start()

    # ---- doing it ----
    def _process(self, name: str) -> Any:
        found = [p for p in self.lab.supervisor.processes if p.name == name and p.running]
        if not found:
            raise LabError(f"{name} does not run", what=name)
        return found[-1]

    def _kill(self, name: str) -> None:
        process = self._process(name)
        process.expected = True
        process.popen.kill()

    def _begin(self, index: int, fault: Fault) -> None:
        lab = self.lab
        self.failed_ns[index] = time.time_ns()
        if fault.kind == "link":
            machine = lab.plan.machine_of(fault.node)
            ifname = next(p.ifname for p in machine.ports[fault.node] if p.port == fault.port)
            self.interfaces.set(self._pid(fault.node), ifname, fault.up)
        elif fault.kind == "switch":
            self._kill(lab.plan.machine_of(fault.node).name)
        elif fault.kind == "appliance":
            self._kill(lab.plane.appliance_process(lab, lab.plan.machine_of(fault.node), fault.node))
        elif fault.kind == "agent":
            self._kill(f"agent-{fault.node}")
        elif fault.kind == "stop":
            self._process(f"agent-{fault.node}").popen.send_signal(signal.SIGSTOP)
        elif fault.kind == "blackhole":
            self._ask(fault, {"port": fault.port, "blackhole": "both"})
        elif fault.kind == "corrupt":
            for port in lab.plan.machine_of(fault.node).ports[fault.node]:
                self._ask(fault, {"port": port.port, "corrupt": fault.share})
        elif fault.kind == "master":
            pid = self._get(f"/groups/{self._group}/master")["pid"]
            if not pid:
                raise LabError("the group has no master now", what="master")
            os.kill(int(pid), signal.SIGKILL)
        else:
            self._kill(fault.kind)

    def _finish(self, index: int, fault: Fault) -> None:
        known = list(self.lab.supervisor.processes)
        try:
            self._end_fault(fault)
        finally:
            self._started += [p for p in self.lab.supervisor.processes if p not in known]

    def _end_fault(self, fault: Fault) -> None:
        lab = self.lab
        if fault.kind == "agent":
            lab.start_agent(fault.node)
        elif fault.kind == "switch":
            lab.plane.start(lab, lab.plan.machine_of(fault.node))
        elif fault.kind == "appliance":
            lab.plane.start_appliance(lab, lab.plan.machine_of(fault.node), fault.node)
        elif fault.kind == "stop":
            self._process(f"agent-{fault.node}").popen.send_signal(signal.SIGCONT)
        elif fault.kind == "blackhole":
            self._ask(fault, {"port": fault.port, "blackhole": "off"})
        elif fault.kind == "fabric-manager":
            lab._fabric_manager()
        elif fault.kind == "controller":
            lab._controller()

    def _ask(self, fault: Fault, request: dict[str, Any]) -> None:
        lab = self.lab
        control = lab.plane.control(lab, lab.plan.machine_of(fault.node))  # type: ignore[attr-defined]
        ask_control(control, "fault", node=fault.node, **request)

    def _get(self, path: str) -> dict[str, Any]:
        return self.lab.fabric_json(path)

    # ---- what came of it ----
    def report(self, reactions: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Per fault: when it happened, and milliseconds from then until the report, the decision, the acknowledged
        signals, and the first data packet over the new routes. None: it did not come to that."""
        return [self._one(index, fault, reactions) for index, fault in enumerate(self.faults)]

    def _one(self, index: int, fault: Fault, reactions: list[dict[str, Any]]) -> dict[str, Any]:
        failed = self.failed_ns.get(index)

        def mine(links: list[Any], appliances: list[Any], received: int | None) -> bool:
            up = fault.kind == "link" and fault.up
            if failed is None or received is None or received < failed:
                return False
            if fault.kind == "appliance":
                return [fault.node, False] in appliances
            return any(frozenset((u, v)) in fault.links and (bool(is_up) == up) for u, v, is_up in links)

        def told(event: dict[str, Any]) -> bool:
            if event["type"] == "node":
                return mine([], [[event["name"], event["cache"]]], event["received_ns"])
            return mine([[event["u"], event["v"], event["up"]]], [], event["received_ns"])

        def ms(at: int | None) -> float | None:
            return round((at - failed) / 1e6, 3) if at and failed else None

        seen = [e for e in self.events.seen if told(e)]
        reaction = next((r for r in reactions if mine(r["links"], r.get("appliances", []), r["received_ns"])), {})
        return {
            "spec": fault.spec,
            "at_s": fault.at_s,
            "failed_ns": failed,
            "error": self.errors.get(index) or (None if failed else "the transfer was over before"),
            "detected_ms": ms(min((e.get("t_ns") or e["received_ns"] for e in seen), default=None)),
            "known_ms": ms(min((at for e in (*seen, reaction) if (at := e.get("received_ns"))), default=None)),
            "recomputed_ms": ms(reaction.get("recomputed_ns")),
            "signalled_ms": ms(reaction.get("signalled_ns")),
            "resumed_ms": ms(reaction.get("resumed_ns")),
            "all_resumed_ms": ms(reaction.get("all_resumed_ns")),
            **{key: reaction[key] for key in ("changed", "lost", "revived", "members", "cut_off") if reaction.get(key)},
        }
