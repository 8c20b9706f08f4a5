"""BitTorrent on a data centre's network: everybody gets every block once, over more links and later than over trees."""

from __future__ import annotations

import random

import networkx as nx
import numpy as np
import pytest

from datacast.simulation.wan.cornet import BLOCK, PEERS, Cornet
from datacast.topologies import hosts, parse

RATE, SIZE = 125e6, 100 * BLOCK


@pytest.fixture(scope="module", params=[False, True], ids=["cornet", "optimized"])
def swarm(request):
    graph = parse("bcube:4,1")
    made = Cornet(graph, hosts(graph), SIZE, request.param, rate=RATE)
    return made, made.run()


def test_every_block_reaches_every_server_once(swarm):
    made, _ = swarm
    assert made._have.all()
    for node, lines in enumerate(made._to):
        assert sum(line.pipe.sent for line in lines) == pytest.approx(SIZE if node else 0)


def test_it_is_slower_than_two_trees_and_crosses_more_links(swarm):
    made, found = swarm
    least = sum(min(line.hops for line in lines) for lines in made._to[1:]) * SIZE
    assert least <= found.stress < 1.6 * least
    assert found.stress > 1.2 * 17 * SIZE  # a tree in BCube(4,1) for all has 15 hosts' links and those between switches
    assert 1.2 < found.seconds / (SIZE / 2 / RATE) < 6


def test_no_link_carries_more_than_its_rate(swarm):
    made, found = swarm
    load: dict[int, float] = {}
    for lines in made._to:
        for line in lines:
            for arc in set(made.fluid._paths[line.pipe.at]):
                load[arc] = load.get(arc, 0.0) + line.pipe.sent
    assert max(load.values()) <= RATE * found.seconds * (1 + 1e-6)


def test_near_peers_are_chosen_and_one_at_least_at_every_distance():
    graph = parse("fattree:4,3")
    members = hosts(graph)
    near, any_ = (Cornet(graph, members, BLOCK, way, rate=RATE) for way in (True, False))
    hops = [sum(line.hops for lines in made._to for line in lines) / sum(map(len, made._to)) for made in (near, any_)]
    assert hops[0] < hops[1]
    for lines in near._to:
        assert {line.hops for line in lines} == {2, 4, 6}


def test_where_there_are_more_distances_than_peers_most_peers_are_near():
    """Up to twelve hops: the ten furthest had been taken, one at each distance."""
    graph = parse("torus:8,3")
    members = random.Random(1).sample(hosts(graph), 128)
    made = Cornet(graph, members, BLOCK, True, rate=RATE)
    for i, name in enumerate(members):
        hops = nx.single_source_shortest_path_length(graph, name)
        away = np.array([hops[other] for other in members])
        chosen = [away[j] for j in made._chosen(i, away, near=True)]
        assert len(chosen) == PEERS and sorted(chosen)[:5] == sorted(away[away > 0])[:5]
        assert max(chosen) > max(away) / 2, "and some are far"
