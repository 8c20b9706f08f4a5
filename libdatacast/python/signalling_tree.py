"""The tree of a group's members along which signalling goes (paper, section 3)."""

from __future__ import annotations

from collections.abc import Iterable

import networkx as nx

from .tree_errors import TreeError, UnknownNode


def signalling_tree(graph: nx.Graph, root: str, members: Iterable[str], fanout: int = 16) -> dict[str, list[str]]:
    """The tree over members along which signalling goes (paper, section 3): near members below near ones.

    Parameters
    ----------
    graph : networkx.Graph
        A topology; links that are down are not used.
    root : str
        The member that the master speaks to.
    members : iterable of str
        All members, the root among them or not.
    fanout : int
        Children of a member at most.

    Returns
    -------
    dict
        Member to its children. Every member is in it; those that no link reaches stand below the root like the others.

    Raises
    ------
    UnknownNode, TreeError

    Notes
    -----
    One breadth-first search in the topology from the root, O(V + E); then members in its order go to the earliest
    member that has room, so the depth is the least that the fan-out allows.
    """
    return fan_out(root, nearest(graph, root, members), fanout)


def nearest(graph: nx.Graph, root: str, members: Iterable[str]) -> list[str]:
    """The members without the root, near ones first. One breadth-first search, O(V + E); links that are down are not
    used, and who is not reached comes last. Raises UnknownNode."""
    wanted = dict.fromkeys(members)
    wanted.pop(root, None)
    for name in (root, *wanted):
        if name not in graph:
            raise UnknownNode(f"no node {name!r} in the topology", what=str(name))
    seen, order, left = {root}, [root], len(wanted)
    adjacent = graph._adj  # not its views: they cost more than the search
    for node in order:
        if not left:
            break
        for peer, data in adjacent[node].items():
            if peer not in seen and data.get("up", True):
                seen.add(peer)
                order.append(peer)
                left -= peer in wanted
    return [name for name in order if name in wanted] + [name for name in wanted if name not in seen]


def fan_out(root: str, near: Iterable[str], fanout: int = 16) -> dict[str, list[str]]:
    """`signalling_tree` of members whose order is known. O(members). Raises TreeError."""
    if fanout < 1:
        raise TreeError(f"fanout is {fanout}: give at least 1", what="fanout")
    tree: dict[str, list[str]] = {root: []}
    parents = [root]
    at = 0
    for name in near:
        if len(tree[parents[at]]) == fanout:
            at += 1
        tree[parents[at]].append(name)
        tree[name] = []
        parents.append(name)
    return tree
