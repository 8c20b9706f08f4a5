"""Trees over links, and progressive filling: what each may send so that trees have weighted max-min shares. Pure.

A tree sends each byte once over every link of it, so it is a flow with one rate and many links. All trees grow from
nothing, in proportion to their weights, and a tree stops where a link of it is full, or where it or its group has
enough (Bertsekas and Gallager, Data Networks, section 6.5.2). Every link's level is looked at once per step, in arrays,
and a step stops at least one tree, in a symmetrical fabric many.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Numbers = NDArray[np.int32]
"""Of links and trees: a thousand groups use links two million times."""
Costs = NDArray[np.float32]

TOGETHER = 1e-9
"""Levels this near to each other are one."""


@dataclass(frozen=True)
class Trees:
    """Trees by number. Tree i uses the links `links[at[i]:at[i + 1]]`, each at most once, and `cost` bits of each for a
    bit of its rate; `group[i]` is its group's number. It sends at least `least`, at most `most`."""

    at: Ints
    links: Numbers
    cost: Costs
    group: Ints
    least: Floats
    most: Floats

    @property
    def count(self) -> int:
        return len(self.group)

    @cached_property
    def owner(self) -> Numbers:
        """The tree of every entry of `links`."""
        owner: Numbers = np.repeat(np.arange(self.count, dtype=np.int32), np.diff(self.at))
        return owner

    def use(self, rate: Floats, links: int) -> Floats:
        """What these rates take of the links."""
        return taken(self.links, self.cost, rate[self.owner], links)

    @cached_property
    def _by_link(self) -> tuple[Numbers, Ints]:
        first = np.concatenate(([0], np.cumsum(np.bincount(self.links))))
        order = self.links.astype(np.int64)
        order *= self.count
        order += self.owner
        order.sort()  # both in one number: NumPy sorts numbers many times as fast as it finds their order
        order %= self.count
        return order.astype(np.int32), first

    def of_link(self, link: int) -> Numbers:
        trees, first = self._by_link
        return trees[first[link] : first[link + 1]]


def taken(links: Numbers, cost: Costs, rate: Floats, count: int) -> Floats:
    """Of so many links, where each entry costs that for a bit of its rate. `rate` is used up: an entry more in memory
    is some megabytes."""
    rate *= cost
    return np.bincount(links, rate, count).astype(np.float64, copy=False)


def fill(capacity: Floats, trees: Trees, weight: Floats, group_most: Floats, rate: Floats | None = None) -> Floats:
    """Rates by tree for these weights of trees; `rate`: what they have already, else their least. A tree that has
    something grows when the others have come as far; a weight of 0 grows never."""
    groups, links = len(group_most), len(capacity)
    rate = (trees.least if rate is None else rate).copy()
    left = capacity - trees.use(rate, links)
    room = group_most - np.bincount(trees.group, rate, groups)
    with np.errstate(divide="ignore", invalid="ignore"):
        begins = np.where(weight > 0, rate / weight, np.inf)
        ends = np.where(weight > 0, trees.most / weight, np.inf)
    waits, grows = weight > 0, np.zeros(trees.count, bool)
    # Of what grows: how many on a link and in a group, and how fast.
    on_link, in_group = np.zeros(links, np.int64), np.zeros(groups, np.int64)
    slope, group_slope = np.zeros(links), np.zeros(groups)

    def turn(tree: int, by: int) -> None:
        span, group = slice(trees.at[tree], trees.at[tree + 1]), trees.group[tree]
        over = trees.links[span]
        on_link[over] += by
        in_group[group] += by
        slope[over] += by * weight[tree] * trees.cost[span]
        group_slope[group] += by * weight[tree]
        grows[tree] = by > 0

    level = 0.0
    while waits.any() or grows.any():
        for tree in np.flatnonzero(waits & (begins <= level * (1 + TOGETHER))).tolist():
            turn(tree, 1)
        waits &= ~grows
        with np.errstate(divide="ignore", invalid="ignore"):
            by_link = np.where(on_link > 0, np.maximum(left, 0.0) / slope, np.inf)
            by_group = np.where(in_group > 0, np.maximum(room, 0.0) / group_slope, np.inf)
        nearest = min(np.where(grows, ends, np.inf).min(), np.where(waits, begins, np.inf).min())
        step = max(0.0, min(by_link.min(initial=np.inf), by_group.min(initial=np.inf), nearest - level))
        if not np.isfinite(step):
            break  # nothing bounds what grows still: trees without links and without a most
        left -= slope * step
        room -= group_slope * step
        rate[grows] += weight[grows] * step
        level += step
        near = step + level * TOGETHER
        stops = ends <= level * (1 + TOGETHER)
        stops |= (by_group <= near)[trees.group]
        for link in np.flatnonzero(by_link <= near).tolist():
            stops[trees.of_link(link)] = True
        waits &= ~stops  # where nothing is left nobody begins
        for tree in np.flatnonzero(stops & grows).tolist():
            turn(tree, -1)
    return rate
