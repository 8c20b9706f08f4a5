"""Records as a controller tells them, made of what a test is about."""

from __future__ import annotations

from typing import Any

import msgspec

from datacast.controller.api.records import GroupRecord, GroupSummary, Topology
from datacast.controller.sites.records import SiteGroup

_ANY = {
    "state": "running", "epoch": 1, "worker": None, "source": "h0", "source_path": "", "dest_path": None, "labels": {},
    "priority": "normal", "requested_by": "", "created_ns": 0, "updated_ns": 0, "finished_ns": None, "size": None,
    "fraction": 0.0, "rate_bps": 0, "error": None,
}  # fmt: skip
_RECORD = {
    "options": {}, "weight": 100, "most_bps": None, "deadline_s": None, "receivers": {}, "trees": {}, "report": None,
    "reactions": [],
}  # fmt: skip
_SUMMARY = {"receivers": 0, "receivers_done": 0, "receivers_failed": 0, "trees": 0}
_NODE = {"kind": "host", "forwards": False, "alive": True, "registered": True}
_LINK = {"u_port": 0, "v_port": 0, "up": True, "rate_bps": None, "mtu": 9000, "carries": []}
_TOPOLOGY = {
    "version": 1,
    "attributes": {},
    "defaults": {"rate_bps": None, "mtu": 9000, "queue_packets": 100},
    "links": [],
}


def outcome(**changes: Any) -> dict[str, Any]:
    """The `report` of a group that has ended, as JSON."""
    return {
        "start_s": 0.1, "start_ms": {}, "finish_s": 1.1, "ideal_s": None, "finish_over_ideal": None,
        "duplicate_ratio": 0.0, "size": None, "takeovers": 0, "reactions": [], "new_packets": 100, "dup_packets": 4,
        "trees": {"count": 2, "depth": 4, "links": [3, 5]}, "payload": 8966, "labels": 1, **changes,
    }  # fmt: skip


def group(**told: Any) -> GroupRecord:
    return msgspec.convert({**_ANY, **_RECORD, **told}, GroupRecord)


def summary(**told: Any) -> GroupSummary:
    return msgspec.convert({**_ANY, **_SUMMARY, **told}, GroupSummary)


def topology(**told: Any) -> Topology:
    nodes = [{**_NODE, **node} for node in told.get("nodes", [])]
    links = [{**_LINK, **link} for link in told.get("links", [])]
    return msgspec.convert({**_TOPOLOGY, **told, "nodes": nodes, "links": links}, Topology)


class Sites:
    """A coordinator that knows these groups of several sites, as far as people's requests go."""

    name = "ams"

    def __init__(self, *groups: SiteGroup) -> None:
        self.groups = {group.id: group for group in groups}

    async def ready(self) -> None: ...
