"""The best that any trees can do, by linear programme: column generation over all Steiner trees (HiGHS).

Every receiver gets what it can have without taking from one that has less: max-min, one level after the other. The
trees of a solution are priced by the exact cheapest tree for every set of receivers (Dreyfus and Wagner 1971), so where
it comes to its end the optimum is over all trees that there are, and the prices are the proof. For small networks:
2^receivers sets, 3^receivers splits.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import highspy
import networkx as nx
import numpy as np

from .model import Arc
from .solver import programme

EPS = 1e-7
ROUNDS = 400
FRESH = 16
"""Trees that join the programme in one round."""
NONE, NIL = np.array([], np.int32), np.array([])


@dataclass(frozen=True)
class Packed:
    """Trees with rates, what they give each receiver, and whether no trees can give more (else the rounds ran out)."""

    trees: tuple[tuple[float, frozenset[Arc]], ...]
    got: dict[str, float]
    proved: bool


@functools.cache
def _layers(k: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Sets of k by their size, from two on: the sets, and for each its parts with its lowest member, but for itself."""
    layers = []
    for size in range(2, k + 1):
        sets = [whole for whole in range(1 << k) if whole.bit_count() == size]
        parts = []
        for whole in sets:
            low = whole & -whole
            rest, part, found = whole ^ low, (whole ^ low) & ((whole ^ low) - 1), []
            while True:  # all subsets of the rest, but for the rest itself
                found.append(part | low)
                if not part:
                    break
                part = (part - 1) & rest
            parts.append(found)
        layers.append((np.array(sets), np.array(parts)))
    return layers


class Cheapest:
    """Cheapest trees from a source to each set of receivers, for costs of arcs. No arc may have a negative one."""

    def __init__(self, graph: nx.DiGraph, source: str, receivers: Sequence[str]) -> None:
        self.names = list(graph)
        self.place = {name: i for i, name in enumerate(self.names)}
        self.arcs: list[Arc] = list(graph.edges)
        self.tail = np.array([self.place[u] for u, _ in self.arcs])
        self.head = np.array([self.place[v] for _, v in self.arcs])
        self.source, self.receivers = self.place[source], [self.place[name] for name in receivers]

    def solve(self, cost: Sequence[float]) -> None:
        n, k = len(self.names), len(self.receivers)
        far = np.full((n, n), np.inf)
        np.fill_diagonal(far, 0.0)
        self.via = np.tile(np.arange(n), (n, 1))
        """The node after v on the way from v to u."""
        far[self.tail, self.head] = cost
        for m in range(n):
            by = far[:, m, None] + far[None, m, :]
            better = by < far - 1e-15
            far = np.where(better, by, far)
            self.via = np.where(better, self.via[:, m, None], self.via)
        self.best = np.full((1 << k, n), np.inf)
        self.at = np.zeros((1 << k, n), int)
        """Where the tree of v branches."""
        self.split = np.zeros((1 << k, n), int)
        for i, r in enumerate(self.receivers):
            self.best[1 << i], self.at[1 << i] = far[:, r], r
        for sets, parts in _layers(k):
            both = self.best[parts] + self.best[sets[:, None] ^ parts]
            least = both.argmin(axis=1)
            self.split[sets] = np.take_along_axis(parts, least, axis=1)
            merged = np.take_along_axis(both, least[:, None, :], axis=1)[:, 0, :]
            total = far[None, :, :] + merged[:, None, :]
            self.at[sets] = total.argmin(axis=2)
            self.best[sets] = total.min(axis=2)

    def cost(self) -> np.ndarray:
        """Of each set of receivers."""
        return self.best[:, self.source]

    def tree(self, whole: int) -> frozenset[Arc]:
        """The cheapest one's arcs. Where ways meet again, one is enough."""
        arcs: set[tuple[int, int]] = set()
        todo = [(whole, self.source)]
        while todo:
            part, v = todo.pop()
            end = int(self.at[part][v])
            while v != end:
                after = int(self.via[v, end])
                arcs.add((v, after))
                v = after
            if part & (part - 1):
                one = int(self.split[part][v])
                todo += [(one, v), (part ^ one, v)]
        graph = nx.DiGraph(sorted(arcs))
        kept = nx.bfs_tree(graph, self.source) if arcs else graph
        wanted = {r for i, r in enumerate(self.receivers) if whole >> i & 1}
        needed = wanted | {a for r in wanted for a in nx.ancestors(kept, r)}
        return frozenset((self.names[u], self.names[v]) for u, v in kept.edges if v in needed)


class Programme:
    """Column 0 is the level t that receivers rise to; the others are trees. Rows: arcs, then receivers."""

    def __init__(
        self,
        graph: nx.DiGraph,
        source: str,
        target: Mapping[str, float],
        *,
        together: bool,
        nested: bool,
        rounds: int,
    ) -> None:
        self.receivers = list(target)
        self.arcs: list[Arc] = list(graph.edges)
        self.scale = max((capacity for *_, capacity in graph.edges(data="capacity")), default=1)
        self.target = [target[name] / self.scale for name in self.receivers]
        self.together = together
        everybody = (1 << len(target)) - 1
        self.sets = [everybody] if together or nested else None
        """Whom a tree may hold, where that is not anybody."""
        self.cheapest = Cheapest(graph, source, self.receivers)
        self.row = {arc: i for i, arc in enumerate(self.arcs)}
        self.first = len(self.arcs)
        self.trees: list[tuple[int, frozenset[Arc]]] = []
        self.known: set[tuple[int, frozenset[Arc]]] = set()
        self.left = rounds
        self.price = 0.0
        """Of a tree's rate, beside what its arcs cost."""
        self.lp = lp = programme()
        for arc in self.arcs:
            lp.addRow(-highspy.kHighsInf, graph.edges[arc]["capacity"] / self.scale, 0, NONE, NIL)
        for _ in self.receivers:
            lp.addRow(0.0, highspy.kHighsInf, 0, NONE, NIL)
        rows = np.arange(self.first, self.first + len(self.receivers), dtype=np.int32)
        lp.addCol(-1.0, 0.0, 0.0, len(rows), rows, -np.ones(len(rows)))

    def level(self, most: float) -> tuple[float, list[float]]:
        """The highest t up to `most`, and each receiver's price: who has one is held down."""
        self.lp.changeColBounds(0, 0.0, most)
        while True:
            self.lp.run()
            solution = self.lp.getSolution()
            t, dual = solution.col_value[0], list(solution.row_dual)
            worth = [max(0.0, price) for price in dual[self.first :]]
            if (most and t >= most * (1 - EPS)) or not self.left or not self._more(dual, worth):
                return t, worth
            self.left -= 1

    def nest(self) -> None:
        """The same for everybody with as little sent as can be: then trees hold more receivers, those with most are in
        (nearly) all of them, and stages cost least."""
        self.price = 1.0
        for column in range(1, len(self.trees) + 1):
            self.lp.changeColCost(column, self.price)
        self.level(0.0)

    def _more(self, dual: Sequence[float], worth: Sequence[float]) -> bool:
        """Trees that are worth more than they cost."""
        self.cheapest.solve([max(0.0, -dual[self.row[arc]]) for arc in self.cheapest.arcs])
        cost = self.cheapest.cost()
        sets = np.arange(len(cost))
        gain = sum(price * (sets >> i & 1) for i, price in enumerate(worth)) - cost - self.price
        closed = np.ones(len(cost), bool)
        closed[self.sets if self.sets is not None else slice(1, None)] = False
        gain[closed] = -np.inf
        fresh = 0
        for whole in np.argsort(-gain)[:FRESH].tolist():
            if gain[whole] <= EPS:
                break
            key = (whole, self.cheapest.tree(whole))
            if key in self.known:
                continue
            self.known.add(key)
            self.trees.append(key)
            reached = [self.first + i for i in range(len(self.receivers)) if whole >> i & 1]
            at = np.array([self.row[arc] for arc in key[1]] + reached, np.int32)
            self.lp.addCol(self.price, 0.0, highspy.kHighsInf, len(at), at, np.ones(len(at)))
            fresh += 1
        return fresh > 0

    def hold(self, receiver: int, rate: float) -> None:
        """It has `rate` from now on, whatever the others rise to."""
        self.lp.changeCoeff(self.first + receiver, 0, 0.0)
        self.lp.changeRowBounds(self.first + receiver, rate * (1 - EPS), highspy.kHighsInf)

    def solve(self) -> Packed:
        rising = set(range(len(self.receivers)))
        while rising:
            most = min(self.target[i] for i in rising)
            t, worth = self.level(most)
            full = {i for i in rising if self.target[i] <= t * (1 + 2 * EPS)} if t >= most * (1 - EPS) else set()
            held = full or {i for i in rising if worth[i] > EPS} or set(rising)
            for i in held:
                self.hold(i, min(t, self.target[i]))
            rising = set() if self.together and not full else rising - held
            if self.sets is not None and rising and not self.together:
                self.sets.append(sum(1 << i for i in rising))
        proved = self.left > 0
        self.nest()
        values = list(self.lp.getSolution().col_value)[1:]
        # (The trees of the last round may not have been solved for.)
        rates = [(rate * self.scale, tree) for rate, tree in zip(values, self.trees, strict=False) if rate > EPS]
        got = dict.fromkeys(self.receivers, 0.0)
        for rate, (whole, _) in rates:
            for i, name in enumerate(self.receivers):
                got[name] += rate * (whole >> i & 1)
        return Packed(tuple((rate, tree) for rate, (_, tree) in rates), got, proved)


def pack(
    graph: nx.DiGraph,
    source: str,
    target: Mapping[str, float],
    *,
    together: bool,
    nested: bool = False,
    rounds: int = ROUNDS,
) -> Packed:
    """Trees for receivers that want `target`, in the unit of the arcs' `capacity`; `graph` has only arcs that trees may
    use, and every receiver can be reached. `together`: every tree holds all receivers; `nested`: each holds all those
    of the next one, so that stages cost nothing."""
    return Programme(graph, source, target, together=together, nested=nested, rounds=rounds).solve()
