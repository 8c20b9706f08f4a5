"""`--dataplane memif`: `datacast-switch` as whitebox, and its hosts in shared memory.

As if host and switch were programs of one machine, as they are where a host's own switch drives the network cards: no
frame between them passes the kernel, and nothing shapes it. Cables between switches are the lab's ordinary ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from datacast.lab.dataplane import DpdkPlane

if TYPE_CHECKING:
    from pathlib import Path

    from datacast.lab.lab import Lab
    from datacast.lab.plan import Port


class MemifPlane(DpdkPlane):
    """A switch's ports to hosts are memory that it shares with them."""

    name = "memif"
    lone = True

    def socket(self, lab: Lab, switch: str, port: int) -> Path:
        return lab.run_folder / f"memif-{lab.plan.machine_of(switch).name}-{switch.replace('/', '_')}-{port}"

    def way(self, lab: Lab, port: Port) -> dict[str, str]:
        if port.neighbour not in lab.plan.hosts:
            return super().way(lab, port)
        place = self.socket(lab, port.node, port.port)
        return {"memif": str(place)}

    def agent_options(self, lab: Lab, host: str) -> list[str]:
        options: list[str] = []
        for port in lab.plan.hosts[host].ports[host]:
            if port.neighbour in lab.plan.hosts:
                options += ["--port", f"{port.port}={port.ifname},{port.neighbour_mac}"]
            else:
                place = self.socket(lab, port.neighbour, port.neighbour_port)
                switch = lab.plan.machine_of(port.neighbour)
                options += ["--memif", f"{port.port}={place},0,{self.mtu(lab, switch)}"]
        return options if lab.plan.forwards[host] else [*options, "--no-forward"]
