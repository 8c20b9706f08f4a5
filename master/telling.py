"""What the fabric manager is told of a group."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from .crew import Crew
from .feeding import Feeding
from .report import Told, final_report, of_reactions, progress_json, trees_json
from .transfer import Transfer


class Telling:
    """Reports, each with what is new since the one before."""

    def __init__(
        self,
        transfer: Transfer,
        crew: Crew,
        feeding: Feeding,
        received_ns: int,
        fetched: Callable[[], str] = lambda: "",
    ) -> None:
        self._t, self._crew, self._feeding, self._fetched = transfer, crew, feeding, fetched
        self._marks: list[tuple[str, int]] = [("accepted", transfer.order.accepted_ns), ("order", received_ns)]
        self._told = Told()
        self._final: dict[str, Any] | None = None

    def mark(self, step: str) -> None:
        """A step of the start is over."""
        self._marks.append((step, time.time_ns()))

    def report(self, whole: bool) -> dict[str, Any]:
        """A MasterReport: what is new since the report before, or all."""
        t = self._t
        # What it will end as is told with the final report only.
        state = t.state if t.over or t.state == "starting" else "running"
        t.news = False
        body = progress_json(state, t.error, t.size, self._crew.receivers, self._trees(), self._final)
        body["reactions"] = of_reactions(t.reactions[-20:])
        body["fetched"] = self._fetched()
        if t.scheduler and t.plan and t.state == "running":
            body["adopt"] = {
                "first_ns": t.first_ns,
                "size": t.size,
                "file": t.file,
                "payload": t.plan.payload,
                "per_block": t.block,
                "rest": t.scheduler.rest(),
            }
        return self._told.report(t.id, t.order.epoch, body, self._crew.receivers, t.first_ns, whole)

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
        )

    def say_less(self) -> None:
        """The fabric manager cannot read what is told: the state alone will do."""
        self._told.bare = True

    def _trees(self) -> dict[str, Any]:
        t = self._t
        if t.plan is None or t.scheduler is None:
            return {}
        return trees_json(t.plan, t.tree_ids, t.scheduler, t.source_trees, self._crew.receivers)
