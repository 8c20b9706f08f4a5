"""What is said to an OpenFlow switch, as plain values: only `shim` knows os-ken's form of them."""

from __future__ import annotations

from dataclasses import dataclass

Match = tuple[tuple[str, int | str], ...]
"""Fields by their OXM names, in order."""
Action = tuple[str | int, ...]
"""("pop_mpls", ethertype), ("set_field", name, value), ("output", number), ("turn",), ("controller",), ("normal",).

"turn" lets a frame leave by the port it came in."""


@dataclass(frozen=True)
class FlowAdd:
    """Install a rule; one with the same priority and match is replaced at once, without a gap."""

    priority: int
    match: Match
    actions: tuple[Action, ...]
    cookie: int


@dataclass(frozen=True)
class FlowDelete:
    """Remove every rule with this cookie."""

    cookie: int


@dataclass(frozen=True)
class PortFlood:
    """Let a port take part in flooding, or not. `mac` is the port's own address: the protocol asks for it."""

    number: int
    mac: str
    flood: bool


@dataclass(frozen=True)
class PacketOut:
    """Send a frame out of a port."""

    number: int
    data: bytes


@dataclass(frozen=True)
class ReadRules:
    """Ask for all rules, with their counters."""


@dataclass(frozen=True)
class ReadPorts:
    """Ask for the counters of all ports."""


@dataclass(frozen=True)
class Barrier:
    """Answered when everything before it is done."""


Message = FlowAdd | FlowDelete | PortFlood | PacketOut | ReadRules | ReadPorts | Barrier
