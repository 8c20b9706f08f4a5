"""The regular topologies: BCube, Fattree, Torus, hypercube. Names are addresses, digits from the highest to digit 0.

Hosts come first, in the order of their addresses read as numbers, then the switches by level and address; the tree
engine's structured constructions count on that order and on the port numbers given here.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

import networkx as nx

from .errors import SpecError
from .graph import add_host, add_link, add_switch

NODES_MAX = 1 << 20
LINKS_MAX = 1 << 24
"""More is a slip of the keyboard."""


def join(digits: Iterable[int], n: int) -> str:
    """An address: digits put together, with dots between when there are more than ten different ones."""
    return ("." if n > 10 else "").join(map(str, digits))


def _switch(level: int, digits: Iterable[int], n: int) -> str:
    """`s<level>.<address>`; `s<level>` where the address has no digits."""
    address = join(digits, n)
    return f"s{level}.{address}" if address else f"s{level}"


def check_size(spec: str, nodes: int, links: int = 0) -> None:
    """Raises SpecError when a topology would have more than NODES_MAX nodes, or LINKS_MAX links."""
    for count, most, what in ((nodes, NODES_MAX, "nodes"), (links, LINKS_MAX, "links")):
        if count > most:
            raise SpecError(f"{spec} has {count} {what}, more than {most}", what=spec)


def bcube(n: int, k: int) -> nx.Graph:
    """BCube(n, k): n^(k+1) hosts with k+1 ports, k+1 levels of n^k switches with n ports (paper, section 4.1.1).

    Parameters
    ----------
    n : int
        Ports of a switch, at least 2.
    k : int
        Highest level, at least 0.

    Returns
    -------
    networkx.Graph
        Hosts `a_k..a_0`, port i at the switch of level i; switches `s<level>.<address without that digit>`, port =
        the digit. Hosts forward.

    Raises
    ------
    SpecError
    """
    spec = f"bcube:{n},{k}"
    if n < 2 or k < 0:
        raise SpecError(f"{spec}: BCube(n,k) needs n of at least 2 and k of at least 0", what=spec)
    check_size(spec, n ** min(k + 1, 64))
    check_size(spec, n ** (k + 1) + (k + 1) * n**k)
    g = nx.Graph(topology=spec)
    for address in product(range(n), repeat=k + 1):
        add_host(g, join(address, n), forwards=True)
    for level in range(k + 1):
        for rest in product(range(n), repeat=k):
            switch = _switch(level, rest, n)
            add_switch(g, switch)
            for digit in range(n):
                # Digit `level` counts from the right: k - level digits stand before it.
                address = (*rest[: k - level], digit, *rest[k - level :])
                add_link(g, join(address, n), level, switch, digit)
    return g


def fattree(n: int, k: int) -> nx.Graph:
    """Fattree(n, k): k layers of switches with n ports, 2 (n/2)^k hosts (paper, section 4.1.1).

    Parameters
    ----------
    n : int
        Ports of a switch: even, at least 2.
    k : int
        Layers of switches, at least 1.

    Returns
    -------
    networkx.Graph
        Hosts `a_k..a_0` with a_k in {0, 1}, all other digits below n/2, as in the paper's Figure 4. A switch of layer
        l below the highest is `s<l>.a_k..a_{l+1}c_{l-1}..c_0`: the subtree below it, and which of the subtree's
        parallel switches it is; its ports from 0 lead down to digit a_l, those from n/2 up by choice c_l. A switch of
        the highest layer is `s<k-1>.c_{k-2}..c_0`; its port a_k n/2 + a_{k-1} leads down. Hosts do not forward.

    Raises
    ------
    SpecError
    """
    spec = f"fattree:{n},{k}"
    if n < 2 or n % 2 or k < 1:
        raise SpecError(f"{spec}: Fattree(n,k) needs an even n of at least 2 and k of at least 1", what=spec)
    half = n // 2
    check_size(spec, 2 * half ** min(k, 64))
    check_size(spec, 2 * half**k + (2 * k - 1) * half ** (k - 1))
    g = nx.Graph(topology=spec)
    for address in product(range(2), *[range(half)] * k):
        add_host(g, join(address, n))
    for layer in range(k):
        top = layer == k - 1
        prefixes: list[tuple[int, ...]] = [()] if top else list(product(range(2), *[range(half)] * (k - layer - 1)))
        for prefix in prefixes:
            for choice in product(range(half), repeat=layer):
                switch = _switch(layer, (*prefix, *choice), n)
                add_switch(g, switch)
                belows: list[tuple[int, ...]] = list(product(range(2), range(half)) if top else product(range(half)))
                for below in belows:
                    down = below[0] * half + below[1] if top else below[0]
                    subtree = (*prefix, *below)
                    if layer == 0:
                        add_link(g, join(subtree, n), 0, switch, down)
                    else:
                        # The switch below reaches us by our highest choice.
                        child = _switch(layer - 1, (*subtree, *choice[1:]), n)
                        add_link(g, child, half + choice[0], switch, down)
    return g


def torus(n: int, k: int) -> nx.Graph:
    """Torus(n, k): n^k hosts in k dimensions, no switches (paper, section 4.1.1).

    Parameters
    ----------
    n : int
        Hosts per dimension, more than 2 (else the two links of a ring would be parallel).
    k : int
        Dimensions, at least 1.

    Returns
    -------
    networkx.Graph
        Hosts `a_{k-1}..a_0`; port 2i leads to digit a_i + 1, port 2i+1 to a_i - 1. Hosts forward.

    Raises
    ------
    SpecError
    """
    spec = f"torus:{n},{k}"
    if n < 3 or k < 1:
        raise SpecError(f"{spec}: Torus(n,k) needs n of at least 3 and k of at least 1", what=spec)
    check_size(spec, n ** min(k, 64))
    g = nx.Graph(topology=spec)
    for address in product(range(n), repeat=k):
        add_host(g, join(address, n), forwards=True)
    for address in product(range(n), repeat=k):
        for i in range(k):
            at = k - 1 - i
            up = (*address[:at], (address[at] + 1) % n, *address[at + 1 :])
            add_link(g, join(address, n), 2 * i, join(up, n), 2 * i + 1)
    return g


def hypercube(dimensions: int) -> nx.Graph:
    """Hypercube of 2^dimensions hosts; port i leads to the host whose bit i differs. Hosts forward.

    Raises
    ------
    SpecError
    """
    spec = f"hypercube:{dimensions}"
    if dimensions < 1:
        raise SpecError(f"{spec}: a hypercube needs at least 1 dimension", what=spec)
    check_size(spec, 2 ** min(dimensions, 64))
    g = nx.Graph(topology=spec)
    names = [format(i, f"0{dimensions}b") for i in range(2**dimensions)]
    for name in names:
        add_host(g, name, forwards=True)
    for i, name in enumerate(names):
        for bit in range(dimensions):
            if not i >> bit & 1:
                add_link(g, name, bit, names[i | 1 << bit], bit)
    return g
