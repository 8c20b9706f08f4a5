"""A group whose sources have parts of the file: what each has, and giving them their blocks while it runs."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from itertools import pairwise

from datacast.core.lists import few
from datacast.services.ranges import RangeProblem, Rows, within

from .answers import StatAnswer
from .collective import Collective
from .crew import Crew
from .errors import GroupError
from .holdings import Holdings
from .members import Member
from .transfer import Transfer

log = logging.getLogger("datacast.master")

AHEAD_S = 0.5
"""A source that has less to do than this is given more of what others have too, or than passes between two looks."""
TOLD_MAX = 8
"""Ranges that an error names."""


class Holders:
    """Of a group with `holds` or `unfinished`."""

    def __init__(self, transfer: Transfer, crew: Crew) -> None:
        self._t, self._crew = transfer, crew
        self._left: dict[str, Rows] = {}
        """What sources have left of an unfinished group, in blocks."""
        self.cut: tuple[int, int] | None = None
        """Bytes of a piece, pieces of a block, of what was left so."""
        self.holdings = Holdings(0, {})

    # ---- start ----
    def told(self, member: Member, answer: StatAnswer) -> None:
        """What a source has answered to `stat`. Raises GroupError."""
        t = self._t
        group = t.spec.unfinished.get(member.name)
        if group is None:
            if answer.bundle is not None:
                path = t.path(member.name)
                raise GroupError("bad_holds", f"{path} at {member.name} is a directory: ranges are of a file", path)
            return
        piece, per_block, rows = answer.piece, answer.per_block, answer.held
        if not piece or not per_block or rows is None or not _ascend(rows):
            raise GroupError("bad_answer", f"source {member.name} did not tell what it has of group {group}")
        cut = (piece, per_block)
        if self.cut not in (None, cut):
            raise GroupError(
                "bad_holds",
                f"what {member.name} has left of group {group} was cut into other blocks than what others have left: "
                "name hosts of one group",
                member.name,
            )
        self.cut, self._left[member.name] = cut, rows
        t.cut = cut

    def begin(self) -> None:
        """The file is cut into blocks. Raises GroupError where nobody has some of it."""
        t = self._t
        assert t.plan and t.size is not None
        block = t.block * t.plan.payload
        for member in self._crew.roots:
            texts = t.spec.holds.get(member.name)
            try:
                named = [(0, t.blocks)] if texts is None else within(texts, t.size, block)
            except RangeProblem as error:
                raise GroupError("bad_holds", f"{member.name}: {error}", member.name) from None
            t.held[member.name] = [
                (first, min(count, t.blocks - first))
                for first, count in self._left.get(member.name, named)
                if first < t.blocks
            ]
        self.holdings = Holdings(t.blocks, t.held)
        self._miss(self.holdings.lacking([(0, t.blocks)] if t.blocks else []))
        for name in t.held:
            log.info("group %s: %s has %d blocks", t.id, name, self.holdings.left(name))

    def _miss(self, rows: Rows) -> None:
        """Raises GroupError where there are any."""
        if not rows:
            return
        t = self._t
        assert t.plan and t.size is not None
        block, size = t.block * t.plan.payload, t.size
        said = few((f"{a * block}-{min(size, (a + n) * block) - 1}" for a, n in rows), TOLD_MAX)
        count = sum(min(size, (a + n) * block) - a * block for a, n in rows)
        who = ", ".join(m.name for m in self._crew.roots) or "nobody"
        raise GroupError(
            "nobody_holds",
            f"no source that is left ({who}) has {count} of the {size} bytes of {t.spec.source_path}: {said}"
            "; name a host that has them too, and let ranges overlap by "
            f"a block ({block} bytes), for only whole blocks count",
            t.spec.source_path,
        )

    def sole_s(self) -> float:
        """The source that has most which nobody else has needs so long for that."""
        t = self._t
        assert t.plan
        share = t.plan.payload / t.plan.frame_bytes
        rates = {name: 0.0 for name in t.held}
        for number, planned in zip(t.tree_ids, t.plan.trees, strict=True):
            rates[t.root_of[number]] += planned.rate_bps * share
        block = 8 * t.block * t.plan.payload
        return max((self.holdings.sole(name) * block / rate for name, rate in rates.items() if rate), default=0.0)

    # ---- while it runs ----
    def deal(self, look_s: float, now: float) -> None:
        """Give sources blocks. `look_s`: until the next look, perhaps. Raises GroupError."""
        t = self._t
        assert isinstance(t.scheduler, Collective)
        if t.scheduler.homeless:
            blocks, t.scheduler.homeless = t.scheduler.homeless, set()
            self._miss(self.holdings.again(blocks))
        rates = {name: t.scheduler.rate(name) / t.block for name in t.held}
        ahead = max(AHEAD_S, look_s)
        for member in self._crew.roots:
            while run := self._next(member.name, rates, ahead, now):
                for block in range(run[0], sum(run)):
                    t.scheduler.offer(block, member.name)

    def _next(self, name: str, rates: Mapping[str, float], ahead: float, now: float) -> tuple[int, int] | None:
        """What it alone has at once; of the rest as much as it sends soon, less and less towards the end."""
        t = self._t
        assert isinstance(t.scheduler, Collective)
        if sole := self.holdings.sole(name):
            return self.holdings.take(name, sole, rates)
        if not rates[name] or t.scheduler.left_s(name, now) >= ahead:
            return None
        share = self.holdings.left(name) * rates[name] / sum(rates.values()) / 2
        return self.holdings.take(name, math.ceil(min(share, rates[name] * ahead)), rates)

    def holds(self, block: int, name: str) -> bool:
        return self.holdings.has(block, name)

    # ---- a source is gone ----
    def lost_root(self, name: str) -> None:
        t = self._t
        assert isinstance(t.scheduler, Collective)
        t.scheduler.drop(name)
        t.scheduler.homeless |= {b for first, n in self.holdings.gone(name) for b in range(first, first + n)}

    def again(self, blocks: set[int]) -> None:
        assert isinstance(self._t.scheduler, Collective)
        self._t.scheduler.homeless |= blocks

    def needs(self, name: str) -> bool:
        return False

    def root_back(self, name: str) -> None:
        raise NotImplementedError(f"source {name} has failed")


def _ascend(rows: Rows) -> bool:
    """Runs of blocks, none of which is empty or reaches into another."""
    return all(count > 0 for _, count in rows) and all(sum(a) <= b[0] for a, b in pairwise(rows))
