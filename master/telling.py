"""What the fabric manager is told of a group."""

from __future__ import annotations

import time

from datacast.fabric_manager.api.reports import Adopt, GroupReport, MasterReport, Progress, TreeFigures

from .crew import Crew
from .feeding import Feeding
from .fetching import Fetching
from .report import Told, final_report, in_all, of_reactions, tree_figures
from .transfer import Transfer


class Telling:
    """Reports, each with what is new since the one before."""

    def __init__(
        self,
        transfer: Transfer,
        crew: Crew,
        feeding: Feeding,
        received_ns: int,
        fetching: Fetching | None = None,
    ) -> None:
        self._t, self._crew, self._feeding, self._fetching = transfer, crew, feeding, fetching
        self._marks: list[tuple[str, int]] = [("accepted", transfer.order.accepted_ns), ("order", received_ns)]
        self._told = Told()
        self._final: GroupReport | None = None

    def mark(self, step: str) -> None:
        """A step of the start is over."""
        self._marks.append((step, time.time_ns()))

    def report(self, whole: bool) -> MasterReport:
        """What is new since the report before, or all."""
        t, receivers = self._t, self._crew.receivers
        t.news = False
        fraction, rate_bps = in_all(receivers, t.size)
        now = Progress(
            size=t.size,
            fraction=fraction,
            rate_bps=rate_bps,
            error=t.error,
            slow=self._fetching.slow if self._fetching and not t.over else None,
            trees=self._trees(),
            report=self._final,
            reactions=of_reactions(t.reactions[-20:]),
            adopt=self._adopt(),
            fetched=self._fetching.fetched() if self._fetching else "",
            looks=t.looks,
        )
        return MasterReport(
            group=t.id,
            epoch=t.order.epoch,
            # What it will end as is told with the final report only.
            state=t.state if t.over or t.state == "starting" else "running",
            progress=self._told.news(now, receivers, t.first_ns, whole),
            whole=whole,
            renew=t.renew,
        )

    def _adopt(self) -> Adopt | None:
        t = self._t
        if not (t.scheduler and t.plan and t.size is not None and t.state == "running"):
            return None
        return Adopt(
            size=t.size,
            file=t.file,
            payload=t.plan.payload,
            per_block=t.block,
            rest=t.scheduler.rest(),
            first_ns=t.first_ns,
        )

    def end(self) -> None:
        """Make the final report, which every later report holds."""
        t = self._t
        self._final = final_report(
            self._marks,
            t.first_ns,
            t.size,
            t.plan,
            t.tree_ids,
            t.block,
            self._crew.receivers,
            self._trees(),
            self._feeding.takeovers,
            t.ideal_s,
            of_reactions(t.reactions),
            self._fetching.refetched_bytes if self._fetching else None,
        )

    def say_less(self) -> None:
        """The fabric manager cannot read what is told: the state alone will do."""
        self._told.bare = True

    def _trees(self) -> dict[str, TreeFigures]:
        t = self._t
        if t.plan is None or t.scheduler is None:
            return {}
        return tree_figures(t.plan, t.tree_ids, t.scheduler, t.source_trees, self._crew.receivers, t.over)
