"""Receivers that turn out slower than planned get trees at their own rate; one that stands still is set aside."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from .attendance import Attendance
from .bounds import Bounds
from .crew import Crew
from .forest import Forest
from .looks import UNKNOWN
from .members import Counts, Member
from .paces import Seen
from .plan import RATE_UNKNOWN
from .reaction import Reactions
from .schedule import Scheduler
from .stable import TREES_MAX, Arc, RatedForest
from .transfer import Transfer

log = logging.getLogger("datacast.master")

TREE_IDS_MAX = TREES_MAX - 2 * 8
"""With more there are no more plans for measured rates: one may have some eight trees, and there must be room yet to
take it back, and to go on when links fail."""


@dataclass(frozen=True)
class _Way:
    """A tree at one look: whom it has a route for (nobody: its links are gone), bit/s that it can carry, and may."""

    tree: str
    routes: Mapping[str, bytes]
    able: float
    planned: float
    arcs: Sequence[Arc]


RENEW_S = 10.0
"""A group that ends sooner goes on with the ids that it has, where these reach everybody."""


class SlowReceivers:
    """Brings what is measured to Paces, and carries out what it finds."""

    def __init__(
        self, transfer: Transfer, crew: Crew, bounds: Bounds, reactions: Reactions, attendance: Attendance
    ) -> None:
        self._t, self._crew, self._bounds = transfer, crew, bounds
        self._reactions, self._attendance = reactions, attendance

    def look(self, working: list[Member], now: float) -> None:
        """`working`: those that links reach, as they are now."""
        t = self._t
        if t.paces is None or t.plan is None or not working or self._reactions.busy:
            return
        asked = t.options.delivery != "together" and t.options.planner is None
        plans = asked and not t.several
        assert t.forest
        ways = self._ways()
        seen = self._seen(working, ways, [0.0 if plans else self._attendance.behind_s(m) for m in working])
        unsent = not (isinstance(t.scheduler, Scheduler) and t.scheduler.all_sent)
        trees = tuple(way.arcs for way in ways)
        if plans and t.paces.look(seen, now, room=len(t.tree_ids) <= TREE_IDS_MAX, unsent=unsent, trees=trees):
            share = t.plan.payload / t.plan.frame_bytes
            self._plan_for(
                {name: int(cap / share) for name, cap in t.paces.caps.items()},
                {arc: int(rate / share) for arc, rate in t.paces.narrow.items()},
            )
        elif not plans:
            t.paces.note(seen, now, trees)
        for name in t.paces.aside(seen, now, plans):
            member = self._crew.members[name]
            if self._attendance.others_served(member):
                self._forget(name)
                behind = f"{self._attendance.behind_s(member):.1f} s behind the others"
                self._attendance.set_aside(member, "nothing comes to it, and to others it does" if plans else behind)
                return

    def renew(self, left_s: float | None, now: float) -> None:
        """Agents know 32 trees of a group at a time, and those that ended are on the log for who comes late. Another
        master begins with none of them, as after one that died; so a group that makes plans for days never runs out.
        """
        t = self._t
        if t.renew or not isinstance(t.forest, RatedForest) or len(t.tree_ids) <= TREE_IDS_MAX:
            return
        ended = sum(way.slot is None for way in t.forest.ways.values())
        busy = self._reactions.busy or (t.paces is not None and t.paces.settling(now))
        worth = 2 * ended >= len(t.tree_ids) and not busy and left_s is not None and left_s >= RENEW_S
        if worth or (t.forest.refused and t.forest.treeless):  # whom no tree reaches would be given up for cut off
            log.warning(
                "group %s: of its %d trees %d have ended: another master goes on, with new ones",
                t.id, len(t.tree_ids), ended,
            )  # fmt: skip
            t.renew = True
            t.tell_now()

    def _ways(self) -> list[_Way]:
        t = self._t
        assert t.plan and t.forest
        trees = zip(t.tree_ids, t.plan.trees, strict=True)
        rates = {number: tree.transport.rate_max_bps for number, tree in trees}
        return [
            _Way(
                str(number),
                way.routes if way.slot is not None and number in rates else {},
                rates.get(number, 0),
                min(rates.get(number, 0), self._bounds.of(number)),
                way.arcs,
            )
            for number, way in t.forest.ways.items()
        ]

    def _seen(self, working: list[Member], ways: list[_Way], behind: list[float]) -> list[Seen]:
        """`planned`: by the trees there are, as far as other groups leave them room."""
        t = self._t
        assert t.plan and t.forest
        share = t.plan.payload / t.plan.frame_bytes
        bound = t.forest.plan.bound if isinstance(t.forest, RatedForest) else None
        near = t.paces.near if t.paces else math.inf
        rates: dict[tuple[bool, ...], tuple[float, float]] = {}
        """By the trees that a receiver is in: planned, and what these could carry. Most are in the same."""
        seen, every = [], [all(map(way.routes.__contains__, [m.name for m in working])) for way in ways]
        alike = all(every)
        for member, behind_s, arrived in zip(working, behind, _arrived(working, ways), strict=True):
            name, unwritten = member.name, member.unwritten
            there = tuple(every if alike else [name in way.routes for way in ways])
            if (known := rates.get(there)) is None:
                its = [way for way in ways if name in way.routes]
                known = rates[there] = sum(way.planned for way in its) * share, sum(way.able for way in its) * share
            planned, able = known
            if bound is not None:
                able = bound.get(name, 0) * share
            held = member.bytes - unwritten
            left = None if t.size is None else t.size - held
            if unwritten > near:  # it is its disk
                arrived = ()
            seen.append(Seen(name, held, member.rate_bps, planned, able, behind_s, left, arrived, unwritten))
        return seen

    def _forget(self, name: str) -> None:
        t = self._t
        assert t.paces
        t.paces.forget(name)
        if isinstance(t.forest, RatedForest):
            t.forest.caps = {other: cap for other, cap in t.forest.caps.items() if other != name}
            t.forest.narrow = {arc: rate for arc, rate in t.forest.narrow.items() if arc[1] != name}

    def _plan_for(self, caps: dict[str, int], narrow: dict[Arc, int]) -> None:
        """Trees for what receivers were seen to take, where there can be any. `narrow`: over their last links."""
        t = self._t
        assert t.forest and t.plan and t.view.network and isinstance(t.scheduler, Scheduler)
        forest = t.forest
        if not isinstance(forest, RatedForest):
            assert isinstance(forest, Forest)
            rates = {number: planned.rate_bps for number, planned in zip(t.tree_ids, t.plan.trees, strict=True)}
            forest = RatedForest.of(forest, t.view.network, rates, default=RATE_UNKNOWN)
            forest.caps, forest.narrow = caps, narrow
            if forest.planned(self._reactions.wanted()) is None:
                log.warning("group %s: trees with rates cannot be routed, it keeps those it has", t.id)
                return
            t.plan = replace(t.plan, rated=forest.plan)
            t.forest = forest
            t.scheduler.by_name(frozenset(self._reactions.wanted()))
            # Also those that no link reaches at the moment: no tree has a route for them now.
            forest.owed |= {number: queue.reach for number, queue in t.scheduler.trees.items()}
        forest.slow, forest.caps, forest.narrow = frozenset(forest.caps), caps, narrow
        log.warning("group %s: planning anew, receivers take %s, by link %s", t.id, caps, narrow)
        self._reactions.others = True
        self._reactions.kick()


def _arrived(members: list[Member], ways: list[_Way]) -> Iterator[Sequence[int]]:
    """Of each, bytes over each tree that there was."""
    told = [m.trees for m in members]
    columns = [Counts.column(told, way.tree, "bytes") for way in ways]
    if columns and not any(None in column for column in columns):
        yield from zip(*columns, strict=True)
        return
    for counts in zip(*columns, strict=True) if columns else ((),) * len(members):
        known = [count if isinstance(count, int) else UNKNOWN for count in counts]
        yield known if any(count != UNKNOWN for count in known) else ()
