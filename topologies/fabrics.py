"""Switch fabrics beyond the paper's: leaf-spine with multi-homed hosts, Jellyfish. Hosts do not forward."""

from __future__ import annotations

import networkx as nx

from .errors import SpecError
from .graph import add_host, add_link, add_switch
from .structured import check_size

ATTEMPTS_MAX = 100
"""Rings of a degree of 2 are rarely one ring."""


def leafspine(spines: int, leaves: int, hosts: int, nics: int = 1) -> nx.Graph:
    """Leaf-spine; with `nics` above 1 the rail-optimised fabric of GPU clusters.

    Parameters
    ----------
    spines, leaves : int
        Switches of either layer; every leaf has a link to every spine.
    hosts : int
        Hosts of a pod, that is, per group of `nics` leaves.
    nics : int
        Ports of a host: NIC i goes to leaf i of its pod. Must divide `leaves`.

    Returns
    -------
    networkx.Graph
        Hosts `<pod>.<number>`, leaves `s0.<number>` (ports: hosts, then spines), spines `s1.<number>` (port = leaf).

    Raises
    ------
    SpecError
    """
    spec = f"leafspine:{spines},{leaves},{hosts},{nics}"
    if min(spines, leaves, hosts, nics) < 1 or leaves % nics:
        raise SpecError(
            f"{spec}: needs spines,leaves,hosts,nics of at least 1, and leaves a multiple of nics", what=spec
        )
    check_size(spec, leaves + spines + leaves // nics * hosts, leaves * (hosts + spines))
    g = nx.Graph(topology=spec)
    for pod in range(leaves // nics):
        for i in range(hosts):
            add_host(g, f"{pod}.{i}")
    for leaf in range(leaves):
        add_switch(g, f"s0.{leaf}")
    for spine in range(spines):
        add_switch(g, f"s1.{spine}")
    for leaf in range(leaves):
        pod, nic = divmod(leaf, nics)
        for i in range(hosts):
            add_link(g, f"{pod}.{i}", nic, f"s0.{leaf}", i)
        for spine in range(spines):
            add_link(g, f"s0.{leaf}", hosts + spine, f"s1.{spine}", leaf)
    return g


def _regular(degree: int, switches: int, seed: int) -> nx.Graph:
    """Of a dense one the links that are missing are drawn: to draw those that are there may not end."""
    missing = switches - 1 - degree
    if missing < degree:
        return nx.complement(nx.random_regular_graph(missing, switches, seed=seed))
    return nx.random_regular_graph(degree, switches, seed=seed)


def jellyfish(switches: int, degree: int, hosts: int = 1, seed: int = 1) -> nx.Graph:
    """Jellyfish: a random regular graph of switches, `hosts` hosts at each.

    Parameters
    ----------
    switches, degree : int
        Number of switches, and each one's links to other switches; their product must be even.
    hosts : int
        Hosts per switch.
    seed : int
        Same seed, same graph.

    Returns
    -------
    networkx.Graph
        Connected. Hosts `<switch>.<number>`, switches `s<number>` (ports: hosts, then switches by number).

    Raises
    ------
    SpecError
    """
    spec = f"jellyfish:{switches},{degree},{hosts},{seed}"
    if degree < 2 or switches <= degree or hosts < 1 or switches * degree % 2 or seed < 0:
        raise SpecError(
            f"{spec}: needs switches,degree,hosts,seed with degree of at least 2 and below switches, "
            "an even product of both, and at least 1 host",
            what=spec,
        )
    check_size(spec, switches * (1 + hosts), switches * (degree // 2 + hosts))
    for attempt in range(ATTEMPTS_MAX):
        # A random regular graph is connected nearly always; the next seeds are as good.
        fabric = _regular(degree, switches, seed + attempt * 1_000_003)
        if nx.is_connected(fabric):
            break
    else:
        raise SpecError(f"{spec}: none of {ATTEMPTS_MAX} is connected: give a degree of 3 or more", what=spec)
    g = nx.Graph(topology=spec)
    for s in range(switches):
        for i in range(hosts):
            add_host(g, f"{s}.{i}")
    for s in range(switches):
        add_switch(g, f"s{s}")
        for i in range(hosts):
            add_link(g, f"{s}.{i}", 0, f"s{s}", i)
    port = {s: {peer: hosts + i for i, peer in enumerate(sorted(fabric.adj[s]))} for s in range(switches)}
    for u, v in sorted((min(e), max(e)) for e in fabric.edges):
        add_link(g, f"s{u}", port[u][v], f"s{v}", port[v][u])
    return g
