"""Edge-disjoint Steiner trees over a topology graph (paper, section 4): the C engine behind networkx names.

    g = topologies.parse("bcube:8,3")
    found = steiner_trees(g, "0000", ["0001", "7777"])
    for tree in found.trees:
        print(tree.id, tree.depth, tree.arcs)

Sizes in what follows: V nodes, E links, R receivers, T trees.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import networkx as nx
import numpy as np

from ._core import ffi, lib
from .arc_load import ArcLoad as ArcLoad
from .kinds import KIND_NAMES, construction
from .signalling_tree import fan_out as fan_out
from .signalling_tree import nearest as nearest
from .signalling_tree import signalling_tree as signalling_tree
from .tree_errors import LinkError as LinkError
from .tree_errors import MemberError as MemberError
from .tree_errors import TreeError as TreeError
from .tree_errors import UnknownNode as UnknownNode
from .tree_errors import Unreachable as Unreachable

TREES_MAX = int(lib.DC_TREES_MAX)
IDLE_MAX = 2
"""Engines of a network that wait for their next set of trees."""
Arc = tuple[str, str]


@dataclass(frozen=True)
class Tree:
    """One Steiner tree.

    Attributes
    ----------
    id : int
        Its number in the set; kept through repairs.
    arcs : tuple of (parent, child)
        Node names, parents before children.
    depth : int
        Links from the source to the farthest receiver.
    parent : dict
        Child to parent, without the source.
    """

    id: int
    arcs: tuple[Arc, ...]
    depth: int

    @cached_property
    def parent(self) -> dict[str, str]:
        return {child: parent for parent, child in self.arcs}


@dataclass(frozen=True)
class Repaired:
    """What a repair did, by tree ids: trees that differ now, trees that are gone, trees that are new."""

    changed: list[int] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)
    added: list[int] = field(default_factory=list)


class Network:
    """A topology in the engine's arrays. Make it once and ask it often; links go down and come up with `set_up`.

    Parameters
    ----------
    graph : networkx.Graph
        As topologies/graph.py describes it. Taken over as it is now; later changes to it are not seen.

    Raises
    ------
    LinkError
        A self loop, or port numbers that are not dense.

    Notes
    -----
    O(V + E) in Python; about 50 bytes per link.
    """

    def __init__(self, graph: nx.Graph) -> None:
        if graph.is_multigraph() or graph.is_directed():
            raise LinkError("the graph must be simple and undirected: cables are full duplex, without parallels")
        self.names: list[str] = list(graph.nodes)
        self.index: dict[str, int] = {name: i for i, name in enumerate(self.names)}
        index = self.index
        flags = np.zeros(len(self.names), np.uint8)
        msd = np.zeros(len(self.names), np.uint16)
        degrees = []
        for i, (name, data) in enumerate(graph.nodes(data=True)):
            host = data.get("kind") == "host"
            forwards = bool(data.get("forwards", not host))
            flags[i] = (
                host * lib.DC_NODE_HOST
                + forwards * lib.DC_NODE_FORWARDS
                + (forwards and bool(data.get("cache", True))) * lib.DC_NODE_CACHE
                + (not host and data.get("cache") is not None) * lib.DC_NODE_BESIDE
            )
            msd[i] = min(int(data.get("msd") or 0), 65535)
            if host:
                degrees.append(graph.degree(name))
        links = np.empty((graph.number_of_edges(), 4), np.uint32)
        down = []
        for i, (u, v, data) in enumerate(graph.edges(data=True)):
            if u == v:
                raise LinkError(f"self loop at {u}", what=u)
            ports = data["ports"]
            links[i] = index[u], index[v], ports[u], ports[v]
            if not data.get("up", True):
                down.append(i)
        self.flags, self._msd, self._links = flags, msd, links
        self._kind = construction(graph.graph.get("topology", ""))
        # No set can have more trees than the second-best connected host has links: two members are the least.
        degrees.sort()
        self.most = max(1, min(degrees[-2] if len(degrees) > 1 else 1, TREES_MAX))
        self._make()
        # Arcs, as the engine numbers them: by the node they enter and its port.
        degree = (
            np.bincount(links[:, :2].ravel(), minlength=len(self.names))
            if len(links)
            else np.zeros(len(self.names), int)
        )
        first = np.concatenate(([0], np.cumsum(degree)))
        self.first = first
        at_u, at_v = first[links[:, 0]] + links[:, 2], first[links[:, 1]] + links[:, 3]
        self.to = np.empty(2 * len(links), np.uint32)
        self.to[at_u], self.to[at_v] = links[:, 1], links[:, 0]
        self._pairs: list[Arc | None] = [None] * len(self.to)
        self._numbers: dict[Arc, int] = {}
        """Of the arcs that somebody has asked for."""
        self._caches: dict[str, bool] = {}
        for i in down:  # their arcs are known: to look each up takes as long as its node has links
            self._set_up(int(at_v[i]), int(at_u[i]), False)

    def _make(self) -> None:
        """The engine's network, with all links up."""
        self.load: ArcLoad | None = None
        """Trees of all groups, where somebody keeps count: sets that were put away repair by it."""
        self.version = 0
        """Another number whenever trees computed from now on may be others: links, or where waypoints can be."""
        self.up = np.ones(2 * len(self._links), bool)
        """By arc."""
        self._idle: list[Any] = []
        self._shallower: dict[int, Network] = {}
        """By labels."""
        cfg = ffi.new("struct dc_net_cfg *")
        cfg.nodes, cfg.links, cfg.trees = len(self.names), len(self._links), self.most
        cfg.kind, (cfg.n, cfg.k) = self._kind
        self.bytes = int(lib.dc_net_size(cfg))
        self._memory = ffi.new("uint64_t[]", self.bytes // 8 + 1)
        self._net = lib.dc_net_init(
            self._memory,
            cfg,
            ffi.from_buffer("struct dc_net_link[]", self._links),
            ffi.from_buffer("uint8_t[]", self.flags),
            ffi.from_buffer("uint16_t[]", self._msd),
        )
        if self._net == ffi.NULL:
            raise LinkError(
                "the ports of some node are not numbered from 0 on, once each; topologies.validate names it"
            )

    def shallower(self, labels: int) -> Network:
        """The same with no node that takes more labels at once, and with all links up: for routes of trees that there
        are. Made once for all who ask, O(V + E) in the engine."""
        low = self._shallower.get(labels)
        if low is None:
            low = self._shallower[labels] = copy(self)
            low._msd = np.minimum(np.where(self._msd == 0, labels, self._msd), labels).astype(np.uint16)
            low._caches = dict(self._caches)
            low._make()
            for name, can in self._caches.items():
                lib.dc_net_set_cache(low._net, low.node(name), can)
        return low

    @property
    def kind(self) -> str:
        """The structured construction in use ("bcube", …), or "any"."""
        return KIND_NAMES.get(int(lib.dc_net_kind(self._net)), "any")

    @property
    def links(self) -> int:
        return len(self._links)

    def node(self, name: str) -> int:
        """The engine's number of a node. Raises UnknownNode."""
        try:
            return self.index[name]
        except (KeyError, TypeError):
            raise UnknownNode(f"no node {name!r} in the topology", what=str(name)) from None

    def arc(self, parent: str, child: str) -> int:
        """The engine's number of the arc parent -> child. Raises UnknownNode, LinkError."""
        try:
            return self._numbers[parent, child]
        except (KeyError, TypeError):
            pass
        u, v = self.node(parent), self.node(child)
        first = int(self.first[v])
        try:  # a row is short: NumPy's own search would cost ten times as much
            number = first + self.to[first : self.first[v + 1]].tolist().index(u)
        except ValueError:
            raise LinkError(f"no link between {parent} and {child}", what=f"{parent}-{child}") from None
        self._numbers[self.pairs((number,))[0]] = number
        return number

    def pairs(self, arcs: Iterable[int]) -> tuple[Arc, ...]:
        """(parent, child) of arcs by the engine's numbers; the same objects for all who ask."""
        known, found = self._pairs, []
        for arc in arcs:
            pair = known[arc]
            if pair is None:
                child = int(np.searchsorted(self.first, arc, "right")) - 1
                pair = known[arc] = self.names[int(self.to[arc])], self.names[child]
            found.append(pair)
        return tuple(found)

    def lend(self) -> Any:
        """Memory for a set of trees."""
        return self._idle.pop() if self._idle else ffi.new("uint64_t[]", int(lib.dc_trees_size(self._net)) // 8 + 1)

    def take_back(self, memory: Any) -> None:
        if len(self._idle) < IDLE_MAX:
            self._idle.append(memory)

    def set_up(self, u: str, v: str, up: bool) -> int:
        """Take a link up or down for trees computed from now on; TreeSet.repair mends those there are. O(degree)."""
        arc = self.arc(u, v)
        self._set_up(arc, self.arc(v, u), up)
        return arc

    def _set_up(self, arc: int, back: int, up: bool) -> None:
        self.version += bool(lib.dc_net_is_up(self._net, arc)) != up
        lib.dc_net_set_up(self._net, arc, up)
        self.up[[arc, back]] = up

    def set_cache(self, name: str, can: bool) -> None:
        """A switch's cache appliance comes or goes: may routes written from now on have a waypoint there? O(1)."""
        if self._caches.get(name) != can:
            self._caches[name] = can
            self._shallower.clear()
            self.version += 1
        lib.dc_net_set_cache(self._net, self.node(name), can)

    def is_up(self, u: str, v: str) -> bool:
        return bool(lib.dc_net_is_up(self._net, self.arc(u, v)))

    def members(self, source: str, receivers: Iterable[str]) -> tuple[int, np.ndarray]:
        """A group's numbers, checked. Raises UnknownNode, MemberError."""
        if isinstance(receivers, str):
            receivers = [receivers]
        names = list(receivers)
        s = self.node(source)
        if not names:
            raise MemberError("a group without receivers", what="receivers")
        numbers = np.fromiter((self.node(name) for name in names), np.uint32, len(names))
        for number in (s, *numbers[(self.flags[numbers] & lib.DC_NODE_HOST) == 0][:1]):
            if not self.flags[number] & lib.DC_NODE_HOST:
                raise MemberError(
                    f"{self.names[number]} is a switch; only hosts can be members", what=self.names[number]
                )
        if (numbers == s).any():
            raise MemberError(f"the source {source} is among the receivers", what=source)
        unique, counts = np.unique(numbers, return_counts=True)
        if len(unique) != len(numbers):
            twice = self.names[unique[counts > 1][0]]
            raise MemberError(f"receiver {twice} is named twice", what=twice)
        return s, numbers

    def steiner_trees(
        self,
        source: str,
        receivers: Iterable[str],
        max_trees: int | None = None,
        load: Mapping[tuple[str, str], int] | None = None,
        exact: bool = True,
    ) -> TreeSet:
        """As the function `steiner_trees`."""
        s, numbers = self.members(source, receivers)
        found = TreeSet(self, s, numbers, max_trees, load)
        found.compute(exact)
        cut = found.cut_off()
        if cut:
            off = set(cut)
            rest = np.array([n for n in numbers if self.names[n] not in off], np.uint32)
            other = None
            if len(rest):
                other = TreeSet(self, s, rest, max_trees, load)
                other.compute(exact)
            raise Unreachable(cut, other)
        return found


@dataclass(frozen=True)
class _Away:
    """A set without its engine: each tree's arcs, and those it takes for down."""

    arcs: dict[int, np.ndarray]
    down: np.ndarray


class TreeSet(Sequence[Tree]):
    """The trees of one group. Its ids are stable: `repair` keeps a tree's id, and a lost tree's id stays empty.

    A set needs some bytes for every node and arc of the network while it is computed, written into routes or repaired.
    `put_away` reduces it to its own arcs; with the next question of that kind it is as it was.

    Attributes
    ----------
    network : Network
    source : str
    receivers : list of str
    trees : list of Tree
    bound_degree, bound_maxflow : int
        The paper's upper bound (section 6.1.2), and the least max-flow from the source to a receiver.
    """

    def __init__(
        self,
        network: Network,
        source: int,
        receivers: np.ndarray,
        max_trees: int | None = None,
        load: Mapping[tuple[str, str], int] | None = None,
    ) -> None:
        if max_trees is not None and max_trees < 1:
            raise TreeError(f"max_trees is {max_trees}: give at least 1", what="max_trees")
        self.network = network
        self._source, self._receivers = source, np.ascontiguousarray(receivers, np.uint32)
        self._known: dict[int, Tree] = {}
        self.bytes = int(lib.dc_trees_size(network._net))
        self._away: _Away | None = None
        self._memory = network.lend()
        self._engine = lib.dc_trees_init(self._memory, network._net)
        self._query = ffi.new("struct dc_trees_query *")
        self._receiver_buffer = ffi.from_buffer("uint32_t[]", self._receivers)
        self._query.source, self._query.receiver = source, self._receiver_buffer
        self._query.receivers = len(self._receivers)
        self._query.most = min(max_trees or TREES_MAX, TREES_MAX)
        self._load: np.ndarray | None = None
        self._load_buffer: Any = None
        if load:
            if isinstance(load, ArcLoad) and load.network is network:
                self._load = load.engine()
            else:
                self._load = np.zeros(len(network.to), np.uint16)
                for (parent, child), n in load.items():
                    self._load[network.arc(parent, child)] = min(int(n), 65535)
            self._load_buffer = ffi.from_buffer("uint16_t[]", self._load)
            self._query.load = self._load_buffer

    @property
    def _set(self) -> Any:
        """The engine."""
        if self._away is not None:
            away, self._away = self._away, None
            self._memory = self.network.lend()
            self._engine = lib.dc_trees_init(self._memory, self.network._net)
            if self.network.load:
                self._load = self.network.load.engine()
                self._load_buffer = ffi.from_buffer("uint16_t[]", self._load)
                self._query.load = self._load_buffer
            lib.dc_trees_reset(self._engine, self._query)
            lib.dc_trees_take_down(self._engine, ffi.from_buffer("uint32_t[]", away.down), len(away.down))
            for tree, arcs in away.arcs.items():
                lib.dc_trees_load(self._engine, tree, ffi.from_buffer("uint32_t[]", arcs), len(arcs))
        return self._engine

    def put_away(self) -> None:
        """Give the engine's memory back."""
        if self._away is not None:
            return
        down = np.empty(len(self.network.to), np.uint32)
        n = lib.dc_trees_down(self._engine, ffi.from_buffer("uint32_t[]", down))
        arcs = {tree: self._arcs(tree)[1] for tree in self.ids}
        self._away = _Away(arcs, down[:n].copy())
        self._query.load, self._load, self._load_buffer = ffi.NULL, None, None
        self.network.take_back(self._memory)
        self._memory = self._engine = None

    def twin(self) -> TreeSet:
        """The same trees, put away; what becomes of either the other does not see. O(T)."""
        self.put_away()
        twin = copy(self)
        twin._known, twin._query = dict(self._known), ffi.new("struct dc_trees_query *", self._query[0])
        return twin

    def compute(self, exact: bool = True) -> int:
        """Compute the trees anew; returns their number. `exact`: go to the max-flow bound if need be."""
        self._forget()
        found = int(lib.dc_trees_compute(self._set, self._query))
        if exact and 0 < found < min(self.bound_degree, self._query.most):
            wanted = min(self.bound_maxflow, self._query.most)
            if found < wanted:
                found = int(lib.dc_trees_exact(self._set, self._query, wanted))
        return found

    def _forget(self, trees: Iterable[int] = range(TREES_MAX)) -> None:
        for tree in trees:
            self._known.pop(tree, None)
        self.__dict__.pop("bound_maxflow", None)

    @property
    def source(self) -> str:
        return self.network.names[self._source]

    @property
    def receivers(self) -> list[str]:
        return [self.network.names[i] for i in self._receivers]

    @property
    def ids(self) -> list[int]:
        """Ids of the trees that are there."""
        if self._away is not None:
            return list(self._away.arcs)
        return _bits(lib.dc_trees_held(self._set))

    def arcs_of(self, tree: int) -> tuple[np.ndarray, np.ndarray]:
        """(parents, children) of a tree as node numbers, parents before children. O(tree)."""
        nodes, arcs = self._arcs(tree)
        return self.network.to[arcs], nodes

    def _arcs(self, tree: int) -> tuple[np.ndarray, np.ndarray]:
        """Nodes, and the arc by which each is entered."""
        v = len(self.network.names)
        node, arc = np.empty(v, np.uint32), np.empty(v, np.uint32)
        n = lib.dc_trees_nodes(self._set, tree, ffi.from_buffer("uint32_t[]", node), ffi.from_buffer("uint32_t[]", arc))
        return node[:n].copy(), arc[:n].copy()

    @property
    def trees(self) -> list[Tree]:
        """A tree that a repair did not touch is the same object as before."""
        ids = self.ids
        for tree in ids:
            if tree not in self._known:
                arcs = self.network.pairs(self._arcs(tree)[1].tolist())
                self._known[tree] = Tree(tree, arcs, self.depth(tree))
        return [self._known[tree] for tree in ids]

    def depth(self, tree: int) -> int:
        """Links from the source to the farthest receiver of a tree."""
        return int(lib.dc_trees_depth(self._set, tree))

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, i: Any) -> Any:
        return self.trees[i]

    def __iter__(self) -> Iterator[Tree]:
        return iter(self.trees)

    @property
    def bound_degree(self) -> int:
        return int(lib.dc_trees_bound_degree(self._set))

    @cached_property
    def bound_maxflow(self) -> int:
        if not len(self) and self.cut_off():
            return 0
        return int(lib.dc_trees_bound_maxflow(self._set))

    def cut_off(self) -> list[str]:
        """Receivers that no path reaches. O(1) when there are trees, else O(V + E)."""
        if len(self):
            return []
        reached = np.zeros(len(self._receivers), np.uint8)
        lib.dc_trees_reachable(self._set, ffi.from_buffer("uint8_t[]", reached))
        return [self.network.names[i] for i in self._receivers[reached == 0]]

    def repair(self, changed: Iterable[tuple[str, str, bool]]) -> Repaired:
        """Links went down or came up: mend the trees that lost an arc, and only those (Figure 3).

        Parameters
        ----------
        changed : iterable of (u, v, up)
            Links, by the names of their ends. The network is told as well.

        Returns
        -------
        Repaired
            Trees that have not changed keep every arc. A tree that cannot be mended over free links is lost; if links
            come back or a tree was lost, new ones are tried, up to the bound.

        Raises
        ------
        UnknownNode, LinkError
        """
        arcs = np.array([self.network.set_up(u, v, up) for u, v, up in changed], np.uint32)
        if len(arcs) == 0:
            return Repaired()
        done = lib.dc_trees_repair(self._set, ffi.from_buffer("uint32_t[]", arcs), len(arcs))
        repaired = Repaired(_bits(done.changed), _bits(done.lost), _bits(done.added))
        self._forget((*repaired.changed, *repaired.lost, *repaired.added))
        return repaired

    def to_json(self) -> dict[str, Any]:
        """Trees and bounds for machines."""
        return {
            "source": self.source,
            "receivers": self.receivers,
            "trees": [{"id": t.id, "arcs": [list(a) for a in t.arcs], "depth": t.depth} for t in self.trees],
            "bound_degree": self.bound_degree,
            "bound_maxflow": self.bound_maxflow,
        }


def _bits(mask: int) -> list[int]:
    return [i for i in range(TREES_MAX) if mask >> i & 1]


def steiner_trees(
    graph: nx.Graph | Network,
    source: str,
    receivers: Iterable[str],
    max_trees: int | None = None,
    load: Mapping[tuple[str, str], int] | None = None,
    exact: bool = True,
) -> TreeSet:
    """As many edge-disjoint Steiner trees as there are, from a source to all receivers (paper, section 4.1, Figure 3).

    Parameters
    ----------
    graph : networkx.Graph or Network
        A topology; give a Network when you ask more than once.
    source : str
        A host.
    receivers : iterable of str
        Other hosts, once each.
    max_trees : int, optional
        No more than so many.
    load : mapping of (parent, child) to int, optional
        Trees of other groups on each arc: among equal choices the one with less load is taken.
    exact : bool
        Go to the max-flow bound where the quick way falls short of it.

    Returns
    -------
    TreeSet
        Arc-disjoint trees (a cable's two directions are two arcs), each with every receiver, pruned to the group.

    Raises
    ------
    UnknownNode, MemberError, LinkError, TreeError
        Input that makes no sense.
    Unreachable
        Receivers that are cut off; its `trees` are those of the others.

    Notes
    -----
    An unbroken structured topology costs the members' paths, O(T R depth); with failures and in other graphs
    O(T (V + E)), and what the exchange of arcs takes.
    """
    network = graph if isinstance(graph, Network) else Network(graph)
    return network.steiner_trees(source, receivers, max_trees, load, exact)
