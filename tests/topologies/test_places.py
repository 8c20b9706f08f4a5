"""Where nodes stand on a map."""

from __future__ import annotations

import time

import networkx as nx
import pytest

from datacast import topologies

SPECS = ["bcube:4,1", "fattree:4,3", "torus:4,2", "torus:3,3", "leafspine:2,3,4", "jellyfish:6,3", "hypercube:3"]


@pytest.mark.parametrize("spec", SPECS)
def test_every_node_has_a_place_of_its_own_on_the_map(spec):
    g = topologies.parse(spec)
    places = topologies.places(g)
    assert set(places) == set(g)
    assert len(set(places.values())) == len(g)
    assert all(0 <= x <= 1 and 0 <= y <= 1 for x, y in places.values())


def test_bcube_stands_by_level_and_a_torus_as_a_grid():
    bcube = topologies.places(topologies.parse("bcube:4,1"))
    rows = [{y for name, (_, y) in bcube.items() if name.startswith(level)} for level in ("s1", "s0")]
    hosts = {y for name, (_, y) in bcube.items() if not name.startswith("s")}
    assert [len(row) for row in (*rows, hosts)] == [1, 1, 1]
    assert max(rows[0]) < max(rows[1]) < max(hosts)
    torus = topologies.places(topologies.parse("torus:4,2"))
    assert torus["00"][1] == torus["01"][1] and torus["00"][0] == torus["10"][0]


def test_a_graph_that_only_claims_a_name_gets_rows_by_distance():
    g = topologies.from_json(
        {
            "graph": {"topology": "bcube:4,1"},
            "nodes": [{"id": "a", "kind": "host"}, {"id": "b", "kind": "switch"}, {"id": "c", "kind": "switch"}],
            "edges": [{"source": "a", "target": "b"}, {"source": "b", "target": "c"}],
        }
    )
    places = topologies.places(g)
    assert places["a"][1] > places["b"][1] > places["c"][1]


def test_parts_that_no_host_reaches_are_on_the_map_too():
    g = nx.Graph(topology="x")
    g.add_node("a", kind="host", forwards=False)
    g.add_node("s", kind="switch", forwards=True)
    assert set(topologies.places(g)) == {"a", "s"}


def test_4096_hosts_are_placed_in_no_time():
    g = topologies.parse("bcube:8,3")
    started = time.process_time()
    assert len(topologies.places(g)) == 4096 + 2048
    assert time.process_time() - started < 5
