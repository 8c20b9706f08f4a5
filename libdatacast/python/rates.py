"""Trees with rates over links with rates of their own: the C engine (rates.h) behind names.

    plan = rated_trees(graph, "00", ["02", "31"], capacity)
    for tree in plan.trees:
        print(tree.rate_bps, tree.arcs)
    plan.got["31"], plan.bound["31"], plan.cut("31")

Rates are bits per second here and whole numbers of a unit in the engine: their greatest common divisor where the sums
stay small enough, else the smallest unit that fits; then capacities are rounded down.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import networkx as nx
import numpy as np

from ._core import ffi, lib
from .quantities import RATE_MAX, is_rate
from .trees import Network, TreeError, Unreachable

SUM_MAX = 1 << 31
RATED_TREES_MAX = int(lib.DC_RATES_TREES_MAX)
Arc = tuple[str, str]


class CapacityError(TreeError):
    """A capacity that is none; `what` names the arc."""

    code = "bad_capacity"


@dataclass(frozen=True)
class RatedTree:
    """A tree and its rate in bits per second. `arcs` are (parent, child), parents before children; `receivers` are
    those that it reaches."""

    rate_bps: int
    arcs: tuple[Arc, ...]
    receivers: tuple[str, ...]

    @property
    def depth(self) -> int:
        depth: dict[str, int] = {}
        for parent, child in self.arcs:
            depth[child] = depth.get(parent, 0) + 1
        return max((depth[name] for name in self.receivers), default=0)


@dataclass(frozen=True)
class Cut:
    """Why a receiver can get no more: the arcs that lead from the source's side of the network to the other one, and
    the sum of their capacities."""

    arcs: tuple[Arc, ...]
    capacity_bps: int


class RatedTrees:
    """A plan. `got` and `bound` are bits per second by receiver, the bound being its max-flow from the source; `split`
    tells whether arcs were split off."""

    def __init__(
        self,
        network: Network,
        source: str,
        receivers: list[str],
        capacity: np.ndarray,
        unit: int,
        *,
        most: int,
        together: bool,
        wish: Mapping[str, int] | None,
    ) -> None:
        self.network, self.source, self.receivers, self.unit = network, source, receivers, unit
        self._capacity = np.minimum(capacity // unit, SUM_MAX - 1).astype(np.uint32)
        s, numbers = network.members(source, receivers)
        size = int(lib.dc_rates_size(network._net, len(numbers), most))
        # Not cleared: most of it is touched only when arcs have to be split off.
        self._memory = np.empty(size // 8 + 1, np.uint64)
        self._plan = lib.dc_rates_init(ffi.from_buffer("uint64_t[]", self._memory), network._net, len(numbers), most)
        query = ffi.new("struct dc_rates_query *")
        given = ffi.from_buffer("uint32_t[]", numbers), ffi.from_buffer("uint32_t[]", self._capacity)
        query.source, query.receiver, query.receivers = s, given[0], len(numbers)
        query.most, query.together, query.capacity = most, together, given[1]
        wished = None
        if wish is not None:
            wishes = np.array(
                [min(wish.get(name, SUM_MAX * unit) // unit, SUM_MAX - 1) for name in receivers], np.uint32
            )
            wished = ffi.from_buffer("uint32_t[]", wishes)
            query.wish = wished
        self._asked = query, given, wished
        self._numbers = numbers
        self.compute()
        self.got = {name: int(lib.dc_rates_got(self._plan, i)) * unit for i, name in enumerate(receivers)}
        self.bound = {name: int(lib.dc_rates_bound(self._plan, i)) * unit for i, name in enumerate(receivers)}
        self.split = bool(lib.dc_rates_was_split(self._plan))
        self.trees = [self._tree(t) for t in range(int(lib.dc_rates_trees(self._plan)))]

    def compute(self) -> None:
        """Plan (again: for measurements)."""
        network, node = self.network, ffi.new("uint32_t *")
        error = lib.dc_rates_compute(self._plan, self._asked[0], node)
        if error == lib.DC_RATES_SUM:
            raise CapacityError(f"the rates around {network.names[node[0]]} are too large", what=network.names[node[0]])
        if error == lib.DC_RATES_NONE:
            raise Unreachable(self.receivers, None)

    def _tree(self, t: int) -> RatedTree:
        v = len(self.network.names)
        node, arc = np.empty(v, np.uint32), np.empty(v, np.uint32)
        n = lib.dc_rates_tree(self._plan, t, ffi.from_buffer("uint32_t[]", node), ffi.from_buffer("uint32_t[]", arc))
        names = self.network.names
        parents, children = self.network.to[arc[:n]].tolist(), node[:n].tolist()
        arcs = tuple((names[p], names[c]) for p, c in zip(parents, children, strict=True))
        reached = set(children)
        members = tuple(name for name, i in zip(self.receivers, self._numbers.tolist(), strict=True) if i in reached)
        return RatedTree(int(lib.dc_rates_tree_rate(self._plan, t)) * self.unit, arcs, members)

    @property
    def common(self) -> int:
        """The rate that every receiver gets."""
        return min(self.got.values())

    @property
    def common_bound(self) -> int:
        return min(self.bound.values())

    @property
    def exact(self) -> bool:
        """Does every receiver get what it could get alone?"""
        return self.got == self.bound

    def cut(self, receiver: str) -> Cut:
        """The cut that bounds a receiver. O(its bound's paths)."""
        i = self.receivers.index(receiver)
        side = np.zeros(len(self.network.names), np.uint8)
        lib.dc_rates_cut(self._plan, i, ffi.from_buffer("uint8_t[]", side))
        index = self.network.index
        across = {arc: rate for arc, rate in self.arcs().items() if side[index[arc[0]]] and not side[index[arc[1]]]}
        return Cut(tuple(across), sum(across.values()))

    def arcs(self) -> dict[Arc, int]:
        """Those that trees may use, and what each can carry, in bit/s: the engine's unit may have rounded it down."""
        network = self.network
        owner = np.repeat(np.arange(len(network.names)), np.diff(network.first))
        forwards = (network.flags & lib.DC_NODE_FORWARDS) != 0
        start = network.node(self.source)
        usable = (self._capacity > 0) & (forwards[network.to] | (network.to == start)) & (owner != start)
        return {
            (network.names[int(network.to[a])], network.names[int(owner[a])]): int(self._capacity[a]) * self.unit
            for a in np.nonzero(usable)[0]
            if lib.dc_net_is_up(network._net, int(a))
        }


def unit_of(network: Network, capacity: np.ndarray, wishes: Iterable[int] = ()) -> int:
    """The engine's unit for these capacities and wishes, in bit/s."""
    values = np.unique(capacity[capacity > 0])
    if not len(values):
        return 1
    common = math.gcd(*values.tolist(), *(wish for wish in wishes if wish > 0))
    owner = np.repeat(np.arange(len(network.names)), np.diff(network.first))
    sums = np.bincount(owner, capacity.astype(float)), np.bincount(network.to, capacity.astype(float))
    most = int(max(total.max() for total in sums))
    return common if most // common < SUM_MAX else most // SUM_MAX + 1


def arc_rates(
    network: Network,
    graph: nx.Graph,
    *,
    taken: Mapping[Arc, int] | None = None,
    caps: Mapping[Arc, int] | None = None,
    default: int | None = None,
) -> np.ndarray:
    """What each arc of the network can carry, in bit/s: `rates_bps` of its link ({node where the arc begins: rate}),
    else `rate_bps` (both directions), else `default`; no more than `caps`; less what others have `taken`.

    Raises CapacityError, naming the link, where a rate is absent, zero, negative, above RATE_MAX or no number.
    """
    index = network.index
    out = np.zeros(len(network.to), np.int64)
    for u, v, data in graph.edges(data=True):
        rates = data.get("rates_bps") or {}
        for parent, child in ((u, v), (v, u)):
            one = rates.get(parent, data.get("rate_bps"))
            one = default if one is None else one
            if not is_rate(one):
                what = f"{parent}-{child}"
                told = "has no rate" if one is None else f"has a rate of {one!r}"
                given = f"give rate_bps, whole bits per second from 1 to {RATE_MAX}"
                raise CapacityError(f"link {what} {told}: {given}", what=what)
            out[network.first[index[child]] + data["ports"][child]] = one
    for (parent, child), most in (caps or {}).items():
        arc = network.arc(parent, child)
        out[arc] = min(out[arc], max(0, most))
    for (parent, child), used in (taken or {}).items():
        arc = network.arc(parent, child)
        out[arc] = max(0, out[arc] - used)
    return out


def rated_trees(
    network: Network,
    source: str,
    receivers: Iterable[str],
    capacity: np.ndarray,
    *,
    together: bool = False,
    most: int = 64,
    wish: Mapping[str, int] | None = None,
) -> RatedTrees:
    """Trees with rates from a source to receivers.

    Parameters
    ----------
    network : Network
    source, receivers
        Hosts.
    capacity : array
        Bit/s of every arc, as `arc_rates` makes it.
    together : bool
        One rate for all receivers. Otherwise each gets its own, as near to its max-flow as the network lets all of
        them.
    most : int
        No more trees than so many. Receivers of like rates share a level when there are too few.
    wish : mapping, optional
        No more than this for a receiver.

    Returns
    -------
    RatedTrees
        Receivers that no path reaches have `got` and `bound` 0.

    Raises
    ------
    UnknownNode, MemberError, CapacityError
    Unreachable
        No receiver can be reached.

    Notes
    -----
    On a network without circles each receiver gets its bound (docs/decisions/trees-exact.md), as long as there are no
    more different bounds than trees; and wherever no relay can send more than it can receive, in networks that are
    small enough to split arcs off.
    """
    if not 1 <= most <= RATED_TREES_MAX:
        raise TreeError(f"{most} trees: give 1 to {RATED_TREES_MAX}", what="trees")
    if len(capacity) != len(network.to) or (len(capacity) and int(capacity.min()) < 0):
        raise CapacityError("a capacity is negative or missing: one number from 0 on per arc", what="capacity")
    names = list(receivers)
    return RatedTrees(
        network,
        source,
        names,
        capacity,
        unit_of(network, capacity, (wish or {}).values()),
        most=most,
        together=together,
        wish=wish,
    )
