"""What `--fault` takes: one fault per spec, checked against the topology before a lab starts. injector.py does it.

    link 00:0 down at 2s              the carrier of a cable, both ends; `, up at 4s` or a spec of its own mends it
    link 00:0 up at 4s
    link 31:0 rate 5mbit at 2s        the rate of a cable, both ways, as if other traffic took the rest; `, back at 4s`
    kill switch s1.0 at 3s            SIGKILL; the switch has a process of its own in such a lab
    upgrade switch s1.0 at 1s         SIGUSR2: its neighbours wait; it starts again at once, or as `restart at` says
    kill appliance s0.0 at 1s, restart at 3s      the cache appliance beside an ovs or bmv2 switch
    kill agent 21 at 2s, restart at 4s
    agent 31 cpu 10% at 1s            its agent gets so much of one processor; `, back at 4s`
    agent 31 disk 1mbyte at 1s        its agent's writes go to the disk at so many bytes a second; `, back at 4s`
    stop agent 31 for 5s at 2s        SIGSTOP, then SIGCONT; without `for` it stays stopped
    blackhole s0.0:1 at 1s            a port swallows all frames both ways, its carrier stays; `in` and `out`: one way
    corrupt s0.0 1e-4                 so many of the data packets that arrive at a switch get one bit flipped
    fill disk 21 at 1s                the host's disk (a small one in such a lab) is full; `, free at 3s`
    cut management of 21 for 3s at 1s     the host's management network; without `of`: everybody's
    kill master at 2s                 SIGKILL of the group's master
    kill fabric-manager at 2s         SIGKILL; it and the controller start again after 0.5 s, or as `restart at` says
    kill controller at 2s
    power loss at 2s, back at 4s      SIGKILL of every process; all start again, after 1 s if nothing is said

Times count from the request for the group; what is due at 0s is done before it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from datacast.core.lists import few
from datacast.core.quantities import QuantityError, parse_rate
from datacast.lab.errors import LabError
from datacast.lab.plan import LINK_BPS_MIN

if TYPE_CHECKING:
    import networkx as nx

TIME = r"([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*(ms|s)"
RESTART_S = 0.5
POWER_BACK_S = 1.0
NAMES_SHOWN = 24
CABLES = ("dpdk", "ovs", "bmv2", "p4", "ip")
ABLE = {
    "link": CABLES,
    "rate": CABLES,
    "corrupt": ("dpdk", "memif"),
    "power": ("dpdk", "memif"),
    "upgrade": ("dpdk", "memif"),
    "switch": ("dpdk", "memif", "bmv2", "p4"),
    "appliance": ("ovs", "bmv2"),
}
"""Data planes, by what not every one can do. Open vSwitch is one process for all switches of a machine."""
DISK_LEAST = 4096
FORMS = (
    "forms: 'link 00:0 down at 2s', 'link 00:0 down at 2s, up at 4s', 'link 31:0 rate 5mbit at 2s', "
    "'kill switch s1.0 at 3s', "
    "'upgrade switch s1.0 at 1s', 'kill appliance s0.0 at 1s', "
    "'kill agent 21 at 2s, restart at 4s', 'agent 31 cpu 10% at 1s', 'agent 31 disk 1mbyte at 1s', "
    "'stop agent 31 for 5s at 2s', 'blackhole s0.0:1 at 1s', "
    "'blackhole s0.0:1 in at 1s, off at 2s', 'corrupt s0.0 1e-4', 'fill disk 21 at 1s', "
    "'cut management of 21 for 3s at 1s', 'cut management for 3s at 1s', 'kill master at 2s', "
    "'kill fabric-manager at 2s', 'kill controller at 2s', 'power loss at 2s, back at 4s'"
)


@dataclass(frozen=True)
class Fault:
    """One `--fault`. Times in seconds from the request for the group."""

    spec: str
    kind: str
    """link, rate, switch, upgrade, appliance, agent, cpu, writes, stop, blackhole, corrupt, disk, management,
    power, master, fabric-manager, controller"""
    at_s: float = 0.0
    node: str = ""
    port: int = -1
    up: bool = False
    way: str = "both"
    """Of a black hole, seen from the node: in, out or both."""
    end_s: float | None = None
    """When it is over: a restart, the end of a stop."""
    share: float = 0.0
    rate_bps: int = 0
    """Of a link; of a disk bytes, not bits, a second."""
    links: frozenset[frozenset[str]] = field(default_factory=frozenset)
    """The cables concerned, by their ends."""


def _number(text: str) -> float:
    """0 for what is none: nothing takes that."""
    try:
        return float(text)
    except ValueError:
        return 0.0


def _seconds(number: str, unit: str) -> float:
    return float(number) / (1000 if unit == "ms" else 1)


class _Parser:
    """One spec against one topology."""

    def __init__(self, spec: str, graph: nx.Graph) -> None:
        self.spec, self.graph = spec, graph
        self.text = " ".join(spec.split())

    def match(self, pattern: str) -> re.Match[str] | None:
        return re.fullmatch(pattern, self.text)

    def error(self, message: str, what: str, remedy: str = "") -> LabError:
        return LabError(f"--fault {self.spec!r}: {message}", what=what, remedy=remedy)

    def node(self, name: str, kind: str | None = None) -> str:
        plural = {None: "nodes", "host": "hosts", "switch": "switches"}[kind]
        known = [n for n, data in self.graph.nodes(data=True) if kind is None or data["kind"] == kind]
        remedy = f"its {plural} are {few(known, NAMES_SHOWN)}" if known else f"it has no {plural}"
        if name not in self.graph:
            raise self.error(f"the topology has no node {name!r}", name, remedy)
        if name not in known:
            raise self.error(f"{name} is a {self.graph.nodes[name]['kind']}, not a {kind}", name, remedy)
        return name

    def cable(self, name: str, port: str) -> frozenset[frozenset[str]]:
        ends = {int(data["ports"][name]): v for _, v, data in self.graph.edges(name, data=True)}
        if int(port) not in ends:
            known = few((f"{name}:{number} (to {ends[number]})" for number in sorted(ends)), NAMES_SHOWN)
            raise self.error(f"{name} has no port {port}", f"{name}:{port}", f"its ports are {known}")
        return frozenset([frozenset((name, ends[int(port)]))])

    def cables(self, name: str) -> frozenset[frozenset[str]]:
        return frozenset(frozenset(edge) for edge in self.graph.edges(name))

    def span(self, begin: tuple[str, str], end: tuple[str | None, str | None], what: str) -> tuple[float, float | None]:
        at, over = _seconds(*begin), _seconds(end[0], end[1] or "s") if end[0] else None
        if over is not None and over <= at:
            raise self.error(f"the {what} is not after the fault", self.spec)
        return at, over

    def parse(self) -> Fault:
        spec, match = self.spec, self.match
        if m := match(rf"link (\S+):(\d{{1,5}}) (down|up) at {TIME}(?:, ?up at {TIME})?"):
            name = self.node(m[1])
            at, end = self.span((m[4], m[5]), (m[6], m[7]), "mending")
            if m[3] == "up" and end is not None:
                raise self.error("it is up already then", spec)
            return Fault(spec, "link", at, name, int(m[2]), m[3] == "up", end_s=end, links=self.cable(name, m[2]))
        if m := match(rf"link (\S+):(\d{{1,5}}) rate (\S+) at {TIME}(?:, ?back at {TIME})?"):
            name = self.node(m[1])
            try:
                rate = parse_rate(m[3], LINK_BPS_MIN)
            except QuantityError as error:
                raise self.error(str(error), m[3]) from None
            at, end = self.span((m[4], m[5]), (m[6], m[7]), "return")
            return Fault(spec, "rate", at, name, int(m[2]), rate_bps=rate, end_s=end, links=self.cable(name, m[2]))
        if m := match(rf"kill (switch|appliance|agent) (\S+?) at {TIME}(?:, ?restart at {TIME})?"):
            name = self.node(m[2], "host" if m[1] == "agent" else "switch")
            at, end = self.span((m[3], m[4]), (m[5], m[6]), "restart")
            links = frozenset() if m[1] == "appliance" else self.cables(name)
            return Fault(spec, m[1], at, name, end_s=end, links=links)
        if m := match(rf"upgrade switch (\S+?) at {TIME}(?:, ?restart at {TIME})?"):
            at, end = self.span((m[2], m[3]), (m[4], m[5]), "restart")
            return Fault(spec, "upgrade", at, self.node(m[1], "switch"), end_s=at if end is None else end)
        if m := match(rf"agent (\S+?) cpu ([0-9.]+)% at {TIME}(?:, ?back at {TIME})?"):
            share = _number(m[2]) / 100
            if not 0.01 <= share <= 1:
                raise self.error("its part of a processor must be between 1% and 100%", m[2])
            at, end = self.span((m[3], m[4]), (m[5], m[6]), "return")
            return Fault(spec, "cpu", at, self.node(m[1], "host"), share=share, end_s=end)
        if m := match(rf"agent (\S+?) disk ([0-9.]{{1,12}})(k|m|g)?byte at {TIME}(?:, ?back at {TIME})?"):
            bps = int(_number(m[2]) * {None: 1, "k": 10**3, "m": 10**6, "g": 10**9}[m[3]])
            if not bps >= DISK_LEAST:
                raise self.error(f"a disk writes at least {DISK_LEAST} bytes a second", m[2])
            at, end = self.span((m[4], m[5]), (m[6], m[7]), "return")
            return Fault(spec, "writes", at, self.node(m[1], "host"), rate_bps=bps, end_s=end)
        if m := match(rf"stop agent (\S+?)(?: for {TIME})? at {TIME}"):
            at = _seconds(m[4], m[5])
            name = self.node(m[1], "host")
            end = at + _seconds(m[2], m[3]) if m[2] else None
            return Fault(spec, "stop", at, name, end_s=end, links=self.cables(name))
        if m := match(rf"blackhole (\S+):(\d{{1,5}})(?: (in|out|both))? at {TIME}(?:, ?off at {TIME})?"):
            name = self.node(m[1])
            at, end = self.span((m[4], m[5]), (m[6], m[7]), "end")
            return Fault(
                spec, "blackhole", at, name, int(m[2]), way=m[3] or "both", end_s=end, links=self.cable(name, m[2])
            )
        if m := match(rf"corrupt (\S+) ([0-9.]+(?:e-?\d+)?)(?: at {TIME})?"):
            share = _number(m[2])
            if not 0 < share <= 1:
                raise self.error("the share must be a number above 0 and at most 1", m[2])
            at = _seconds(m[3], m[4]) if m[3] else 0.0
            return Fault(spec, "corrupt", at, self.node(m[1], "switch"), share=share)
        if m := match(rf"fill disk (\S+) at {TIME}(?:, ?free at {TIME})?"):
            at, end = self.span((m[2], m[3]), (m[4], m[5]), "end")
            return Fault(spec, "disk", at, self.node(m[1], "host"), end_s=end)
        if m := match(rf"cut management(?: of (\S+?))? for {TIME} at {TIME}"):
            at = _seconds(m[4], m[5])
            name = self.node(m[1], "host") if m[1] else ""
            return Fault(spec, "management", at, name, end_s=at + _seconds(m[2], m[3]))
        if m := match(rf"kill (master|fabric-manager|controller) at {TIME}(?:, ?restart at {TIME})?"):
            at, end = self.span((m[2], m[3]), (m[4], m[5]), "restart")
            if m[1] == "master":
                if end is not None:
                    raise self.error("the fabric manager has another master take over, at once", spec)
                if at == 0:
                    raise self.error("there is no group yet", spec, "its master comes with the request: say at 1ms")
                return Fault(spec, m[1], at)
            return Fault(spec, m[1], at, end_s=at + RESTART_S if end is None else end)
        if m := match(rf"power loss at {TIME}(?:, ?back at {TIME})?"):
            at, end = self.span((m[1], m[2]), (m[3], m[4]), "return")
            return Fault(spec, "power", at, end_s=at + POWER_BACK_S if end is None else end)
        raise LabError(f"--fault {spec!r} is none that there is", what=spec, remedy=FORMS)


def parse_fault(spec: str, graph: nx.Graph) -> Fault:
    """Raises LabError: a form that is none, a node or port that the topology does not have (with those it has)."""
    return _Parser(spec, graph).parse()


def parse_faults(specs: list[str], graph: nx.Graph, dataplane: str) -> tuple[Fault, ...]:
    """All of them, in the order of time. Raises LabError, also for what the data plane cannot do."""
    faults = [parse_fault(spec, graph) for spec in specs]
    for fault in faults:
        able = ABLE.get(fault.kind, ())
        can = [name in able for name in dataplane.split("+")]
        # Of an appliance: the switch says if it has one.
        if able and not (any(can) if fault.kind == "appliance" else all(can)):
            raise LabError(
                f"--fault {fault.spec!r}: the data plane {dataplane} cannot do that",
                what=fault.spec,
                remedy=f"use --dataplane {' or '.join(able)}",
            )
    return tuple(sorted(faults, key=lambda fault: fault.at_s))


def switches_apart(faults: tuple[Fault, ...]) -> tuple[str, ...]:
    """Switches that need a process of their own, because it is to be killed or upgraded."""
    return tuple(dict.fromkeys(fault.node for fault in faults if fault.kind in ("switch", "upgrade")))


def appliances_apart(faults: tuple[Fault, ...]) -> tuple[str, ...]:
    """Switches whose cache appliance needs a process of its own, because it is to be killed."""
    return tuple(dict.fromkeys(fault.node for fault in faults if fault.kind == "appliance"))


def small_disks(faults: tuple[Fault, ...]) -> tuple[str, ...]:
    """Hosts that need a disk of their own, because it is to be filled."""
    return tuple(dict.fromkeys(fault.node for fault in faults if fault.kind == "disk"))


def slow_disks(faults: tuple[Fault, ...]) -> tuple[str, ...]:
    """Hosts that need a disk of their own, because it is to be slow."""
    return tuple(dict.fromkeys(fault.node for fault in faults if fault.kind == "writes"))
