"""What forwards in the lab's switches. A data plane is a small class: what it needs, what it starts, what it counts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from datacast.lab.counters import NodeCounters, ask_control
from datacast.lab.errors import LabError
from datacast.lab.plan import PORTS_PER_PROCESS, Machine, Port
from datacast.lab.programs import need_program

if TYPE_CHECKING:
    from datacast.lab.checks import Check
    from datacast.lab.lab import Lab


Settings = dict[str, Any]
"""A daemon's file, or part of one, as YAML has it: the daemon says what may stand there, and refuses the rest."""
EAL_MEMORY_MB = 2048
"""Address room for the packet pools of a switch process; memory that is not needed is never touched."""


class DataPlane(ABC):
    """One kind of switch."""

    name: str
    ports_per_machine: int
    """Ports of all switches that may share a namespace and a process."""
    process_per_machine = False
    """Each machine's switches are one process that computes: several machines use several cores."""
    programs: tuple[str, ...] = ()
    lone: bool = False
    """Is not mixed with others in one fabric."""
    bridges: bool = True
    """Switches that can forward ordinary Ethernet do: nobody else does."""
    ip: bool = False
    """Cables carry IP: interfaces as a host has them, not ports of a switch."""

    def apart(self, lab: Lab) -> tuple[str, ...]:
        """Switches that need a namespace of their own."""
        return ()

    def topology(self, lab: Lab) -> str:
        """What the fabric manager is given."""
        return lab.options.topology

    def agent_options(self, lab: Lab, host: str) -> list[str]:
        """An agent's ports."""
        machine = lab.plan.hosts[host]
        options = []
        for port in machine.ports[host]:
            options += ["--port", f"{port.port}={port.ifname},{port.neighbour_mac}"]
        return options if lab.plan.forwards[host] else [*options, "--no-forward"]

    def start_host(self, lab: Lab, host: str) -> None:  # noqa: B027 - most have nothing to do
        """Set up a host's network, once, before its agent."""

    def checks(self) -> list[Check]:
        """What the machine must have."""
        return []

    @abstractmethod
    def start(self, lab: Lab, machine: Machine) -> None:
        """Start the switches of one machine under the lab's supervisor."""

    def controller_config(self, lab: Lab) -> Settings:
        """The controller's file of switches to program (docs/dataplanes.md); empty: it has none to program."""
        return {}

    def ready(self, lab: Lab) -> None:  # noqa: B027 - most have nothing to do
        """Everything is up and registered."""

    def switch_process(self, lab: Lab, machine: Machine, node: str) -> str:
        """Name of the process of a switch that has one of its own."""
        return machine.name

    def start_switch(self, lab: Lab, machine: Machine, node: str) -> None:
        """Start it again after it was killed."""
        self.start(lab, machine)

    def appliance_process(self, lab: Lab, machine: Machine, node: str) -> str:
        """Name of the process of a switch's cache appliance. Raises LabError where it has none."""
        raise LabError(
            f"{node} has no cache appliance: the data plane {self.name} caches in the switch itself",
            what=node,
            remedy="use --dataplane ovs or bmv2",
        )

    def start_appliance(self, lab: Lab, machine: Machine, node: str) -> None:  # noqa: B027 - as above
        """Start it again after it was killed."""

    @abstractmethod
    def counters(self, lab: Lab, machine: Machine) -> dict[str, NodeCounters]:
        """Counters of every switch of a machine: see DpdkPlane.counters."""


class DpdkPlane(DataPlane):
    """`datacast-switch` as whitebox: it owns all ports, forwards and caches."""

    name = "dpdk"
    ports_per_machine = PORTS_PER_PROCESS
    process_per_machine = True
    programs = ("datacast-switch",)

    def checks(self) -> list[Check]:
        from datacast.lab.checks import check_dpdk

        return [check_dpdk()]

    def control(self, lab: Lab, machine: Machine) -> Path:
        return lab.run_folder / f"{machine.name}.sock"

    def way(self, lab: Lab, port: Port) -> dict[str, str]:
        """What a port leads over."""
        return {"iface": port.ifname}

    def mtu(self, lab: Lab, machine: Machine) -> int:
        """Of all ports of a process: a link of the topology may have less than the others."""
        links = (cable.mtu for cable in lab.plan.cables if not {cable.a.node, cable.b.node}.isdisjoint(machine.nodes))
        return min(lab.options.mtu, *links)

    def configuration(self, lab: Lab, machine: Machine) -> Settings:
        """The YAML file of a switch process (dpdk_cache/README.md)."""
        from datacast.lab.lab import machine_identity

        nodes = []
        for node in machine.nodes:
            ports = [
                {
                    "port": port.port,
                    **self.way(lab, port),
                    "neighbour": {"node": port.neighbour, "port": port.neighbour_port, "mac": port.neighbour_mac},
                }
                for port in machine.ports[node]
            ]
            nodes.append({"name": node, "ports": ports})
        return {
            "nodes": nodes,
            "control": str(self.control(lab, machine)),
            "fabric_manager": lab.signalling,
            # Of a machine that is shared with other data planes this sees a part.
            **lab.credentials.settings(machine_identity(lab.plan.machine_of(machine.nodes[0]))),
            "mtu": self.mtu(lab, machine),
            "eal": {"huge": False, "memory_mb": EAL_MEMORY_MB},
        }

    def start(self, lab: Lab, machine: Machine) -> None:
        config = lab.run_folder / f"{machine.name}.yaml"
        config.write_text(yaml.safe_dump(self.configuration(lab, machine), sort_keys=False))
        command = [need_program("datacast-switch"), "--config", str(config)]
        lab.supervisor.start(machine.name, command, lab.network.spawn(machine), lab.options.realtime)

    def counters(self, lab: Lab, machine: Machine) -> dict[str, NodeCounters]:
        """Per switch what its control socket says: ports, trees, reasons to drop."""
        return ask_control(self.control(lab, machine), "counters")


def data_plane(name: str) -> DataPlane:
    """By name; `ovs+dpdk` for switches that take turns. Raises LabError for an unknown name."""
    from datacast.lab.bmv2 import Bmv2Plane, P4Plane
    from datacast.lab.ip import IpPlane
    from datacast.lab.memif import MemifPlane
    from datacast.lab.mixed import MixedPlane
    from datacast.lab.ovs import OvsPlane

    planes: dict[str, type[DataPlane]] = {
        plane.name: plane for plane in (DpdkPlane, MemifPlane, OvsPlane, Bmv2Plane, P4Plane, IpPlane)
    }
    names = name.split("+")
    for one in names:
        if one not in planes or names.count(one) > 1 or (planes[one].lone and len(names) > 1):
            remedy = f"choose one of {', '.join(planes)}, or several joined by +"
            raise LabError(f"no data plane {name!r}", what=name, remedy=remedy)
    chosen = [planes[one]() for one in names]
    return chosen[0] if len(chosen) == 1 else MixedPlane(chosen)
