"""A group for a person."""

from __future__ import annotations

from collections.abc import Sequence

from datacast.controller.api.records import GroupRecord
from datacast.fabric_manager.api.records import AnyGroup
from datacast.fabric_manager.api.reports import GroupFailure, Reaction

from .output import new_table, output, rate_text, size_text


def appliance_notes(plain: Sequence[str], reactions: Sequence[Reaction]) -> list[str]:
    """What a person should know of cache appliances that were or are not there."""
    notes = [f"{', '.join(plain)} had no cache appliance: the source sent more"] if plain else []
    for reaction in reactions:
        for node, present in reaction.appliances:
            what = "came back" if present else "went away: the source sends more"
            notes.append(f"the cache appliance of {node} {what}")
    return notes


def sources_of(group: AnyGroup) -> str:
    return ",".join([group.source, *group.other_sources])


def message_of(error: GroupFailure | None) -> str:
    return error.message if error else ""


KEEPS = ("no_agent", "unreachable", "cut_off", "no_fetcher")
"""Why receivers fail that keep what they have; those that fail themselves (a full disk) have removed it."""


def _goes_on(group: GroupRecord) -> bool:
    """Whether some of it came, and would be of use to a group that is resumed."""
    code = group.error.code if group.error else ""
    if group.state not in ("failed", "partial") or group.id.startswith("s-") or code in ("changed", "digest"):
        return False
    rows = [row for row in group.receivers.values() if row.state == "failed" and row.fraction > 0]
    return any(row.error is None or row.error == group.error or row.error.code in KEEPS for row in rows)


def show_group(group: GroupRecord) -> None:
    """A group for a person: one line, its receivers, its trees."""
    console, report = output(), group.report
    what = group.source_path if "://" in group.source_path else f"{sources_of(group)}:{group.source_path}"
    text = f"{group.id}: {group.state}, {what} ({size_text(group.size)})"
    if report and report.finish_s is not None and report.start_s is not None:
        text += f", started in {report.start_s * 1000:.0f} ms, finished in {report.finish_s:.2f} s"
        if report.finish_over_ideal and (report.ideal_s or 0) > 0.1:  # of tiny files it says nothing
            text += f" ({report.finish_over_ideal:.3f} of the ideal), duplicates {report.duplicate_ratio:.2%}"
    console.print(text, highlight=False)
    if group.error:
        console.print(f"  {group.error.message}", highlight=False)
    if group.slow:
        console.print(f"  slow: {group.slow.message}", highlight=False)
    if _goes_on(group):
        console.print(f"  what came is kept: `datacast resume {group.id}` goes on from it", highlight=False)
    if report and report.refetched_bytes:
        twice = size_text(report.refetched_bytes)
        console.print(f"  {twice} at most were fetched twice: a fetcher was slow or gone", highlight=False)
    reactions = report.reactions if report and report.reactions else group.reactions
    for text in appliance_notes(report.plain_branches or () if report else (), reactions):
        console.print(f"  {text}", highlight=False)
    table = new_table("receiver", "state", "progress", "rate", "finish", "sha256", "retransmitted", "error")
    for name, receiver in group.receivers.items():
        counted = receiver.state != "waiting" and not group.id.startswith("s-")  # sites do not tell
        table.add_row(
            name,
            receiver.state,
            f"{receiver.fraction:.0%}",
            rate_text(receiver.rate_bps),
            f"{receiver.finish_s:.2f} s" if receiver.finish_s is not None else "-",
            "ok" if receiver.sha256_ok else "-",
            str(receiver.retransmissions) if counted else "-",
            "" if receiver.error == group.error else message_of(receiver.error),
        )
    console.print(table)
    if group.sites:
        table = new_table("site", "state", "progress", "rate", "error")
        for name, part in group.sites.items():
            table.add_row(name, part.state, f"{part.fraction:.0%}", rate_text(part.rate_bps), message_of(part.error))
        console.print(table)
    if group.trees:
        table = new_table("tree", "id", "state", "depth", "links", "rate", "new packets", "duplicates", "retransmitted")
        for number, (name, tree) in enumerate(group.trees.items()):  # as in a plan; the id is the one on the wire
            table.add_row(
                str(number),
                name,
                tree.state,
                str(tree.depth),
                str(tree.links),
                rate_text(tree.rate_bps),
                str(tree.new_packets),
                str(tree.dup_packets),
                str(tree.retransmissions),
            )
        console.print(table)
