"""What is said to an OpenFlow switch, as plain values: only `shim` knows os-ken's form of them."""

from __future__ import annotations

from dataclasses import dataclass

Match = tuple[tuple[str, int | str | tuple[int, int]], ...]
"""Fields by their OXM names, in order; (value, mask) where only some bits count."""
Action = tuple[str | int, ...]
"""("pop_mpls", ethertype), ("set_field", name, value), ("output", number), ("keep_label",), ("goto", table),
("controller",), ("normal",).

"keep_label" puts the top label into LABEL_REGISTER: Open vSwitch's own (a Nicira extension). "output" never sends a
frame out of the port it came in by: OpenFlow's rule, and ours."""

LABEL_REGISTER = "reg0"


@dataclass(frozen=True)
class FlowAdd:
    """Install a rule; one with the same table, priority and match is replaced at once, without a gap."""

    table: int
    priority: int
    match: Match
    actions: tuple[Action, ...]
    cookie: int
    ends_s: int = 0
    """It goes by itself after so many seconds; 0: never."""


@dataclass(frozen=True)
class FlowDelete:
    """Remove every rule with this cookie."""

    cookie: int


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
class AskRole:
    """To be the switch's master, with a generation; or (not `master`) which role it is, and the last generation."""

    master: bool = False
    generation: int = 0


@dataclass(frozen=True)
class Barrier:
    """Answered when everything before it is done."""


Message = FlowAdd | FlowDelete | PacketOut | ReadRules | ReadPorts | AskRole | Barrier
