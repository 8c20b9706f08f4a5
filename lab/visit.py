"""Into a lab from another terminal: which namespace a node is in, and which interface is an end of a cable."""

from __future__ import annotations

from dataclasses import dataclass

from datacast.core.lists import few
from datacast.lab.errors import LabError
from datacast.lab.programs import ROOT
from datacast.lab.state import Registry, State, start_time

DISSECTOR = ROOT / "libdatacast" / "tools" / "datacast.lua"
NODES_SHOWN = 16


@dataclass(frozen=True)
class End:
    """A node's end of a cable, and a process in its namespace."""

    node: str
    ifname: str
    pid: int


def running(name: str, registry: Registry | None = None) -> State:
    """The state of a lab that is up. Raises LabError."""
    state = (registry or Registry()).load(name)
    if state is None or not state.alive or state.status != "up":
        raise LabError(f"no lab {name!r} is up", what=name, remedy="`datacast lab status` lists the labs there are")
    return state


def inside(state: State, node: str, command: list[str]) -> list[str]:
    """The command line that runs `command` where a host or switch is. Raises LabError."""
    pid = state.namespaces.get(node)
    if pid is None:
        raise _no_node(state, node)
    if start_time(pid) is None:
        raise LabError(f"the namespace of {node} is gone", what=node, remedy="datacast lab down")
    return ["mnexec", "-a", str(pid), *command]


def _no_node(state: State, node: str) -> LabError:
    remedy = f"there are {few(state.namespaces, NODES_SHOWN)}"
    return LabError(f"the lab has no node {node!r}", what=node, remedy=remedy)


def end_of(state: State, link: str) -> End:
    """`00:0` is port 0 of 00, `00-s0.0` the cable between the two, seen from the first. Raises LabError."""
    form = "give NODE:PORT, such as 00:0, or NODE-NODE, such as 00-s0.0"
    node, colon, number = link.rpartition(":")
    if colon and node not in state.ports:
        raise _no_node(state, node)
    if colon:
        ports = state.ports[node]
        if not number.isdigit() or int(number) >= len(ports):
            raise LabError(f"no port {link!r}: {node} has {len(ports)}", what=link, remedy=form)
        return End(node, ports[int(number)], state.namespaces[node])
    for node, neighbours in state.neighbours.items():
        for port, other in enumerate(neighbours):
            if f"{node}-{other}" == link:
                return End(node, state.ports[node][port], state.namespaces[node])
    raise LabError(f"no cable {link!r}", what=link, remedy=form)
