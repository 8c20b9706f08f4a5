"""Where nodes stand on a map: BCube by level, fat tree by layer, torus as a grid, anything else by distance."""

from __future__ import annotations

import math
from collections.abc import Iterable

import networkx as nx

Places = dict[str, tuple[float, float]]


def places(g: nx.Graph) -> Places:
    """A place in the unit square for every node, x to the right, y down.

    Notes
    -----
    O(nodes + links), whatever the topology: a picture of 4,096 hosts is wanted at once. The form follows the name in
    `g.graph["topology"]`; a graph that only claims one gets rows by distance, as any other.
    """
    family = str(g.graph.get("topology", "")).partition(":")[0]
    try:
        if family == "torus":
            return _grid(g)
        if family in ("bcube", "fattree", "leafspine"):
            return _levels(g)
    except (ValueError, KeyError, IndexError):
        pass
    return _by_distance(g)


def _row(names: list[str], y: float) -> Places:
    return {name: ((i + 0.5) / len(names), y) for i, name in enumerate(names)}


def _rows(rows: Iterable[list[str]]) -> Places:
    """Rows from below upwards. A long row, which would be a line without gaps, becomes several."""
    found = [row for row in rows if row]
    split: list[list[str]] = []
    for row in found:
        parts = max(1, math.isqrt(len(row) // 64))
        size = math.ceil(len(row) / parts)
        split += [row[i : i + size] for i in range(0, len(row), size)]
    places: Places = {}
    for i, row in enumerate(split):
        places |= _row(row, 1 - (i + 0.5) / len(split))
    return places


def _hosts(g: nx.Graph) -> list[str]:
    return [name for name, data in g.nodes(data=True) if data["kind"] == "host"]


def _levels(g: nx.Graph) -> Places:
    """Hosts below, each level or layer of switches above: the digit behind the `s`."""
    levels: dict[int, list[str]] = {}
    for name, data in g.nodes(data=True):
        if data["kind"] != "host":
            levels.setdefault(int(name[1:].partition(".")[0]), []).append(name)
    return _rows([_hosts(g), *(levels[level] for level in sorted(levels))])


def _grid(g: nx.Graph) -> Places:
    """The first half of the dimensions across, the others down."""
    names = list(g.nodes)
    digits = len(names[0])
    base = round(len(names) ** (1 / digits))
    if base**digits != len(names):
        raise ValueError("no torus of single digits")
    across, down = base ** (digits - digits // 2), base ** (digits // 2)
    return {name: ((i % across + 0.5) / across, (i // across + 0.5) / down) for i, name in enumerate(names)}


def _by_distance(g: nx.Graph) -> Places:
    """Rows by hops from the hosts: what hangs on a host first, then what is behind. Hosts only, or none: a ring."""
    hosts = _hosts(g)
    if len(hosts) in (0, len(g)):
        turn = 2 * math.pi / max(len(g), 1)
        return {name: (0.5 + 0.48 * math.cos(i * turn), 0.5 + 0.48 * math.sin(i * turn)) for i, name in enumerate(g)}
    rows: dict[int, list[str]] = {}
    distance = nx.multi_source_dijkstra_path_length(g, hosts, weight=None)
    for name in g:
        rows.setdefault(int(distance.get(name, -1)), []).append(name)
    return _rows(rows[key] for key in sorted(rows))
