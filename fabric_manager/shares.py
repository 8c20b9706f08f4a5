"""The one scheduler of the fabric's links: which rate every tree of every running group may have. Pure.

Groups ask with their trees; links have capacities; every group gets its weighted max-min share (maxmin.py). What has
been promised (a deadline) is given first, `background` groups get what the others leave, and a hundredth of a link, so
that they stay in touch. A data packet on an arc draws an interest on the arc back, which is counted there.

A cap is one link more: what a host sends over all its links together crosses `(host, "")`, what it receives
`("", host)`, and what any source sends `("", "")`.

Cost follows change: a change touches only the groups that share a link with it, directly or through others, where more
asks for the link than it has. The rest keep their rates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from .filling import Costs, Floats, Numbers, Trees
from .maxmin import shares

Arc = tuple[str, str]
BACKGROUND = 0.01
"""Of a link, for all its background groups together, whatever the others ask for."""
WORTH = 0.02
"""A rate that rises by less than this part is not told. One that falls is, from half of what a background group has:
the others would keep what is its own, and a queue on the link would stay full."""
WHOLE = 0.999
"""A tree that may send this part of what its links carry needs no bound."""
RATE_MIN = 1000
EVERYTHING: Arc = ("", "")
BOUNDLESS = 1e15
"""Bit/s that stand for any number, where numbers are added up."""
UNBOUNDED = 100.0
"""So many times the fastest link stands for no bound at all."""


@dataclass(frozen=True)
class TreeUse:
    """A tree's arcs away from the source, parents before children. `most_bps`: what it could send alone; `interest`:
    bits that go the other way for each bit of data."""

    arcs: Sequence[Arc]
    most_bps: float = float("inf")
    interest: float = 0.0


@dataclass(frozen=True)
class Ask:
    """What a group asks for. `least_bps`: promised to it; `most_bps`: it cannot use more, or may not."""

    trees: Mapping[int, TreeUse]
    weight: float = 1.0
    background: bool = False
    least_bps: float = 0.0
    most_bps: float = float("inf")

    def __post_init__(self) -> None:
        if not self.weight > 0:
            raise ValueError(f"a weight of {self.weight}: it must be above 0")


Rates = dict[int, float]
"""By tree, bit/s of whole frames."""


def bound(rate: float, most_bps: float) -> int | None:
    """What a tree's source is told, bit/s; None: send what you can."""
    return None if rate >= WHOLE * most_bps else max(RATE_MIN, int(rate))


def worth_telling(before: int | None, now: int | None) -> bool:
    """Whether a tree that was told one bound must be told the other."""
    if before is None or now is None:
        return before != now
    return now < before * (1 - BACKGROUND / 2) or now > before * (1 + WORTH)


@dataclass(frozen=True)
class _Group:
    """An Ask in numbers of links. Per tree: the links it uses and what a bit of it costs each. `all`: each once."""

    ask: Ask
    links: tuple[Numbers, ...]
    costs: tuple[Costs, ...]
    all: Numbers
    apart: bool
    """Its trees have several roots: what one sends another cannot."""


class Shares:
    """`put` and `drop` groups, `set_capacity` of arcs; `compute` gives the rates that may have changed since. An arc
    without a capacity bounds nothing."""

    def __init__(self) -> None:
        self._number: dict[Arc, int] = {}
        self._arcs: list[Arc] = []
        self._groups: dict[str, _Group] = {}
        self._capacity = np.zeros(0)
        """By link, and longer, as the next three."""
        self._users = np.zeros(0, np.int32)
        """How many groups it has."""
        self._asked = np.zeros(0)
        """The most that they could ask of it together."""
        self._other = np.zeros(0, np.int32)
        """The link of the arc back; -1: nobody has asked for it yet."""
        self._dirty: set[int] = set()
        self._new: set[str] = set()
        self._caps: dict[Arc, float] = {}

    # ---- what there is ----
    def set_capacity(self, arc: Arc, bps: float) -> None:
        link = self._link(arc)
        if self._capacity[link] != bps:
            self._capacity[link] = bps
            self._dirty.add(link)

    def put(self, group: str, ask: Ask) -> None:
        """A group begins, or asks for something else than before."""
        known = self._groups.get(group)
        if known is not None and known.ask == ask:
            return
        if known is not None and _same_trees(known.ask, ask):
            self._dirty.update(known.all.tolist())
            self._asked[known.all] -= self._most(known)
            made = self._groups[group] = replace(known, ask=ask)
            self._asked[known.all] += self._most(made)
            self._new.add(group)
            return
        self.drop(group)
        made = self._groups[group] = self._made(ask)
        self._users[made.all] += 1
        self._asked[made.all] += self._most(made)
        self._new.add(group)

    def set_caps(self, whole: float | None, hosts: Mapping[str, float]) -> None:
        """Of all groups together, and of what each of these hosts sends and receives; bit/s. Others have none."""
        now = {(name, ""): float(bps) for name, bps in hosts.items()}
        now |= {("", name): float(bps) for name, bps in hosts.items()}
        if whole is not None:
            now[EVERYTHING] = float(whole)
        if now.keys() != self._caps.keys():
            self._caps = now
            for name, group in tuple(self._groups.items()):  # some cross what they did not, or do not any more
                self.drop(name)
                self.put(name, group.ask)
        self._caps = now
        for arc, bps in now.items():
            self.set_capacity(arc, bps)

    def drop(self, group: str) -> None:
        """It has ended."""
        known = self._groups.pop(group, None)
        self._new.discard(group)
        if known is not None:
            self._dirty.update(known.all.tolist())
            self._asked[known.all] -= self._most(known)
            self._users[known.all] -= 1
            self._asked[known.all[self._users[known.all] == 0]] = 0.0  # else a rounding error stays

    def __contains__(self, group: str) -> bool:
        return group in self._groups

    @property
    def changed(self) -> bool:
        """Whether `compute` has something to do."""
        return bool(self._dirty or self._new)

    def _link(self, arc: Arc) -> int:
        link = self._number.get(arc)
        if link is None:
            link = self._number[arc] = len(self._arcs)
            self._arcs.append(arc)
            if link == len(self._asked):
                more = max(64, link)
                self._capacity = np.concatenate((self._capacity, np.full(more, np.inf)))
                self._users = np.concatenate((self._users, np.zeros(more, np.int32)))
                self._asked = np.concatenate((self._asked, np.zeros(more)))
                self._other = np.concatenate((self._other, np.full(more, -1, np.int32)))
        return link

    def _links(self, arcs: Sequence[Arc]) -> Numbers:
        links = list(map(self._number.get, arcs))
        return np.array([self._link(arc) for arc in arcs] if None in links else links, np.int32)

    def _back(self, links: Numbers) -> Numbers:
        """Those of the arcs back."""
        back = self._other[links]
        if (unknown := back < 0).any():
            for link in links[unknown].tolist():
                u, v = self._arcs[link]
                other = self._link((v, u))  # before the table is written to: it may be another one then
                self._other[link] = other
            back = self._other[links]
        return back

    def _made(self, ask: Ask) -> _Group:
        links, costs = [], []
        for tree in ask.trees.values():
            ahead = self._links(tree.arcs)
            crossed, cost = [ahead], [np.ones(len(ahead), np.float32)]
            if tree.interest > 0:
                crossed.append(self._back(ahead))
                cost.append(np.full(len(ahead), tree.interest, np.float32))
            if capped := self._capped(tree):
                crossed.append(np.fromiter(capped, np.int32, len(capped)))
                cost.append(np.fromiter(capped.values(), np.float32, len(capped)))
            one, sums = _summed(crossed, cost)
            links.append(one)
            costs.append(sums)
        together = np.unique(np.concatenate(links)) if links else np.zeros(0, np.int32)
        roots = {u for tree in ask.trees.values() for u, _ in tree.arcs[:1]}
        return _Group(ask, tuple(links), tuple(costs), together, len(roots) > 1)

    def _capped(self, tree: TreeUse) -> dict[int, float]:
        """What a bit of the tree costs of each cap."""
        use: dict[int, float] = {}
        for u, v in tree.arcs if self._caps else ():
            for arc, cost in ((u, ""), 1.0), (("", v), 1.0), ((v, ""), tree.interest), (("", u), tree.interest):
                if cost > 0 and arc in self._caps:
                    link = self._link(arc)
                    use[link] = use.get(link, 0.0) + cost
        if EVERYTHING in self._caps:
            use[self._link(EVERYTHING)] = 1.0
        return use

    @staticmethod
    def _most(made: _Group) -> Floats:
        """What the group could ask of each of its links."""
        asked = np.zeros(len(made.all))
        for tree, links, costs in zip(made.ask.trees.values(), made.links, made.costs, strict=True):
            most = min(tree.most_bps, made.ask.most_bps, BOUNDLESS)
            asked[np.searchsorted(made.all, links)] += costs * most
        return asked

    # ---- shares ----
    def compute(self) -> dict[str, Rates]:
        """Rates of the groups that the changes since the last call may have touched."""
        found = self.given(self._touched())
        self._dirty.clear()  # not before: what could not be computed is still to be
        self._new.clear()
        return found

    def given(self, names: Iterable[str]) -> dict[str, Rates]:
        """Shares of these groups, as if there were no others."""
        groups = {name: self._groups[name] for name in names}
        if not groups:
            return {}
        urgent = {name: g for name, g in groups.items() if not g.ask.background}
        patient = {name: g for name, g in groups.items() if g.ask.background}
        every = np.concatenate([g.all for g in groups.values()])[::-1]
        place = np.full(len(self._capacity), -1, np.int32)
        place[every] = np.arange(len(every), 0, -1)  # what is written last stays: where each is found first
        links = np.flatnonzero(place > 0)
        links = links[np.argsort(place[links])]
        place[links] = np.arange(len(links))
        left = self._capacity[links]
        room = left.copy()
        if patient:
            kept = np.unique(place[np.concatenate([g.all for g in patient.values()])])
            room[kept] *= 1 - BACKGROUND
        rates = self._divide(urgent, place, room, left)
        return rates | self._divide(patient, place, left.copy(), left)

    @staticmethod
    def _divide(groups: dict[str, _Group], place: Numbers, room: Floats, left: Floats) -> dict[str, Rates]:
        """Shares of `groups`; what they use is taken from `left`. `place`: of a link in `room` and `left`."""
        if not groups:
            return {}
        members = list(groups.values())
        uses = [tree for g in members for tree in g.ask.trees.values()]
        at = np.concatenate(([0], np.cumsum([len(links) for g in members for links in g.links]))).astype(np.int64)
        links, costs = np.empty(at[-1], np.int32), np.empty(at[-1], np.float32)
        for tree, part in enumerate(part for g in members for part in zip(g.links, g.costs, strict=True)):
            span = slice(at[tree], at[tree + 1])
            links[span], costs[span] = place[part[0]], part[1]
        group = np.repeat(np.arange(len(members)), [len(g.ask.trees) for g in members])
        every = Trees(at, links, costs, group, np.zeros(len(uses)), np.array([tree.most_bps for tree in uses]))
        trees, bound = _bounded(every, room)
        weight = np.array([g.ask.weight for g in members])
        least = np.array([g.ask.least_bps for g in members])
        top = np.array([g.ask.most_bps for g in members])
        rate = shares(bound, trees, weight, least, top, np.array([g.apart for g in members]))
        left -= every.use(rate, len(room))
        np.maximum(left, 0.0, out=left)
        told = iter(rate.tolist())
        return {name: {tree: next(told) for tree in g.ask.trees} for name, g in groups.items()}

    def _touched(self) -> list[str]:
        """Groups that share a busy link with what has changed, directly or through others."""
        busy = self._users > 1  # and its groups could ask for more than it has, but for a rounding error
        busy &= self._asked > self._capacity * (1 + 1e-9)
        reached = np.zeros(len(busy), bool)
        reached[list(self._dirty)] = True
        found = set(self._new)
        for name in found:
            reached[self._groups[name].all] |= busy[self._groups[name].all]
        rest, more = [name for name in self._groups if name not in found], bool(reached.any())
        while more:
            others, more = rest, False
            rest = []
            for name in others:
                links = self._groups[name].all
                if not reached[links].any():
                    rest.append(name)
                    continue
                found.add(name)
                reached[links] |= busy[links]
                more = True
        return [name for name in self._groups if name in found]


def _same_trees(known: Ask, ask: Ask) -> bool:
    """It asks for more or less over the same trees."""
    return known.trees.keys() == ask.trees.keys() and all(known.trees[tree] is use for tree, use in ask.trees.items())


def _summed(links: list[Numbers], costs: list[Costs]) -> tuple[Numbers, Costs]:
    """Each link once, with what it costs in all."""
    one, cost = np.concatenate(links), np.concatenate(costs)
    if len(links) > 1:
        unique, at = np.unique(one, return_inverse=True)
        if len(unique) < len(one):
            return unique, np.bincount(at, cost).astype(np.float32)
    return one, cost


def _bounded(every: Trees, room: Floats) -> tuple[Trees, Floats]:
    """The same trees over the links that hold several of them back, and what those have. Of a million uses each array
    counts: none is longer than it must be, and none is kept."""
    # A link that one tree alone uses, or that has more than all could ask of it, only bounds trees by themselves.
    alone, level = np.full(every.count, np.inf), room[every.links]
    level /= every.cost
    np.minimum.at(alone, every.owner, level)
    del level
    known, most = room[np.isfinite(room)], every.most
    boundless = UNBOUNDED * max(known.max(initial=0.0), most[np.isfinite(most)].max(initial=0.0), 1.0)
    room, most = np.minimum(room, boundless), np.minimum(np.minimum(most, alone), boundless)
    binds = every.use(most, len(room)) > room * (1 + 1e-9)
    binds &= np.bincount(every.links, minlength=len(room)) > 1
    keep = binds[every.links]
    counts = np.bincount(every.owner[keep], minlength=every.count)
    # Every tree needs a link to be told its rate by: a free one gets a link of its own.
    free = counts == 0
    at = np.concatenate(([0], np.cumsum(np.maximum(counts, 1))))
    own = np.zeros(at[-1], bool)
    own[at[:-1][free]] = True
    links, cost = np.empty(at[-1], np.int32), np.ones(at[-1], np.float32)
    links[own] = len(room) + np.arange(np.count_nonzero(free))
    links[~own], cost[~own] = every.links[keep], every.cost[keep]
    room = np.concatenate((room, most[free]))
    used = np.bincount(links, minlength=len(room)) > 0
    number = np.cumsum(used, dtype=np.int32) - 1
    return Trees(at, number[links], cost, every.group, np.zeros(every.count), most), room[used]
