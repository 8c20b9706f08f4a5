"""What a switch shall do, whatever language it is told in. Two labels' worth of state per port, none per group."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from datacast.controller.southbound.config import Node, Switch

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
    that take part in ordinary Ethernet; the others close loops or lead to the appliance.
    """

    adjacencies: tuple[Adjacency, ...]
    appliance: int | None
    flood: frozenset[int]
    node: Node | None = None


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
    flood = frozenset(p.number for p in switch.ports if p.number in present and p.number not in blocked)
    return Desired(
        adjacencies, switch.appliance.number if switch.appliance and appliance else None, flood,
        switch.node if switch.serves else None)
