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


class PortDetail(BaseModel):
    port: int
    number: int
    name: str | None
    mac: str | None
    up: bool
    floods: bool
    neighbour: dict[str, Any] | None
    discovered: dict[str, Any] | None
    counters: dict[str, Any]


class SwitchDetail(Switch):
    port_list: list[PortDetail]
    drops: Any
    node: Any = Field(description="counters of its pipeline's node, where it has one")
    pipeline: Any
    rule_list: list[Any]
    stations: Any = None
