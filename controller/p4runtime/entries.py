"""From what a switch shall do to entries of p4src's tables, and from the entries it has to what must change. Pure.

The names are those of the P4 program: table `segment` (one entry per port and one for LOCAL), table `member` (one per
port that bridges ordinary Ethernet), multicast group FLOOD_GROUP. Hence two entries per port, none per group or tree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from datacast.controller.southbound.desired import Desired
from datacast.core.constants import LABEL_ADJ, LABEL_LOCAL

FLOOD_GROUP = 1
CPU_PORT = 510


def _mac(text: str) -> int:
    return int(text.replace(":", ""), 16)


@dataclass(frozen=True)
class Entry:
    """A table entry: exact match on one field, one action with its parameters by name."""

    table: str
    field: str
    value: int
    action: str
    params: tuple[tuple[str, int], ...] = ()

    @property
    def key(self) -> tuple[str, int]:
        return (self.table, self.value)


@dataclass(frozen=True)
class FloodGroup:
    """The multicast group of ordinary Ethernet and its ports."""

    ports: frozenset[int]


@dataclass(frozen=True)
class Write:
    """`kind`: "insert", "modify" or "delete"."""

    kind: str
    what: Entry | FloodGroup


@dataclass(frozen=True)
class PacketOut:
    """Send a frame out of a port."""

    number: int
    data: bytes


@dataclass(frozen=True)
class ReadCounters:
    """Ask for all counters."""


Message = Write | PacketOut | ReadCounters


def entries(desired: Desired) -> dict[tuple[str, int], Entry]:
    """Every table entry of a switch, by its key."""
    found = [
        Entry(
            "segment",
            "label",
            LABEL_ADJ + a.port,
            "forward",
            (("port", a.number), ("dst", _mac(a.dst)), ("src", _mac(a.src))),
        )
        for a in desired.adjacencies
    ]
    if desired.appliance is not None:
        found.append(Entry("segment", "label", LABEL_LOCAL, "appliance", (("port", desired.appliance),)))
    found += [Entry("member", "port", number, "bridge") for number in sorted(desired.flood)]
    return {entry.key: entry for entry in found}


def changes(wanted: Desired, have: Mapping[tuple[str, int], Entry], group: frozenset[int] | None) -> list[Message]:
    """Messages that make a switch what it shall be.

    `have`: its entries now; `group`: the flood group's ports, None where there is no group yet. All tables are ours, so
    whatever else stands in them goes. A port leaves the flooding before another joins: no loop in between.
    """
    want = entries(wanted)
    writes: list[Message] = []
    kept = frozenset() if group is None else group & wanted.flood
    if group is None:
        writes.append(Write("insert", FloodGroup(wanted.flood)))
    elif group - wanted.flood:
        writes.append(Write("modify", FloodGroup(kept)))
    writes += [Write("delete", entry) for key, entry in have.items() if key not in want]
    for key, entry in want.items():
        if key not in have:
            writes.append(Write("insert", entry))
        elif have[key] != entry:
            writes.append(Write("modify", entry))
    if group is not None and wanted.flood != kept:
        writes.append(Write("modify", FloodGroup(wanted.flood)))
    return writes
