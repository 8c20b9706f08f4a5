"""Trees with rates for a group whose receivers differ: what `delivery: stable` plans, and what becomes of them.

Each receiver gets the rate that it could have alone, or as near as the network lets all of them (core's rates.h): fast
receivers are in trees that slow ones are not in. A change makes a new plan. Trees that are in both keep their ids;
others get new ids, and those that are in the old one only are cut and end. What had been sent over them is still
fetched over their routes, or, where a link of theirs is down, over those of other trees.

Ids are few, so links that fail and come back do not use them up: where the trees are still whole for all that can be
reached they are kept, and a tree with the same receivers and the same rate over other links keeps its id. A group that
was planned with one rate for all has that again as soon as nobody is taken for slow any more.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from datacast.core.lists import few
from datacast.core.rates import RatedTree
from datacast.core.routes import RouteError, Routes, routes
from datacast.core.trees import Network, Tree, TreeError, Unreachable
from datacast.planners import Delivery, PlannerError, deliver

from .forest import Change, Delta, Forest, Way

if TYPE_CHECKING:
    import networkx as nx

log = logging.getLogger("datacast.master")

Arc = tuple[str, str]
WORTH = 0.75
"""A slow receiver's links count as slow where the others still get this part of what they would get otherwise."""
PIECE_S = 0.25
"""A tree that would take longer for a piece is not worth having, and nobody is believed to take less: where that is
wrong its source finds out, while the last pieces of such a tree everybody would wait for."""
TREES_MAX = 32
"""Of a group in its life (GROUP_TREES_MAX of the agents)."""
KEPT = 0.9
"""Trees that give everybody this part of what a new plan would are kept when a link fails or comes back."""


@dataclass(frozen=True)
class Rated:
    """A plan: its trees by rate, routes of each tree's receivers, what each receiver gets and could get, in bit/s."""

    trees: tuple[RatedTree, ...]
    routes: tuple[Routes, ...]
    got: dict[str, int]
    bound: dict[str, int]
    cut_off: tuple[str, ...]


def worth_having(given: Delivery, least: int) -> Delivery:
    """Without the trees below this rate, where those that they reach have others."""
    kept = [tree for tree in given.trees if tree.rate_bps >= least]
    served = {name for tree in kept for name in tree.receivers}
    kept += [tree for tree in given.trees if tree.rate_bps < least and not served.issuperset(tree.receivers)]
    got = Counter(dict.fromkeys(given.got, 0))
    for tree in kept:
        got.update({name: tree.rate_bps for name in tree.receivers})
    return replace(given, trees=tuple(kept), got=dict(got))


def with_routes(network: Network, source: str, given: Delivery) -> Rated:
    """Raises RouteError."""
    return Rated(
        given.trees,
        tuple(_routes(network, source, tree, i) for i, tree in enumerate(given.trees)),
        given.got,
        given.bound,
        tuple(name for name, bound in given.bound.items() if bound == 0),
    )


def _routes(network: Network, source: str, tree: RatedTree, number: int) -> Routes:
    """Of the tree's own receivers. (The engine takes a tree's number for its place in a set, of which each has few.)"""
    made = routes(network, [Tree(0, tree.arcs, tree.depth)], source, list(tree.receivers))[0]
    return Routes(number, made.blobs, made.labels, made.interest)


class RatedForest:
    """The trees of a running group, as forest.Forest has them: `ways` by tree id, `update` when links or receivers
    change. `caps`: what receivers were seen to take; `narrow`: over their last links."""

    def __init__(
        self,
        graph: nx.Graph,
        network: Network,
        source: str,
        plan: Rated,
        *,
        ids: list[int],
        payload: int,
        default: int,
        most: int | None = None,
        planner: str | None = None,
    ) -> None:
        self.graph, self.network, self.source = graph, network, source
        self.payload, self.default, self.most, self.planner = payload, default, most, planner
        self.plan = plan
        self.labels = max((route.labels for route in plan.routes), default=1)
        """That the group's payload leaves room for."""
        self.caps: dict[str, int] = {}
        self.narrow: dict[Arc, int] = {}
        self.slow: frozenset[str] = frozenset()
        """Who had a cap before the last caps came: the trees there were went at its pace."""
        self.cut_off: set[str] = set(plan.cut_off)
        """Receivers that no tree reaches."""
        self.treeless: set[str] = set()
        """Of these, whom links reach: the group has all its trees, or its pieces fit none."""
        self.refused = False
        """The last plan had more trees than the group may still have; those that there are go on."""
        self.alike = False
        """It was planned with one rate for all."""
        self.left: set[int] = set()
        """Trees that a receiver has left: those never come back."""
        self._ended: dict[int, RatedTree] = {}
        self._borrowing: set[int] = set()
        """Trees of which some receiver has a route over others."""
        self._made_for = self._reasons(sorted(plan.got))
        self.ways: dict[int, Way] = {
            number: _way(tree, found, slot)
            for slot, (number, tree, found) in enumerate(zip(ids, plan.trees, plan.routes, strict=True))
        }
        self.owed = {number: frozenset(way.routes) for number, way in self.ways.items()}
        """By tree: receivers that pieces were given to it for. Whatever becomes of its links, and of theirs, each of
        them needs a route to fetch these."""

    @classmethod
    def of(cls, forest: Forest, network: Network, rates: Mapping[int, int], *, default: int) -> RatedForest:
        """The same trees, where receivers of a group that was planned with one rate for all turn out to differ. `rates`
        by tree id."""
        live = {number: way for number, way in forest.ways.items() if way.slot is not None}
        trees = [RatedTree(rates[number], tuple(way.arcs), tuple(way.routes)) for number, way in live.items()]
        blobs = [Routes(slot, dict(way.routes), forest.labels, 0) for slot, way in enumerate(live.values())]
        got = Counter({name: 0 for name in forest.receivers})
        for tree in trees:
            got.update({name: tree.rate_bps for name in tree.receivers})
        plan = Rated(tuple(trees), tuple(blobs), dict(got), dict(got), tuple(sorted(forest.cut_off)))
        made = cls(
            forest.graph,
            network,
            forest.source,
            plan,
            ids=list(live),
            payload=forest.payload,
            default=default,
            most=forest.most,
        )
        made.alike, made.labels = True, forest.labels
        for number, way in forest.ways.items():
            if way.slot is None:
                made.ways[number] = Way(way.arcs, way.depth, dict(way.routes), None)
                made.owed[number] = frozenset(way.routes)
        return made

    @property
    def receivers(self) -> list[str]:
        return sorted({name for tree in self.plan.trees for name in tree.receivers})

    def rate_of(self, number: int) -> int | None:
        slot = self.ways[number].slot
        return self.plan.trees[slot].rate_bps if slot is not None else None

    def knows(self, name: str) -> bool:
        """It was in the fabric when the group began."""
        return name in self.network.index

    def update(self, deltas: list[Delta], wanted: list[str], appliances: Sequence[tuple[str, bool]] = ()) -> Change:
        """Links went down or came up, appliances of switches came or went, other receivers are wanted, or `caps`
        changed: a new plan, and what differs."""
        index = self.network.index  # of the fabric as it was when the group began
        for u, v, up in deltas:
            if u in index and v in index:
                self.network.set_up(u, v, up)
        for name, present in appliances:
            if name in index:
                self.network.set_cache(name, present)
        if not wanted:
            return Change()
        before = set(self.cut_off)
        if (plan := self.planned(wanted)) is None:
            return self._stay(wanted, self.cut_off - self.treeless)
        self.treeless = set()
        gone, back = sorted(set(plan.cut_off) - before), sorted((before - set(plan.cut_off)) & set(wanted))
        if self._made_for == self._reasons(wanted) and self._whole(plan):
            self.cut_off = set(plan.cut_off)
            return Change(self._lend(), [], [], [], gone, back)
        return self._take_over(plan, wanted, gone, back)

    def _stay(self, wanted: list[str], cut_off: Iterable[str]) -> Change:
        """The trees that there are go on. Whom none of them reaches counts as cut off: its time runs."""
        live = [self.plan.trees[way.slot] for way in self.ways.values() if way.slot is not None]
        reached = {name for tree in live for name in tree.receivers}
        self.treeless = set(wanted) - reached - set(cut_off)
        before, self.cut_off = self.cut_off, {*cut_off, *(set(wanted) - reached)}
        back = (before - self.cut_off) & set(wanted)
        return Change([], [], [], [], sorted(self.cut_off - before), sorted(back))

    def _reasons(self, wanted: list[str]) -> tuple[object, ...]:
        """What trees were made for, but for the links."""
        return frozenset(wanted), tuple(sorted(self.caps.items())), tuple(sorted(self.narrow.items()))

    def _whole(self, plan: Rated) -> bool:
        """Do the trees there are reach everybody that can be reached, at about the rates of this plan?"""
        got = Counter[str]()
        for way in self.ways.values():
            if way.slot is None:
                continue
            tree, above = self.plan.trees[way.slot], {child: parent for parent, child in way.arcs}
            for name in set(tree.receivers) - set(plan.cut_off):
                node = name
                while node in above:
                    if not self.network.is_up(above[node], node):
                        return False
                    node = above[node]
                got[name] += tree.rate_bps
        return all(got[name] >= KEPT * rate for name, rate in plan.got.items())

    def planned(self, wanted: list[str]) -> Rated | None:
        """What there would be now; None where it cannot be routed, or the group's pieces do not fit. A host that has
        joined the fabric since no link reaches, as far as is known here."""
        known = [name for name in wanted if name in self.network.index]
        strange = tuple(name for name in wanted if name not in self.network.index)
        if not known:
            return Rated((), (), {}, {}, strange)
        plan = self._planned(known)
        return plan and replace(plan, cut_off=(*plan.cut_off, *strange))

    def _planned(self, wanted: list[str]) -> Rated | None:
        try:
            given = self._deliver(wanted, {})
            least = self._least
            narrow = {
                arc: max(rate, least) for arc, rate in self.narrow.items() if arc[1] in self.caps and self._known(arc)
            }
            if narrow:
                # Who is slow may still have to pass on to others, and be able to.
                other = self._deliver(wanted, narrow)
                rest = [name for name in wanted if name not in self.caps]
                if all(other.got[name] >= WORTH * given.got[name] for name in rest):
                    given = replace(other, bound=given.bound)
            return self._fitting(given)
        except Unreachable:
            return Rated((), (), dict.fromkeys(wanted, 0), dict.fromkeys(wanted, 0), tuple(wanted))
        except (TreeError, RouteError, PlannerError) as error:
            log.warning("the trees from %s stay: no plan for %s: %s", self.source, few(wanted), error)
            return None

    def _fitting(self, given: Delivery) -> Rated | None:
        """Its routes: where few receivers are left and no tree branches, a segment may be longer than the group's
        pieces leave room for, and is cut in two. Raises RouteError."""
        mtus = [min(self.graph.edges[arc]["mtu"] for arc in tree.arcs) for tree in given.trees]
        for low in (False, True):
            network = self.network.shallower(self.labels) if low else self.network
            plan = with_routes(network, self.source, given)
            if all(route.payload(mtu) >= self.payload for route, mtu in zip(plan.routes, mtus, strict=True)):
                return plan
        log.warning("the trees from %s stay: pieces of %d bytes fit no plan", self.source, self.payload)
        return None

    @property
    def _least(self) -> int:
        """Bit/s of a tree."""
        return math.ceil(8 * self.payload / PIECE_S)

    def _deliver(self, wanted: list[str], narrow: Mapping[Arc, int]) -> Delivery:
        given = deliver(
            self.graph,
            self.network,
            self.source,
            wanted,
            default=self.default,
            most=self.most,
            caps={name: max(cap, self._least) for name, cap in self.caps.items()},
            narrow=narrow,
            planner=None if self.caps else self.planner,
            together=self.alike and not self.caps,
        )
        return worth_having(given, self._least)

    def _known(self, arc: Arc) -> bool:
        return self.graph.has_edge(*arc) and all(name in self.network.index for name in arc)

    def _take_over(self, plan: Rated, wanted: list[str], gone: list[str], back: list[str]) -> Change:
        slots = self._slots(plan)
        unnamed = [slot for slot in range(len(plan.trees)) if slot not in slots.values()]
        self.refused = len(self.ways) + len(unnamed) > TREES_MAX
        if self.refused:
            return self._stay(wanted, plan.cut_off)
        changed: list[int] = []
        lost: list[int] = []
        revived: list[int] = []
        for number, way in list(self.ways.items()):
            slot = slots.get(number)
            if slot is None:
                if way.slot is not None:
                    lost.append(number)
                    self._ended[number] = self.plan.trees[way.slot]
                way.slot = None
                continue
            if way.slot is None:
                revived.append(number)
                del self._ended[number]
            tree = plan.trees[slot]
            if way.slot is None or set(way.arcs) != set(tree.arcs) or not way.routes.keys() >= set(tree.receivers):
                self.ways[number] = _way(tree, plan.routes[slot], slot)
                changed.append(number)
            way.slot = slot
        self.plan, self._made_for = plan, self._reasons(wanted)
        self.cut_off = set(plan.cut_off)
        changed += [number for number in self._lend() if number not in changed]
        return Change(changed, lost, revived, unnamed, gone, back)

    def _lend(self) -> list[int]:
        """What was sent over a tree that is gone, or that some are not in any more, these fetch over trees that are
        there. Returns the trees that have other routes now."""
        others, changed = self._any_routes(), []
        for number, way in self.ways.items():
            own = self.plan.trees[way.slot].receivers if way.slot is not None else ()
            good = number not in self._borrowing and all(self.network.is_up(u, v) for u, v in way.arcs)
            lack = self.owed[number].difference(own, way.routes if good else ())
            fresh = {name: others[name] for name in lack & others.keys()}
            if fresh.items() - way.routes.items():
                way.routes = {**way.routes, **fresh}
                self._borrowing.add(number)
                changed.append(number)
        return changed

    def _slots(self, plan: Rated) -> dict[int, int]:
        """Which of the plan's trees goes on under which id: the same one, one over other links, or one that ended."""
        slots: dict[int, int] = {}
        live = {number: self.plan.trees[way.slot] for number, way in self.ways.items() if way.slot is not None}
        kinds: list[tuple[dict[int, RatedTree], Callable[[RatedTree], frozenset[object]]]] = [
            (live, lambda tree: frozenset(tree.arcs)),
            (live, lambda tree: frozenset(tree.receivers)),
            (self._ended, lambda tree: frozenset(tree.receivers)),
        ]
        for old, kind in kinds:
            free = {slot: tree for slot, tree in enumerate(plan.trees) if slot not in slots.values()}
            for number, tree in old.items():
                if number in slots or (number in self.left and old is not live):
                    continue
                for slot, other in free.items():
                    known = self.owed[number].issuperset(other.receivers)
                    if known and other.rate_bps == tree.rate_bps and kind(other) == kind(tree):
                        slots[number] = slot
                        del free[slot]
                        break
        return slots

    def _any_routes(self) -> dict[str, bytes]:
        """Each receiver's route in the slowest tree that it is in: that one reaches most."""
        return {name: blob for found in self.plan.routes for name, blob in found.blobs.items()}

    def name(self, slot: int, number: int) -> None:
        """Give a tree of the plan an id."""
        way = self.ways[number] = _way(self.plan.trees[slot], self.plan.routes[slot], slot)
        self.owed[number] = frozenset(way.routes)


def _way(tree: RatedTree, found: Routes, slot: int) -> Way:
    return Way(tree.arcs, tree.depth, dict(found.blobs), slot)


def rate_of(graph: nx.Graph, arc: Arc, default: int) -> int:
    """Bit/s of one direction of a cable."""
    data = graph.edges[arc]
    rate: int = (data.get("rates_bps") or {}).get(arc[0]) or data.get("rate_bps") or default
    return rate


def shares(trees: Sequence[RatedTree], capacity: Mapping[Arc, int], interest_share: float) -> list[float]:
    """What of its rate each tree's data can have, so that the interests of the trees that use a cable the other way fit
    as well. `interest_share`: bytes of an interest per byte of data that it asks for."""
    data: Counter[Arc] = Counter()
    for tree in trees:
        for arc in tree.arcs:
            data[arc] += tree.rate_bps
    used = {arc: rate + interest_share * data.get((arc[1], arc[0]), 0) for arc, rate in data.items()}
    return [min(min(1.0, capacity[arc] / used[arc]) for arc in tree.arcs) for tree in trees]
