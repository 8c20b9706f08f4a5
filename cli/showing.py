"""A group for a person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .output import new_table, output, rate_text, size_text


def appliance_notes(plain: Sequence[str], reactions: Sequence[dict[str, Any]]) -> list[str]:
    """What a person should know of cache appliances that were or are not there."""
    notes = [f"{', '.join(plain)} had no cache appliance: the source sent more"] if plain else []
    for reaction in reactions:
        for node, present in reaction.get("appliances", ()):
            what = "came back" if present else "went away: the source sends more"
            notes.append(f"the cache appliance of {node} {what}")
    return notes


def sources_of(group: dict[str, Any]) -> str:
    return ",".join([group["source"], *group.get("other_sources", [])])


def _goes_on(group: dict[str, Any]) -> bool:
    """Whether some of it came, and would be of use to a group that is resumed."""
    code = (group["error"] or {}).get("code")
    if group["state"] not in ("failed", "partial") or group["id"].startswith("s-") or code in ("changed", "digest"):
        return False
    rows = [row for row in group["receivers"].values() if row["state"] == "failed"]
    return any(row.get("fraction", 0) > 0 and (row.get("error") or {}).get("code") != "digest" for row in rows)


def show_group(group: dict[str, Any]) -> None:
    """A group for a person: one line, its receivers, its trees."""
    console = output()
    report = group["report"] or {}
    what = group["source_path"] if "://" in group["source_path"] else f"{sources_of(group)}:{group['source_path']}"
    text = f"{group['id']}: {group['state']}, {what} ({size_text(group['size'])})"
    if report.get("finish_s") is not None and report.get("start_s") is not None:
        text += f", started in {report['start_s'] * 1000:.0f} ms, finished in {report['finish_s']:.2f} s"
        if report.get("finish_over_ideal") and report["ideal_s"] > 0.1:  # of tiny files it says nothing
            text += f" ({report['finish_over_ideal']:.3f} of the ideal), duplicates {report['duplicate_ratio']:.2%}"
    console.print(text, highlight=False)
    if group["error"]:
        console.print(f"  {group['error']['message']}", highlight=False)
    if _goes_on(group):
        console.print(f"  what came is kept: `datacast resume {group['id']}` goes on from it", highlight=False)
    for text in appliance_notes(
        report.get("plain_branches", ()), report.get("reactions") or group.get("reactions", ())
    ):
        console.print(f"  {text}", highlight=False)
    table = new_table("receiver", "state", "progress", "rate", "finish", "sha256", "retransmitted", "error")
    for name, receiver in group["receivers"].items():
        finish = receiver.get("finish_s")
        table.add_row(
            name,
            receiver["state"],
            f"{receiver.get('fraction', 0):.0%}",
            rate_text(receiver.get("rate_bps")),
            f"{finish:.2f} s" if finish is not None else "-",
            "ok" if receiver.get("sha256_ok") else "-",
            str(receiver.get("retransmissions", "-")),
            "" if receiver.get("error") == group["error"] else (receiver.get("error") or {}).get("message", ""),
        )
    console.print(table)
    if group.get("sites"):
        table = new_table("site", "state", "progress", "rate", "error")
        for name, part in group["sites"].items():
            error = (part["error"] or {}).get("message", "")
            table.add_row(name, part["state"], f"{part['fraction']:.0%}", rate_text(part["rate_bps"]), error)
        console.print(table)
    if group["trees"]:
        table = new_table("tree", "state", "depth", "links", "rate", "new packets", "duplicates", "retransmitted")
        for name, tree in group["trees"].items():
            table.add_row(
                name,
                tree["state"],
                str(tree["depth"]),
                str(tree["links"]),
                rate_text(tree["rate_bps"]),
                str(tree["new_packets"]),
                str(tree["dup_packets"]),
                str(tree["retransmissions"]),
            )
        console.print(table)
