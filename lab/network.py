"""The lab's network: Mininet nodes and shaped links. Here, and in datacast.mininet, Mininet is imported.

Mininet's own TCLink shapes with netem for the length of the queue, which a kernel may lack. Here a port is a token
bucket (tbf) with a plain queue of 100 packets as its child; both ends of a cable are shaped, so both directions are.
The bucket charges whole Ethernet frames without preamble and checksum (measured: 9,014-byte frames, 100.02 Mb/s at
100mbit).

Mininet moves one interface and runs one command at a time. Here a cable is born in its namespaces, and each namespace
is set up by one script, so that BCube(4,1) stands in about a second.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mininet.link import Intf, Link
from mininet.node import Node

from datacast.lab.errors import LabError
from datacast.lab.plan import Cable, Machine, Plan, Port, ip_queue
from datacast.lab.signals import Signals

ETHER_LEN = 14
BURST_S = 0.003
"""Depth of the token bucket: what a port may send late after the machine was busy elsewhere."""
BRIDGE = "br-mgmt"
MANAGEMENT_IF = "mgmt"


def burst_bytes(rate_bps: int, mtu: int) -> int:
    """Depth of a port's bucket: three frames, or 3 ms of the rate where that is more."""
    return max(3 * (mtu + ETHER_LEN), int(rate_bps * BURST_S / 8))


class Place(Node):  # type: ignore[misc]
    """A namespace, held by a shell that Ctrl-C in the terminal never reaches. Mininet's own leaves the lab's session a
    moment after its start (mnexec -d), and who waits for the prompt of one that was hit waits for ever."""

    def startShell(self, mnopts: str | None = None) -> None:
        super().startShell("-c" if mnopts is None else mnopts)

    def _popen(self, cmd: list[str], **params: Any) -> Any:
        return super()._popen(cmd, **{**params, "start_new_session": True})


class PlainIntf(Intf):  # type: ignore[misc]
    """An interface that one script per namespace sets up, not one command per setting."""

    def config(self, **_params: object) -> dict[str, object]:
        return {}


class CableLink(Link):  # type: ignore[misc]
    """A veth pair made directly in the two namespaces, with addresses and MTU."""

    def __init__(self, cable: Cable, node1: Node, node2: Node) -> None:
        self._mtu = cable.mtu
        super().__init__(
            node1,
            node2,
            intfName1=cable.a.ifname,
            intfName2=cable.b.ifname,
            addr1=cable.a.mac,
            addr2=cable.b.mac,
            intf=PlainIntf,
        )

    def makeIntfPair(
        self,
        intfname1: str,
        intfname2: str,
        addr1: str,
        addr2: str,
        node1: Node,
        node2: Node,
        deleteIntfs: bool = True,
    ) -> None:
        _run(
            [
                "ip",
                "link",
                "add",
                "name",
                intfname1,
                "mtu",
                str(self._mtu),
                "address",
                addr1,
                "netns",
                str(node1.pid),
                "type",
                "veth",
                "peer",
                "name",
                intfname2,
                "mtu",
                str(self._mtu),
                "address",
                addr2,
                "netns",
                str(node2.pid),
            ],
            f"cable {intfname1} to {intfname2}",
        )


def _run(command: list[str], what: str, script: str | None = None) -> None:
    done = subprocess.run(
        command,
        input=script,
        stdin=None if script is not None else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    if done.returncode:
        raise LabError(
            f"{what}: {' '.join(command[:6])}: {done.stdout.strip()}",
            what=what,
            remedy="`datacast doctor` says what is missing on this machine",
        )


def data_port_script(
    ifname: str, rate_bps: int, mtu: int, queue_packets: int, up: bool = True, arp: bool = False
) -> str:
    """Shell lines that make an interface a port: no offloads, no ARP (ordinary IP wants it), the shaper, up."""
    lines = [
        f"ethtool -K {ifname} tx off rx off gso off tso off gro off >/dev/null",
        f"ip link set {ifname} mtu {mtu} arp {'on' if arp else 'off'}" + (" up" if up else ""),
    ]
    return "\n".join(lines) + "\n" + shaper_script(ifname, rate_bps, mtu, queue_packets)


def shaper_script(ifname: str, rate_bps: int, mtu: int, queue_packets: int) -> str:
    """Shell lines for a port's token bucket and the queue under it; none for a rate of 0."""
    if not rate_bps:
        return ""
    return (
        f"tc qdisc add dev {ifname} root handle 5: tbf rate {rate_bps}bit burst {burst_bytes(rate_bps, mtu)} "
        f"limit {1 << 30}\n"
        f"tc qdisc add dev {ifname} parent 5:1 handle 6: pfifo limit {queue_packets}\n"
    )


def ip_port_script(ifname: str, rate_bps: int, mtu: int, queue_packets: int, up: bool = True) -> str:
    """Shell lines that make an interface one of an IP stack: ARP, offloads, the shaper, up. Its queue has the bytes of
    a port's with jumbo frames, for at 1,500 bytes a hundred packets are nothing."""
    lines = f"ip link set {ifname} up\n" if up else ""
    return lines + shaper_script(ifname, rate_bps, mtu, ip_queue(queue_packets, mtu))


INNER_MAC = "02:dc:ff:ff:ff:ff"
"""Of ends in the delay line's namespace; no frame is for them."""
PROLOGUE = "echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6 2>/dev/null || :\nip link set lo up\n"


class Network:
    """Mininet's nodes for a plan, the cables between them, and the management network.

    The management bridge has a namespace of its own, so that no firewall of this machine meets its traffic and one
    interface (`root_if`) is all there is in the root namespace.
    """

    def __init__(self, plan: Plan, root_if: str, signals: Signals) -> None:
        self.ip = False
        """The cables carry IP: interfaces as a host has them."""
        self._routes: dict[str, str] = {}
        """Of a machine: shell lines that make its routes. The kernel drops those of an interface that goes down."""
        self._bursts: dict[str, int] = {}
        """Of a port whose rate was changed: the largest bucket that it has had."""
        self._rates: dict[str, int] = {}
        """Of such a port: its rate now."""
        self._swallowing: set[str] = set()
        self.plan = plan
        self.root_if = root_if
        self.signals = signals
        self.nodes: dict[str, Node] = {}
        self._management: Node | None = None
        self._management_ports: dict[str, str] = {}
        self._between: Node | None = None
        self.delay_lines: list[str] = []
        """What the delay line is to be told; empty: no cable has a delay."""

    def _node(self, name: str) -> Node:
        self.signals.check()
        try:
            return Place(name)
        except SystemExit as error:  # Mininet's answer to a missing program
            raise LabError(
                "Mininet cannot start a node: mnexec or ifconfig is missing",
                what="mininet",
                remedy="apt-get install mininet net-tools",
            ) from error

    def up(self, progress: Callable[[str], None] = lambda text: None) -> None:
        """Make everything. Raises LabError; what was made so far is then for `down`."""
        machines = [*self.plan.hosts.values(), *self.plan.switches]
        progress("management network")
        self._management = self._node("mgmt")
        self._script(
            self._management, f"{PROLOGUE}ip link add {BRIDGE} type bridge forward_delay 0\nip link set {BRIDGE} up\n"
        )
        for i, machine in enumerate(machines):
            progress(f"namespace {machine.name}")
            self.nodes[machine.name] = self.room_for(i, machine)
            self._script(
                self.nodes[machine.name],
                f"ip addr add {machine.address}/{self.plan.prefix} dev {MANAGEMENT_IF}\n"
                f"ip link set {MANAGEMENT_IF} up\n",
            )
        self._attach("root", self.root_if, None)
        _run(["ip", "addr", "add", f"{self.plan.root_address}/{self.plan.prefix}", "dev", self.root_if], self.root_if)
        _run(["ip", "link", "set", self.root_if, "up"], self.root_if)
        self.lay_cables(progress)

    def room_for(self, number: int, machine: Machine) -> Node:
        """The namespace of a machine, with an interface to the management network."""
        node = self._node(machine.name)
        self._script(node, PROLOGUE)
        self._join_management(number, machine, node)
        return node

    def _join_management(self, number: int, machine: Machine, node: Node) -> None:
        self._attach(f"m{number}", MANAGEMENT_IF, node.pid)
        self._management_ports[machine.name] = f"m{number}"

    def lay_cables(self, progress: Callable[[str], None]) -> None:
        """Make every cable and set up its ports."""
        scripts: dict[str, str] = dict.fromkeys(self.nodes, "")
        for cable in self.plan.cables:
            self.signals.check()
            progress(f"cable {cable.a.node} to {cable.b.node}")
            ends = [self.plan.machine_of(port.node).name for port in (cable.a, cable.b)]
            if cable.delay_us:
                self._lay_delayed(cable, self.nodes[ends[0]], self.nodes[ends[1]])
            else:
                CableLink(cable, self.nodes[ends[0]], self.nodes[ends[1]])
            for port, machine_name in zip((cable.a, cable.b), ends, strict=True):
                make = ip_port_script if self.ip else data_port_script
                scripts[machine_name] += make(
                    port.ifname, cable.rate_of(port), cable.mtu, cable.queue_packets, cable.up
                )
        self._set_up(scripts, progress)

    def _lay_delayed(self, cable: Cable, a: Node, b: Node) -> None:
        """Two veth pairs that meet in the namespace of the delay line."""
        if self._between is None:
            self._between = self._node("delay")
            self._script(self._between, PROLOGUE)
        inner = [f"line{len(self.delay_lines)}{end}" for end in "ab"]
        for node, port, name in ((a, cable.a, inner[0]), (b, cable.b, inner[1])):
            far = replace(cable, a=port, b=Port(port.neighbour, port.neighbour_port, name, INNER_MAC, port.node, 0, ""))
            CableLink(far, node, self._between)
            self._script(self._between, f"ip link set {name} arp off up\n")
        self.delay_lines.append(f"{inner[0]},{inner[1]},{cable.delay_us}")

    def spawn_delay(self) -> Callable[..., Any]:
        """A subprocess.Popen in the namespace of the delay line."""
        assert self._between is not None
        return self._popen(self._between)

    def _set_up(self, scripts: dict[str, str], progress: Callable[[str], None]) -> None:
        for name, script in scripts.items():
            progress(f"ports of {name}")
            self.signals.check()
            self._script(self.nodes[name], script)

    def _attach(self, bridge_port: str, ifname: str, pid: int | None) -> None:
        """A veth from the management bridge to a namespace (None: this one)."""
        assert self._management is not None
        peer = ["peer", "name", ifname] + (["netns", str(pid)] if pid else [])
        _run(
            ["ip", "link", "add", "name", bridge_port, "netns", str(self._management.pid), "type", "veth", *peer],
            f"management port of {ifname}",
        )
        self._script(self._management, f"ip link set {bridge_port} master {BRIDGE} up\n")

    @staticmethod
    def _script(node: Node, script: str) -> None:
        _run(["mnexec", "-a", str(node.pid), "sh", "-eu", "-s"], f"set-up of {node.name}", script=script)

    def script(self, machine: str, text: str) -> None:
        """Shell lines inside a machine's namespace. Raises LabError."""
        self._script(self.nodes[machine], text)

    def spawn(self, machine: Machine | str) -> Callable[..., Any]:
        """A subprocess.Popen that runs inside a machine's namespace."""
        return self._popen(self.nodes[machine if isinstance(machine, str) else machine.name])

    @staticmethod
    def _popen(node: Node) -> Callable[..., Any]:
        def popen(command: list[str], **options: Any) -> Any:
            return node.popen(command, mncmd=["mnexec", "-a", str(node.pid)], **options)

        return popen

    def run_in(self, machine: str, command: list[str]) -> str:
        """Output of a short command inside a machine's namespace. Raises LabError when it fails."""
        done = subprocess.run(
            ["mnexec", "-a", str(self.nodes[machine].pid), *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        if done.returncode:
            raise LabError(f"{machine}: {' '.join(command)}: {done.stdout.strip()}", what=machine)
        return done.stdout

    def set_port(self, node: str, port: int, up: bool) -> None:
        """Take one end of a cable down or up; the other end loses or gets its carrier."""
        machine = self.plan.machine_of(node)
        ifname = next(p.ifname for p in machine.ports[node] if p.port == port)
        self.run_in(machine.name, ["ip", "link", "set", ifname, "up" if up else "down"])
        if up:
            self.put_routes_back(machine.name)

    def route(self, machine: str, script: str) -> None:
        """Shell lines that give a machine routes, now and again after an interface was down. Raises LabError."""
        self._script(self.nodes[machine], script)
        self._routes[machine] = script

    def put_routes_back(self, machine: str) -> None:
        """Those that lead over interfaces that are up. Raises LabError."""
        if machine in self._routes:
            lines = self._routes[machine].splitlines()
            self._script(self.nodes[machine], "".join(f"{line} || :\n" for line in lines))

    def management_port(self, machine: str | None) -> tuple[int, str]:
        """Namespace (a process id) and interface of a machine's port at the management bridge; None: the bridge."""
        assert self._management is not None
        return int(self._management.pid), self._management_ports[machine] if machine else BRIDGE

    def swallow(self, node: str, port: int, on: bool) -> None:
        """Have a port throw away what it should send, its carrier stays. Raises LabError."""
        cable = next(c for c in self.plan.cables if (node, port) in ((c.a.node, c.a.port), (c.b.node, c.b.port)))
        end = next(p for p in (cable.a, cable.b) if (p.node, p.port) == (node, port))
        ifname = end.ifname
        machine = self.plan.machine_of(node).name
        if on:
            self._swallowing.add(ifname)
            self.run_in(machine, ["tc", "qdisc", "replace", "dev", ifname, "root", "handle", "7:", "blackhole"])
        else:
            self._swallowing.discard(ifname)
            self.run_in(machine, ["tc", "qdisc", "del", "dev", ifname, "root"])
            rate_bps = self._rates.get(ifname, cable.rate_of(end))
            self._script(self.nodes[machine], shaper_script(ifname, rate_bps, cable.mtu, self._queue(cable)))

    def _queue(self, cable: Cable) -> int:
        return ip_queue(cable.queue_packets, cable.mtu) if self.ip else cable.queue_packets

    def rate(self, node: str, port: int, rate_bps: int | None) -> None:
        """Give a cable another rate, both ways; None: the one it was made with. Raises LabError.

        The bucket never shrinks: a packet in the queue that is larger than the whole bucket (TCP's are, with offloads)
        would never be sent, nor any behind it. And tc gives the queue below the bucket's limit: it gets its own back.
        """
        cable = next(c for c in self.plan.cables if (node, port) in ((c.a.node, c.a.port), (c.b.node, c.b.port)))
        for end in (cable.a, cable.b):
            rate = self._rates[end.ifname] = rate_bps or cable.rate_of(end)
            if end.ifname not in self._swallowing:  # it gets it when it sends again
                self._script(self.nodes[self.plan.machine_of(end.node).name], self._rate_script(cable, end, rate))

    def _rate_script(self, cable: Cable, end: Port, rate_bps: int) -> str:
        name, made = end.ifname, burst_bytes(cable.rate_of(end), cable.mtu)
        burst = self._bursts[name] = max(self._bursts.get(name, made), burst_bytes(rate_bps, cable.mtu))
        return (
            f"tc qdisc change dev {name} root handle 5: tbf rate {rate_bps}bit burst {burst} limit {1 << 30}\n"
            f"tc qdisc change dev {name} parent 5:1 handle 6: pfifo limit {self._queue(cable)}\n"
        )

    def down(self) -> None:
        """Take everything away; what runs in the namespaces must be gone already."""
        subprocess.run(
            ["ip", "link", "del", self.root_if],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        nodes = [*self.nodes.values(), *(node for node in (self._management, self._between) if node)]
        for node in nodes:
            with contextlib.suppress(OSError):
                node.stop(deleteIntfs=False)
        self.nodes.clear()
        self._management = self._between = None
