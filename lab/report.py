"""The report of a run beside the ideal. Pure: what was measured in, figures out (README.md defines them)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from datacast.core import constants as wire
from datacast.lab.counters import CpuUse, Traffic


@dataclass(frozen=True)
class Measured:
    """What one run gave."""

    group: dict[str, Any]
    """`GET /groups/{id}` after the end."""
    size: int
    rates_bps: dict[tuple[str, str], int]
    """Shaped rate of every arc."""
    traffic: Traffic
    cpu: CpuUse
    verified: dict[str, bool]
    """Per receiver: the file's SHA-256, computed apart from Datacast, is the original's."""
    settings: dict[str, Any]


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


def make_report(measured: Measured) -> dict[str, Any]:
    """The JSON report; keys as README.md lists them. A figure that does not exist (an empty file's rate) is null."""
    group, size = measured.group, measured.size
    told = group.get("report") or {}
    trees = [{"id": int(number), **figures} for number, figures in group.get("trees", {}).items()]
    rates = [min((measured.rates_bps.get(tuple(arc), 0) for arc in tree["arcs"]), default=0) for tree in trees]
    payload, labels = told.get("payload") or 0, told.get("labels") or 0
    # Trees with rates of their own, or of several roots over the same links: the plan knows.
    arcs = [tuple(arc) for tree in trees for arc in tree["arcs"]]
    disjoint = len(set(arcs)) == len(arcs)
    known = payload and all(rates) and disjoint and not told.get("rates")
    ideal = ideal_s(size, rates, payload, labels) if known else told.get("ideal_s")
    new = [tree["new_packets"] for tree in trees]
    duplicates = [tree["dup_packets"] for tree in trees]
    receivers = {}
    for name, figures in group["receivers"].items():
        receivers[name] = {
            "state": figures["state"],
            "finish_s": figures.get("finish_s"),
            "goodput_mbps": figures.get("goodput_mbps"),
            "planned_mbps": planned / 1e6
            if (planned := told.get("rates", {}).get(name, {}).get("planned_bps"))
            else None,
            "sha256_ok": measured.verified.get(name, False),
            "retransmissions": figures.get("retransmissions", 0),
            "duplicates": figures.get("duplicates", 0),
            "bad_blocks": figures.get("bad_blocks", 0),
        }
        if figures.get("error"):
            receivers[name]["error"] = figures["error"]
    finish = told.get("finish_s")
    # A switch that counts packets only: all but the file's last are full ones.
    carried = measured.traffic.data_payload + measured.traffic.data_packets * payload
    return {
        "ok": bool(receivers) and all(r["sha256_ok"] and r["state"] == "done" for r in receivers.values()),
        "group": group["id"],
        "state": group["state"],
        "error": group.get("error"),
        "size": size,
        "start_s": told.get("start_s"),
        "start_ms": told.get("start_ms", {}),
        "finish_s": finish,
        "ideal_s": ideal,
        "finish_over_ideal": ratio(finish, ideal),
        "link_stress": None
        if measured.traffic.silent
        else link_stress(
            carried,
            size,
            [(tree["new_packets"], tree.get("links_needed") or tree["links"]) for tree in trees],
            -(-size // payload) if payload and told.get("rates") else 0,
        ),
        "appliance_copies": ratio(measured.traffic.appliance_sent, measured.traffic.appliance_had),
        "duplicate_ratio": sum(duplicates) / sum(new) if sum(new) else 0.0,
        "trees": {
            "count": len(trees),
            "depth": max((tree["depth"] for tree in trees), default=0),
            "links": [tree["links"] for tree in trees],
            "depths": [tree["depth"] for tree in trees],
            "new_packets": new,
            "duplicates": duplicates,
            "cache_hits": [measured.traffic.hits.get(tree["id"], 0) for tree in trees],
            "arcs": [tree["arcs"] for tree in trees],
        },
        "receivers": receivers,
        "cpu_busy": round(measured.cpu.busy, 4),
        "cpu_bound": measured.cpu.bound,
        "cpu_lab": round(measured.cpu.lab, 4),
        "cpu_busiest_process": round(measured.cpu.highest, 4),
        "cpu_seconds": measured.cpu.seconds,
        "drops": measured.traffic.drops,
        "silent": measured.traffic.silent,
        "payload": payload,
        "labels": labels,
        "plain_branches": told.get("plain_branches", []),
        "transport": told.get("transport", []),
        "settings": measured.settings,
    }
