"""The tree of a group's members along which signalling goes (paper, section 3)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from .tree_errors import TreeError

if TYPE_CHECKING:
    from .trees import Network


def signalling_tree(network: Network, root: str, members: Iterable[str], fanout: int = 16) -> dict[str, list[str]]:
    """The tree over members along which signalling goes (paper, section 3): near members below near ones.

    Parameters
    ----------
    network : Network
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
    return fan_out(root, nearest(network, root, members), fanout)


def nearest(network: Network, root: str, members: Iterable[str]) -> list[str]:
    """The members without the root, near ones first. One breadth-first search, O(V + E), whole rounds of it by NumPy
    (BCube(8,3): 1 ms; node by node 6); links that are down are not used, and who is not reached comes last. Raises
    UnknownNode."""
    wanted = {name: network.node(name) for name in members if name != root}
    first, to, up = network.first, network.to, network.up
    is_wanted, seen = np.zeros(len(network.names), bool), np.zeros(len(network.names), bool)
    is_wanted[list(wanted.values())] = True
    reached = np.array([network.node(root)])
    seen[reached] = True
    found: list[int] = []
    while len(reached) and len(found) < len(wanted):
        starts = first[reached]
        counts = first[reached + 1] - starts
        ends = np.cumsum(counts)
        arcs = np.arange(ends[-1]) + np.repeat(starts - ends + counts, counts)
        peers = to[arcs[up[arcs]]]
        peers = peers[~seen[peers]]
        _, at = np.unique(peers, return_index=True)
        reached = peers[np.sort(at)]
        seen[reached] = True
        found += reached[is_wanted[reached]].tolist()
    return [network.names[i] for i in found] + [name for name, node in wanted.items() if not seen[node]]


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
