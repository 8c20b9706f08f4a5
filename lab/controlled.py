"""What Open vSwitch and bmv2 have in common in a lab: the controller programs them, cache appliances hang on them.

Every switch gets an appliance (any switch may become a branch node of some tree) unless the lab is to do without. All
of a machine are in as few `datacast-switch --appliance` processes as DPDK's ports allow; one that a fault kills has a
process of its own. The link to it is unshaped unless the lab gives it a rate, and takes a label more than the network:
an appliance's frames carry the switch's own port as a label.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from datacast.core import constants as wire
from datacast.lab.counters import NodeCounters, PortCounters, ask_control
from datacast.lab.dataplane import EAL_MEMORY_MB, DataPlane, Settings
from datacast.lab.errors import LabError
from datacast.lab.namespace import inside
from datacast.lab.plan import PORTS_PER_PROCESS, Machine
from datacast.lab.programs import need_program
from datacast.lab.taps import Tap

if TYPE_CHECKING:
    import networkx as nx

    from datacast.lab.lab import Lab
    from datacast.lab.processes import Process

SEND_ROOM = 1 << 26
PIDFD_GETFD = 438
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33
_libc = ctypes.CDLL(None, use_errno=True)


class ControlledPlane(DataPlane):
    """Base of the data planes that need a controller."""

    ports_per_machine = 4096
    programs: tuple[str, ...] = ("datacast-switch",)
    first_number: int
    """What the switch calls Datacast's port 0."""

    def __init__(self) -> None:
        self._machines: dict[str, Machine] = {}
        self._taps: dict[tuple[str, int], Tap] = {}

    # ---- numbers and names ----
    def number(self, port: int) -> int:
        return port + self.first_number

    def appliance_number(self, machine: Machine, node: str) -> int:
        return self.first_number + max((p.port for p in machine.ports[node]), default=-1) + 1

    def appliance_ifnames(self, machine: Machine, node: str) -> tuple[str, str]:
        """The switch's end and the appliance's."""
        index = machine.nodes.index(node)
        return f"{self.name}-c{index}", f"{self.name}-a{index}"

    def appliance_mtu(self, lab: Lab) -> int:
        return lab.options.mtu + wire.LABEL_LEN

    def _controls(self, lab: Lab, machine: Machine) -> list[tuple[Path, tuple[str, ...]]]:
        """Per appliance process its control socket and its nodes."""
        options = lab.options
        alone: list[tuple[str, ...]] = [(node,) for node in machine.nodes if node in options.appliances_apart]
        others = [node for node in machine.nodes if node not in (*options.without_appliance, *options.appliances_apart)]
        groups = [tuple(others[i : i + PORTS_PER_PROCESS]) for i in range(0, len(others), PORTS_PER_PROCESS)]
        return [
            (lab.run_folder / f"{machine.name}-{self.name}-c{i}.sock", nodes) for i, nodes in enumerate(groups + alone)
        ]

    def numbered(self, machine: Machine, node: str) -> tuple[tuple[int, str], ...]:
        """All ports of a switch, the appliance's last: number and interface."""
        ports = [(self.number(p.port), p.ifname) for p in machine.ports[node]]
        ports.append((self.appliance_number(machine, node), self.appliance_ifnames(machine, node)[0]))
        return tuple(ports)

    # ---- starting ----
    def start(self, lab: Lab, machine: Machine) -> None:
        self._machines[machine.name] = machine
        self.start_caches(lab, machine)
        self.start_switches(lab, machine)
        self._start_taps(lab, machine)

    def start_caches(self, lab: Lab, machine: Machine) -> None:
        """The appliances of one machine, and their cables."""
        from datacast.lab.network import data_port_script

        script, mtu = "", self.appliance_mtu(lab)
        for node in machine.nodes:
            ends = self.appliance_ifnames(machine, node)
            script += f"ip link add name {ends[0]} mtu {mtu} type veth peer name {ends[1]} mtu {mtu}\n"
            rate, queue = lab.options.appliance_bps, lab.options.queue_packets
            script += "".join(data_port_script(end, rate, mtu, queue) for end in ends)
            if node in lab.options.without_appliance:
                script += f"ip link set {ends[1]} down\n"
        lab.network.run_in(machine.name, ["sh", "-euc", script])
        for control, nodes in self._controls(lab, machine):
            self._start_appliances(lab, machine, control, nodes)

    def _start_taps(self, lab: Lab, machine: Machine) -> None:
        pid = lab.network.nodes[machine.name].pid
        ports = [(node, p.port, p.ifname) for node in machine.nodes for p in machine.ports[node]]
        try:
            taps = inside(f"/proc/{pid}/ns/net", lambda: [Tap(ifname) for _, _, ifname in ports])
        except OSError as error:
            raise LabError(f"{machine.name}: its packets cannot be counted: {error}", what=machine.name) from error
        self._taps.update({(node, port): tap for (node, port, _), tap in zip(ports, taps, strict=True)})

    def _start_appliances(self, lab: Lab, machine: Machine, control: Path, nodes: tuple[str, ...]) -> None:
        """One process. It may have run before."""
        config = {
            "nodes": [
                {"name": node, "ports": [{"port": 0, "iface": self.appliance_ifnames(machine, node)[1]}]}
                for node in nodes
            ],
            "control": str(control),
            "mtu": self.appliance_mtu(lab),
            "eal": {"huge": False, "memory_mb": EAL_MEMORY_MB},
        }
        path = control.with_suffix(".yaml")
        path.write_text(yaml.safe_dump(config, sort_keys=False))
        lab.supervisor.start(
            f"{control.stem}-appliances",
            [need_program("datacast-switch"), "--appliance", "--config", str(path)],
            lab.network.spawn(machine),
            lab.options.realtime,
        )

    def appliance_process(self, lab: Lab, machine: Machine, node: str) -> str:
        for control, nodes in self._controls(lab, machine):
            if node in nodes:
                return f"{control.stem}-appliances"
        raise LabError(f"{node} has no cache appliance in this lab", what=node)

    def start_appliance(self, lab: Lab, machine: Machine, node: str) -> None:
        for control, nodes in self._controls(lab, machine):
            if node in nodes:
                self._start_appliances(lab, machine, control, nodes)

    @abstractmethod
    def start_switches(self, lab: Lab, machine: Machine) -> None:
        """Start the switches of one machine; their appliances' interfaces are there."""

    @abstractmethod
    def address(self, lab: Lab, machine: Machine, node: str) -> Settings:
        """How the controller and the switch meet: the key `openflow` or `p4runtime` of a switch."""

    def settings(self, lab: Lab) -> Settings:
        """Further keys of the controller's file."""
        return {}

    # ---- the controller ----
    def cache(self, machine: Machine, node: str, control: str | None) -> Settings:
        """Keys of a switch that say who caches."""
        return {"appliance": {"number": self.appliance_number(machine, node), "control": control}}

    def controller_config(self, lab: Lab) -> Settings:
        """docs/dataplanes.md."""
        switches = []
        for machine in self._machines.values():
            controls = {node: str(path) for path, nodes in self._controls(lab, machine) for node in nodes}
            for node in machine.nodes:
                ports = [
                    {
                        "port": p.port,
                        "number": self.number(p.port),
                        "mac": p.mac,
                        "neighbour": {"node": p.neighbour, "port": p.neighbour_port, "mac": p.neighbour_mac},
                    }
                    for p in machine.ports[node]
                ]
                control = controls.get(node)
                switches.append(
                    {
                        "name": node,
                        "ports": ports,
                        **self.cache(machine, node, control),
                        **self.address(lab, machine, node),
                        **({} if self.bridges else {"bridges": False}),
                    }
                )
        reporting = {"fabric_manager": lab.signalling, **lab.credentials.settings("controller/main")}
        return {"switches": switches, **reporting, **self.settings(lab)}

    # ---- counters ----
    def counters(self, lab: Lab, machine: Machine) -> dict[str, NodeCounters]:
        """Per switch: data packets by port (tx_data), and what its appliance sent, its trees and drops (not of one
        that is to be killed: it begins anew)."""
        found = {
            node: NodeCounters(
                ports={str(p.port): PortCounters(self._taps[node, p.port].packets()) for p in machine.ports[node]}
            )
            for node in machine.nodes
        }
        for control, nodes in self._controls(lab, machine):
            if not set(nodes) & set(lab.options.appliances_apart):
                for node, own in ask_control(control, "counters").items():
                    found[node].drop, found[node].tree_counters = own.drop, own.tree_counters
                    found[node].appliance_tx_data = own.ports["0"].tx_data
        return found


def without_appliance(text: str | None, graph: nx.Graph, dataplane: str) -> tuple[str, ...]:
    """The switches that `--without-appliance` names. Raises LabError."""
    if not text:
        return ()
    switches = [name for name, data in graph.nodes(data=True) if data["kind"] == "switch"]
    names = switches if text == "all" else [part.strip() for part in text.split(",") if part.strip()]
    for name in names:
        if name not in switches:
            raise LabError(f"--without-appliance: the topology has no switch {name!r}", what=name)
    need_appliances("--without-appliance", dataplane)
    return tuple(names)


def need_appliances(option: str, dataplane: str) -> None:
    """Raises LabError where no switch has one."""
    if not {"ovs", "bmv2"} & set(dataplane.split("+")):
        text = f"{option}: there are no cache appliances with {dataplane}"
        raise LabError(text, what=option, remedy="use --dataplane ovs or bmv2")


def enlarge_buffers(pid: int, room: int) -> int:
    """Give every packet socket of a process `room` bytes each way; how many there were.

    The usual 208 KB are about a dozen jumbo frames. What waits in a shaped port's queue counts as sent and not yet
    done, so the switch loses frames however long the queue is (Open vSwitch sends to all its ports by one socket); and
    it loses what arrives while it does not run for a few milliseconds.
    """
    pidfd = os.pidfd_open(pid)
    count = 0
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            try:
                if not os.readlink(f"/proc/{pid}/fd/{name}").startswith("socket:"):
                    continue
            except OSError:
                continue
            fd = _libc.syscall(PIDFD_GETFD, pidfd, int(name), 0)
            if fd < 0:
                continue
            with socket.socket(fileno=fd) as sock:
                if sock.family == socket.AF_PACKET:
                    sock.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, struct.pack("i", room))
                    sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, struct.pack("i", room))
                    count += 1
    finally:
        os.close(pidfd)
    return count


def give_room(lab: Lab, process: Process, sockets: int) -> None:
    """enlarge_buffers once the process has `sockets` packet sockets or more."""
    lab.supervisor.wait(
        lambda: enlarge_buffers(process.pid, SEND_ROOM) >= sockets, 10.0, f"packet sockets of {process.name}"
    )
