"""What a switch shall do, whatever language it is told in. Two labels' worth of state per port, none per group."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from datacast.controller.southbound.config import Node, Switch
from datacast.core.constants import REPLICATE_PORTS

BROADCAST = "ff:ff:ff:ff:ff:ff"
ZERO = "00:00:00:00:00:00"


@dataclass(frozen=True)
class Adjacency:
    """ADJ(port): pop and send out of `number`, with these addresses."""

    port: int
    number: int
    dst: str
    src: str


@dataclass(frozen=True)
class Desired:
    """All that one switch shall do.

    `appliance` None: LOCAL is dropped, unless the switch's own pipeline is the `node`. `flood`: numbers of the ports
    that take part in ordinary Ethernet; the others close loops or lead to the appliance, and a switch may bridge
    nothing. `replicate`: the switch copies for the appliance.
    """

    adjacencies: tuple[Adjacency, ...]
    appliance: int | None
    flood: frozenset[int]
    node: Node | None = None
    replicate: bool = False

    @property
    def copies(self) -> tuple[Adjacency, ...]:
        """The ports that a REPLICATE label from the appliance names, in order of their bits."""
        if not self.replicate:
            return ()
        return tuple(sorted((a for a in self.adjacencies if a.port < REPLICATE_PORTS), key=lambda a: a.port))


def desired(switch: Switch, macs: dict[int, str], present: Iterable[int], blocked: Iterable[int],
            appliance: bool) -> Desired:
    """
    Parameters
    ----------
    switch : Switch
    macs : dict[int, str]
        The switch's own addresses by port number, as far as it told them.
    present : iterable of int
        Numbers of the ports the switch has.
    blocked : iterable of int
        Numbers of ports that would close a loop of ordinary Ethernet.
    appliance : bool
        Whether its cache appliance is there.
    """
    present, blocked = set(present), set(blocked)
    adjacencies = tuple(
        Adjacency(p.port, p.number, (p.neighbour.mac if p.neighbour and p.neighbour.mac else BROADCAST),
                  macs.get(p.number, ZERO))
        for p in switch.ports)
    open_ports = (p.number for p in switch.ports if p.number in present and p.number not in blocked)
    flood = frozenset(open_ports if switch.bridges else ())
    there = switch.appliance if appliance else None
    return Desired(
        adjacencies, there.number if there else None, flood, switch.node if switch.serves else None,
        there is not None and there.replicate)
