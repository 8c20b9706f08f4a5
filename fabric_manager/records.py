"""What is told of a group: its record, and the summary of one."""

from __future__ import annotations

from typing import Any

KEPT = ("size", "fraction", "rate_bps", "error", "receivers", "trees", "report", "finished_ns", "reactions")
"""What a group's master tells, and the store keeps."""
SUMMARY = (
    "id",
    "state",
    "source",
    "source_path",
    "dest_path",
    "created_ns",
    "updated_ns",
    "finished_ns",
    "size",
    "fraction",
    "rate_bps",
    "error",
)


def record_of(
    group: str, state: str, spec: dict[str, Any], created_ns: int, updated_ns: int, progress: dict[str, Any]
) -> dict[str, Any]:
    base = {
        "size": None,
        "fraction": 0.0,
        "rate_bps": 0,
        "error": None,
        "trees": {},
        "report": None,
        "finished_ns": None,
        "reactions": [],
        "receivers": {name: {"state": "waiting"} for name in spec["receivers"]},
    }
    return {
        "id": group,
        "state": state,
        "created_ns": created_ns,
        "updated_ns": updated_ns,
        "source": spec["source"],
        "source_path": spec["source_path"],
        "dest_path": spec["dest_path"],
        "options": spec["options"],
        **base,
        **progress,
    }


def summary(record: dict[str, Any]) -> dict[str, Any]:
    """A group without its per-receiver and per-tree figures."""
    states = [r.get("state") for r in record["receivers"].values()]
    return {
        **{key: record[key] for key in SUMMARY},
        "receivers": len(states),
        "receivers_done": states.count("done"),
        "receivers_failed": states.count("failed"),
        "trees": len(record["trees"]),
    }


def done_receivers(record: dict[str, Any]) -> dict[str, int | None]:
    """Receivers that have the file, and since when."""
    return {name: r.get("t_done_ns") for name, r in record["receivers"].items() if r.get("state") == "done"}
