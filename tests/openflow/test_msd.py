"""Routes through switches that pop under three labels at most (Open vSwitch), appliances included."""

from __future__ import annotations

import pytest

from datacast import topologies
from datacast.controller.southbound.config import OPENFLOW_MSD
from datacast.core.routes import RouteError, routes
from datacast.core.trees import steiner_trees
from datacast.core.wire import Segment, decode_route


def stacks(sender: str, first: str, seg: Segment, path: list[str], appliance: bool) -> list[tuple[str, int]]:
    """(switch, labels it meets) along a segment whose nodes are `path`; an appliance's own switch meets all of them."""
    labels = len(seg.ports) - 1 + seg.local
    met = [(sender, labels + 1)] if appliance else []
    assert path[0] == first
    return met + [(node, labels - i) for i, node in enumerate(path)]


@pytest.mark.parametrize(("spec", "receivers"), [("fattree:4,3", ["1111", "1110"]), ("fattree:4,3", ["1111"]),
                                                 ("fattree:4,3", None), ("bcube:4,1", ["02", "10", "21", "33"])])
def test_no_switch_meets_more_labels_than_it_can_pop(spec: str, receivers: list[str] | None) -> None:
    graph = topologies.parse(spec)
    hosts, switches = topologies.hosts(graph), set(topologies.switches(graph))
    for name in switches:
        graph.nodes[name]["msd"] = OPENFLOW_MSD
    peers = {u: {} for u in graph}
    for u, v, data in graph.edges(data=True):
        peers[u][data["ports"][u]], peers[v][data["ports"][v]] = v, u
    found = routes(steiner_trees(graph, hosts[0], receivers or hosts[1:]))
    deepest = 0
    for one in found:
        for receiver, blob in one.blobs.items():
            stops, at = decode_route(blob), receiver
            for i, stop in enumerate(stops[:-1]):
                if not stop.fwd.ports:
                    continue  # to the node of the receiver's own host
                up = [at]
                for port in stop.fwd.ports:
                    up.append(peers[up[-1]][port])
                down = up[::-1]
                back = stops[i + 1].ret
                met = stacks(at, up[1], stop.fwd, up[1:], at in switches)
                met += stacks(down[0], down[1], back, down[1:], down[0] in switches)
                for node, labels in met:
                    if node in switches:
                        deepest = max(deepest, labels)
                        assert labels <= OPENFLOW_MSD, f"{node} meets {labels} labels on the way of {receiver}"
                at = up[-1]
            assert at == hosts[0]
    assert deepest > 1


def test_where_no_waypoint_helps_the_switch_is_named() -> None:
    graph = topologies.parse("fattree:4,3")
    for name in topologies.switches(graph):
        graph.nodes[name].update(msd=OPENFLOW_MSD, cache=False)
    with pytest.raises(RouteError, match="s") as error:
        routes(steiner_trees(graph, "0000", ["1111"]))
    assert error.value.code == "msd" and error.value.what in topologies.switches(graph)


def test_a_branch_without_an_appliance_leaves_the_work_to_the_next_waypoint_above() -> None:
    """s0.0 has none, and all that is below it meets at the source's own host, which forwards in BCube."""
    graph = topologies.parse("bcube:4,1")
    for name in topologies.switches(graph):
        graph.nodes[name].update(msd=OPENFLOW_MSD, cache=name != "s0.0")
    trees = steiner_trees(graph, "00", ["02", "10", "21", "23", "31", "33"])
    branching = {tree.id for tree in trees if sum(arc[0] == "s0.0" for arc in tree.arcs) > 1}
    assert branching, "s0.0 is a branch node"
    for one in routes(trees):
        if one.tree in branching:
            for blob in one.blobs.values():
                above = decode_route(blob)[-2]
                assert above.store and not above.fwd.ports and not above.fwd.local, "not the source's own node"
