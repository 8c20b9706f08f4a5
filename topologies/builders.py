"""Fattree, BCube and Torus with the paper's addresses as names, and other well-known fabrics (paper, section 4.1)."""

from __future__ import annotations

from itertools import product

import networkx as nx

from datacast.topologies.errors import TopologyError
from datacast.topologies.graph import add_cable, add_host, add_switch, check, new, number_ports

NODES_MAX = 1_000_000


def _name(digits: tuple[int, ...] | list[int], n: int) -> str:
    """An address of digits below n as the paper writes it; with dots where a digit can have two figures."""
    return ("" if n <= 10 else ".").join(map(str, digits))


def _need(good: bool, spec: str, why: str) -> None:
    if not good:
        raise TopologyError(f"{spec}: {why}", what=spec)


def bcube(n: int, k: int) -> nx.Graph:
    """BCube(n, k): n^(k+1) hosts with k+1 ports, (k+1)·n^k switches with n ports (Guo et al. 2009).

    Host a_k…a_0 has port i to switch `s<i>.<address without digit i>`, whose port is digit a_i. Hosts forward. O(V + E).
    """
    spec = f"bcube:{n},{k}"
    _need(n >= 2 and k >= 0, spec, "n is at least 2 and k at least 0")
    _need(k <= 16 and n ** (k + 1) <= NODES_MAX, spec, f"more than {NODES_MAX} hosts")
    graph = new(spec)
    addresses = list(product(range(n), repeat=k + 1))
    for address in addresses:
        add_host(graph, _name(address, n), forwards=True)
    for level in range(k + 1):
        for address in product(range(n), repeat=k):
            add_switch(graph, f"s{level}.{_name(address, n)}")
    for address in addresses:
        for level in range(k + 1):
            at = k - level  # digits are written from a_k down to a_0
            rest = address[:at] + address[at + 1 :]
            add_cable(graph, _name(address, n), level, f"s{level}.{_name(rest, n)}", address[at])
    return graph


def torus(n: int, k: int) -> nx.Graph:
    """Torus(n, k): n^k hosts, each linked to both neighbours in each of k dimensions (n > 2). Hosts forward.

    Port 2i leads to digit a_i + 1, port 2i + 1 to a_i - 1 (mod n). O(V + E).
    """
    spec = f"torus:{n},{k}"
    _need(n > 2, spec, "n is at least 3: with 2 both neighbours would be the same host")
    _need(k >= 1, spec, "k is at least 1")
    _need(k <= 16 and n**k <= NODES_MAX, spec, f"more than {NODES_MAX} hosts")
    graph = new(spec)
    addresses = list(product(range(n), repeat=k))
    for address in addresses:
        add_host(graph, _name(address, n), forwards=True)
    for address in addresses:
        for i in range(k):
            at = k - 1 - i
            peer = (*address[:at], (address[at] + 1) % n, *address[at + 1 :])
            add_cable(graph, _name(address, n), 2 * i, _name(peer, n), 2 * i + 1)
    return graph


def fattree(n: int, k: int) -> nx.Graph:
    """Fattree(n, k): k layers of n-port switches, 2·(n/2)^k hosts with one port (Al-Fares et al. 2008, for any k).

    Hosts have the paper's addresses (its Figure 4: 0000 to 1111 in Fattree(4, 3)): k+1 digits, the first 0 or 1, the others
    below n/2; the first two together number the n subtrees under the core. Host a_k…a_0 hangs on edge switch
    `s0.<a_k…a_1>`. A switch of layer l < k-1 is `s<l>.<a_k…a_{l+1}>.<u_{l-1}…u_0>`: above which subtree it stands, and which
    of the (n/2)^l parallel ones it is; a core switch is `s<k-1>.<u_{k-2}…u_0>`. Down ports come first, in the order of the
    digit they lead to. Hosts do not forward. O(V + E).
    """
    spec = f"fattree:{n},{k}"
    _need(n >= 2 and n % 2 == 0, spec, "n, the ports of a switch, is even and at least 2")
    _need(k >= 2, spec, "k, the layers of switches, is at least 2")
    half = n // 2
    _need(k <= 16 and 2 * half**k <= NODES_MAX, spec, f"more than {NODES_MAX} hosts")
    graph = new(spec)

    def address_of(place: tuple[int, ...]) -> tuple[int, ...]:
        return (*divmod(place[0], half), *place[1:]) if place else ()

    def switch(layer: int, below: tuple[int, ...], which: tuple[int, ...]) -> str:
        return "s" + ".".join([str(layer)] + [_name(part, half) for part in (address_of(below), which) if part])

    def subtree(length: int) -> list[tuple[int, ...]]:
        return list(product(range(n), *[range(half)] * (length - 1))) if length else [()]

    for place in subtree(k):
        add_host(graph, _name(address_of(place), half), forwards=False)
    for layer in range(k):
        for below in subtree(k - 1 - layer):
            for which in product(range(half), repeat=layer):
                add_switch(graph, switch(layer, below, which))
    for place in subtree(k):
        add_cable(graph, _name(address_of(place), half), 0, switch(0, place[:-1], ()), place[-1])
    for layer in range(k - 1):
        for below in subtree(k - 1 - layer):
            for which in product(range(half), repeat=layer):
                for up in range(half):
                    above = switch(layer + 1, below[:-1], (up, *which))
                    add_cable(graph, switch(layer, below, which), half + up, above, below[-1])
    return graph


def hypercube(k: int) -> nx.Graph:
    """Hypercube of 2^k hosts with k ports; port i flips digit i. Hosts forward. O(V + E)."""
    spec = f"hypercube:{k}"
    _need(1 <= k <= 19, spec, "k is between 1 and 19")
    graph = new(spec)
    addresses = list(product(range(2), repeat=k))
    for address in addresses:
        add_host(graph, _name(address, 2), forwards=True)
    for address in addresses:
        for i in range(k):
            at = k - 1 - i
            if address[at] == 0:
                peer = (*address[:at], 1, *address[at + 1 :])
                add_cable(graph, _name(address, 2), i, _name(peer, 2), i)
    return graph


def leafspine(leaves: int, spines: int, hosts_per_leaf: int, nics: int = 1) -> nx.Graph:
    """Leaf-spine with multi-homed hosts, as the rails of GPU clusters.

    `nics` adjacent leaves serve one group of `hosts_per_leaf` hosts: NIC i of a host goes to the i-th leaf of its group
    (rail i). Every leaf is linked to every spine. Hosts `h0`…, leaves `leaf0`…, spines `spine0`…; hosts do not forward.
    """
    spec = f"leafspine:{leaves},{spines},{hosts_per_leaf},{nics}"
    _need(min(leaves, spines, hosts_per_leaf, nics) >= 1, spec, "leaves, spines, hosts per leaf and NICs are at least 1")
    _need(leaves % nics == 0, spec, f"{leaves} leaves cannot be grouped by {nics} NICs")
    _need(leaves // nics * hosts_per_leaf + leaves + spines <= NODES_MAX, spec, f"more than {NODES_MAX} nodes")
    graph = new(spec)
    groups = leaves // nics
    for host in range(groups * hosts_per_leaf):
        add_host(graph, f"h{host}", forwards=False)
    for leaf in range(leaves):
        add_switch(graph, f"leaf{leaf}")
    for spine in range(spines):
        add_switch(graph, f"spine{spine}")
    for host in range(groups * hosts_per_leaf):
        group, place = divmod(host, hosts_per_leaf)
        for nic in range(nics):
            add_cable(graph, f"h{host}", nic, f"leaf{group * nics + nic}", place)
    for leaf in range(leaves):
        for spine in range(spines):
            add_cable(graph, f"leaf{leaf}", hosts_per_leaf + spine, f"spine{spine}", leaf)
    return graph


def jellyfish(switches: int, degree: int, hosts_per_switch: int, seed: int = 1) -> nx.Graph:
    """Jellyfish: a random regular graph of switches with hosts on each (Singla et al. 2012). Same seed, same graph."""
    spec = f"jellyfish:{switches},{degree},{hosts_per_switch},{seed}"
    _need(switches >= 2 and 1 <= degree < switches, spec, "the degree is between 1 and the number of switches less one")
    _need(switches * degree % 2 == 0, spec, "switches times degree is even")
    _need(hosts_per_switch >= 1, spec, "at least one host per switch")
    _need(switches * (hosts_per_switch + 1) <= NODES_MAX, spec, f"more than {NODES_MAX} nodes")
    graph = new(spec)
    for i in range(switches):
        for j in range(hosts_per_switch):
            add_host(graph, f"h{i * hosts_per_switch + j}", forwards=False)
    for i in range(switches):
        add_switch(graph, f"s{i}")
    for i in range(switches):
        for j in range(hosts_per_switch):
            add_cable(graph, f"h{i * hosts_per_switch + j}", 0, f"s{i}", j)
    for u, v in sorted(tuple(sorted(e)) for e in nx.random_regular_graph(degree, switches, seed=seed).edges):
        graph.add_edge(f"s{u}", f"s{v}")
    number_ports(graph)
    return graph


BUILDERS = {
    "bcube": (bcube, "n,k"),
    "fattree": (fattree, "n,k"),
    "torus": (torus, "n,k"),
    "hypercube": (hypercube, "k"),
    "leafspine": (leafspine, "leaves,spines,hosts per leaf[,NICs]"),
    "jellyfish": (jellyfish, "switches,degree,hosts per switch[,seed]"),
}


def parse(spec: str) -> nx.Graph:
    """The topology that `spec` names, such as `bcube:4,1`. Raises TopologyError naming what is wrong."""
    name, colon, arguments = spec.partition(":")
    forms = ", ".join(f"{builder}:{form}" for builder, (_, form) in BUILDERS.items())
    if name not in BUILDERS or not colon:
        raise TopologyError(f"{spec!r} is no topology; known are {forms}", what=spec)
    builder, form = BUILDERS[name]
    try:
        numbers = [int(a) for a in arguments.split(",")]
        return check(builder(*numbers))
    except (TypeError, ValueError):
        raise TopologyError(f"{spec!r}: write {name}:{form} with whole numbers", what=spec) from None
