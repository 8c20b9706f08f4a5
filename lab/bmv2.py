"""bmv2 as a data plane: one `simple_switch_grpc` per switch, pipeline and tables from the controller (P4Runtime)."""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from datacast.core.constants import P4_CPU_PORT, P4_LOOP_IN, P4_LOOP_OUT
from datacast.lab.controlled import ControlledPlane, give_room
from datacast.lab.dataplane import DataPlane, Settings
from datacast.lab.errors import LabError
from datacast.lab.plan import Machine
from datacast.lab.processes import DATA_PATH
from datacast.lab.programs import ROOT

if TYPE_CHECKING:
    from datacast.lab.checks import Check
    from datacast.lab.lab import Lab
    from datacast.lab.processes import Process

PROGRAM = "simple_switch_grpc"
GRPC_PORT = 9559
P4 = ROOT / "build" / "p4"
PIPELINE = {"json": str(P4 / "datacast.json"), "p4info": str(P4 / "datacast.p4info.bin")}
NODE_PIPELINE = {"json": str(P4 / "node.json"), "p4info": str(P4 / "node.p4info.bin")}
LOOP_ROOM = 64
"""More than the network's MTU: what an answer that grows on the loop carries in front."""
REMEDY = "install p4lang's packages p4lang-p4c and p4lang-bmv2, or build them; then `make p4`"


def missing() -> str:
    """What this machine lacks to run bmv2; empty when nothing."""
    return "" if shutil.which(PROGRAM) else f"{PROGRAM} (bmv2) is not on the PATH"


@dataclass(frozen=True)
class Bmv2:
    """One switch: its P4Runtime server's address, and its ports as number and interface."""

    device_id: int
    address: str
    ports: tuple[tuple[int, str], ...]
    loop: tuple[str, str] | None = None
    """The two ends of a cable from this switch to itself, where its node needs one."""

    def command(self) -> list[str]:
        """Raises LabError when bmv2 is not installed."""
        program = shutil.which(PROGRAM)
        if program is None:
            raise LabError(missing(), what=PROGRAM, remedy=REMEDY)
        loop = () if self.loop is None else ((P4_LOOP_OUT, self.loop[0]), (P4_LOOP_IN, self.loop[1]))
        interfaces = [part for number, ifname in (*self.ports, *loop) for part in ("-i", f"{number}@{ifname}")]
        return [
            program,
            "--no-p4",
            "--device-id",
            str(self.device_id),
            *interfaces,
            "--log-level",
            "error",
            "--",
            "--grpc-server-addr",
            self.address,
            "--cpu-port",
            str(P4_CPU_PORT),
        ]


class Bmv2Plane(ControlledPlane):
    """One `simple_switch_grpc` per switch."""

    name = "bmv2"
    first_number = 0
    pipeline = PIPELINE
    grpc_port = GRPC_PORT

    def __init__(self) -> None:
        super().__init__()
        self._switches: list[tuple[Process, int]] = []

    def checks(self) -> list[Check]:
        from datacast.lab.checks import Check

        lack = missing()
        if not lack:
            lack = next((f"{path} is not there" for path in self.pipeline.values() if not os.path.exists(path)), "")
        return [Check("bmv2", not lack, True, lack or "found", REMEDY if lack else "")]

    def _server(self, machine: Machine, node: str) -> str:
        return f"{machine.address}:{self.grpc_port + machine.nodes.index(node)}"

    def switch(self, machine: Machine, node: str) -> Bmv2:
        ports = self.numbered(machine, node)
        return Bmv2(machine.nodes.index(node) + 1, self._server(machine, node), ports)

    def start_switches(self, lab: Lab, machine: Machine) -> None:
        self._switches += [self._start(lab, machine, node) for node in machine.nodes]

    def _start(self, lab: Lab, machine: Machine, node: str) -> tuple[Process, int]:
        switch, name = self.switch(machine, node), self.switch_process(lab, machine, node)
        process = lab.supervisor.start(name, switch.command(), lab.network.spawn(machine), lab.options.realtime)
        return process, len(switch.ports)

    def switch_process(self, lab: Lab, machine: Machine, node: str) -> str:
        return f"{machine.name}-bmv2-{machine.nodes.index(node)}"

    def start_switch(self, lab: Lab, machine: Machine, node: str) -> None:
        self._serve(lab, *self._start(lab, machine, node))

    def address(self, lab: Lab, machine: Machine, node: str) -> Settings:
        return {"p4runtime": {"address": self._server(machine, node), "device_id": machine.nodes.index(node) + 1}}

    def settings(self, lab: Lab) -> Settings:
        return {"pipeline": self.pipeline}

    def ready(self, lab: Lab) -> None:
        for process, ports in self._switches:
            self._serve(lab, process, ports)

    def _serve(self, lab: Lab, process: Process, ports: int) -> None:
        give_room(lab, process, ports)
        if lab.options.realtime:
            all_threads_first(process.pid)


class P4Plane(Bmv2Plane):
    """bmv2 alone: the node is in its pipeline; a cable to itself takes the place of an appliance."""

    name = "p4"
    programs: tuple[str, ...] = ()
    pipeline = NODE_PIPELINE
    grpc_port = GRPC_PORT + 1000  # both may stand on one machine

    def loop(self, machine: Machine, node: str) -> tuple[str, str]:
        index = machine.nodes.index(node)
        return f"{self.name}-l{index}", f"{self.name}-m{index}"

    def switch(self, machine: Machine, node: str) -> Bmv2:
        ports = tuple((self.number(p.port), p.ifname) for p in machine.ports[node])
        loop = self.loop(machine, node)
        return Bmv2(machine.nodes.index(node) + 1, self._server(machine, node), ports, loop)

    def start_caches(self, lab: Lab, machine: Machine) -> None:
        from datacast.lab.network import data_port_script

        script, mtu = "", lab.options.mtu + LOOP_ROOM
        for node in machine.nodes:
            ends = self.loop(machine, node)
            script += f"ip link add name {ends[0]} mtu {mtu} type veth peer name {ends[1]} mtu {mtu}\n"
            script += "".join(data_port_script(end, 0, mtu, 0) for end in ends)
        lab.network.run_in(machine.name, ["sh", "-euc", script])

    def cache(self, machine: Machine, node: str, control: str | None) -> Settings:
        return {"cache": "p4"}

    def settings(self, lab: Lab) -> Settings:
        return {"node_pipeline": self.pipeline}

    def _controls(self, lab: Lab, machine: Machine) -> list[tuple[Path, tuple[str, ...]]]:
        return []

    def appliance_process(self, lab: Lab, machine: Machine, node: str) -> str:
        return DataPlane.appliance_process(self, lab, machine, node)


def all_threads_first(pid: int) -> None:
    """Give every thread of a process the priority of its first: bmv2 forwards in threads that it starts."""
    with contextlib.suppress(PermissionError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(ProcessLookupError):
                os.sched_setscheduler(int(task), os.SCHED_RR, os.sched_param(DATA_PATH))
