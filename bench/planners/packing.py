"""The best that any trees can do, by linear programme: column generation over all Steiner trees (HiGHS).

Maximizes t such that every receiver gets t times its weight from the trees that it is in. The trees of a solution are
priced by the exact cheapest tree for every set of receivers (Dreyfus and Wagner), so the optimum is over all trees that
there are. For small networks: 2^receivers sets, 3^receivers splits.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import highspy
import networkx as nx
import numpy as np

Arc = tuple[str, str]
EPS = 1e-7
ROUNDS = 2000


class Cheapest:
    """Cheapest trees from a source to each set of receivers, for costs of arcs. No arc may have a negative one."""

    def __init__(self, graph: nx.DiGraph, source: str, receivers: Sequence[str]) -> None:
        self.names = list(graph)
        self.place = {name: i for i, name in enumerate(self.names)}
        self.arcs = list(graph.edges)
        self.source, self.receivers = self.place[source], [self.place[name] for name in receivers]

    def solve(self, cost: Sequence[float]) -> None:
        n, k = len(self.names), len(self.receivers)
        far = np.full((n, n), np.inf)
        np.fill_diagonal(far, 0.0)
        self.via = np.tile(np.arange(n), (n, 1))
        """The node after v on the way from v to u."""
        for (u, v), c in zip(self.arcs, cost, strict=True):
            far[self.place[u], self.place[v]] = c
        for m in range(n):
            by = far[:, m, None] + far[None, m, :]
            better = by < far - 1e-15
            far = np.where(better, by, far)
            self.via = np.where(better, np.repeat(self.via[:, m, None], n, axis=1), self.via)
        self.best = np.full((1 << k, n), np.inf)
        self.at = np.zeros((1 << k, n), int)
        """Where the tree of v branches."""
        self.split = np.zeros((1 << k, n), int)
        for i, r in enumerate(self.receivers):
            self.best[1 << i], self.at[1 << i] = far[:, r], r
        for whole in range(1, 1 << k):
            if whole & (whole - 1) == 0:
                continue
            merged = np.full(n, np.inf)
            part = (whole - 1) & whole
            while part > whole ^ part:
                both = self.best[part] + self.best[whole ^ part]
                less = both < merged
                merged = np.where(less, both, merged)
                self.split[whole][less] = part
                part = (part - 1) & whole
            total = far + merged[None, :]
            self.at[whole] = total.argmin(axis=1)
            self.best[whole] = total.min(axis=1)

    def cost(self) -> np.ndarray:
        """Of each set of receivers."""
        return self.best[:, self.source]

    def tree(self, whole: int) -> set[Arc]:
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
        return {(self.names[u], self.names[v]) for u, v in kept.edges if v in needed}


def best(
    graph: nx.DiGraph, source: str, weight: Mapping[str, float], *, together: bool
) -> tuple[float, list[tuple[float, set[Arc]]]]:
    """The largest t, and trees with rates that reach it. `graph`: arcs with `capacity`, only those that trees may use.
    `together`: every tree holds all receivers."""
    receivers = list(weight)
    scale = max((capacity for *_, capacity in graph.edges(data="capacity")), default=1)
    arcs = list(graph.edges)
    row = {arc: i for i, arc in enumerate(arcs)}
    first = len(arcs)
    lp = highspy.Highs()
    lp.setOptionValue("output_flag", False)
    none, nil = np.array([], np.int32), np.array([])
    for arc in arcs:
        lp.addRow(-highspy.kHighsInf, graph.edges[arc]["capacity"] / scale, 0, none, nil)
    for _ in receivers:
        lp.addRow(0.0, highspy.kHighsInf, 0, none, nil)
    rows = np.arange(first, first + len(receivers), dtype=np.int32)
    lp.addCol(-1.0, 0.0, highspy.kHighsInf, len(rows), rows, -np.array([weight[n] / scale for n in receivers]))
    cheapest, trees, known = Cheapest(graph, source, receivers), [], set()
    everybody = (1 << len(receivers)) - 1
    for _ in range(ROUNDS):
        lp.run()
        dual = list(lp.getSolution().row_dual)
        cheapest.solve([max(0.0, -dual[row[arc]]) for arc in cheapest.arcs])
        worth = [max(0.0, y) for y in dual[first:]]
        gain = [
            (sum(y for i, y in enumerate(worth) if whole >> i & 1) - cost, whole)
            for whole, cost in enumerate(cheapest.cost().tolist())
            if whole and cost < np.inf and (not together or whole == everybody)
        ]
        fresh = 0
        for more, whole in sorted(gain, reverse=True)[: 1 if together else 8]:
            if more <= EPS:
                break
            made = cheapest.tree(whole)
            key = (whole, frozenset(made))
            if key in known:
                continue
            known.add(key)
            fresh += 1
            trees.append(made)
            at = [row[arc] for arc in made] + [first + i for i in range(len(receivers)) if whole >> i & 1]
            by = [1.0] * len(made) + [1.0] * (len(at) - len(made))
            lp.addCol(0.0, 0.0, highspy.kHighsInf, len(at), np.array(at, np.int32), np.array(by))
        if not fresh:
            break
    else:
        raise ArithmeticError("the linear programme does not end")
    values = list(lp.getSolution().col_value)
    found = [(rate * scale, tree) for rate, tree in zip(values[1:], trees, strict=True) if rate > EPS]
    return values[0], found


def by_hand(graph: nx.DiGraph, source: str, receivers: Sequence[str]) -> list[set[Arc]]:
    """All trees from the source that hold all receivers, and no other leaf: to check with."""
    arcs, found = list(graph.edges), []
    for size in range(len(receivers), len(graph)):
        for some in itertools.combinations(arcs, size):
            heads = [v for _, v in some]
            inner = {u for u, _ in some}
            if len(set(heads)) < size or source in heads or not {*receivers} <= {*heads}:
                continue
            if inner - {source, *heads} or any(v not in inner and v not in receivers for v in heads):
                continue
            if source in inner and len(nx.descendants(nx.DiGraph(some), source)) == size:
                found.append(set(some))
    return found
