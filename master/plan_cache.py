"""Trees and routes of the last groups, for others of the same members (several files to the same hosts, the same job
each night): to find them takes tens of milliseconds in a large fabric, and who has the same holds the same in memory.

They are good for the network as it was: with the next link that fails or comes back, or cache that comes or goes, all
are forgotten. And only where none of their arcs carries more trees of other groups than the busiest did when they were
found: two groups at once look for ways beside each other, as ever.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from datacast.core.routes import Routes
from datacast.core.trees import Arc, Network, TreeSet

PLANS_MAX = 64
"""Of groups of 64 receivers each takes some 25 KB where its group has ended."""


@dataclass(frozen=True)
class _Found:
    trees: TreeSet
    """Nobody else's."""
    routes: tuple[Routes, ...]
    busiest: int


class PlanCache:
    """By source, receivers and the most trees wanted."""

    def __init__(self) -> None:
        self._network: Network | None = None
        self._version = -1
        self._found: OrderedDict[tuple[str, tuple[str, ...], int | None], _Found] = OrderedDict()

    def get(
        self, network: Network, source: str, receivers: Sequence[str], most: int | None, load: Mapping[Arc, int]
    ) -> tuple[TreeSet, list[Routes]] | None:
        """A set of its own each time. `load`: trees of other groups by arc. O(arcs of the trees)."""
        self._follow(network)
        key = source, tuple(receivers), most
        found = self._found.get(key)
        if found is None or _busiest(found.trees, load) > found.busiest:
            return None
        self._found.move_to_end(key)
        return found.trees.twin(), list(found.routes)

    def put(
        self, network: Network, receivers: Sequence[str], most: int | None, load: Mapping[Arc, int],
        found: tuple[TreeSet, list[Routes]],
    ) -> None:  # fmt: skip
        """What was found beside this load."""
        self._follow(network)
        trees, routes = found
        key = trees.source, tuple(receivers), most
        self._found[key] = _Found(trees.twin(), tuple(routes), _busiest(trees, load))
        self._found.move_to_end(key)
        if len(self._found) > PLANS_MAX:
            self._found.popitem(last=False)

    def _follow(self, network: Network) -> None:
        if self._network is not network or self._version != network.version:
            self._network, self._version = network, network.version
            self._found.clear()


def _busiest(trees: TreeSet, load: Mapping[Arc, int]) -> int:
    return max((load.get(arc, 0) for tree in trees.trees for arc in tree.arcs), default=0)
