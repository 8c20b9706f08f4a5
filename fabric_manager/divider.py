"""Gives running groups their shares of the links (shares.py), and tells their masters when they change."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from .api import orders
from .fabric import Fabric
from .record import Record
from .shares import Arc, Ask, Rates, Shares, TreeUse, bound, worth_telling

if TYPE_CHECKING:
    import networkx as nx

log = logging.getLogger("datacast.fabric_manager")

GATHER_S = 0.002
"""Changes that come together are computed together."""
PART, SAVED_S = 0.1, 0.1
"""So much of a processor is spent on it; what was not used lately is saved, up to so many seconds. So where a few
groups begin together each is followed at once: until then they send more than their links carry."""
MARGIN = 1.02
"""A promise is kept with so much to spare."""
LEAST = 0.05
"""Of what a group's trees could send alone: one that stood still for a while must be able to come back."""
USES, ROOM, SETTLE_S = 0.6, 1.5, 1.0
"""A group that uses less than this part of its share, for longer than this, is given ROOM times what it uses; the
others get the rest."""
WANTS = 0.8
"""When it uses so much of that it may have all again: what stood still and goes on would wait for each step."""


@dataclass
class _Known:
    """A group that runs."""

    ask: Ask
    since: float
    """When its rates were last told."""
    told: dict[str, int | None] = field(default_factory=dict)
    sure: set[str] | None = None
    """Of which trees its master has heard here, where it may have heard others' bounds from a fabric manager before, or
    missed what was told: it is told of each of the others, also that there is no bound. None: it has heard all."""
    given: float = 0.0
    """Its share, bit/s, all trees together."""
    least: float = float("inf")
    """The smallest since rates were measured last."""
    looks: int = 0
    """How often they were."""
    bound: float = float("inf")
    """What it seems able to use."""
    late: bool = False
    """It is refused for its deadline, until its master has ended it."""


class Divider:
    """`follow` after every change of a group's record; `tell(group, message)` brings a message to its master.
    `refuse(group, message)`: it came with a deadline that the links do not allow."""

    def __init__(
        self,
        fabric: Fabric,
        tell: Callable[[str, orders.ToMaster], None],
        refuse: Callable[[str, str], None] = lambda group, message: None,
    ) -> None:
        self.fabric, self._tell, self._refuse = fabric, tell, refuse
        self._shares = Shares()
        self._groups: dict[str, _Known] = {}
        self._missed: set[str] = set()
        """Likewise, of groups that have asked for nothing yet."""
        self._young: set[str] = set()
        """Groups that were seen before anything had come of them, and have had no share yet: only these may be refused
        for their deadlines. (With the first trees that are told of, a part may have come already.)"""
        self._pending: dict[str, Ask | None] = {}
        self._rates: dict[str, Rates] = {}
        self._wake = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, "shares")
        self._spent = 0.0
        """Seconds of a processor that the thread has had."""
        self._capacities: dict[Arc, float] = {}
        """As `_pending`: what the next computation takes over."""
        self._caps: tuple[float | None, Mapping[str, float]] = None, {}
        self.rewire()

    def rewire(self) -> None:
        """The fabric has links that it had not."""
        for u, v, data in self.fabric.graph.edges(data=True):
            if bps := data.get("rate_bps") or self.fabric.defaults.rate_bps:
                self._capacities[u, v] = self._capacities[v, u] = float(bps)
        self._wake.set()

    def cap(self, whole: float | None, hosts: Mapping[str, float]) -> None:
        """What all groups together may send, and what each of these hosts may send and receive; bit/s."""
        self._caps = whole, hosts
        self._wake.set()

    # ---- what groups do ----
    def again(self, group: str) -> None:
        """Its master has a new stream: it may have missed what was told, or was told by a fabric manager before."""
        known = self._groups.get(group)
        if known is None:
            self._missed.add(group)
            return
        known.sure = set()
        self._change(group, known.ask)

    def follow(self, record: Record, ended: bool) -> None:
        if ended:
            self._missed.discard(record.id)
            self._young.discard(record.id)
            self._rates.pop(record.id, None)
            if self._groups.pop(record.id, None) is not None:
                self._change(record.id, None)
            return
        known = self._groups.get(record.id)
        before = known.ask.trees if known else {}
        if record.epoch > 1:
            self._young.discard(record.id)
        elif known is None and not record.progress.fraction:
            self._young.add(record.id)
        young = record.id in self._young or (known is not None and known.late)
        ask = None if record.owner is None else ask_of(record, time.time_ns(), before, young)
        if ask is None:
            if known is not None and known.ask.trees:
                # What it uses says nothing until it has trees again; those that are lost still send what was asked for.
                self._groups[record.id] = _Known(replace(known.ask, trees={}), known.since, known.told, known.sure)
                self._change(record.id, None)
            return
        if known is None:
            sure = set[str]() if record.id in self._missed else None
            known = self._groups[record.id] = _Known(ask, time.monotonic(), sure=sure)
            self._missed.discard(record.id)
        elif not known.ask.trees:
            known.since = time.monotonic()
        self._measure(known, record)
        ask = replace(ask, most_bps=min(ask.most_bps, known.bound))
        if ask != known.ask or record.id not in self._rates:
            known.ask = ask
            self._change(record.id, ask)

    def _measure(self, known: _Known, record: Record) -> None:
        """What the transport measures corrects what was given: in the time between two looks, which may be long."""
        now = time.monotonic()
        if len(self._groups) < 2:  # nobody else could use what it leaves
            known.bound = float("inf")
            return
        if record.state == "starting":  # its share is there before its source may send
            known.since = now
        if record.progress.looks == known.looks:
            return
        least, known.least = known.least, known.given or float("inf")
        known.looks = record.progress.looks
        if now - known.since < SETTLE_S or not known.given:
            return
        used = sum(tree.rate_bps for tree in record.progress.trees.values() if tree.state != "lost")
        bound = known.bound
        if used < USES * least and record.state == "running":
            able = sum(tree.most_bps for tree in known.ask.trees.values() if tree.most_bps < float("inf"))
            bound = max(ROOM * used, LEAST * able, 0.05 * least)
        elif used > WANTS * known.given:
            bound = float("inf")
        if bound != known.bound:
            known.bound, known.since = bound, now

    def _change(self, group: str, ask: Ask | None) -> None:
        self._pending[group] = ask
        self._wake.set()

    # ---- shares ----
    async def run(self) -> None:
        """Until cancelled."""
        saved, since = SAVED_S, time.perf_counter()
        loop = asyncio.get_running_loop()
        while True:
            await self._wake.wait()
            await asyncio.sleep(GATHER_S)
            self._wake.clear()
            before, (changes, capacities) = self._spent, self._take()
            # In a thread: nothing else touches the scheduler meanwhile.
            try:
                self._spread(await loop.run_in_executor(self._thread, self._compute, changes, capacities))
            except Exception:  # groups go on with the rates they have
                log.exception("shares of links could not be computed")
                # Tried again with the next change.
                self._pending, self._capacities = changes | self._pending, capacities | self._capacities
            now = time.perf_counter()
            saved, since = min(SAVED_S, saved + PART * (now - since)) - (self._spent - before), now
            if saved < 0:
                await asyncio.sleep(-saved / PART)

    def _take(self) -> tuple[dict[str, Ask | None], dict[Arc, float]]:
        """Not in the thread: what changes meanwhile is the next computation's."""
        taken = self._pending, self._capacities
        self._pending, self._capacities = {}, {}
        return taken

    def _compute(self, changes: dict[str, Ask | None], capacities: dict[Arc, float]) -> dict[str, Rates]:
        try:
            return self._computed(changes, capacities)
        finally:  # what the thread has had of a processor, not what it has waited for one
            self._spent = time.thread_time()

    def _computed(self, changes: dict[str, Ask | None], capacities: dict[Arc, float]) -> dict[str, Rates]:
        for arc, bps in capacities.items():
            self._shares.set_capacity(arc, bps)
        self._shares.set_caps(*self._caps)
        for group, ask in changes.items():
            if ask is None:
                self._shares.drop(group)
            else:
                self._shares.put(group, ask)
        known = {group: rates for group in changes if (rates := self._rates.get(group)) is not None}
        return known | {group: {} for group, ask in changes.items() if ask is None} | self._shares.compute()

    def _spread(self, rates: dict[str, Rates]) -> None:
        for group, trees in rates.items():
            known = self._groups.get(group)
            if known is None:
                self._rates.pop(group, None)
                continue
            self._rates[group] = trees
            known.given = sum(trees.values())
            known.least = min(known.least, known.given)
            first = group in self._young
            known.late = bool(trees) and (first or known.late) and known.given < 0.98 * known.ask.least_bps
            if trees:
                self._young.discard(group)
            if known.late:
                self._refuse(
                    group,
                    f"its deadline takes {known.ask.least_bps / 1e6:.1f} Mbit/s, the links that it shares with other "
                    f"groups have {known.given / 1e6:.1f} for it",
                )
                continue
            news: dict[str, int | None] = {}
            for tree, rate in trees.items():
                use = known.ask.trees.get(tree)
                if use is None:
                    continue
                bps = bound(rate, use.most_bps)
                if self._unheard(known, str(tree)) or worth_telling(known.told.get(str(tree)), bps):
                    news[str(tree)] = known.told[str(tree)] = bps
            # A tree that has ended still sends the last of its numbers: nothing holds it up.
            ended = {tree: bps for tree, bps in known.told.items() if int(tree) not in trees}
            over = [tree for tree, bps in ended.items() if bps is not None or self._unheard(known, tree)]
            news |= dict.fromkeys(over)
            known.told |= dict.fromkeys(over)
            if known.sure is not None:
                known.sure.update(news)
            if news:
                known.since = time.monotonic()
                self._tell(group, orders.Rates(rates=news))

    @staticmethod
    def _unheard(known: _Known, tree: str) -> bool:
        return known.sure is not None and tree not in known.sure

    def share_of(self, group: str) -> Rates:
        """By tree, as last computed; empty where it has none."""
        return self._rates.get(group, {})

    def others(self) -> Others:
        """All groups that ask for something, for a look at what one more would have."""
        return Others({group: known.ask for group, known in self._groups.items()}, *self._caps)


@dataclass(frozen=True)
class Others:
    """What groups asked for at some moment, and what all together and each host may send; bit/s."""

    asks: Mapping[str, Ask]
    whole: float | None
    hosts: Mapping[str, float]

    def beside(self, ask: Ask, graph: nx.Graph) -> Rates:
        """What one more group would have that asks for this. Edges of `graph` have `rate_bps`, or None."""
        shares, name = Shares(), "?"
        shares.set_caps(self.whole, self.hosts)
        capped = self.whole is not None or bool(self.hosts)
        arcs = {arc for use in ask.trees.values() for arc in use.arcs}
        for other, asked in self.asks.items():
            if capped or any(arc in arcs for use in asked.trees.values() for arc in use.arcs):
                shares.put(other, asked)
        shares.put(name, ask)
        for u, v, bps in graph.edges(data="rate_bps"):
            if bps:
                shares.set_capacity((u, v), float(bps))
                shares.set_capacity((v, u), float(bps))
        return shares.compute()[name]


def ask_of(record: Record, now_ns: int, before: Mapping[int, TreeUse], young: bool) -> Ask | None:
    """What a group asks of the links; None: nothing yet, or nothing any more. `before`: its trees as they were.
    `young`: it may still be refused for its deadline."""
    trees: dict[int, TreeUse] = {}
    for name, tree in record.progress.trees.items():
        if tree.arcs and tree.state in ("running", "idle"):
            known, most = before.get(int(name)), float(tree.most_bps) or float("inf")
            same = known is not None and known.arcs is tree.arcs and known.most_bps == most
            trees[int(name)] = known if known and same else TreeUse(tree.arcs, most, tree.interest)
    if not trees:
        return None
    spec, least = record.spec, 0.0
    if spec.deadline_s is not None and record.progress.size is not None:
        left_s = (record.created_ns - now_ns) / 1e9 + spec.deadline_s
        left = record.progress.size * (1 - record.progress.fraction) * 8
        # In steps, so that it is not another ask with every report. One that is late has nothing left to be promised:
        # what it lacks within no time at all would be all that the others have.
        if left_s > 0 or young:
            least = _step(MARGIN * left / max(left_s, 0.1))
    return Ask(
        trees,
        weight=float(spec.weight),
        background=spec.priority == "background",
        least_bps=least,
        most_bps=float(spec.most_bps) if spec.most_bps else float("inf"),
    )


def _step(bps: float) -> float:
    """To two digits, upwards; of what is not negative."""
    unit = 10.0 ** (len(str(int(bps))) - 2)
    return float(-(-bps // unit) * unit)
