"""A set of trees that is put away between its uses is the same as one that is not."""

from __future__ import annotations

import random

import networkx as nx
import pytest

from datacast import topologies
from datacast.core.routes import routes
from datacast.core.trees import ArcLoad, Network, TreeSet


def of(spec: str) -> Network:
    return Network(topologies.parse(spec))


@pytest.mark.parametrize("spec", ["bcube:4,1", "torus:4,2", "fattree:4,3", "hypercube:4"])
@pytest.mark.parametrize("seed", range(6))
def test_it_repairs_as_one_that_was_kept(spec: str, seed: int) -> None:
    draw = random.Random(f"{spec} {seed}")
    graph = topologies.parse(spec)
    hosts = [name for name, data in graph.nodes(data=True) if data["kind"] == "host"]
    members = draw.sample(hosts, 7)
    kept = of(spec).steiner_trees(members[0], members[1:])
    away = of(spec).steiner_trees(members[0], members[1:])
    away.put_away()
    down: list[tuple[str, str]] = []
    untold: dict[tuple[str, str], bool] = {}
    for _ in range(12):
        if down and draw.random() < 0.4:
            link, up = down.pop(draw.randrange(len(down))), True
        else:
            link, up = draw.choice([link for link in graph.edges if link not in down]), False
            down.append(link)
        # A network may know of a link before its sets are told.
        for one in (kept, away):
            one.network.set_up(*link, up)
        untold[link] = up
        if draw.random() < 0.3:
            continue
        deltas = [(*each, state) for each, state in untold.items()]
        untold.clear()
        assert away.repair(deltas) == kept.repair(deltas)
        assert [tree.arcs for tree in away] == [tree.arcs for tree in kept]
        assert [(r.blobs, r.labels, r.interest) for r in routes(away)] == [
            (r.blobs, r.labels, r.interest) for r in routes(kept)
        ]
        away.put_away()
        assert away.ids == kept.ids and len(away) == len(kept)


def test_engines_that_were_given_back_serve_others() -> None:
    network = of("bcube:8,1")
    sets: list[TreeSet] = []
    for at in range(20):
        found = network.steiner_trees("00", [f"{at % 7 + 1}{at % 5 + 1}", "77"])
        found.put_away()
        sets.append(found)
    assert len(network._idle) == 1
    again = [of("bcube:8,1").steiner_trees("00", found.receivers) for found in sets]
    assert [[tree.arcs for tree in found] for found in sets] == [[tree.arcs for tree in found] for found in again]


def test_a_set_that_was_away_repairs_by_the_load_there_is_now() -> None:
    """Of two ways around a link the one that others use less."""
    for busy, free in (("m1", "m2"), ("m2", "m1")):
        graph = nx.Graph()
        for name in ("a", "z"):
            graph.add_node(name, kind="host", forwards=False)
        for name in ("s", "m0", "m1", "m2", "t"):
            graph.add_node(name, kind="switch", forwards=True)
        for u, v in [("a", "s"), ("t", "z"), *((end, middle) for middle in ("m0", "m1", "m2") for end in "st")]:
            graph.add_edge(u, v, ports={u: graph.degree(u) if u in graph else 0, v: graph.degree(v)})
        network = Network(graph)
        found = network.steiner_trees("a", ["z"])
        used = found.trees[0].arcs[1][1]
        found.put_away()
        busy, free = (name if name != used else "m0" for name in (busy, free))
        network.load = ArcLoad(network)
        network.load.change("s", busy, 9)
        found.repair([("s", used, False)])
        assert found.trees[0].arcs[1] == ("s", free)
