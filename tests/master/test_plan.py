"""Payload, labels, blocks and transport parameters: what follows from links and routes. The routes are the engine's."""

from __future__ import annotations

import itertools

import msgspec
import networkx as nx
import pytest
from small import bcube41, chain, star

from datacast import topologies
from datacast.core import constants as wire
from datacast.core.routes import Routes
from datacast.core.trees import Network, Tree
from datacast.fabric_manager.api import GroupOptions
from datacast.master.forest import Forest
from datacast.master.plan import PlanError, make_plan, make_plan_for, payload_size, per_block, plain_branches
from datacast.master.plan import transport as make_transport

SIX = ["02", "10", "21", "23", "31", "33"]


# As the engine tells it: three labels on data frames, interests of 60 bytes.
ROUTES = Routes(tree=0, blobs={}, labels=3, interest=60)


def graph(mtu: int = 9000, rate: int | None = 10**8, make=bcube41):
    made = make()
    made.graph["defaults"] = {"queue_packets": 100, "rate_bps": rate, "mtu": mtu}
    for *_, data in made.edges(data=True):
        data.update(rate_bps=rate, mtu=mtu)
    return made


@pytest.mark.parametrize("mtu", [1500, 9000, 16000])
def test_a_full_frame_fills_the_mtu_and_no_more(mtu: int) -> None:
    payload, labels = payload_size([ROUTES], mtu)
    assert payload + 4 * labels + wire.HEADER_LEN == mtu


def test_a_payload_that_is_given_must_fit() -> None:
    assert payload_size([ROUTES], 1500, 1000) == (1000, 3)
    with pytest.raises(PlanError, match="1473 bytes exceeds 1472"):
        payload_size([ROUTES], 1500, 1473)


def test_pieces_leave_room_for_the_stacks_needed_when_appliances_go() -> None:
    """Three switches in a row: with appliances a stack is shorter than the whole path."""
    made = graph(make=lambda: chain(3))
    assert make_plan(made, "h0", ["h1"], GroupOptions()).room == 3
    for i in range(3):
        made.nodes[f"s{i}"].update(cache=True, msd=2)
    plan = make_plan(made, "h0", ["h1"], GroupOptions())
    assert plan.labels == 2 and plan.room == 2, "no deeper than the switches can handle"
    for i in range(3):
        made.nodes[f"s{i}"].update(cache=True, msd=None)
    plan = make_plan(made, "h0", ["h1"], GroupOptions())
    assert plan.room == 4 and plan.payload + 4 * plan.room + wire.HEADER_LEN == 9000


def test_an_interest_that_does_not_fit_fails_the_plan() -> None:
    made = graph(mtu=40)
    with pytest.raises(PlanError, match=r"an interest of tree \d needs an MTU of \d+, the links have 40") as caught:
        make_plan(made, "00", SIX, GroupOptions())
    assert caught.value.code == "mtu"


def test_an_mtu_that_leaves_next_to_nothing_is_refused() -> None:
    with pytest.raises(PlanError, match="an MTU of 64 bytes leaves 36 for the payload under 3 labels") as caught:
        make_plan(graph(mtu=64), "00", SIX, GroupOptions())
    assert caught.value.code == "mtu_too_small"


def test_receivers_that_are_cut_off_are_named_and_the_others_get_their_trees() -> None:
    made = graph()
    for link in made.edges("21"):
        made.edges[link]["up"] = False
    plan = make_plan(made, "00", SIX, GroupOptions())
    assert list(plan.cut_off) == ["21"] and "from 00 to 21" in plan.cut_off["21"]
    assert len(plan.trees) == 2 and all(set(t.routes) == set(SIX) - {"21"} for t in plan.trees)


def test_a_switch_that_cannot_handle_the_labels_is_named() -> None:
    made = graph(make=lambda: chain(6))
    made.nodes["s2"]["msd"] = 1
    for node in made:
        made.nodes[node]["cache"] = False
    with pytest.raises(PlanError) as caught:
        make_plan(made, "h0", ["h1"], GroupOptions())
    assert caught.value.code == "msd" and caught.value.what.startswith("s")


def test_the_smallest_mtu_of_the_trees_counts() -> None:
    made = graph()
    made.edges["00", "s0.0"]["mtu"] = 1500
    plan = make_plan(made, "00", SIX, GroupOptions())
    assert plan.mtu == 1500 and plan.payload <= 1484


def test_arcs_are_disjoint_and_reach_every_receiver() -> None:
    made = graph()
    plan = make_plan(made, "00", SIX, GroupOptions())
    arcs = [arc for tree in plan.trees for arc in tree.arcs]
    assert len(plan.trees) == 2 and len(arcs) == len(set(arcs))
    for tree in plan.trees:
        assert set(SIX) <= {v for _, v in tree.arcs} and set(tree.routes) == set(SIX)


def test_fewer_trees_when_asked() -> None:
    assert len(make_plan(graph(), "00", SIX, GroupOptions(trees=1)).trees) == 1


def test_links_that_are_down_are_not_used() -> None:
    made = graph()
    made.edges["00", "s0.0"]["up"] = False
    plan = make_plan(made, "00", SIX, GroupOptions())
    assert len(plan.trees) == 1
    assert not any({"00", "s0.0"} == set(arc) for tree in plan.trees for arc in tree.arcs)


def test_a_source_that_is_cut_off_is_named() -> None:
    made = graph(make=lambda: star(3))
    made.edges["h0", "s"]["up"] = False
    with pytest.raises(PlanError, match="h0") as caught:
        make_plan(made, "h0", ["h1", "h2"], GroupOptions())
    assert caught.value.code == "no_tree"


def test_ideal_counts_every_header() -> None:
    plan = make_plan(graph(), "00", SIX, GroupOptions())
    fraction = plan.payload / (plan.payload + 14 + 4 * plan.labels + 16)
    assert plan.ideal_s(10**8) == pytest.approx(8 * 10**8 / (2 * 10**8 * fraction))


def test_credits_keep_a_queue_of_100_packets_from_overflowing() -> None:
    for others in range(4):
        t = make_transport(GroupOptions(), rate_bps=10**8, frame_bytes=9014, queue_packets=100, others=others)
        assert t.credits * 2 * (1 + others) <= 100 and t.credits >= 8


def test_credits_cover_the_path_and_a_pause_of_its_hosts() -> None:
    def credits(rate: int, hops: int) -> int:
        t = make_transport(GroupOptions(), rate_bps=rate, frame_bytes=9014, queue_packets=10_000, others=0, hops=hops)
        return t.credits

    assert credits(10**7, 2) == 16  # the least
    assert credits(10**8, 2) == 8 + 2 + 28  # 20 ms at 0.72 ms a packet
    assert credits(10**8, 6) == credits(10**8, 2) + 4
    assert credits(10**12, 6) == 4096


@pytest.mark.parametrize("rate", [10**8, 10**9, 10**10, 10**11])
def test_a_burst_fits_a_queue_beside_the_credits_and_nobody_asks_again_while_they_wait_for_tokens(rate: int) -> None:
    for frame, queue in itertools.product((1518, 9014), (100, 600)):
        one = make_transport(GroupOptions(), rate_bps=rate, frame_bytes=frame, queue_packets=queue, others=0, hops=6)
        assert one.burst + one.credits <= queue
        assert one.rto_min_ms / 1000 > one.credits * frame * 8 / rate


def test_a_long_queue_lets_more_packets_leave_together() -> None:
    def burst(queue: int) -> int:
        t = make_transport(GroupOptions(), rate_bps=2 * 10**10, frame_bytes=1518, queue_packets=queue, others=0)
        return t.burst

    assert (burst(100), burst(600)) == (32, 149)


def test_a_cable_with_another_trees_interests_leaves_room_for_them() -> None:
    plan = make_plan(graph(), "00", SIX, GroupOptions())
    arcs = [set(tree.arcs) for tree in plan.trees]
    crossed = any((v, u) in arcs[1] for u, v in arcs[0])
    assert crossed
    for tree in plan.trees:
        share = tree.transport.rate_max_bps / tree.rate_bps
        assert plan.frame_bytes / (plan.frame_bytes + 200) < share < 1
        assert tree.transport.packet_bytes == plan.frame_bytes
    one = make_plan(graph(), "00", SIX, GroupOptions(trees=1)).trees[0]
    assert one.transport.rate_max_bps == one.rate_bps
    load = {(v, u): 3 for u, v in one.arcs}
    assert make_plan(graph(), "00", SIX, GroupOptions(trees=1), load).trees[0].transport.rate_max_bps < one.rate_bps


def test_steady_is_the_rule_unless_another_is_given() -> None:
    assert make_plan(graph(), "00", SIX, GroupOptions()).trees[0].transport.cc == "steady"
    assert make_plan(graph(), "00", SIX, GroupOptions(cc="datacast")).trees[0].transport.cc == "datacast"


def test_rate_increase_keeps_the_papers_duplicate_ratio() -> None:
    t = make_transport(GroupOptions(), rate_bps=10**8, frame_bytes=1500, queue_packets=100, others=0)
    assert (t.delta_bps, t.interval_us) == (5_000_000, 1000)
    slope = t.delta_bps / (t.interval_us * 1e-6)
    assert slope / (slope + 10**16 / (2 * 1500 * 8)) == pytest.approx(0.0119, abs=0.0002)  # Theorem 2


def test_what_is_given_is_taken() -> None:
    given = GroupOptions(
        cc="other",
        rate_bps=10**7,
        rate_init_bps=10**6,
        delta_bps=7,
        interval_us=9,
        burst=3,
        credits=5,
        rto_min_ms=11,
        cache_bytes=0,
    )
    t = make_transport(given, rate_bps=10**8, frame_bytes=9014, queue_packets=100, others=2)
    assert msgspec.to_builtins(t.of(4)) == {
        "id": 4,
        "cc": "other",
        "rate_init_bps": 10**6,
        "rate_max_bps": 10**7,
        "delta_bps": 7,
        "interval_us": 9,
        "burst": 3,
        "credits": 5,
        "batch": 1,
        "rto_min_ms": 11,
        "cache_bytes": 0,
        "packet_bytes": 9014,
        "patience_ms": 300,
    }
    for where_none_will_be_planned in (GroupOptions(delivery="together"), GroupOptions(planner="fpfr")):
        other = make_transport(
            where_none_will_be_planned, rate_bps=10**8, frame_bytes=9014, queue_packets=100, others=0
        )
        assert other.patience_ms == 0


@pytest.mark.parametrize(
    ("options", "frame", "queue", "hops", "credits_and_batch"),
    [
        ({}, 1518, 100, 4, (48, 8)),
        ({}, 1518, 100, 12, (56, 8)),  # a deep tree has more credits for it
        ({}, 1518, 100, 24, (80, 8)),
        ({}, 1518, 100, 28, (82, 6)),  # as many as a queue holds
        ({}, 1518, 100, 45, (48, 1)),
        ({}, 9014, 100, 4, (48, 8)),
        ({"cache_bytes": 64 << 10}, 1518, 100, 4, (48, 4)),
        ({"cache_bytes": 128 << 10}, 9014, 100, 4, (48, 1)),
        ({"cache_bytes": 0}, 1518, 100, 4, (48, 8)),  # the nodes' default
        ({}, 1518, 30, 2, (13, 1)),
        ({"credits": 30}, 1518, 100, 4, (30, 4)),  # as given
        ({"cc": "datacast"}, 1518, 100, 4, (48, 1)),  # as the paper has it
    ],
)
def test_numbers_are_asked_for_in_batches_where_credits_and_stores_hold_them(
    options: dict[str, int | str], frame: int, queue: int, hops: int, credits_and_batch: tuple[int, int]
) -> None:
    given = GroupOptions(**options)
    t = make_transport(given, rate_bps=10**9, frame_bytes=frame, queue_packets=queue, others=0, hops=hops)
    assert (t.credits, t.batch) == credits_and_batch
    if queue == 100 and not options:  # who shares its links has no more for it
        t = make_transport(given, rate_bps=10**9, frame_bytes=frame, queue_packets=queue, others=1, hops=hops)
        assert t.credits == 24


@pytest.mark.parametrize(
    ("rate", "others", "stored"),
    [
        (10**7, 0, 128 << 10),
        (10**8, 0, 128 << 10),
        (10**9, 0, 1_250_000),
        (10**9, 4, 250_000),
        (10**10, 0, 12_500_000),
        (10**11, 0, 16 << 20),
        (10**10, 63, 195_312),
    ],
)
def test_a_store_holds_what_some_milliseconds_bring(rate: int, others: int, stored: int) -> None:
    t = make_transport(GroupOptions(), rate_bps=rate, frame_bytes=9014, queue_packets=100, others=others)
    assert t.cache_bytes == stored


@pytest.mark.parametrize("size", [3, 9013])
def test_a_cache_that_holds_no_packet_is_refused(size: int) -> None:
    with pytest.raises(PlanError, match=f"{size} bytes holds none of this group's packets of 9014") as caught:
        make_transport(GroupOptions(cache_bytes=size), rate_bps=10**9, frame_bytes=9014, queue_packets=100, others=0)
    assert (caught.value.code, caught.value.what) == ("cache_too_small", "cache_bytes")


def test_links_that_other_groups_use_start_slower_and_queue_less() -> None:
    made = graph()
    alone = make_plan(made, "00", SIX, GroupOptions())
    load = {arc: 1 for arc in alone.trees[0].arcs}
    first, second = make_plan(made, "00", SIX, GroupOptions(), load).trees
    busy = first if any(load.get(arc) for arc in first.arcs) else second
    assert busy.transport.rate_init_bps == busy.transport.rate_max_bps // 2 and busy.transport.credits == 24


@pytest.mark.parametrize(
    ("size", "payload"), [(0, 8976), (1, 8976), (256 << 20, 8976), (4 << 30, 1400), (1 << 44, 8976)]
)
def test_blocks_are_about_a_mebibyte_and_not_too_many(size: int, payload: int) -> None:
    pieces = per_block(size, payload, None)
    assert pieces >= 1 and size / (pieces * payload) <= 8193
    if size <= 4 << 30:
        assert 0.98 * (1 << 20) <= pieces * payload <= 1 << 20


def two_ways() -> object:
    """h0 - e0 - (a0 - b0 or a1 - b1) - e1 - h1: no switch handles more than three labels."""
    made = chain(4)
    for old, new in (("s0", "e0"), ("s1", "a0"), ("s2", "b0"), ("s3", "e1")):
        nx.relabel_nodes(made, {old: new}, copy=False)
        for _, _, data in made.edges(new, data=True):
            if old in data["ports"]:
                data["ports"][new] = data["ports"].pop(old)
    for name in ("a1", "b1"):
        made.add_node(name, kind="switch", forwards=True)
    for u, v, ports in (("e0", "a1", (2, 0)), ("a1", "b1", (1, 0)), ("b1", "e1", (1, 2))):
        made.add_edge(u, v, ports={u: ports[0], v: ports[1]}, up=True)
    for name, data in made.nodes(data=True):
        if data["kind"] == "switch":
            data.update(cache=name not in ("e0", "e1"), msd=3)
    return made


def test_trees_go_around_several_appliances_that_are_absent_in_a_row() -> None:
    made = graph(make=two_ways)
    assert make_plan(made, "h0", ["h1"], GroupOptions()).around is False
    plan = make_plan(made, "h0", ["h1"], GroupOptions())
    one = "a0" if any("a0" in arc for arc in plan.trees[0].arcs) else "a1"
    for name in (one, one.replace("a", "b")):
        made.nodes[name]["cache"] = False
    plan = make_plan(made, "h0", ["h1"], GroupOptions())
    assert plan.around and not any(one in arc for arc in plan.trees[0].arcs)
    for name in ("a0", "a1", "b0", "b1"):
        made.nodes[name]["cache"] = False
    with pytest.raises(PlanError) as caught:
        make_plan(made, "h0", ["h1"], GroupOptions())
    assert caught.value.code == "msd" and caught.value.what in ("e0", "e1", "a0", "a1", "b0", "b1")


def test_a_running_group_goes_around_appliances_that_went_and_back_when_they_return() -> None:
    made = graph(make=two_ways)
    plan = make_plan(made, "h0", ["h1"], GroupOptions())
    forest = Forest(
        made,
        plan.found.network,
        "h0",
        plan.found,
        list(plan.found_routes),
        ids=[7],
        payload=plan.payload,
        labels=plan.room,
        around=plan.around,
    )

    def uses(name: str) -> bool:
        return any(name in arc for arc in forest.ways[7].arcs)

    one = "0" if uses("a0") else "1"
    gone = [f"a{one}", f"b{one}"]
    for name in gone:
        made.nodes[name]["cache"] = False
    change = forest.update([], ["h1"], [(name, False) for name in gone])
    assert change.changed == [7] and not change.lost and not uses(gone[0])
    for name in gone:
        made.nodes[name]["cache"] = True
    change = forest.update([], ["h1"], [(name, True) for name in gone])
    assert not change.lost and forest.ways[7].slot is not None
    other = "1" if one == "0" else "0"
    made.edges[f"a{other}", f"b{other}"]["up"] = False
    change = forest.update([(f"a{other}", f"b{other}", False)], ["h1"])
    assert not change.cut_off and uses(gone[0])


@pytest.mark.parametrize("spec", ["bcube:2,1", "fattree:4,2", "torus:3,2"])
def test_a_group_of_neighbours_has_room_for_every_other_host_to_join(spec) -> None:
    net = graph(1500, make=lambda: topologies.parse(spec))
    source, near, *others = [name for name, data in net.nodes(data=True) if data["kind"] == "host"]
    for host in others:
        plan = make_plan(net, source, [near], GroupOptions())
        ids = list(range(1, len(plan.trees) + 1))
        forest = Forest(
            net,
            plan.found.network,
            source,
            plan.found,
            list(plan.found_routes),
            ids=ids,
            payload=plan.payload,
            labels=plan.room,
        )
        change = forest.update([], [host])
        assert len(change.lost) < len(ids) or change.unnamed, host


def test_groups_share_the_network_with_shorter_segments_until_an_appliance_goes() -> None:
    """Each group once copied the whole fabric for itself when a repaired tree was too deep for its pieces: a link that
    failed held a worker with two hundred groups up for half a second."""
    net = graph(1500, make=lambda: topologies.parse("bcube:4,1"))
    network = Network(net)

    plan = make_plan(net, "00", SIX, GroupOptions(), network=network)
    ids, routes = list(range(1, len(plan.trees) + 1)), list(plan.found_routes)
    one = Forest(net, network, "00", plan.found, routes, ids=ids, payload=plan.payload, labels=plan.room)

    def low_now() -> Network:
        return network.shallower(plan.room)

    low = low_now()
    assert low_now() is low and low is not network
    switch = next(name for name, data in net.nodes(data=True) if data["kind"] == "switch")
    network.set_cache(switch, True)
    first = low_now()
    assert first is not low, "it was not known of that switch"
    network.set_cache(switch, True)
    assert low_now() is first, "nothing has changed"
    net.nodes[switch]["cache"] = False
    one.update([], SIX, [(switch, False)])
    assert low_now() is not first and low_now() is low_now()


@pytest.mark.parametrize(
    ("spec", "source", "receivers"),
    [
        ("bcube:2,1", "00", ["01", "10", "11"]),
        ("bcube:4,1", "00", SIX),
        ("torus:3,2", "00", ["01", "12", "21"]),
        ("fattree:4,2", "000", ["001", "010", "101", "111"]),
    ],
)
def test_a_group_that_is_resumed_for_one_receiver_keeps_the_size_of_its_pieces(spec, source, receivers) -> None:
    net = graph(1500, make=lambda: topologies.parse(spec))
    first = make_plan(net, source, receivers, GroupOptions())
    for name in receivers:
        again = make_plan_for(first.payload, net, source, [name], GroupOptions())
        assert again.payload == first.payload and again.trees
        assert again.labels <= again.room <= first.room


def test_a_link_beside_the_trees_that_carries_no_piece_does_not_end_a_group_that_is_resumed() -> None:
    """Its trees for one receiver have longer segments than the group's pieces leave room for."""
    net = graph(9000, make=lambda: topologies.parse("bcube:4,1"))
    first = make_plan(net, "00", SIX, GroupOptions())
    net.add_node("small", kind="host", forwards=False)
    net.add_edge("small", "s0.0", ports={"small": 0, "s0.0": 4}, rate_bps=None, mtu=1500, up=True)
    for name in SIX:
        again = make_plan_for(first.payload, net, "00", [name], GroupOptions())
        assert again.payload == first.payload and again.trees


def test_receivers_for_whom_no_tree_has_room_are_as_good_as_cut_off() -> None:
    """They were waited for for ever."""
    net = graph(1500, make=lambda: topologies.parse("bcube:4,1"))
    plan = make_plan(net, "00", SIX, GroupOptions(), network=Network(net))
    ids = list(range(1, len(plan.trees) + 1))
    forest = Forest(
        net,
        plan.found.network,
        "00",
        plan.found,
        list(plan.found_routes),
        ids=ids,
        payload=plan.payload,
        labels=plan.room,
    )
    forest.payload = 1500
    change = forest.update([], [*SIX, "12"])
    assert change.cut_off == sorted([*SIX, "12"]) and change.lost == ids
    assert forest.cut_off == forest.treeless == {*SIX, "12"}
    assert forest.update([("12", "s0.1", False), ("12", "s1.2", False)], [*SIX, "12"]).nothing
    assert forest.cut_off == {*SIX, "12"} and forest.treeless == set(SIX), "no link reaches the last one"
    forest.payload = plan.payload
    change = forest.update([("12", "s0.1", True), ("12", "s1.2", True)], [*SIX, "12"])
    assert change.back == sorted([*SIX, "12"]) and change.revived == ids and not forest.cut_off | forest.treeless


def test_of_switches_without_a_cache_those_are_told_where_one_tree_branches() -> None:
    made = nx.Graph()
    for name, known in {"h": {}, "s": {"cache": False}, "t": {"cache": False}, "u": {"cache": True}}.items():
        made.add_node(name, **known)
    one = Tree(0, (("h", "s"), ("s", "t"), ("s", "u"), ("t", "a"), ("u", "b"), ("u", "c")), 3)
    other = Tree(1, (("h", "t"), ("t", "b")), 2)
    assert plain_branches(made, [one, other]) == ("s",)
