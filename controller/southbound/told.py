"""What the fabric manager is told of switches (docs/signalling.md): a form for each."""

from __future__ import annotations

import msgspec


class PortTold(msgspec.Struct, frozen=True):
    port: int
    up: bool


class Registration(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="register", omit_defaults=True):
    """`proxy`: we speak for it, and when we go away the switch does not."""

    node: str
    kind: str
    pid: int
    instance: str
    proxy: bool
    cache: bool
    ports: list[PortTold]
    msd: int | None = None
    control: str | None = None


class LinkReport(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="link"):
    """`n`: more than of the one before."""

    node: str
    port: int
    up: bool
    t_ns: int
    n: int


class Heartbeat(msgspec.Struct, frozen=True, tag_field="type", tag="heartbeat"):
    pass


ToFabricManager = Registration | LinkReport
