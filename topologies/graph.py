"""What every topology graph has in common: attributes, ports, checks.

A topology is an undirected `networkx.Graph`; a link is a full-duplex cable.

- node: `kind` ("host" or "switch"), `forwards` (bool), perhaps `cache` (bool: can be a waypoint; by default what
  forwards can) and `msd` (int: the deepest label stack it can handle).
- edge: `ports` ({u: u's port, v: v's port}), perhaps `up` (bool, default True), `rate_bps` (int), and
  `rates_bps` ({node where the direction begins: int}, for both ends), which goes before it, `delay_ms` (one way), `mtu`
  (bytes) and `queue_packets`.
- graph: `topology`, the spec it was built from, or the file's name.

The ports of each node are numbered from 0 without gaps.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import networkx as nx

from datacast.core.quantities import RATE_MAX, is_rate

from .errors import LinkError, NodeError, TopologyError, UnknownNode

KINDS = ("host", "switch")
NAME_MAX = 128
DELAY_MS_MAX = 10_000
PORT_MAX = 65534
"""DC_PORT_MAX: ports travel as 16 bits."""
WHOLE = {"mtu": (256, 65535), "queue_packets": (1, 1_000_000)}
RATES = f"whole bits per second from 1 to {RATE_MAX}"


def add_host(g: nx.Graph, name: str, forwards: bool = False) -> None:
    """A host; `forwards`: it passes on what is for others, as in BCube and Torus."""
    g.add_node(name, kind="host", forwards=forwards)


def add_switch(g: nx.Graph, name: str) -> None:
    """A switch; it forwards."""
    g.add_node(name, kind="switch", forwards=True)


def add_link(g: nx.Graph, u: str, u_port: int, v: str, v_port: int) -> None:
    """A cable between two ports."""
    g.add_edge(u, v, ports={u: u_port, v: v_port})


def hosts(g: nx.Graph) -> list[str]:
    """The hosts' names in the graph's order. O(nodes)."""
    return [name for name, data in g.nodes(data=True) if data["kind"] == "host"]


def switches(g: nx.Graph) -> list[str]:
    """The switches' names in the graph's order. O(nodes)."""
    return [name for name, data in g.nodes(data=True) if data["kind"] == "switch"]


def port(g: nx.Graph, node: str, towards: str) -> int:
    """The port of `node` that leads to its neighbour `towards`. O(1).

    Raises
    ------
    UnknownNode
        No such node.
    LinkError
        The two are no neighbours.
    """
    _known(g, node)
    _known(g, towards)
    if not g.has_edge(node, towards):
        raise LinkError(f"no link between {node} and {towards}", what=f"{node}-{towards}")
    return int(g.edges[node, towards]["ports"][node])


def neighbour(g: nx.Graph, node: str, port: int) -> str:
    """The node at the other end of a port's cable, whether the link is up or not. O(degree).

    Raises
    ------
    UnknownNode
        No such node.
    LinkError
        The node has no such port.
    """
    _known(g, node)
    for peer, data in g.adj[node].items():
        if data["ports"][node] == port:
            return peer
    raise LinkError(f"{node} has no port {port}: it has 0 to {g.degree(node) - 1}", what=node)


def _known(g: nx.Graph, node: str) -> None:
    if node not in g:
        raise UnknownNode(f"no node {node!r} in topology {g.graph.get('topology', '')}".rstrip(), what=str(node))


def validate(g: nx.Graph) -> nx.Graph:
    """Check everything that this module's head promises; fill in `forwards` and `topology` where they are missing.

    Returns
    -------
    networkx.Graph
        The same graph.

    Raises
    ------
    TopologyError, NodeError, LinkError
        What is wrong, with the culprit in `what`.

    Notes
    -----
    O(nodes + links).
    """
    if g.is_directed():
        raise TopologyError("a directed graph: cables are full duplex, so give an undirected one", what="directed")
    if g.is_multigraph():
        seen = set()
        for u, v, _key in g.edges(keys=True):
            if frozenset((u, v)) in seen:
                raise LinkError(
                    f"parallel links between {u} and {v}: one link between two nodes is supported", what=f"{u}-{v}"
                )
            seen.add(frozenset((u, v)))
        raise TopologyError("a multigraph: give a simple graph", what="multigraph")
    if not isinstance(name := g.graph.get("topology", ""), str):
        raise TopologyError(f"topology, the graph's name, is {name!r}: give a text", what="topology")
    if g.number_of_nodes() == 0:
        raise TopologyError("a topology without nodes", what=str(g.graph.get("topology", "")))
    for name, data in g.nodes(data=True):
        _check_node(name, data)
    if not any(data["kind"] == "host" for _, data in g.nodes(data=True)):
        raise NodeError(
            "a topology without hosts: give some nodes the attribute kind=host", what=str(g.graph.get("topology", ""))
        )
    for u, v, data in g.edges(data=True):
        _check_link(u, v, data)
    for name in g.nodes:
        _check_ports(g, name)
    g.graph.setdefault("topology", "")
    return g


def _check_node(name: Any, data: dict[str, Any]) -> None:
    if not isinstance(name, str) or not name:
        raise NodeError(f"node {name!r}: names are strings that are not empty", what=str(name))
    if len(name) > NAME_MAX or not name.isprintable():
        raise NodeError(f"node {name!r}: a name has up to {NAME_MAX} letters that can be printed", what=repr(name))
    kind = data.get("kind")
    if kind not in KINDS:
        why = "has no attribute kind" if kind is None else f"has kind {kind!r}"
        raise NodeError(f"node {name} {why}: give host or switch", what=name)
    data.setdefault("forwards", kind == "switch")
    for key in ("forwards", "cache"):
        if key in data and not isinstance(data[key], bool):
            raise NodeError(f"node {name}: {key} is {data[key]!r}, give true or false", what=name)
    msd = data.get("msd")
    if msd is not None and (isinstance(msd, bool) or not isinstance(msd, int) or msd < 1):
        raise NodeError(f"node {name}: msd (labels it can handle) is {msd!r}, give a number from 1 on", what=name)


def _check_link(u: str, v: str, data: dict[str, Any]) -> None:
    what = f"{u}-{v}"
    if u == v:
        raise LinkError(f"self loop at {u}", what=u)
    ports = data.get("ports")
    if not isinstance(ports, dict) or set(ports) != {u, v}:
        raise LinkError(f"link {what}: ports must name a port of each end, such as {{'{u}': 0, '{v}': 0}}", what=what)
    for end, number in ports.items():
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= PORT_MAX:
            raise LinkError(f"link {what}: port {number!r} of {end} is no number from 0 to {PORT_MAX}", what=what)
    if not isinstance(data.get("up", True), bool):
        raise LinkError(f"link {what}: up is {data['up']!r}, give true or false", what=what)
    rate = data.get("rate_bps")
    if rate is not None and not is_rate(rate):
        raise LinkError(f"link {what}: rate_bps is {rate!r}, give {RATES}", what=what)
    for key, (least, most) in WHOLE.items():
        number = data.get(key)
        if number is not None and (type(number) is not int or not least <= number <= most):
            raise LinkError(f"link {what}: {key} is {number!r}, give a number from {least} to {most}", what=what)
    delay = data.get("delay_ms", 0)
    if isinstance(delay, bool) or not isinstance(delay, int | float) or not 0 <= delay <= DELAY_MS_MAX:
        raise LinkError(f"link {what}: delay_ms is {delay!r}, give 0 to {DELAY_MS_MAX} milliseconds", what=what)
    rates = data.get("rates_bps")
    if rates is None:
        return
    if not isinstance(rates, dict) or set(rates) != {u, v}:
        raise LinkError(f"link {what}: rates_bps must name a rate from each end", what=what)
    for end, one in rates.items():
        if not is_rate(one):
            raise LinkError(f"link {what}: the rate from {end} is {one!r}, give {RATES}", what=what)


def _check_ports(g: nx.Graph, name: str) -> None:
    numbers = [data["ports"][name] for data in g.adj[name].values()]
    different = set(numbers)
    if len(different) != len(numbers):
        twice = Counter(numbers).most_common(1)[0][0]
        raise LinkError(f"port {twice} of {name} has two cables", what=name)
    if numbers and max(numbers) != len(numbers) - 1:
        missing = next(i for i in range(len(numbers)) if i not in different)
        raise LinkError(
            f"{name} has {len(numbers)} cables but no port {missing}: number its ports from 0 on", what=name
        )
