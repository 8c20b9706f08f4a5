"""The report of a run beside the ideal. Pure: what was measured in, figures out (README.md defines them)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from datacast.controller.api.records import GroupRecord
from datacast.core import constants as wire
from datacast.fabric_manager.api.reports import GroupFailure, Reaction
from datacast.lab.counters import CpuUse, Traffic


class AnySettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a run was given."""

    mtu: int
    queue_packets: int
    source: str = msgspec.field(name="from")
    to: list[str]
    seed: int | None
    options: dict[str, object]
    """Of the group: those that were given."""
    sha256: str


class Settings(AnySettings, frozen=True, kw_only=True):
    topology: str
    link_bps: int
    dataplane: str


class ReceiverReport(msgspec.Struct, frozen=True, kw_only=True):
    state: str
    finish_s: float | None
    goodput_mbps: float | None
    planned_mbps: float | None
    sha256_ok: bool
    retransmissions: int
    duplicates: int
    bad_blocks: int
    error: GroupFailure | UnsetType = UNSET


class TreesReport(msgspec.Struct, frozen=True, kw_only=True):
    """Of each tree, in one order."""

    count: int
    depth: int
    links: list[int]
    depths: list[int]
    new_packets: list[int]
    duplicates: list[int]
    cache_hits: list[int]
    arcs: list[list[tuple[str, str]]]


class FaultReport(msgspec.Struct, frozen=True, kw_only=True):
    """When a fault happened, and milliseconds from then until the report, the decision, the acknowledged signals, and
    the first data packet over the new routes. None: it did not come to that."""

    spec: str
    at_s: float
    failed_ns: int | None
    error: str | None
    detected_ms: float | None
    known_ms: float | None
    recomputed_ms: float | None
    signalled_ms: float | None
    resumed_ms: float | None
    all_resumed_ms: float | None
    changed: list[int] | UnsetType = UNSET
    lost: list[int] | UnsetType = UNSET
    revived: list[int] | UnsetType = UNSET
    members: list[str] | UnsetType = UNSET
    cut_off: list[str] | UnsetType = UNSET


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """README.md says what each is. A figure that does not exist (an empty file's rate) is None."""

    ok: bool
    group: str
    state: str
    error: GroupFailure | None
    size: int
    start_s: float | None
    start_ms: dict[str, float]
    finish_s: float | None
    ideal_s: float | None
    finish_over_ideal: float | None
    link_stress: float | None
    appliance_copies: float | None
    duplicate_ratio: float
    trees: TreesReport
    receivers: dict[str, ReceiverReport]
    cpu_busy: float
    cpu_bound: bool
    cpu_lab: float
    cpu_busiest_process: float
    cpu_seconds: dict[str, float]
    drops: dict[str, int]
    silent: list[str]
    payload: int
    labels: int
    plain_branches: list[str]
    transport: list[dict[str, int | str]]
    settings: Settings
    faults: list[FaultReport]
    reactions: list[Reaction]


def plain(report: object) -> Any:
    """As JSON has it."""
    return msgspec.json.decode(msgspec.json.encode(report))


def text(report: object) -> str:
    """As a file has it."""
    return json.dumps(plain(report), indent=1)


@dataclass(frozen=True)
class Measured:
    """What one run gave."""

    group: GroupRecord
    """After the end."""
    size: int
    rates_bps: dict[tuple[str, str], int]
    """Shaped rate of every arc."""
    traffic: Traffic
    cpu: CpuUse
    verified: dict[str, bool]
    """Per receiver: the file's SHA-256, computed apart from Datacast, is the original's."""
    settings: Settings
    faults: list[FaultReport]


def frame_bytes(payload: int, labels: int) -> int:
    """Bytes that the shaper charges for a data frame: Ethernet header, labels, Datacast header, payload."""
    return wire.ETHER_LEN + wire.LABEL_LEN * labels + wire.HEADER_LEN + payload


def ideal_s(size: int, tree_rates_bps: list[int], payload: int, labels: int) -> float | None:
    """bytes / (sum over trees of link rate x payload fraction); None for an empty file."""
    if not size or not tree_rates_bps:
        return None
    return size * 8 / (sum(tree_rates_bps) * payload / frame_bytes(payload, labels))


def link_stress(data_payload: int, size: int, trees: list[tuple[int, float]], pieces: int = 0) -> float | None:
    """Payload bytes on all links / (bytes x links that they had to cross).

    trees: (new packets, links) each; the links count by the share of the file that went over the tree. pieces: of the
    file, where trees that reach some receivers only carry more than the file between them; 0: as many as new packets.
    """
    packets = pieces or sum(new for new, _ in trees)
    crossed = sum(new * links for new, links in trees)
    if not packets or not size or not crossed:
        return None
    return data_payload / (size * crossed / packets)


def ratio(value: float | None, by: float | None) -> float | None:
    return value / by if value is not None and by else None


def _ideal_of(measured: Measured) -> float | None:
    """By the links; of trees with rates of their own, or of several roots over the same links, as the plan says."""
    told = measured.group.report
    of_trees = [tree.arcs or () for tree in measured.group.trees.values()]
    rates = [min((measured.rates_bps.get((u, v), 0) for u, v in arcs), default=0) for arcs in of_trees]
    arcs = [arc for own in of_trees for arc in own]
    disjoint = len(set(arcs)) == len(arcs)
    if told and told.payload and all(rates) and disjoint and not told.rates:
        return ideal_s(measured.size, rates, told.payload, told.labels or 0)
    return told.ideal_s if told else None


def _stress_of(measured: Measured) -> float | None:
    """None when a node did not tell its counters."""
    told, traffic, size = measured.group.report, measured.traffic, measured.size
    if traffic.silent:
        return None
    payload = (told.payload or 0) if told else 0
    # A switch that counts packets only: all but the file's last are full ones.
    carried = traffic.data_payload + traffic.data_packets * payload
    trees = [(tree.new_packets, tree.links_needed or tree.links) for tree in measured.group.trees.values()]
    return link_stress(carried, size, trees, -(-size // payload) if payload and told and told.rates else 0)


def _receivers_of(measured: Measured) -> dict[str, ReceiverReport]:
    told = measured.group.report
    planned = (told.rates if told else None) or {}
    return {
        name: ReceiverReport(
            state=figures.state,
            finish_s=figures.finish_s,
            goodput_mbps=figures.goodput_mbps,
            planned_mbps=(planned[name].planned_bps / 1e6 or None) if name in planned else None,
            sha256_ok=measured.verified.get(name, False),
            retransmissions=figures.retransmissions,
            duplicates=figures.duplicates,
            bad_blocks=figures.bad_blocks,
            error=figures.error or UNSET,
        )
        for name, figures in measured.group.receivers.items()
    }


def _trees_of(measured: Measured) -> TreesReport:
    trees = list(measured.group.trees.values())
    return TreesReport(
        count=len(trees),
        depth=max((tree.depth for tree in trees), default=0),
        links=[tree.links for tree in trees],
        depths=[tree.depth for tree in trees],
        new_packets=[tree.new_packets for tree in trees],
        duplicates=[tree.dup_packets for tree in trees],
        cache_hits=[measured.traffic.hits.get(int(number), 0) for number in measured.group.trees],
        arcs=[list(tree.arcs or ()) for tree in trees],
    )


def make_report(measured: Measured) -> Report:
    group, told = measured.group, measured.group.report
    trees, receivers, ideal = _trees_of(measured), _receivers_of(measured), _ideal_of(measured)
    finish = told.finish_s if told else None
    return Report(
        ok=bool(receivers) and all(r.sha256_ok and r.state == "done" for r in receivers.values()),
        group=group.id,
        state=group.state,
        error=group.error,
        size=measured.size,
        start_s=told.start_s if told else None,
        start_ms=told.start_ms if told else {},
        finish_s=finish,
        ideal_s=ideal,
        finish_over_ideal=ratio(finish, ideal),
        link_stress=_stress_of(measured),
        appliance_copies=ratio(measured.traffic.appliance_sent, measured.traffic.appliance_had),
        duplicate_ratio=ratio(sum(trees.duplicates), sum(trees.new_packets)) or 0.0,
        trees=trees,
        receivers=receivers,
        cpu_busy=round(measured.cpu.busy, 4),
        cpu_bound=measured.cpu.bound,
        cpu_lab=round(measured.cpu.lab, 4),
        cpu_busiest_process=round(measured.cpu.highest, 4),
        cpu_seconds=measured.cpu.seconds,
        drops=measured.traffic.drops,
        silent=measured.traffic.silent,
        payload=(told.payload or 0) if told else 0,
        labels=(told.labels or 0) if told else 0,
        plain_branches=(told.plain_branches if told else None) or [],
        transport=(told.transport if told else None) or [],
        settings=measured.settings,
        faults=measured.faults,
        reactions=reactions_of(group),
    )


def reactions_of(group: GroupRecord) -> list[Reaction]:
    return group.report.reactions if group.report and group.report.reactions else group.reactions
