"""The shapes of what GET /switches tells, for the API's description (/openapi.json)."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field


class Appliance(BaseModel):
    number: int
    present: bool = Field(description="its cache answers")
    control: str | None


class Switch(BaseModel):
    name: str
    kind: str
    id: str = Field(description="the datapath's, or the address of its P4Runtime server")
    connected: bool
    peer: str | None
    connections: int
    programmed: bool
    programmed_ms: float | None = Field(description="from its connection until all rules were there")
    ports: int
    ports_up: int
    rules: int
    rules_bound: int
    msd: int | None
    appliance: Appliance | None
    problems: list[str]


class Discovered(BaseModel):
    """A link that discovery found."""

    u: str
    u_port: int
    v: str
    v_port: int


class Note(BaseModel):
    t_ns: int
    level: str
    code: str
    switch: str
    text: str


class Switches(BaseModel):
    switches: list[Switch]
    discovered: list[Discovered]
    notes: list[Note]


class End(BaseModel):
    node: str
    port: int


class PortCounters(BaseModel):
    rx_frames: int = 0
    rx_bytes: int = 0
    tx_frames: int = 0
    tx_bytes: int = 0
    rx_dropped: int = 0
    tx_dropped: int = 0


class PortDetail(BaseModel):
    port: int
    number: int
    name: str | None
    mac: str | None
    up: bool
    floods: bool
    neighbour: End | None = Field(description="as the topology says")
    discovered: End | None = Field(description="as LLDP says")
    counters: PortCounters


Value = int | str | None | tuple[int | str | None, ...]
"""Of a match or an action; of two numbers the second is a mask."""


class Rule(BaseModel):
    """What is installed. OpenFlow says `priority`, `actions` and `cookie`, P4Runtime `action` and `params`."""

    purpose: str
    table: int | str
    match: dict[str, Value]
    priority: int | None = None
    actions: list[list[Value]] = []
    cookie: str | None = None
    action: str | None = None
    params: dict[str, Value] = {}
    packets: int | None = None
    bytes: int | None = None


class SwitchDetail(Switch):
    port_list: list[PortDetail]
    drops: dict[str, int] = Field(description="frames refused, by reason")
    node: dict[str, int] = Field(description="counters of its pipeline's node, where it has one")
    pipeline: dict[str, Any] = Field(description="of a P4Runtime switch: what it says of its program")
    rule_list: list[Rule]
    stations: Any = None
