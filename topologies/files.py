"""Topologies as files and over HTTP: GraphML, and node-link JSON (networkx's form)."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any

import networkx as nx

from .errors import FileError, LinkError, NodeError, TopologyError
from .graph import WHOLE, validate

BYTES_MAX = 256 << 20
BOOLEANS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def to_json(g: nx.Graph) -> dict[str, Any]:
    """Node-link form, ready for `json.dumps`; `from_json` takes it back, order included. O(nodes + links)."""
    return {
        "directed": False,
        "multigraph": False,
        "graph": dict(g.graph),
        "nodes": [{"id": name, **data} for name, data in g.nodes(data=True)],
        "edges": [{"source": u, "target": v, **data} for u, v, data in g.edges(data=True)],
    }


def from_json(obj: Any) -> nx.Graph:
    """A checked topology from node-link JSON.

    Parameters
    ----------
    obj : dict
        `nodes` (each with `id` and `kind`, perhaps `forwards`, `cache`, `msd`) and `edges` or `links` (each with
        `source` and `target`, perhaps `ports` or `source_port` and `target_port`, `up`, `rate_bps`, `delay_ms`,
        `mtu`, `queue_packets`). Where no link has port numbers, each node's ports are numbered in the order of the
        links.

    Raises
    ------
    TopologyError
        With the culprit in `what`.
    """
    if not isinstance(obj, dict) or not isinstance(obj.get("nodes"), list):
        raise TopologyError("no node-link graph: an object with the lists nodes and edges is needed", what="nodes")
    links = obj.get("edges", obj.get("links"))
    if not isinstance(links, list):
        raise TopologyError("no node-link graph: it has no list edges (or links)", what="edges")
    if obj.get("directed"):
        raise TopologyError("a directed graph: cables are full duplex, so give an undirected one", what="directed")
    attributes = obj.get("graph", {})
    if not isinstance(attributes, dict):
        raise TopologyError("graph, the graph's attributes, must be an object", what="graph")
    g = nx.Graph()  # and no attributes as arguments: networkx has names of its own for some
    g.graph.update({str(key): value for key, value in attributes.items()})
    for node in obj["nodes"]:
        if not isinstance(node, dict) or "id" not in node:
            raise NodeError(f"node {node!r} has no id", what=str(node))
        name = str(node["id"])
        if name in g:
            raise NodeError(f"two nodes have the id {name}", what=name)
        g.add_node(name)
        g.nodes[name].update({str(key): value for key, value in node.items() if key != "id"})
    for link in links:
        if not isinstance(link, dict) or "source" not in link or "target" not in link:
            raise LinkError(f"link {link!r} has no source and target", what=str(link))
        _add(
            g,
            str(link["source"]),
            str(link["target"]),
            {str(key): value for key, value in link.items() if key not in ("source", "target", "key")},
        )
    _number_ports(g)
    return validate(g)


def _add(g: nx.Graph, u: str, v: str, data: dict[str, Any]) -> None:
    for end in (u, v):
        if end not in g:
            raise LinkError(f"link {u}-{v}: no node {end}", what=end)
    if u == v:
        raise LinkError(f"self loop at {u}", what=u)
    if g.has_edge(u, v):
        raise LinkError(f"parallel links between {u} and {v}: one link between two nodes is supported", what=f"{u}-{v}")
    if "source_port" in data or "target_port" in data:
        data["ports"] = {u: data.pop("source_port", None), v: data.pop("target_port", None)}
    g.add_edge(u, v)
    g.edges[u, v].update(data)


def _number_ports(g: nx.Graph) -> None:
    """Where no link has ports: number every node's in the order of the links."""
    numbered = [(u, v) for u, v, data in g.edges(data=True) if "ports" in data]
    if numbered:
        for u, v, data in g.edges(data=True):
            if "ports" not in data:
                raise LinkError(
                    f"link {u}-{v} has no ports but {numbered[0][0]}-{numbered[0][1]} has: number all or none",
                    what=f"{u}-{v}",
                )
        return
    used = dict.fromkeys(g.nodes, 0)
    for u, v, data in g.edges(data=True):
        data["ports"] = {u: used[u], v: used[v]}
        used[u] += 1
        used[v] += 1


def from_file(path: str | os.PathLike[str]) -> nx.Graph:
    """A checked topology from a GraphML (`.graphml`, `.xml`) or node-link JSON file; the content decides which.

    GraphML has no nested values: ports are the edge attributes `source_port` and `target_port`.

    Raises
    ------
    FileError
        The file cannot be read or is no graph; `where` is the path.
    TopologyError
        The graph is no topology; `where` is the path.
    """
    where = os.fspath(path)
    try:
        with open(path, "rb") as file:
            content = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise FileError(f"cannot be read: {error.strerror}", what=where, where=where) from error
    if len(content) > BYTES_MAX:
        raise FileError(f"is longer than {BYTES_MAX} bytes", what=where, where=where)
    try:
        if content.lstrip()[:1] == b"{":
            g = from_json(json.loads(content))
        elif content.lstrip()[:1] == b"<":
            g = from_json(_graphml(content))
        else:
            raise FileError("no graph: neither GraphML nor node-link JSON", what=where)
    except TopologyError as error:
        error.where = where
        raise
    except (ValueError, UnicodeDecodeError, RecursionError) as error:
        raise FileError(f"no JSON: {error}", what=where, where=where) from error
    if not g.graph.get("topology"):
        g.graph["topology"] = os.path.basename(where)
    return g


def _graphml(content: bytes) -> dict[str, Any]:
    """GraphML to the node-link form; what a tool wrote as text becomes what it means."""
    try:
        g = nx.parse_graphml(content.decode(), force_multigraph=True)
    except Exception as error:  # networkx raises many kinds for files that are no GraphML
        raise FileError(f"no GraphML: {error}", what="graphml") from error
    nodes = [{"id": name, **_typed(data)} for name, data in g.nodes(data=True)]
    edges = [{"source": u, "target": v, **_typed(data)} for u, v, data in g.edges(data=True)]
    return {"directed": g.is_directed(), "graph": {}, "nodes": nodes, "edges": edges}


def _typed(data: dict[str, Any]) -> dict[str, Any]:
    out = dict(data)
    out.pop("id", None)
    for key in ("forwards", "cache", "up"):
        if isinstance(out.get(key), str):
            out[key] = BOOLEANS.get(out[key].strip().lower(), out[key])
    for key in ("msd", "rate_bps", "source_port", "target_port", *WHOLE):
        value = out.get(key)
        if (isinstance(value, str) and value.strip().isdigit()) or (isinstance(value, float) and value.is_integer()):
            out[key] = int(value)
    if isinstance(out.get("delay_ms"), str):
        with contextlib.suppress(ValueError):
            out["delay_ms"] = float(out["delay_ms"])
    return out
