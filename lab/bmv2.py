"""bmv2 as a data plane: one `simple_switch_grpc` per switch, pipeline and tables from the controller (P4Runtime)."""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from datacast.core.constants import P4_CPU_PORT, P4_LOOP_IN, P4_LOOP_OUT
from datacast.lab.controlled import ControlledPlane, give_room
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

    def __init__(self) -> None:
        super().__init__()
        self._switches: list[tuple[Process, int]] = []

    def checks(self) -> list[Check]:
        from datacast.lab.checks import Check

        lack = missing()
        if not lack:
            lack = next((f"{path} is not there" for path in PIPELINE.values() if not os.path.exists(path)), "")
        return [Check("bmv2", not lack, True, lack or "found", REMEDY if lack else "")]

    def _server(self, machine: Machine, node: str) -> str:
        return f"{machine.address}:{GRPC_PORT + machine.nodes.index(node)}"

    def start_switches(self, lab: Lab, machine: Machine) -> None:
        for i, node in enumerate(machine.nodes):
            switch = Bmv2(i + 1, self._server(machine, node), self.numbered(machine, node))
            process = lab.supervisor.start(
                f"{machine.name}-bmv2-{i}", switch.command(), lab.network.spawn(machine), lab.options.realtime
            )
            self._switches.append((process, len(switch.ports)))

    def address(self, lab: Lab, machine: Machine, node: str) -> dict[str, Any]:
        return {"p4runtime": {"address": self._server(machine, node), "device_id": machine.nodes.index(node) + 1}}

    def settings(self, lab: Lab) -> dict[str, Any]:
        return {"pipeline": PIPELINE}

    def ready(self, lab: Lab) -> None:
        for process, ports in self._switches:
            give_room(lab, process, ports)
            if lab.options.realtime:
                all_threads_first(process.pid)


def all_threads_first(pid: int) -> None:
    """Give every thread of a process the priority of its first: bmv2 forwards in threads that it starts."""
    with contextlib.suppress(PermissionError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(ProcessLookupError):
                os.sched_setscheduler(int(task), os.SCHED_RR, os.sched_param(DATA_PATH))
