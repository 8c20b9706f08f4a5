"""Which trees of running groups the links carry."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import structs

from datacast.services.version import installed

from .api.reports import TreeFigures
from .api.topology import CarriedTree, LoadedLink, LoadedTopology, Topology, Wiring
from .record import Record

if TYPE_CHECKING:
    import networkx as nx

Arc = tuple[str, str]


class Carried:
    """Kept up as groups report: a change costs what has changed."""

    def __init__(self, graph: nx.Graph) -> None:
        self._graph = graph
        self._trees: dict[str, dict[str, Sequence[Arc]]] = {}
        self._count: Counter[Arc] = Counter()
        self._shared: dict[Arc, Arc] = {}

    def shared(self, arcs: Sequence[Arc]) -> list[Arc]:
        """The same, of objects that all groups share: a thousand groups name each arc many times."""
        return [self._shared.get(arc) or self._share(arc) for arc in arcs]

    def _share(self, arc: Arc) -> Arc:
        if not self._graph.has_edge(*arc):
            return arc
        arc = sys.intern(arc[0]), sys.intern(arc[1])
        self._shared[arc] = arc
        return arc

    def follow(self, record: Record, ended: bool) -> list[tuple[str, str, int]]:
        """What the group's trees are now; returns what has changed: (from, to, trees more or less)."""
        known = self._trees.get(record.id, {})
        now: dict[str, TreeFigures] = {} if ended else record.progress.trees
        change: Counter[Arc] = Counter()
        for tree in [tree for tree in known if tree not in now]:
            change.subtract(known.pop(tree))
        for tree, figures in now.items():
            arcs = figures.arcs or []
            before = known.get(tree)
            if before is arcs or before == arcs:
                continue
            change.subtract(before or ())
            change.update(arcs)
            known[tree] = arcs
        if known:
            self._trees[record.id] = known
        else:
            self._trees.pop(record.id, None)
        self._count.update(change)
        return [(u, v, n) for (u, v), n in change.items() if n]

    def own(self, group: str) -> list[tuple[str, str, int]]:
        """Trees per arc of one group."""
        return _rows(Counter(arc for arcs in self._trees.get(group, {}).values() for arc in arcs))

    def all(self) -> list[tuple[str, str, int]]:
        """Trees per arc, of all groups."""
        return _rows(self._count)

    def topology(self, plain: Topology) -> LoadedTopology:
        """With what its links carry."""
        on: dict[frozenset[str], list[CarriedTree]] = {}
        for group, trees in self._trees.items():
            for tree, arcs in trees.items():
                for u, v in arcs:
                    on.setdefault(frozenset((u, v)), []).append(
                        CarriedTree(parent=u, child=v, group=group, tree=int(tree))
                    )
        links = [
            LoadedLink(**structs.asdict(link), carries=on.get(frozenset((link.u, link.v)), [])) for link in plain.links
        ]
        same = {name: getattr(plain, name) for name in Wiring.__struct_fields__}
        return LoadedTopology(**same, services={"fabric-manager": installed()}, links=links)


def _rows(count: Counter[Arc]) -> list[tuple[str, str, int]]:
    return [(u, v, n) for (u, v), n in count.items() if n]
