"""Routes: waypoints where the tree branches and where labels would be too many; what cannot be written is refused."""

import itertools
import random

import networkx as nx
import pytest
from drawing import examples
from helpers import check_routes, group
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datacast import topologies
from datacast.core import constants as c
from datacast.core._core import lib
from datacast.core.routes import RouteError, routes
from datacast.core.trees import Network, steiner_trees
from datacast.core.wire import check_path, decode_route, encode_stop


def line(n: int, **switch) -> nx.Graph:
    """Host a, n switches in a row, host b."""
    names = ["a", *[f"s{i}" for i in range(n)], "b"]
    nodes = [{"id": v, "kind": "host" if v in "ab" else "switch", **({} if v in "ab" else switch)} for v in names]
    return topologies.from_json(
        {"nodes": nodes, "edges": [{"source": u, "target": v} for u, v in itertools.pairwise(names)]}
    )


@settings(max_examples=examples(80), suppress_health_check=list(HealthCheck))
@given(
    spec=st.sampled_from(
        ["fattree:4,3", "bcube:4,1", "leafspine:4,8,6,4", "jellyfish:16,3,2,3", "fattree:4,4", "torus:5,2"]
    ),
    msd=st.integers(2, 4),
    size=st.integers(1, 8),
    seed=st.integers(0, 10**6),
)
def test_no_switch_sees_more_labels_than_it_can_handle(spec, msd, size, seed):
    g = topologies.parse(spec)
    for s in topologies.switches(g):
        g.nodes[s]["msd"] = msd
    source, receivers = group(g, size, seed)
    found = steiner_trees(g, source, receivers)
    check_routes(g, found, routes(found), source, receivers)


def test_a_straight_path_needs_no_waypoint():
    (one,) = routes(steiner_trees(line(5), "a", ["b"]))
    stops = decode_route(one.blobs["b"])
    assert [s.store for s in stops] == [False, False]
    assert (len(stops[0].fwd.ports), one.labels) == (6, 5)
    check_path(one.blobs["b"])


def test_waypoints_split_a_path_that_is_too_deep():
    (one,) = routes(steiner_trees(line(6, msd=3), "a", ["b"]))
    stops = decode_route(one.blobs["b"])
    assert len(stops) > 2 and not any(s.store for s in stops)
    assert one.labels <= 3


def test_an_msd_that_no_waypoint_can_help():
    with pytest.raises(RouteError) as caught:
        routes(steiner_trees(line(6, msd=3, cache=False), "a", ["b"]))
    assert caught.value.code == "msd"
    assert caught.value.what.startswith("s")


def test_a_network_of_shorter_segments_knows_which_appliances_have_gone():
    network = Network(line(6))
    tree = list(steiner_trees(network, "a", ["b"]))
    assert routes(network.shallower(3), tree, "a", ["b"])[0].labels <= 3
    for i in range(6):
        network.set_cache(f"s{i}", False)
    assert routes(network, tree, "a", ["b"])[0].labels > 3
    with pytest.raises(RouteError):
        routes(network.shallower(3), tree, "a", ["b"])


def test_a_path_too_long_for_one_segment():
    g = line(70)
    (one,) = routes(steiner_trees(g, "a", ["b"]))
    assert len(decode_route(one.blobs["b"])) == 3
    with pytest.raises(RouteError) as caught:
        routes(steiner_trees(line(70, cache=False), "a", ["b"]))
    assert caught.value.code == "long"


@pytest.mark.parametrize("hops, far_first", [(70, False), (70, True), (9, False), (9, True)])
def test_a_route_that_an_interest_cannot_carry(hops, far_first):
    """A row of hosts, each a receiver that passes on: too many stops, or fewer stops that are too many bytes."""
    between = 0 if hops > lib.DC_STOPS_MAX else 31  # switches from one to the next
    hosts = [f"h{i}" for i in range(hops + 1)]
    nodes = [{"id": v, "kind": "host", "forwards": True} for v in hosts]
    names = hosts[:1]
    for i, host in enumerate(hosts[1:]):
        switches = [f"s{i}.{j}" for j in range(between)]
        nodes += [{"id": v, "kind": "switch"} for v in switches]
        names += [*switches, host]
    g = topologies.from_json(
        {"nodes": nodes, "edges": [{"source": u, "target": v} for u, v in itertools.pairwise(names)]}
    )
    receivers = hosts[:0:-1] if far_first else hosts[1:]
    with pytest.raises(RouteError) as caught:
        routes(steiner_trees(g, "h0", receivers))
    assert caught.value.code == "stops" and "does not fit an interest" in str(caught.value)
    most = hosts.index(caught.value.what) - 1 if not far_first else hops // 2
    found = steiner_trees(g, "h0", receivers := hosts[1 : most + 1])
    check_routes(g, found, routes(found), "h0", receivers)


def test_interests_meet_above_a_branch_that_cannot_cache_at_the_source_itself_if_need_be():
    g = topologies.leafspine(1, 2, 3)
    for s in topologies.switches(g):
        g.nodes[s]["cache"] = False
    receivers = ["0.1", "1.0", "1.1"]
    found = steiner_trees(g, "0.0", receivers)
    (one,) = routes(found)
    check_routes(g, found, [one], "0.0", receivers)
    for receiver in receivers:
        stops = decode_route(one.blobs[receiver])
        assert [stop.store for stop in stops] == [False, True, False], "the only waypoint is the source's own host"
        assert (stops[1].fwd.ports, stops[1].fwd.local) == ((), False)
    g.nodes["s0.0"]["cache"] = True
    check_routes(g, found, routes(found := steiner_trees(g, "0.0", receivers)), "0.0", receivers)


@settings(max_examples=examples(120), suppress_health_check=list(HealthCheck))
@given(
    spec=st.sampled_from(["fattree:4,3", "bcube:4,1", "leafspine:4,8,6,4", "jellyfish:16,3,2,3", "torus:4,2"]),
    absent=st.floats(0, 1),
    size=st.integers(1, 8),
    seed=st.integers(0, 10**6),
)
def test_a_group_works_whatever_appliances_are_absent(spec, absent, size, seed):
    g = topologies.parse(spec)
    switches = topologies.switches(g)
    for s in random.Random(seed).sample(switches, round(absent * len(switches))):
        g.nodes[s]["cache"] = False
    source, receivers = group(g, size, seed)
    found = steiner_trees(g, source, receivers)
    check_routes(g, found, routes(found), source, receivers)


@settings(max_examples=examples(80), suppress_health_check=list(HealthCheck))
@given(
    spec=st.sampled_from(["fattree:4,3", "bcube:4,1", "leafspine:4,8,6,4", "jellyfish:16,3,2,3", "bcube:3,2"]),
    size=st.integers(1, 8),
    late=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_children_of_a_switch_with_its_cache_beside_it_are_one_link_away(spec, size, late, seed):
    """So that it copies for it, and the link between the two carries a packet once (REPLICATE)."""
    g = topologies.parse(spec)
    network = Network(g)
    for s in topologies.switches(g):
        g.nodes[s]["cache"] = True
        network.set_cache(s, True)
    source, receivers = group(g, size, seed)
    found = steiner_trees(network if late else g, source, receivers)
    made = routes(found)
    check_routes(g, found, made, source, receivers)
    for tree in made:
        for receiver, blob in tree.blobs.items():
            at = receiver
            stops = decode_route(blob)
            for below, stop in itertools.pairwise(stops):
                for port in below.fwd.ports:
                    at = topologies.neighbour(g, at, port)
                if stop.store and g.nodes[at]["kind"] == "switch":
                    forwarding = g.nodes[topologies.neighbour(g, at, stop.ret.ports[0])]["forwards"]
                    assert len(stop.ret.ports) == 1 or not forwarding, f"{at}, to {receiver}"


def test_more_children_than_a_waypoint_can_have():
    g = topologies.leafspine(1, 1, 140)
    with pytest.raises(RouteError) as caught:
        routes(steiner_trees(g, "0.0", [f"0.{i}" for i in range(1, 140)]))
    assert (caught.value.code, caught.value.what) == ("children", "s0.0")


def test_more_consumers_than_the_source_can_keep_apart_where_no_switch_can_cache():
    g = topologies.leafspine(2, 2, 70)
    for s in topologies.switches(g):
        g.nodes[s]["cache"] = False
    receivers = [f"{i}.{j}" for i in range(2) for j in range(70)][1:]
    with pytest.raises(RouteError) as caught:
        routes(steiner_trees(g, "0.0", receivers))
    assert (caught.value.code, caught.value.what) == ("children", "0.0")
    g.nodes["s0.1"]["cache"] = True
    found = steiner_trees(g, "0.0", receivers)
    check_routes(g, found, routes(found), "0.0", receivers)


def test_payload_counts_labels_and_interests():
    (one, *_rest) = routes(steiner_trees(topologies.bcube(4, 1), "00", ["33", "12"]))
    assert one.payload(1500) == 1500 - 16 - 4 * one.labels
    with pytest.raises(RouteError) as caught:
        one.payload(one.interest - 1)
    assert caught.value.code == "mtu"


@pytest.mark.parametrize("spec", ["bcube:4,1", "fattree:4,3", "torus:4,2"])
def test_the_longest_interest_is_that_of_some_stop_on_some_route(spec):
    """With its labels, behind which the stops that are left stand."""
    g = topologies.parse(spec)
    for size in (2, 5):
        for one in routes(steiner_trees(g, *group(g, size, 3))):
            lengths = [0]
            for name in one.blobs:
                stops = decode_route(one.blobs[name])
                assert b"".join(map(encode_stop, stops)) == one.blobs[name]
                for at, stop in enumerate(stops):
                    rest = sum(len(encode_stop(after)) for after in stops[at + 1 :])
                    if stop.fwd.ports:
                        lengths.append(c.LABEL_LEN * len(stop.fwd.labels()) + c.HEADER_LEN + rest)
            assert one.interest == max(lengths)


def test_routes_of_trees_from_elsewhere():
    g = topologies.torus(4, 2)
    receivers = ["12", "33", "21"]
    found = steiner_trees(g, "00", receivers)
    same = routes(found)
    assert routes(g, found.trees, "00", receivers) == same
    assert [r.blobs for r in routes(Network(g), [t.parent for t in found.trees], "00", receivers)] == [
        r.blobs for r in same
    ]
    assert routes(found, found.trees[1:]) == same[1:] and len(same) > 1
    with pytest.raises(RouteError) as caught:
        routes(g, [{"12": "02", "02": "01", "01": "00"}], "00", receivers)
    assert caught.value.code == "missing"
