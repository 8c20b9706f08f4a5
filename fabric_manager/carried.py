"""Which trees of running groups the links carry."""

from __future__ import annotations

from collections import Counter
from typing import Any

from .api import TreeFigures
from .record import Record

Arc = tuple[str, str]


class Carried:
    """Kept up as groups report: a change costs what has changed."""

    def __init__(self) -> None:
        self._trees: dict[str, dict[str, list[Arc]]] = {}
        self._count: Counter[Arc] = Counter()

    def follow(self, record: Record, ended: bool) -> None:
        """What the group's trees are now."""
        known = self._trees.get(record.id, {})
        now: dict[str, TreeFigures] = {} if ended else record.progress.trees
        for tree in [tree for tree in known if tree not in now]:
            self._count.subtract(known.pop(tree))
        for tree, figures in now.items():
            arcs = figures.arcs or []
            before = known.get(tree)
            if before is arcs or before == arcs:
                continue
            self._count.subtract(before or ())
            self._count.update(arcs)
            known[tree] = arcs
        if known:
            self._trees[record.id] = known
        else:
            self._trees.pop(record.id, None)

    def load(self, but: str) -> list[tuple[str, str, int]]:
        """Trees per arc, of all groups but one."""
        own = Counter(arc for arcs in self._trees.get(but, {}).values() for arc in arcs)
        return [(u, v, n - own[u, v]) for (u, v), n in self._count.items() if n > own[u, v]]

    def entries(self) -> list[dict[str, Any]]:
        """{from, to, group, tree}, one per arc and tree."""
        return [
            {"from": u, "to": v, "group": group, "tree": int(tree)}
            for group, trees in self._trees.items()
            for tree, arcs in trees.items()
            for u, v in arcs
        ]
