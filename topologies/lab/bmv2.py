"""bmv2 as a data plane: one `simple_switch_grpc` per switch, pipeline and tables from the controller (P4Runtime)."""

from __future__ import annotations

import shutil
from dataclasses import dataclass

from datacast.topologies.lab.errors import LabError

PROGRAM = "simple_switch_grpc"
CPU_PORT = 510
"""p4src/shared/target.p4."""
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

    def command(self) -> list[str]:
        """Raises LabError when bmv2 is not installed."""
        program = shutil.which(PROGRAM)
        if program is None:
            raise LabError(missing(), what=PROGRAM, remedy=REMEDY)
        interfaces = [part for number, ifname in self.ports for part in ("-i", f"{number}@{ifname}")]
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
            str(CPU_PORT),
        ]
