"""What a master tells about its group: progress while it runs, the report at the end."""

from __future__ import annotations

import heapq
from collections.abc import Container, Mapping
from itertools import pairwise

from msgspec.structs import asdict, replace

from datacast.fabric_manager.api.reports import (
    GroupReport,
    MasterReport,
    Planned,
    Progress,
    Reaction,
    ReportState,
    TreeFigures,
    TreesInShort,
)

from .answers import TreeCounts
from .collective import Collective
from .members import Counts, Member
from .plan import Plan
from .schedule import Scheduler
from .transfer import SourceTree
from .tree_queue import TreeQueue, links_needed

STEP = 0.01
"""A receiver is told of again when it has so much more of the file, or its state or its rate is another."""

MEMBERS_TOLD = 64
"""Of those that one reaction concerned."""
MAPS_MAX = 64
"""Receivers of a group whose blocks are shown: of more, those that are furthest behind."""
MAP_STEP = 0.05
"""Of the file: who is so much further behind takes another's place among them."""


class _Everybody(Container[str]):
    def __contains__(self, name: object) -> bool:
        return True


EVERYBODY = _Everybody()


class Told:
    """What the fabric manager has been told already: a report holds what differs."""

    def __init__(self) -> None:
        self._receivers: dict[str, int] = {}
        """A digest of what was told of each."""
        self._trees: dict[str, TreeFigures] = {}
        self._mapped: Container[str] = ()
        self.bare = False
        """Tell the state only."""

    def news(self, now: Progress, receivers: list[Member], first_ns: int | None, whole: bool) -> Progress:
        """`now`: with all trees in it, and no receivers. The last report is told in full."""
        if whole:
            self._receivers, self._trees = {}, {}
        if self.bare:
            return Progress(size=now.size, error=now.error)
        self._mapped = self._behind(receivers, now.size)
        over = now.report is not None
        told = {
            m.name: m.figures(now.size, first_ns, trees=over, blocks=m.name in self._mapped)
            for m in receivers
            if self._news(m, now.size) or over
        }
        known, self._trees = self._trees, now.trees
        trees: dict[str, TreeFigures] = {}
        for name, tree in now.trees.items():
            before = known.get(name)
            if before != tree:
                trees[name] = replace(tree, arcs=None) if before and before.arcs is tree.arcs else tree
        return replace(now, receivers=told, trees=trees)

    def _behind(self, receivers: list[Member], size: int | None) -> Container[str]:
        """Whose blocks are told."""
        if len(receivers) <= MAPS_MAX:
            return EVERYBODY

        def place(m: Member) -> tuple[int, bool]:
            return int(m.fraction(size) / MAP_STEP), m.name not in self._mapped

        return {m.name for m in heapq.nsmallest(MAPS_MAX, (m for m in receivers if not m.final), key=place)}

    def _news(self, m: Member, size: int | None) -> bool:
        now = hash(
            (
                m.state,
                m.aside,
                m.name in self._mapped,
                m.bytes if not (whole := m.whole(size)) else int(m.bytes / (STEP * whole)),
                (int(m.rate_bps)).bit_length(),
                m.blocks_ok == 0,
                m.bad_blocks,
                m.t_first_ns,
            )
        )
        if self._receivers.get(m.name) == now:
            return False
        self._receivers[m.name] = now
        return True


PART_MAX = 1024
"""Receivers in one report."""


def in_parts(report: MasterReport) -> list[MasterReport]:
    """A report of very many receivers as several, the last of which says how the group is: who has ended is not heard
    any more."""
    progress = report.progress
    rows = list(progress.receivers.items())
    if len(rows) <= PART_MAX:
        return [report]
    state: ReportState = "starting" if report.state == "starting" else "running"
    parts = [
        replace(
            report,
            state=state,
            progress=Progress(
                size=progress.size,
                fraction=progress.fraction,
                rate_bps=progress.rate_bps,
                fetched=progress.fetched,
                receivers=dict(rows[at : at + PART_MAX]),
            ),
            whole=report.whole and at == 0,
        )
        for at in range(0, len(rows), PART_MAX)
    ]
    last = replace(progress, receivers=parts[-1].progress.receivers)
    return [*parts[:-1], replace(report, progress=last, whole=False)]


def weight(report: MasterReport) -> int:
    """Of a report, in receivers: some hundred bytes each."""
    progress = report.progress
    return 1 + len(progress.receivers) + sum(len(tree.arcs or ()) for tree in progress.trees.values()) // 8


def of_reactions(reactions: list[Reaction]) -> list[Reaction]:
    """As they are told: of many members the first, so that no report or order grows with a group's size."""
    return [entry if len(entry.members) <= MEMBERS_TOLD else _shortened(entry) for entry in reactions]


def _shortened(entry: Reaction) -> Reaction:
    first = entry.members[:MEMBERS_TOLD]
    waiting = {name: entry.waiting[name] for name in first}
    return replace(entry, members=first, waiting=waiting, members_more=len(entry.members) - MEMBERS_TOLD)


def tree_figures(
    plan: Plan,
    ids: list[int],
    scheduler: Scheduler | Collective,
    figures: Mapping[str, SourceTree],
    receivers: list[Member],
    over: bool,
) -> dict[str, TreeFigures]:
    """By id. `figures`: the sources' last status. `over`: the group has ended, and nothing runs any more."""
    trees: dict[str, TreeFigures] = {}
    for tree, planned in zip(ids, plan.trees, strict=True):
        name, queue = str(tree), scheduler.trees.get(tree) or TreeQueue(tree, 0.0)
        source = figures.get(name, SourceTree(TreeCounts(0), 0.0))
        counts = source.counts
        trees[name] = TreeFigures(
            state="lost" if queue.lost else "running" if queue.end > queue.sent and not over else "idle",
            depth=planned.depth,
            links=len(planned.arcs),
            arcs=planned.arcs,
            most_bps=planned.transport.rate_max_bps,
            interest=round(min(1.0, plan.interest_bytes / planned.transport.batch / plan.frame_bytes), 4),
            rate_bps=round(source.rate * 8 * plan.payload),
            bucket_bps=counts.rate_bps,
            pieces=queue.assigned,
            links_needed=links_needed(planned.arcs, queue),
            seq=counts.seq,
            new_packets=counts.new_packets,
            dup_packets=counts.dup_packets,
            interests=counts.interests,
            merged=counts.merged,
            duplicates=counts.duplicates,
            retransmissions=sum(n or 0 for n in Counts.column([m.trees for m in receivers], name, "retransmitted")),
        )
    return trees


def in_all(receivers: list[Member], size: int | None) -> tuple[float, int]:
    """The group's fraction is that of its receivers that have not failed or left, its rate that of the slowest."""
    live = [m for m in receivers if m.state != "failed" and not m.left] or receivers
    rates = [round(m.rate_bps) for m in live if m.state == "running" and not m.aside]
    return sum(m.fraction(size) for m in live) / len(live) if live else 0.0, min(rates, default=0)


def final_report(
    marks: list[tuple[str, int]],
    first_ns: int | None,
    size: int | None,
    plan: Plan | None,
    ids: list[int],
    per_block: int,
    receivers: list[Member],
    trees: Mapping[str, TreeFigures],
    takeovers: int,
    ideal_s: float | None = None,
    reactions: list[Reaction] | None = None,
    refetched_bytes: int | None = None,
) -> GroupReport:
    """`marks`: (step, when it was over), the first being the acceptance of the request. `reactions`: what was done
    about links and appliances that failed or came back, with times."""
    new = sum(t.new_packets for t in trees.values())
    dup = sum(t.dup_packets for t in trees.values())
    steps = {name: round((at - before) / 1e6, 3) for (_, before), (name, at) in pairwise(marks)}
    began = first_ns is not None and first_ns >= marks[0][1]
    if first_ns and began:
        steps["first_packet"] = round((first_ns - marks[-1][1]) / 1e6, 3)
    # Not of those who had it before the group was resumed.
    ends = [at for m in receivers if m.state == "done" and (at := m.t_done_ns) and at >= (first_ns or 0)]
    finish = (max(ends) - first_ns) / 1e9 if ends and first_ns else None
    ideal = ideal_s if size else None
    report = GroupReport(
        start_s=(first_ns - marks[0][1]) / 1e9 if first_ns and began else None,
        start_ms=steps,
        finish_s=finish,
        ideal_s=ideal,
        finish_over_ideal=finish / ideal if finish and ideal else None,
        duplicate_ratio=dup / new if new else 0.0,
        size=size,
        takeovers=takeovers,
        reactions=reactions or [],
        trees=TreesInShort(
            count=len(trees),
            depth=max((t.depth for t in trees.values()), default=0),
            links=[t.links for t in trees.values()],
        ),
        new_packets=new,
        dup_packets=dup,
        refetched_bytes=refetched_bytes,
    )
    if plan is None:
        return report
    rated = plan.rated
    return replace(
        report,
        payload=plan.payload,
        labels=plan.labels,
        mtu=plan.mtu,
        plain_branches=list(plan.plain),
        per_block=per_block,
        rates={name: Planned(planned_bps=bps, bound_bps=rated.bound.get(name, 0)) for name, bps in rated.got.items()}
        if rated
        else {},
        # A group that ends while it asks for more ids has trees without any.
        transport=[asdict(t.transport.of(i)) for i, t in zip(ids, plan.trees, strict=False)],
    )
