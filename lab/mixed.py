"""Several data planes in one fabric: the switches take turns, in the topology's order."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from datacast.lab.counters import NodeCounters
from datacast.lab.dataplane import DataPlane, Settings
from datacast.lab.plan import Machine

if TYPE_CHECKING:
    from datacast.lab.checks import Check
    from datacast.lab.lab import Lab


class MixedPlane(DataPlane):
    """`ovs+dpdk` and the like: the first switch is of the first kind, the second of the second, and so on around; or as
    `of` says: switch to the name of its kind."""

    def __init__(self, planes: list[DataPlane], of: dict[str, str] | None = None) -> None:
        self.planes = planes
        self._of_switch = of
        self.name = "+".join(plane.name for plane in planes)
        self.ports_per_machine = min(plane.ports_per_machine for plane in planes)
        self.programs = tuple(dict.fromkeys(program for plane in planes for program in plane.programs))

    def checks(self) -> list[Check]:
        return [check for plane in self.planes for check in plane.checks()]

    def parts(self, lab: Lab, machine: Machine) -> list[tuple[DataPlane, Machine]]:
        """The machine as each data plane sees it: with its own switches only."""
        switches = [name for name, data in lab.graph.nodes(data=True) if data["kind"] == "switch"]
        found = []
        for i, plane in enumerate(self.planes):
            own = set(switches[i :: len(self.planes)])
            if self._of_switch is not None:
                own = {name for name in switches if self._of_switch[name] == plane.name}
            nodes = tuple(node for node in machine.nodes if node in own)
            if nodes:
                found.append((plane, replace(machine, nodes=nodes)))
        return found

    def start(self, lab: Lab, machine: Machine) -> None:
        for plane, part in self.parts(lab, machine):
            plane.start(lab, part)

    def controller_config(self, lab: Lab) -> Settings:
        whole: Settings = {}
        for plane in self.planes:
            for key, value in plane.controller_config(lab).items():
                whole[key] = whole.get(key, []) + value if key == "switches" else value
        return whole

    def _of(self, lab: Lab, machine: Machine, node: str) -> tuple[DataPlane, Machine]:
        return next((plane, part) for plane, part in self.parts(lab, machine) if node in part.nodes)

    def switch_process(self, lab: Lab, machine: Machine, node: str) -> str:
        plane, part = self._of(lab, machine, node)
        return plane.switch_process(lab, part, node)

    def start_switch(self, lab: Lab, machine: Machine, node: str) -> None:
        plane, part = self._of(lab, machine, node)
        plane.start_switch(lab, part, node)

    def appliance_process(self, lab: Lab, machine: Machine, node: str) -> str:
        plane, part = self._of(lab, machine, node)
        return plane.appliance_process(lab, part, node)

    def start_appliance(self, lab: Lab, machine: Machine, node: str) -> None:
        plane, part = self._of(lab, machine, node)
        plane.start_appliance(lab, part, node)

    def ready(self, lab: Lab) -> None:
        for plane in self.planes:
            plane.ready(lab)

    def counters(self, lab: Lab, machine: Machine) -> dict[str, NodeCounters]:
        found: dict[str, NodeCounters] = {}
        for plane, part in self.parts(lab, machine):
            found.update(plane.counters(lab, part))
        return found
