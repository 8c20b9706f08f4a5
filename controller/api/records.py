"""What the controller answers beside what it passes on from the fabric manager: a form for each.

Times are Unix nanoseconds (`_ns`), rates bit/s (`_bps`).
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from datacast.fabric_manager.api import records, topology
from datacast.fabric_manager.api.orders import Ping
from datacast.fabric_manager.api.reports import GroupFailure
from datacast.services.described import Described

Event = (
    records.AllGroups
    | records.GroupChange
    | records.GroupForgotten
    | topology.Topology
    | topology.NodeChange
    | topology.LinkChange
    | Ping
)


class SitePart(Described, msgspec.Struct, frozen=True, kw_only=True):
    state: str
    fraction: float
    rate_bps: int
    error: GroupFailure | None


class GroupRecord(records.GroupRecord, frozen=True, kw_only=True):
    """A group with all its figures."""

    local: str | UnsetType | None = UNSET
    """Of a group that reaches other sites: the part of it here."""
    sites: dict[str, SitePart] | UnsetType = UNSET
    """Of such a group: by site."""


class GroupSummary(records.GroupSummary, frozen=True, kw_only=True):
    """A group as it is now, without its per-receiver and per-tree figures."""

    sites: list[str] | UnsetType = UNSET
    """Of a group that reaches other sites: which."""


class Health(Described, msgspec.Struct, frozen=True, kw_only=True):
    status: Literal["ok"] = "ok"
    fabric_manager: records.FabricHealth


class KnownSite(Described, msgspec.Struct, frozen=True, kw_only=True):
    name: str
    url: str | None
    """Of its controller; null: it comes to us."""
    there: bool
    """It was heard of within the last minute."""
    heard_s: float | None
    """Seconds since it was last heard of."""
    problem: str
    """Why it could not be asked; of one that is there, why no new connection can be opened."""


class Discovered(Described, msgspec.Struct, frozen=True, kw_only=True):
    """A link that the controller's switches have found."""

    u: str
    u_port: int
    v: str
    v_port: int


class Topology(topology.LoadedTopology, frozen=True, kw_only=True):
    discovered: list[Discovered] | UnsetType = UNSET
    """Links that discovery found."""


class Appliance(Described, msgspec.Struct, frozen=True, kw_only=True):
    number: int
    present: bool
    """Its cache answers."""
    control: str | None


class Switch(Described, msgspec.Struct, frozen=True, kw_only=True):
    name: str
    kind: str
    id: str
    """The datapath's, or the address of its P4Runtime server."""
    connected: bool
    peer: str | None
    connections: int
    programmed: bool
    programmed_ms: float | None
    """From its connection until all rules were there."""
    ports: int
    ports_up: int
    rules: int
    rules_bound: int
    msd: int | None
    appliance: Appliance | None
    problems: list[str]


class Note(Described, msgspec.Struct, frozen=True, kw_only=True):
    """Something for the operator."""

    t_ns: int
    level: str
    code: str
    switch: str
    text: str


class Switches(Described, msgspec.Struct, frozen=True, kw_only=True):
    switches: list[Switch]
    discovered: list[Discovered]
    notes: list[Note]


class End(Described, msgspec.Struct, frozen=True, kw_only=True):
    node: str
    port: int


class PortCounters(Described, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """None: nobody has read them yet."""

    rx_frames: int | None = None
    rx_bytes: int | None = None
    tx_frames: int | None = None
    tx_bytes: int | None = None
    rx_dropped: int | None = None
    tx_dropped: int | None = None


class PortDetail(Described, msgspec.Struct, frozen=True, kw_only=True):
    port: int
    number: int
    name: str | None
    mac: str | None
    up: bool
    floods: bool
    neighbour: End | None
    """As the topology says."""
    discovered: End | None
    """As LLDP says."""
    counters: PortCounters


Value = int | str | tuple[int | str | None, ...] | None
"""Of a match or an action; of two numbers the second is a mask."""


class Rule(Described, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is installed. OpenFlow says `priority`, `actions` and `cookie`, P4Runtime `action` and `params`."""

    purpose: str
    table: int | str
    match: dict[str, Value]
    priority: int | None = None
    actions: list[tuple[Value, ...]] | None = None
    cookie: str | None = None
    action: str | None = None
    params: dict[str, Value] | None = None
    packets: int | None = None
    bytes: int | None = None


class Program(Described, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a switch runs. OpenFlow tells its version and how many tables, P4Runtime how large each is."""

    openflow: str | None = None
    tables: int | dict[str, int] | None = None
    arch: str | None = None
    cookie: str | None = None
    """Of its program: a digest."""
    pushed: bool | None = None
    """This controller gave it to the switch; else it had it."""


class SwitchDetail(Switch, frozen=True, kw_only=True):
    port_list: list[PortDetail]
    drops: dict[str, int]
    """Frames refused, by reason."""
    node: dict[str, int]
    """Counters of its pipeline's node, where it has one."""
    pipeline: Program
    rule_list: list[Rule]
    stations: dict[str, int] = {}
    """Addresses that a P4Runtime switch has learned, and the ports where they live."""
