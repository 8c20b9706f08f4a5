"""From what a switch shall do to entries of p4src's tables, and from the entries it has to what must change. Pure.

The names are those of the P4 programs: `segment` (one entry per port, one for LOCAL to an appliance), `link` (one per
port: the addresses of its neighbour), `bridging`, `replicate_from`, `service` (one each). Hence two entries per port
and three more, none per group or tree. `source` and `destination` hold learned addresses (stations.py).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from datacast.controller.southbound.desired import Desired
from datacast.core.constants import (
    LABEL_ADJ,
    LABEL_LOCAL,
    P4_CHILDREN_MAX,
    P4_GROUP_ALL,
    P4_GROUP_CHILDREN,
    P4_GROUP_FLOOD,
    P4_GROUP_LEASE,
    P4_INNER_PORT,
    P4_REST_SESSION,
)

LEARNED = ("source", "destination")
"""Tables whose entries come from what the switch sees."""
INNER_PORTS = 4


def _mac(text: str) -> int:
    return int(text.replace(":", ""), 16)


@dataclass(frozen=True)
class Entry:
    """A table entry: exact match on one field, one action, its parameters by name. `life_s`: it ages; 0: it stays."""

    table: str
    field: str
    value: int
    action: str
    params: tuple[tuple[str, int], ...] = ()
    life_s: float = dataclasses.field(default=0.0, compare=False)

    @property
    def key(self) -> tuple[str, int]:
        return (self.table, self.value)


@dataclass(frozen=True)
class Copies:
    """A multicast group, or with `clones` a clone session: the ports copies go to, each with its number."""

    group: int
    replicas: frozenset[tuple[int, int]]
    """(port, instance)."""
    clones: bool = False

    @property
    def key(self) -> tuple[bool, int]:
        return (self.clones, self.group)


LEASE = (False, P4_GROUP_LEASE)
"""The key of a group that no frame goes to: who leads the switch gives its copy another number again and again, as
others can read. P4Runtime alone tells them only when its session ends."""
LEASE_MAX = 0xFFFF


def lease(number: int, ports: Iterable[int]) -> Copies:
    return Copies(P4_GROUP_LEASE, frozenset({(min(ports, default=0), number)}))


def leased(found: Copies | None) -> int | None:
    """What it says; None: there is none."""
    return None if found is None else max((number for _, number in found.replicas), default=None)


@dataclass(frozen=True)
class Write:
    """`kind`: "insert", "modify" or "delete"."""

    kind: str
    what: Entry | Copies


@dataclass(frozen=True)
class PacketOut:
    """Send a frame out of a port."""

    number: int
    data: bytes


@dataclass(frozen=True)
class ReadCounters:
    """Ask for all counters."""


Message = Write | PacketOut | ReadCounters


@dataclass(frozen=True)
class Installed:
    """What a switch has: entries (not the learned ones) and copies, by their keys."""

    entries: Mapping[tuple[str, int], Entry] = dataclasses.field(default_factory=dict)
    copies: Mapping[tuple[bool, int], Copies] = dataclasses.field(default_factory=dict)


def _halves(ports: Iterable[int]) -> tuple[tuple[str, int], ...]:
    bits = sum(1 << port for port in set(ports))
    return (("low", bits & (1 << 256) - 1), ("high", bits >> 256))


def entries(desired: Desired) -> dict[tuple[str, int], Entry]:
    """Every table entry of a switch, by its key."""
    found = []
    for a in desired.adjacencies:
        found.append(Entry("segment", "label", LABEL_ADJ + a.port, "forward", (("port", a.number),)))
        addresses = (("dst", _mac(a.dst)), ("src", _mac(a.src)))
        found.append(Entry("link", "port", a.number, "address", addresses))
    found.append(Entry("bridging", "group", 0, "bridge", _halves(desired.flood)))
    if desired.node is not None:
        told = (("retx_min", round(desired.node.retx_ms * 1000)), ("capacity", desired.node.bytes_per_tree))
        ports = _halves(a.port for a in desired.adjacencies)
        found.append(Entry("service", "label", LABEL_LOCAL, "serve", ports + told))
    elif desired.appliance is not None:
        found.append(Entry("segment", "label", LABEL_LOCAL, "appliance", (("port", desired.appliance),)))
        if desired.replicate:
            found.append(Entry("replicate_from", "port", desired.appliance, "replicate"))
    return {entry.key: entry for entry in found}


def copies(desired: Desired) -> dict[tuple[bool, int], Copies]:
    """Every multicast group and clone session of a switch, by its key: as many with a thousand groups as with none."""
    found = [Copies(P4_GROUP_FLOOD, frozenset((number, 1) for number in desired.flood))]
    if desired.node is not None:
        found += [
            Copies(P4_GROUP_CHILDREN + k, frozenset((P4_INNER_PORT + i % INNER_PORTS, i + 1) for i in range(k)))
            for k in range(1, P4_CHILDREN_MAX + 1)
        ]
        found.append(Copies(P4_REST_SESSION, frozenset({(P4_INNER_PORT, 1)}), clones=True))
    elif desired.appliance is not None:
        found.append(Copies(P4_GROUP_ALL, frozenset((a.number, a.port + 1) for a in desired.copies)))
    return {one.key: one for one in found}


def changes(wanted: Desired, have: Installed) -> list[Message]:
    """Messages that make a switch what it shall be.

    All tables but the learned ones are ours, so whatever else stands in them goes. A port leaves the flooding before
    another joins: no loop in between.
    """
    want, sets = entries(wanted), copies(wanted)
    writes: list[Message] = []
    for key, one in sets.items():
        before = have.copies.get(key)
        if before is None:
            writes.append(Write("insert", one))
        elif before.replicas - one.replicas:
            writes.append(Write("modify", Copies(one.group, before.replicas & one.replicas, one.clones)))
    writes += [Write("delete", one) for key, one in have.copies.items() if key not in sets]
    writes += [Write("delete", entry) for place, entry in have.entries.items() if place not in want]
    for place, entry in want.items():
        if place not in have.entries:
            writes.append(Write("insert", entry))
        elif have.entries[place] != entry:
            writes.append(Write("modify", entry))
    for key, one in sets.items():
        before = have.copies.get(key)
        if before is not None and one.replicas - before.replicas:
            writes.append(Write("modify", one))
    return writes
