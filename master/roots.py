"""A group with several roots, hosts that its trees begin at: what is done when one of them goes (README.md)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from .crew import Crew
from .digests import Digests
from .feeding import Feeding
from .grove import Agreement, Differ, Grove
from .members import Member
from .transfer import Transfer

log = logging.getLogger("datacast.master")

PATIENCE_S = 2.0
"""A root that does not answer for so long sends no more; the others take over what it had to send."""


class Roots:
    """Looks after them, and holds what one says of the file against what the others say."""

    def __init__(
        self,
        transfer: Transfer,
        crew: Crew,
        feeding: Feeding,
        digests: Digests,
        lost: Callable[[str, set[int]], None],
    ) -> None:
        """`lost(root, blocks)`: it sends no more, and these blocks some receiver may not have got from it."""
        self._t, self._crew, self._feeding, self._digests, self._lost = transfer, crew, feeding, digests, lost
        self._agreement = Agreement()

    def _sources(self) -> set[str]:
        return {m.name for m in self._crew.roots if m.role == "source"}

    def agreed(self, member: Member, rows: list[list[Any]]) -> list[list[Any]]:
        """Of a source's digests those that may be told to the receivers."""
        try:
            return self._agreement.told(member.name, [(row[0], row[1]) for row in rows], self._sources())
        except Differ as differ:
            for source in self._crew.roots:
                source.fail("sources_differ", differ.message)
            self._t.wake.set()
            return []

    def look(self, now: float) -> None:
        """One that does not answer, or has failed, sends no more where there are others."""
        for member in self._crew.roots:
            away = now - (member.away_since or now)
            if member.suspect and away > PATIENCE_S and len(self._crew.roots) > 1:
                if member.role == "source":
                    member.fail("unreachable", f"its agent did not answer for {PATIENCE_S:g} s")
                member.sends = False
        sending = {m.name for m in self._crew.roots}
        if sending:
            for name in sorted(set(self._t.root_of.values()) - sending):
                self._gone(name)

    def _gone(self, name: str) -> None:
        t = self._t
        assert isinstance(t.forest, Grove)
        log.warning("group %s: %s sends no more, the others take over", t.id, name)
        trees = sorted(t.roots_trees(name))
        blocks = self._feeding.end(trees)
        for tree in trees:
            del t.root_of[tree]
        t.forest.drop(name)
        if rows := self._agreement.left(self._sources()):
            self._digests.put(rows, time.monotonic())
        self._lost(name, blocks)
        t.wake.set()


def send_again(t: Transfer, blocks: set[int]) -> None:
    """The other roots have them, too."""
    assert t.scheduler
    for block in sorted(blocks):
        t.scheduler.again(block)
