"""Trees that break together, and a source that may have one link in each."""

import networkx as nx
import pytest
from helpers import check_trees

from datacast import topologies
from datacast.core.trees import Network, steiner_trees


@pytest.mark.parametrize(
    "spec, source, receivers, down, most",
    [
        ("torus:3,2", "02", ["11", "12", "21"], ["02-22", "11-12", "20-21"], 3),
        ("hypercube:3", "110", ["001", "010"], ["100-110", "010-011"], 2),
    ],
)
def test_trees_that_break_together_do_not_stand_in_each_other_s_way(spec, source, receivers, down, most):
    """One that could not be mended kept the others from it, and what it still had from those searched for anew."""
    g = topologies.parse(spec)
    found = Network(g).steiner_trees(source, receivers)
    links = [tuple(link.split("-")) for link in down]
    for link in links:
        g.edges[link]["up"] = False
    found.repair([(*link, False) for link in links])
    check_trees(g, found, source, receivers)
    assert len(found) == most


def cabled(links: str, hosts: str) -> nx.Graph:
    g = nx.Graph(link.split("-") for link in links.split())
    for u in g:
        g.nodes[u].update(kind="host" if u in hosts.split() else "switch", forwards=u not in hosts.split())
        for port, v in enumerate(g.adj[u]):
            g.edges[u, v].setdefault("ports", {})[u] = port
    return topologies.validate(g)


def test_the_one_link_that_a_tree_has_from_its_source_is_one_that_leads_to_all():
    """It was the first, and a source that passes nothing on got two children, or lost its tree."""
    g = cabled("S-a S-b a-Q b-Q b-R", "S Q R")
    (tree,) = steiner_trees(g, "S", ["Q", "R"], max_trees=1).trees
    assert [child for parent, child in tree.arcs if parent == "S"] == ["b"]
    g = cabled("S-a S-b S-c b-R c-R", "S R")
    found = steiner_trees(g, "S", ["R"], max_trees=1)
    (used,) = [child for parent, child in found.trees[0].arcs if parent == "S"]
    assert found.repair([("S", used, False)]).changed == [0] and len(found) == 1


def test_links_that_are_down_from_the_start_are_not_looked_up_one_by_one():
    """At one node with as many of them that takes as long as they are squared."""
    g = topologies.parse("leafspine:3,2,5")
    down = {frozenset(e) for e in list(g.edges("s0.0"))[::2]}
    for u, v in map(tuple, down):
        g.edges[u, v]["up"] = False
    network = Network(g)
    assert network._numbers == {}
    assert {frozenset(e) for e in g.edges if not network.is_up(*e)} == down
    assert {frozenset(e) for e in g.edges if not network.up[network.arc(*e)]} == down
    assert {frozenset(e) for e in g.edges if not network.up[network.arc(*e[::-1])]} == down
