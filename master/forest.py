"""The trees of a running group while links come and go (paper, section 4.1, Figure 3: repair). Pure.

A *tree id* names a stream of the source: its sequence numbers, its rate, its caches. Which arcs carry it is the
receivers' business, because routes lie in their interests. So a repaired tree keeps its id; an id whose tree could not
be repaired keeps serving what was already sent, over the arcs of another tree; and when links come back an id without
a tree of its own gets the new one. Nothing that a receiver holds is lost, and no number ever changes its piece.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from datacast.core.routes import RouteError, Routes, routes
from datacast.core.trees import Network, Tree, TreeSet, Unreachable

if TYPE_CHECKING:
    import networkx as nx

Delta = tuple[str, str, bool]


def around_plain(graph: nx.Graph) -> Network | None:
    """A network in which nothing passes through switches without a cache, where no host hangs on them; None when
    there is no such switch. For groups whose segments are too deep for a way through such switches."""
    plain = [
        name
        for name, data in graph.nodes(data=True)
        if data["kind"] == "switch"
        and data.get("cache") is False
        and all(graph.nodes[other]["kind"] == "switch" for other in graph[name])
    ]
    if not plain:
        return None
    other = graph.copy()
    for name in plain:
        other.nodes[name]["forwards"] = False
    return Network(other)


@dataclass
class Way:
    """What a tree id goes over. `slot`: the tree of the set; None: it borrows another's arcs."""

    arcs: tuple[tuple[str, str], ...]
    depth: int
    routes: Mapping[str, bytes]
    slot: int | None


@dataclass(frozen=True)
class Change:
    """What an update did: ids whose routes differ, ids that lost their tree, ids that have one again, trees that no id
    has, and receivers that no tree reaches any more or again."""

    changed: list[int] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)
    revived: list[int] = field(default_factory=list)
    unnamed: list[int] = field(default_factory=list)
    cut_off: list[str] = field(default_factory=list)
    back: list[str] = field(default_factory=list)

    @property
    def nothing(self) -> bool:
        return not (self.changed or self.lost or self.revived or self.unnamed or self.cut_off or self.back)


class Forest:
    """`network` is the engine's view of `graph`, shared with others: `update` sets links in it. `found` is the set that
    the group was planned with, `ids` name its trees in order. `payload` must fit every later route: a tree for which it
    does not is not used. `around`: the network is
    around_plain's."""

    def __init__(
        self,
        graph: nx.Graph,
        network: Network,
        source: str,
        found: TreeSet,
        found_routes: list[Routes],
        *,
        ids: list[int],
        payload: int,
        labels: int,
        around: bool = False,
        most: int | None = None,
        load: Callable[[], Mapping[tuple[str, str], int] | None] = lambda: None,
    ) -> None:
        self.graph, self.network, self.source = graph, network, source
        self.payload, self.labels, self.most, self.load = payload, labels, most, load
        self._around = around
        self.cut_off: set[str] = set()
        """Receivers that no tree reaches."""
        self.treeless: set[str] = set()
        """Of these, whom links reach: the group's pieces fit no tree."""
        self._set: TreeSet | None = found
        self._known: dict[int, tuple[Tree, Routes | None]] = {}
        self.ways: dict[int, Way] = {}
        for number, tree, route in zip(ids, found.trees, found_routes, strict=True):
            self._known[tree.id] = tree, route
            self.ways[number] = Way(tree.arcs, tree.depth, route.blobs, tree.id)
        found.put_away()

    @property
    def receivers(self) -> list[str]:
        """Those that the trees reach now."""
        return self._set.receivers if self._set is not None else []

    def knows(self, name: str) -> bool:
        """It was in the fabric when the group began."""
        return name in self.network.index

    def update(self, deltas: list[Delta], wanted: list[str], appliances: Sequence[tuple[str, bool]] = ()) -> Change:
        """Links went down or came up, `appliances` of switches came (True) or went, or other receivers are `wanted`.
        Only broken trees change. O(1) in what is whole; with receivers that come or go as computing anew."""
        index = self.network.index  # of the fabric as it was when the group began: what has joined since is not in it
        deltas = [(u, v, up) for u, v, up in deltas if u in index and v in index]
        for u, v, up in deltas:
            self.network.set_up(u, v, up)
        appliances = [(name, present) for name, present in appliances if name in index]
        for name, present in appliances:
            self.network.set_cache(name, present)
            self._known.clear()
        if appliances and self._around:
            self._on(Network(self.graph), wanted)
            self._around = False
        before_off = set(self.cut_off)
        held = self._set
        if held is not None and set(held.receivers) == set(wanted) - self.cut_off:
            held.repair(deltas)
        if not wanted:
            self._put_away()
            return Change()
        gained = any(up for _, _, up in deltas)
        if (
            held is None
            or len(held) == 0
            or (self.cut_off and gained)
            or set(held.receivers) != set(wanted) - self.cut_off
        ):
            self._compute(wanted)
        elif gained and len(held) < len(self.ways):
            # A tree that was alone may use what two need: over a ring, both of its source's links.
            self._compute(wanted)
            if self._set is None or len(self._set) <= len(held):
                self._set = held
        if not self._around and wanted and self._set and not self._usable() and (network := around_plain(self.graph)):
            self._around = True
            self._on(network, wanted)
        fits = self._set is None or len(self._set) == 0 or bool(self._usable())
        self.treeless = set() if fits else set(wanted) - self.cut_off
        self.cut_off = self.cut_off | self.treeless
        change = self._assign()
        self._put_away()
        return Change(
            *change,
            sorted((self.cut_off - before_off) & set(wanted)),
            sorted((before_off - self.cut_off) & set(wanted)),
        )

    def _put_away(self) -> None:
        """A thousand groups of a process do not all need the engine's memory at the same time."""
        if self._set is not None:
            self._set.put_away()

    def _on(self, network: Network, wanted: list[str]) -> None:
        """Begin anew on another network."""
        self.network = network
        self._known.clear()
        self._compute(wanted)

    def _compute(self, wanted: list[str]) -> None:
        """A host that has joined the fabric since no link reaches, as far as is known here."""
        known = [name for name in wanted if name in self.network.index]
        try:
            self._set = self.network.steiner_trees(self.source, known, self.most, self.load()) if known else None
            self.cut_off = set()
        except Unreachable as error:
            self.cut_off = set(error.receivers)
            self._set = error.trees
        self.cut_off.update(set(wanted).difference(known))

    # ---- ids and trees ----
    def _assign(self) -> tuple[list[int], list[int], list[int], list[int]]:
        if self._set is None or len(self._set) == 0:
            lost = [number for number, way in self.ways.items() if way.slot is not None]
            for number in lost:
                self.ways[number].slot = None
            return [], lost, [], []
        trees = {tree.id: tree for tree in self._set.trees}
        usable = self._usable()
        had = {number: way.slot for number, way in self.ways.items()}
        arcs = {slot: frozenset(trees[slot].arcs) for slot in usable}
        taken: dict[int, int] = {}
        free = set(usable)
        # A tree stays with the id that has most of its arcs already: fewer routes change.
        pairs = sorted(
            (
                (len(arcs[slot] & frozenset(way.arcs)), way.slot is not None, -number, slot)
                for number, way in self.ways.items()
                for slot in usable
            ),
            reverse=True,
        )
        for prefer_own in (True, False):
            for _, own, minus, best in pairs:
                if own == prefer_own and best in free and -minus not in taken:
                    taken[-minus] = best
                    free.discard(best)
        spare = min(usable, key=lambda slot: trees[slot].depth, default=None)
        changed, lost, revived = [], [], []
        for number, way in self.ways.items():
            slot = taken.get(number)
            if slot is None and had[number] is not None:
                lost.append(number)
            if slot is not None and had[number] is None:
                revived.append(number)
            way.slot = slot
            use = slot if slot is not None else spare
            if use is None:
                continue
            if way.arcs != trees[use].arcs or way.routes != usable[use].blobs:
                way.arcs, way.depth, way.routes = trees[use].arcs, trees[use].depth, usable[use].blobs
                changed.append(number)
        return changed, lost, revived, sorted(free)

    def _usable(self) -> dict[int, Routes]:
        """Routes by slot, of the trees that the group's pieces fit."""
        assert self._set is not None
        return {tree.id: found for tree in self._set.trees if (found := self._routes(tree)) is not None}

    def name(self, slot: int, number: int) -> None:
        """Give a tree that no id has a new one."""
        assert self._set is not None
        tree = next(tree for tree in self._set.trees if tree.id == slot)
        found = self._routes(tree)
        assert found is not None
        self.ways[number] = Way(tree.arcs, tree.depth, found.blobs, slot)

    def _routes(self, tree: Tree) -> Routes | None:
        """None when the group's pieces do not fit its links."""
        if (known := self._known.get(tree.id)) is not None and known[0] is tree:
            return known[1]
        found = self._fitting(tree)
        self._known[tree.id] = tree, found
        return found

    def _fitting(self, tree: Tree) -> Routes | None:
        adjacent = self.graph._adj  # not its views: they cost more than the routes
        mtu = min(adjacent[u][v]["mtu"] for u, v in tree.arcs)
        for network in (self._set, None):
            try:
                low = network or self.network.shallower(self.labels)
                found = routes(low, [tree], self.source, self.receivers)[0]
                if found.payload(mtu) >= self.payload:
                    return found
            except RouteError:
                pass
        return None


def shallow(graph: nx.Graph, labels: int) -> nx.Graph:
    """The same graph with no switch that takes more labels at once."""
    low = graph.copy()
    for _, data in low.nodes(data=True):
        data["msd"] = min(int(data.get("msd") or labels), labels)
    return low
