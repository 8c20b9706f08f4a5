"""What a group's trees may send at most: its share of links that others use too, as the fabric manager divides them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from .crew import Crew
from .errors import GroupError
from .requests import RATES, Rates

if TYPE_CHECKING:
    from .transfer import SourceTree

log = logging.getLogger("datacast.master")

FASTER = 1.05
"""A source that says of a tree that it is so much faster than it may be has not heard, or has begun anew."""


class Bounds:
    """By tree id; None: none. `several` roots: their trees share links with each other, and what one leaves another may
    use, so each may send as much as the group's share is in all."""

    def __init__(
        self,
        crew: Crew,
        several: bool = False,
        on_bounds: Callable[[dict[str, int | None]], None] = lambda rates: None,
    ) -> None:
        """`on_bounds`: who deals pieces out should know."""
        self._crew, self._several, self._on_bounds = crew, several, on_bounds
        self._told: dict[str, int | None] = {}
        self._rates: dict[str, int | None] = {}
        self._unsaid: dict[str, int | None] = {}
        """What a root may not have heard: a bound that was lifted shows in no status."""
        self._number = 0
        self._sending = False

    def of(self, tree: int) -> float:
        """Bit/s that a tree may send at most."""
        bound = self._rates.get(str(tree))
        return float("inf") if bound is None else float(bound)

    async def take(self, rates: dict[str, int | None]) -> None:
        """From the fabric manager; on to the source."""
        if self._several:
            self._told |= rates
            whole = sum(bound or 0 for bound in self._told.values())
            rates = {tree: bound and whole for tree, bound in self._told.items()}
        else:
            self._on_bounds(rates)
        self._rates |= rates
        await self._send(rates)

    async def say(self) -> None:
        """What came before the roots were opened."""
        await self._send({})

    async def check(self, trees: Mapping[str, SourceTree]) -> None:
        """What the source says of its trees."""
        late: dict[str, int | None] = {
            tree: bound
            for tree, bound in self._rates.items()
            if bound is not None and tree in trees and trees[tree].counts.rate_bps > FASTER * bound
        }
        if late or self._unsaid:
            await self._send(self._unsaid | late)

    async def _send(self, rates: dict[str, int | None]) -> None:
        """One request at a time: what comes while one is under way goes with the next."""
        self._unsaid |= rates
        if self._sending:
            return
        self._sending = True
        try:
            while self._unsaid and await self._say(dict(self._unsaid)):
                pass
        finally:
            self._sending = False

    async def _say(self, rates: dict[str, int | None]) -> bool:
        """False: it may not have been heard, and is said again after the next status."""
        roots = [m for m in self._crew.roots if m.opened and not m.suspect]
        if not self._crew.connected or not roots:
            return False
        self._number = max(self._number + 1, time.time_ns() // 1000)  # higher than an earlier master's, too
        try:
            results = await self._crew.request(RATES, roots, Rates(self._number, rates))
        except GroupError as error:
            log.info("group %s: %s", self._crew.group, error)
            return False
        if any(results.of(m.name).code == "unreachable" for m in roots):
            return False
        self._unsaid = {t: bound for t, bound in self._unsaid.items() if t not in rates or rates[t] != bound}
        return True
