"""What a group plans when its receivers differ, and what becomes of its trees when links or receivers change."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from datacast import topologies
from datacast.core.trees import Network
from datacast.core.wire import decode_route
from datacast.fabric_manager.api import GroupOptions
from datacast.master.forest import Forest
from datacast.master.plan import PlanError, make_plan
from datacast.master.stable import PIECE_S, TREES_MAX, RatedForest, with_routes
from datacast.planners import deliver

SIX = ["02", "10", "21", "23", "31", "33"]
FAST, SLOW = 50_000_000, 5_000_000


def fabric(slow: bool = True, topology: str = "bcube:4,1"):
    g = topologies.parse(topology)
    for u, v, data in g.edges(data=True):
        data |= {"rate_bps": SLOW if slow and "31" in (u, v) else FAST, "mtu": 9000, "up": True}
    return g


def test_a_slow_receiver_is_in_slow_trees_only():
    plan = make_plan(fabric(), "00", SIX, GroupOptions())
    assert plan.rated is not None
    assert sorted(tree.rate_bps for tree in plan.trees) == [SLOW, SLOW, FAST - SLOW, FAST - SLOW]
    assert all(("31" in tree.routes) == (tree.rate_bps == SLOW) for tree in plan.trees)
    assert all(set(tree.routes) >= set(SIX) - {"31"} for tree in plan.trees)
    # Interests go the other way over the same cables: data leaves them room.
    assert all(0.8 * tree.rate_bps < tree.transport.rate_max_bps <= tree.rate_bps for tree in plan.trees)
    assert plan.ideal_s(32 << 20) == pytest.approx(27.0, rel=0.02)


def test_trees_begin_with_an_even_share_of_their_links_and_slow_ones_at_their_rate():
    g = fabric()
    load = {arc: 3 for u, v in g.edges for arc in ((u, v), (v, u)) if "31" not in arc}
    plan = make_plan(g, "00", SIX, GroupOptions(), load=load)
    for tree in plan.trees:
        begins = tree.transport.rate_init_bps
        assert begins == (tree.transport.rate_max_bps if tree.rate_bps == SLOW else FAST // 4)


def test_receivers_that_do_not_differ_are_served_together():
    assert make_plan(fabric(slow=False), "00", SIX, GroupOptions()).rated is None
    assert make_plan(fabric(), "00", [name for name in SIX if name != "31"], GroupOptions()).rated is None
    assert make_plan(fabric(), "00", SIX, GroupOptions(delivery="together")).rated is None
    assert make_plan(fabric(slow=False), "00", SIX, GroupOptions(delivery="stable")).rated is not None


@pytest.mark.parametrize("planner", ["stable", "fpfr", "balanced", "dijkstra", "max-bottleneck", "depth-first"])
def test_a_group_may_have_another_planner_s_trees(planner):
    plan = make_plan(fabric(), "00", SIX, GroupOptions(planner=planner))
    assert plan.rated is not None and plan.trees
    assert {name for tree in plan.trees for name in tree.routes} == set(SIX)


def test_a_planner_that_cannot_serve_says_so():
    with pytest.raises(PlanError, match="switches make the copies"):
        make_plan(fabric(), "00", SIX, GroupOptions(planner="flat-tree"))


@pytest.mark.parametrize("planner", ["fpfr", "balanced", "depth-first", "stable"])
def test_a_named_planner_serves_those_who_can_be_reached(planner):
    """Most planners give trees for all or for nobody: one host away was an error of ours, or the group's end."""
    g = fabric()
    for peer in g["31"]:
        g.edges["31", peer]["up"] = False
    plan = make_plan(g, "00", SIX, GroupOptions(planner=planner))
    assert set(plan.cut_off) == {"31"}
    assert {name for tree in plan.trees for name in tree.routes} == set(SIX) - {"31"}


def test_where_no_label_stack_is_deep_enough_all_get_one_rate():
    g = fabric()
    for _, data in g.nodes(data=True):
        if data["kind"] == "switch":
            data |= {"msd": 1, "cache": False}
    try:
        plan = make_plan(g, "00", SIX, GroupOptions())
    except PlanError as error:
        assert error.message  # neither way: the reason is told
    else:
        assert plan.rated is None


def forest(g, receivers: list[str] = SIX) -> RatedForest:
    network = Network(g)
    plan = with_routes(network, "00", deliver(g, network, "00", receivers, default=10**9))
    return RatedForest(g, network, "00", plan, ids=list(range(1, len(plan.trees) + 1)), payload=8000, default=10**9)


def test_nothing_changed_changes_nothing():
    assert forest(fabric()).update([], SIX).nothing


def test_a_broken_tree_ends_and_its_data_is_fetched_another_way():
    it = forest(fabric())
    parent, child = it.ways[1].arcs[0]
    change = it.update([(parent, child, False)], SIX)
    assert 1 in change.lost and change.unnamed
    for number in change.lost:
        if (parent, child) in it.ways[number].arcs:
            assert number in change.changed
    for slot, number in zip(change.unnamed, range(50, 60), strict=False):
        it.name(slot, number)
    live = [way for way in it.ways.values() if way.slot is not None]
    assert live and all((parent, child) not in way.arcs for way in live)
    assert {name for way in live for name in way.routes} == set(SIX)


def test_a_cap_takes_a_receiver_out_of_fast_trees_and_nobody_else():
    it = forest(fabric(slow=False))
    it.caps = {"31": 7_654_321}
    change = it.update([], SIX)
    assert change.unnamed and not change.cut_off
    assert it.plan.got["31"] == pytest.approx(7_654_321, rel=0.01)
    assert all(it.plan.got[name] == 2 * FAST for name in SIX if name != "31")


def test_receivers_without_a_link_are_cut_off_and_come_back():
    it = forest(fabric())
    down = [("31", "s0.3", False), ("31", "s1.1", False)]
    assert it.update(down, SIX).cut_off == ["31"]
    assert it.update([(u, v, True) for u, v, _ in down], SIX).back == ["31"]


def test_who_has_joined_the_fabric_since_is_cut_off_and_the_others_are_planned_for_all_the_same():
    it = forest(fabric())
    parent, child = it.ways[1].arcs[0]
    change = it.update([(parent, child, False)], [*SIX, "99"])
    assert change.cut_off == ["99"] and change.unnamed and it.receivers == SIX
    assert it.update([], ["99"]).lost and it.cut_off == {"99"}


@pytest.mark.parametrize("last", SIX)
def test_the_last_receiver_comes_back_although_no_tree_of_its_own_branches(last):
    """The pieces were made for trees with branches, whose segments are short; one path is one long segment."""
    g = fabric(slow=False)
    made = make_plan(g, "00", SIX, GroupOptions())
    it = forest(g)
    it.alike, it.payload, it.labels, it.caps = True, made.payload, made.labels, {last: SLOW}
    links = [(last, switch, False) for switch in g[last]]
    assert it.update(links, [last]).cut_off == [last]
    assert it.update([(u, v, True) for u, v, _ in links], [last]).back == [last]


def test_links_that_flap_use_up_no_ids():
    it = forest(fabric())
    before = dict(it.ways)
    for _ in range(20):
        for up in (False, True):
            change = it.update([("31", "s0.3", up), ("31", "s1.1", up)], SIX)
            assert (change.cut_off, change.back) == (([], ["31"]) if up else (["31"], []))
            assert not (change.lost or change.unnamed or change.changed) and it.ways == before


def test_a_link_that_comes_back_is_used_where_it_brings_more():
    it = forest(fabric(slow=False))
    down = [("00", "s0.0", up) for up in (False, True)]
    change = it.update(down[:1], SIX)
    for slot, number in zip(change.unnamed, range(50, 60), strict=False):
        it.name(slot, number)
    assert set(it.plan.got.values()) == {FAST}
    change = it.update(down[1:], SIX)
    assert change.revived and not change.unnamed, "the tree that ended begins again"
    assert set(it.plan.got.values()) == {2 * FAST}


def test_a_tree_over_other_links_keeps_its_id_where_its_receivers_and_rate_are_the_same():
    kept = 0
    for link in {tuple(sorted(arc)) for way in forest(fabric()).ways.values() for arc in way.arcs if "31" not in arc}:
        it = forest(fabric())
        change = it.update([(*link, False)], SIX)
        for number, way in it.ways.items():
            if way.slot is None:
                continue
            assert not any(set(arc) == set(link) for arc in way.arcs) and way.arcs == it.plan.trees[way.slot].arcs
            assert set(way.routes) == set(it.plan.trees[way.slot].receivers)
            kept += number in change.changed
        assert sorted([way.slot for way in it.ways.values() if way.slot is not None] + change.unnamed) == list(
            range(len(it.plan.trees))
        )
    assert kept


def test_a_plan_with_more_trees_than_a_group_may_have_is_refused_and_those_there_are_go_on():
    it, number = forest(fabric(slow=False)), 100
    for i in range(40):
        it.caps = {"31": 7_000_000 + 1000 * i}
        change = it.update([], SIX)
        for slot in change.unnamed:
            number += 1
            it.name(slot, number)
        if it.refused:
            break
    assert it.refused and change.nothing and TREES_MAX - 4 < len(it.ways) <= TREES_MAX
    live = [way for way in it.ways.values() if way.slot is not None]
    assert {name for way in live for name in way.routes} == set(SIX)
    assert it.update([], [*SIX, "12"]).cut_off == ["12"] and it.cut_off == {"12"}, "no tree will ever reach it"
    it.caps = {}
    change = it.update([], SIX)
    assert not change.unnamed and not it.refused, "going back needs none"
    assert set(change.revived) == {1, 2} and set(it.plan.got.values()) == {2 * FAST}


def test_one_that_left_a_tree_is_never_counted_on_there():
    it = forest(fabric(slow=False))
    it.caps = {"31": 7_000_000}
    change = it.update([], SIX)
    it.left |= set(change.lost)
    for slot, number in zip(change.unnamed, range(50, 60), strict=False):
        it.name(slot, number)
    it.caps = {}
    change = it.update([], SIX)
    assert not change.revived and len(change.unnamed) == 2 and set(it.plan.got.values()) == {2 * FAST}


def test_a_group_that_was_planned_with_one_rate_has_it_again_and_links_that_fail_reroute_its_trees():
    g = fabric(slow=False)
    network = Network(g)
    plan = make_plan(g, "00", SIX, GroupOptions(), network=network)
    assert plan.found is not None
    old = Forest(
        g, network, "00", plan.found, list(plan.found_routes), ids=[1, 2], payload=plan.payload, labels=plan.room,
        around=False, most=None, load=dict,
    )  # fmt: skip
    it = RatedForest.of(old, network, {1: FAST, 2: FAST}, default=FAST)
    number = 2
    for caps in ({"31": 5_000_000}, {}):
        it.caps = caps
        change = it.update([], SIX)
        it.left |= set(change.lost)
        for slot in change.unnamed:
            number += 1
            it.name(slot, number)
    live = [n for n, way in it.ways.items() if way.slot is not None]
    assert len(live) == 2 and all(set(it.ways[n].routes) == set(SIX) for n in live)
    parent, child = next(arc for arc in it.ways[live[0]].arcs if arc[0] not in ("00", *g["00"]) and "31" not in arc)
    for _ in range(10):
        for up in (False, True):
            assert not it.update([(parent, child, up)], SIX).unnamed, "no new trees, however often a link flaps"
    assert len(it.ways) == number


def passed(g, node: str, route: bytes) -> list[str]:
    """The nodes that a receiver's interests pass."""
    way = [node]
    for port in (port for stop in decode_route(route) for port in stop.fwd.ports):
        node = next(other for other in g[node] if g.edges[node, other]["ports"][node] == port)
        way.append(node)
    return way


def lacks(it: RatedForest, down: set[frozenset[str]], wanted: list[str]) -> list[tuple[int, str]]:
    """Trees, and receivers that links reach and that cannot fetch what was sent to them over that tree."""
    found = []
    for number, names in it.owed.items():
        for name in names.intersection(wanted) - it.cut_off:
            route = it.ways[number].routes.get(name)
            way = passed(it.graph, name, route) if route else []
            if way[-1:] != ["00"] or any(frozenset(link) in down for link in pairwise(way)):
                found.append((number, name))
    return found


@pytest.mark.slow
def test_whoever_pieces_were_given_for_can_fetch_them_whatever_comes_and_goes() -> None:
    """Receivers that were away when trees were planned anew had no routes for what had been sent: nobody sent that
    again, and their group never ended."""
    three = ["01", "10", "11"]
    for seed in range(300):
        g, rng = fabric(slow=False, topology="bcube:2,1"), random.Random(seed)
        it, number, down, wanted = forest(g, three), 10, set[frozenset[str]](), three
        for step in range(12):
            deltas = []
            match rng.randrange(3):
                case 0:
                    u, v = rng.choice(list(g.edges))
                    down ^= {frozenset((u, v))}
                    deltas = [(u, v, frozenset((u, v)) not in down)]
                case 1:
                    wanted = [name for name in three if (name in wanted) != (name == rng.choice(three))] or three
                case _:
                    it.caps = {rng.choice(wanted): rng.choice((SLOW, 2 * SLOW))} if rng.random() < 0.5 else {}
            change = it.update(deltas, wanted)
            for slot in change.unnamed:
                number += 1
                it.name(slot, number)
            if it.refused:
                break
            assert lacks(it, down, wanted) == [], (seed, step)
            live = {number: it.plan.trees[way.slot] for number, way in it.ways.items() if way.slot is not None}
            assert all(it.owed[number].issuperset(tree.receivers) for number, tree in live.items()), (seed, step)


def test_a_rate_per_direction_goes_before_the_one_for_both():
    g = fabric(slow=False)
    for switch in ("s0.3", "s1.1"):
        g.edges["31", switch]["rates_bps"] = {"31": FAST, switch: SLOW}
    topologies.validate(g)
    plan = make_plan(g, "00", SIX, GroupOptions())
    assert plan.rated is not None and plan.rated.got["31"] == 2 * SLOW
    back = make_plan(g, "31", ["00", "02"], GroupOptions())
    assert back.rated is None or set(back.rated.got.values()) == {2 * FAST}


def test_one_for_whom_no_trees_can_be_made_is_as_good_as_cut_off(caplog: pytest.LogCaptureFixture):
    """It was waited for for ever. The log says why."""
    it = forest(fabric(slow=False), SIX[1:])
    it.payload = 9000  # no route fits beside it
    assert it.update([], SIX).cut_off == ["02"] == sorted(it.cut_off) == sorted(it.treeless)
    assert "pieces of 9000 bytes fit no plan" in caplog.text
    it.payload = 8000
    change = it.update([], SIX)
    assert change.back == ["02"] and change.unnamed and not it.cut_off | it.treeless


@pytest.mark.parametrize("rates", [{"31": 5}, {"31": 0, "s0.3": 5}, {"31": 5, "s0.3": True}, [5, 5]])
def test_rates_that_are_none_name_the_link(rates):
    g = fabric()
    g.edges["31", "s0.3"]["rates_bps"] = rates
    with pytest.raises(topologies.LinkError, match=r"31.*s0\.3|s0\.3.*31"):
        topologies.validate(g)


def test_a_receiver_s_slow_links_are_planned_as_they_were_seen_each():
    """Not all over one of them, and nobody gets anything through it."""
    g = fabric(slow=False)
    network = Network(g)
    plan = with_routes(network, "00", deliver(g, network, "00", SIX, default=FAST))
    forest = RatedForest(g, network, "00", plan, ids=[1, 2], payload=1000, default=FAST)
    into = [(other, "31") for other in g["31"]]
    forest.caps = {"31": 3 * SLOW}
    forest.narrow = {into[0]: 2 * SLOW, into[1]: SLOW}
    made = forest.planned(SIX)
    assert made is not None
    carried = {arc: sum(tree.rate_bps for tree in made.trees if arc in tree.arcs) for arc in into}
    assert carried == forest.narrow
    assert made.got == {name: 3 * SLOW if name == "31" else 2 * FAST for name in SIX}
    assert made.bound["31"] == 2 * FAST


def test_one_that_others_need_still_passes_on():
    """Though its link was seen to bring little: its disk may be the reason."""
    g = topologies.parse("bcube:2,1")
    for _, _, data in g.edges(data=True):
        data |= {"rate_bps": FAST, "mtu": 9000, "up": True}
    for name in g.nodes:
        g.nodes[name]["forwards"] = True
    network = Network(g)
    plan = with_routes(network, "00", deliver(g, network, "00", ["01", "10", "11"], default=FAST))
    forest = RatedForest(g, network, "00", plan, ids=[1, 2], payload=1000, default=FAST)
    forest.caps = {"01": SLOW, "10": SLOW}
    forest.narrow = {(other, name): SLOW // 2 for name in forest.caps for other in g[name]}
    made = forest.planned(["01", "10", "11"])
    assert made is not None and made.got["11"] == 2 * FAST


def test_no_tree_is_planned_that_takes_long_for_a_piece():
    """What came over a link for a moment was next to nothing: a tree of 40 kbit/s would take two seconds a piece."""
    g, payload = fabric(slow=False), 8900
    network = Network(g)
    plan = with_routes(network, "00", deliver(g, network, "00", SIX, default=FAST))
    forest = RatedForest(g, network, "00", plan, ids=[1, 2], payload=payload, default=FAST)
    into = [(other, "31") for other in g["31"]]
    least = 8 * payload / PIECE_S
    for narrow in ({into[0]: 2 * SLOW, into[1]: 40_000}, {into[0]: 20_000, into[1]: 40_000}):
        forest.narrow, forest.caps = narrow, {"31": sum(narrow.values())}
        made = forest.planned(SIX)
        assert made is not None and min(tree.rate_bps for tree in made.trees) >= 0.99 * least
        assert made.got["31"] >= max(forest.caps["31"], least) * 0.99
        assert set(made.got) == {name for tree in made.trees for name in tree.receivers}


def test_a_link_that_no_tree_uses_may_carry_less_than_a_piece(caplog: pytest.LogCaptureFixture) -> None:
    """One of 1,500 bytes anywhere in the fabric had every new plan refused, and who was cut off meanwhile given up."""
    g = fabric()
    g.add_node("small", kind="host", forwards=False)
    g.add_edge("small", "s0.0", ports={"small": 0, "s0.0": 4}, rate_bps=FAST, mtu=1500, up=True)
    it = forest(g)
    parent, child = it.ways[1].arcs[0]
    change = it.update([(parent, child, False)], SIX)
    assert 1 in change.lost and change.unnamed and not change.cut_off and not it.treeless
    assert "fit no plan" not in caplog.text


def test_a_tree_over_a_link_that_carries_less_than_a_piece_is_refused() -> None:
    g = fabric()
    it = forest(g)
    for u, v in (("31", "s0.3"), ("31", "s1.1")):
        g.edges[u, v]["mtu"] = 1500
    before = {number: way.arcs for number, way in it.ways.items()}
    parent, child = it.ways[1].arcs[0]
    it.update([(parent, child, False)], SIX)
    assert {number: way.arcs for number, way in it.ways.items()} == before
