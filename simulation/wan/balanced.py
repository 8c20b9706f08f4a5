"""Balanced Multicasting over clusters: trees with rates from what was measured before, kept whatever happens.

The trees are those of `datacast.planners` (balanced) between clusters; all cards of a cluster share the work. A tree
is one flow over all its links, never faster than planned (the paper shapes at the sender), as slow as its slowest
link. Each carries its part of the object.
"""

from __future__ import annotations

import networkx as nx

from datacast import planners

from .clusters import MB, Clusters


def _graph(network: Clusters, links: dict[tuple[int, int], float]) -> nx.Graph:
    """Clusters as hosts behind routers of their own. Rates of less than a byte per second are no links."""
    graph = nx.Graph()
    for c, cards in enumerate(network.cards):
        way = min(network.access, sum(cards), 1e6 * MB)
        graph.add_node(f"c{c:02}", kind="host", forwards=False)
        graph.add_node(f"r{c:02}", kind="switch")
        graph.add_edge(f"c{c:02}", f"r{c:02}", rate_bps=way)
    for (a, b), capacity in links.items():
        if a < b:
            graph.add_edge(f"r{a:02}", f"r{b:02}", rates_bps={f"r{a:02}": capacity, f"r{b:02}": links[b, a]})
    return graph


def seconds(network: Clusters, measured: dict[tuple[int, int], float] | None = None) -> float:
    """Until the last cluster has everything. `measured`: the links as the planner believes them."""
    graph = _graph(network, measured or network.links)
    members = [f"c{c:02}" for c in range(network.count)]
    plan = planners.plan(planners.hosts(graph), members[0], members[1:], "balanced")
    total = sum(tree.rate_bps for tree in plan.trees)
    fluid, wan = network.network()
    pipes = []
    for tree in plan.trees:
        hops = [(int(a[1:]), int(b[1:])) for a, b in tree.hops]
        pipes.append((fluid.pipe(wan.tree(hops), most=tree.rate_bps), network.size * tree.rate_bps / total))
    fluid.begin()
    done: list[float] = []
    for pipe, size in pipes:
        fluid.send(pipe, size, lambda: done.append(fluid.now))
    fluid.run(lambda: len(done) == len(pipes))
    return fluid.now + max(network.delays.values())
