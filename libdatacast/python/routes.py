"""Source routes from trees: each receiver's list of stops per tree, in the wire format (design.md, section 3)."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import networkx as nx
import numpy as np

from ._core import ffi, lib
from .constants import HEADER_LEN, LABEL_LEN
from .trees import Network, Tree, TreeError, TreeSet, UnknownNode


class RouteError(TreeError):
    """A tree whose routes cannot be written; `what` is the node, `code` the reason."""

    def __init__(self, message: str, what: str = "", code: str = "route") -> None:
        super().__init__(message, what=what)
        self.code = code


_not_cleared = ffi.new_allocator(should_clear_after_alloc=False)

REASONS = {
    lib.DC_ROUTES_MISSING: ("missing", "receiver {0} is not in tree {1}"),
    lib.DC_ROUTES_MSD: (
        "msd",
        "{0} cannot handle the labels of a segment of tree {1} (attribute msd), and no waypoint can be "
        "put where it would help",
    ),
    lib.DC_ROUTES_LONG: (
        "long",
        "a segment of tree {1} near {0} is longer than {2} links, with no node that can be a waypoint",
    ),
    lib.DC_ROUTES_STOPS: ("stops", "the route of receiver {0} in tree {1} does not fit an interest"),
    lib.DC_ROUTES_CHILDREN: ("children", "{0} would have more children in tree {1} than the {3} a waypoint can have"),
}


class Blobs(Mapping[str, bytes]):
    """Routes by receiver, in one piece: a process knows the routes of a thousand groups. Never changes."""

    __slots__ = "_at", "_data", "_ends"

    def __init__(self, at: Mapping[str, int], data: bytes, ends: bytes) -> None:
        """`at`: each receiver's place, shared by a group's trees; `ends`: where in `data` each begins, and the end, of
        type uint32_t."""
        self._at, self._data, self._ends = at, data, array("I", ends)

    def __getitem__(self, name: str) -> bytes:
        i = self._at[name]
        return self._data[self._ends[i] : self._ends[i + 1]]

    def __contains__(self, name: object) -> bool:
        return name in self._at

    def __iter__(self) -> Iterator[str]:
        return iter(self._at)

    def __len__(self) -> int:
        return len(self._at)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Blobs) and self._at is other._at:
            return self._data == other._data and self._ends == other._ends
        return super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Routes:
    """Routes of one tree.

    Attributes
    ----------
    tree : int
        Its id.
    blobs : mapping
        Receiver to route.
    labels : int
        Deepest label stack of a data frame, in labels.
    interest : int
        Longest interest, in bytes behind the Ethernet header.
    """

    tree: int
    blobs: Mapping[str, bytes]
    labels: int
    interest: int

    def payload(self, mtu: int) -> int:
        """Bytes of payload that fit a frame on every segment. Raises RouteError when an interest does not fit."""
        if self.interest > mtu:
            raise RouteError(
                f"an interest of tree {self.tree} needs an MTU of {self.interest}, the links have {mtu}",
                what=str(self.tree),
                code="mtu",
            )
        return min(mtu - LABEL_LEN * self.labels - HEADER_LEN, int(lib.DC_PAYLOAD_MAX))


def routes(
    graph: nx.Graph | Network | TreeSet,
    trees: TreeSet | Iterable[Tree | Mapping[str, str]] | None = None,
    source: str | None = None,
    receivers: Sequence[str] | None = None,
) -> list[Routes]:
    """Every receiver's route in every tree.

    Parameters
    ----------
    graph : networkx.Graph, Network or TreeSet
        The topology; a TreeSet is enough by itself.
    trees : TreeSet, or iterable of Tree or of {child: parent}
        With a TreeSet in the first place: those of it that are wanted (None: all).
    source, receivers
        Of the group; not needed with a TreeSet.

    Returns
    -------
    list of Routes
        One per tree, in the trees' order.

    Raises
    ------
    RouteError
        No waypoint helps: see its `code` (`msd`, `long`, `stops`, `children`, `missing`) and `what`, the node.
    UnknownNode, MemberError, LinkError
        Trees or members that are not of this topology.

    Notes
    -----
    Waypoints are the branch nodes that can cache (two or more consumers: children, or itself a receiver), and others
    where a segment would have more labels than a node on it can handle, and those next below a branch switch that has
    its cache beside it: it copies for that one to children one link away. Interests that would meet at a branch node
    that cannot cache meet at the next one above it that can; the source's own node always can. Bytes written are the
    cost: about 0.5 microseconds per route in C, and as much again for Python's objects.
    """
    given: TreeSet
    ids: Iterable[int] | None = None
    if isinstance(graph, TreeSet):
        given = graph
        ids = None if trees is None or trees is graph else [cast(Tree, one).id for one in trees]
    else:
        given = trees if isinstance(trees, TreeSet) else _load(graph, trees or [], source, receivers)
    names = given.receivers
    at = np.empty(len(names) + 1, np.uint32)
    at_buffer = ffi.from_buffer("uint32_t[]", at)
    places = {name: i for i, name in enumerate(names)}
    room = 256 * len(names) + 4096
    out = _not_cleared("uint8_t[]", room)
    result = []
    for tree in given.ids if ids is None else ids:
        done = lib.dc_trees_routes(given._set, tree, out, room, at_buffer)
        while done.error == lib.DC_ROUTES_SPACE:
            room *= 2
            out = _not_cleared("uint8_t[]", room)
            done = lib.dc_trees_routes(given._set, tree, out, room, at_buffer)
        if done.error != lib.DC_ROUTES_OK:
            node = given.network.names[done.node]
            code, text = REASONS[done.error]
            raise RouteError(text.format(node, tree, lib.DC_SEG_MAX, lib.DC_CHILDREN_MAX), what=node, code=code)
        data = bytes(ffi.buffer(out, done.bytes))
        result.append(Routes(tree, Blobs(places, data, at.tobytes()), int(done.labels), int(done.interest)))
    return result


def _load(
    graph: nx.Graph | Network | TreeSet,
    trees: Iterable[Tree | Mapping[str, str]],
    source: str | None,
    receivers: Sequence[str] | None,
) -> TreeSet:
    """A TreeSet of trees that came from elsewhere, each in a set of its own: their arcs may overlap."""
    if source is None or receivers is None:
        raise UnknownNode("give the source and the receivers", what="source")
    assert not isinstance(graph, TreeSet)
    network = graph if isinstance(graph, Network) else Network(graph)
    loaded = TreeSet(network, *network.members(source, receivers))
    lib.dc_trees_reset(loaded._set, loaded._query)
    for i, tree in enumerate(trees):
        parent = tree.parent if isinstance(tree, Tree) else tree
        number = tree.id if isinstance(tree, Tree) else i
        if not 0 <= number < network.most:
            raise RouteError(
                f"tree {number}: this topology has at most {network.most} trees", what=str(number), code="trees"
            )
        arcs = np.array([network.arc(p, c) for c, p in parent.items()], np.uint32)
        lib.dc_trees_load(loaded._set, number, ffi.from_buffer("uint32_t[]", arcs), len(arcs))
    return loaded
