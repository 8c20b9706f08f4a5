"""What is known of one switch, and the effects that events have. Plain values."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from datacast.controller.api.records import Note, PortCounters, Program
from datacast.controller.southbound.config import Switch
from datacast.controller.southbound.desired import Desired
from datacast.controller.southbound.told import ToFabricManager


@dataclass(frozen=True)
class PortInfo:
    """A port as the switch tells of it."""

    number: int
    mac: str
    up: bool
    name: str = ""


@dataclass
class Session:
    """One switch: who it is, whether it is there, what it has."""

    config: Switch
    connection: object | None = None
    """The live connection's own token; None: not connected."""
    peer: str = ""
    connected_s: float | None = None
    programmed_s: float | None = None
    connections: int = 0
    ports: dict[int, PortInfo] = field(default_factory=dict)
    have: Any = None
    """What is installed, in the form of its language; None: not read yet."""
    wanted: Desired | None = None
    seen: dict[int, tuple[str, int, float]] = field(default_factory=dict)
    """Discovered, by Datacast port: (switch, port, when last heard)."""
    astray: dict[int, float] = field(default_factory=dict)
    """Ports to hosts by which a discovery frame came in all the same, and when the last one did."""
    unanswered: int = 0
    """Probes of the cache appliance, since it last answered one."""
    probing: bool = False
    """A probe is on its way to the switch."""
    silent: bool = False
    """The cache appliance has not answered for too long, or since its port came up."""
    registered: bool = False
    report: int = -1
    port_counters: dict[int, PortCounters] = field(default_factory=dict)
    rule_counters: dict[Any, dict[str, int]] = field(default_factory=dict)
    drops: dict[str, int] = field(default_factory=dict)
    node_counters: dict[str, int] = field(default_factory=dict)
    pipeline: Program = field(default_factory=Program)
    problems: dict[str, str] = field(default_factory=dict)
    """Standing ones, by code."""

    @property
    def connected(self) -> bool:
        return self.connection is not None

    def __post_init__(self) -> None:
        self.numbers = {p.port: p.number for p in self.config.ports}
        """The switch's own number of a Datacast port."""
        self.neighbours = {p.port: (p.neighbour.node, p.neighbour.port) for p in self.config.ports if p.neighbour}

    def port_up(self, port: int) -> bool:
        info = self.ports.get(self.numbers[port])
        return info is not None and info.up

    def unsee(self, ports: Iterable[int] | None = None) -> None:
        """What was found out about these Datacast ports, None: about all, holds no more."""
        for port in tuple(self.numbers if ports is None else ports):
            self.seen.pop(port, None)
            self.astray.pop(port, None)
            self.problems.pop(f"cabling_{port}", None)

    @property
    def appliance_linked(self) -> bool:
        a = self.config.appliance
        return a is not None and a.number in self.ports and self.ports[a.number].up

    @property
    def appliance_present(self) -> bool:
        return self.appliance_linked and not self.silent


@dataclass(frozen=True)
class Send:
    """Say this to a switch."""

    switch: str
    message: Any


@dataclass(frozen=True)
class Report:
    """Tell the fabric manager."""

    message: ToFabricManager


@dataclass(frozen=True)
class Close:
    """End a connection: its peer is not welcome."""

    connection: Any


Effect = Send | Report | Close


@dataclass
class Log:
    """The last notes, and a count of all by code."""

    notes: deque[Note] = field(default_factory=lambda: deque(maxlen=256))
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, note: Note) -> None:
        self.notes.append(note)
        self.count(note.code)

    def count(self, code: str) -> None:
        """One of which no note is kept."""
        self.counts[code] = self.counts.get(code, 0) + 1
