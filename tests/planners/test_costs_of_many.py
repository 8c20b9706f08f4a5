"""What plans for thousands of receivers cost: sixteen times as many take about as many times as long."""

from __future__ import annotations

import time
from collections.abc import Callable

import networkx as nx
import pytest

from datacast.core.trees import Network, Unreachable
from datacast.planners import cables, plan

FEW, MANY = 500, 8000
MOST = 96
"""Times as long: 256 if each is compared with each, up to 32 seen where others have the processor's cache."""


def star(hosts: int, cut: bool) -> nx.Graph:
    """Hosts on a switch. `cut`: every other link is down."""
    g = nx.Graph()
    g.add_node("x", kind="switch", forwards=True)
    for i in range(hosts):
        g.add_node(f"h{i}", kind="host", forwards=False)
        g.add_edge(f"h{i}", "x", ports={f"h{i}": 0, "x": i}, rate_bps=10**9, up=not (cut and i % 2))
    return g


def planned(hosts: int) -> Callable[[], object]:
    net = cables(star(hosts, False))
    return lambda: plan(net, "h0", [f"h{i}" for i in range(1, hosts)], "stable")


def cut_off(hosts: int) -> Callable[[], object]:
    network = Network(star(hosts, True))

    def computed() -> None:
        with pytest.raises(Unreachable):
            network.steiner_trees("h0", [f"h{i}" for i in range(1, hosts)])

    return computed


@pytest.mark.parametrize("of", [planned, cut_off])
def test_no_receiver_is_compared_with_each(of: Callable[[int], Callable[[], object]]) -> None:
    def seconds(work: Callable[[], object]) -> float:
        began = time.process_time()
        work()
        return time.process_time() - began

    few, many = of(FEW), of(MANY)
    assert min(seconds(many) for _ in range(3)) < MOST * min(seconds(few) for _ in range(5))
