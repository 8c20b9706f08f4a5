"""Plans of the same members are found once, as long as the network is the same and its links are as free."""

from __future__ import annotations

from typing import Any

import pytest
from small import bcube41

from datacast.core.routes import Routes, routes
from datacast.core.trees import ArcLoad, Network, TreeSet
from datacast.fabric_manager.api import GroupOptions
from datacast.master.forest import Forest
from datacast.master.plan import Plan, make_plan
from datacast.master.plan_cache import PLANS_MAX, PlanCache

SIX = ["02", "10", "21", "23", "31", "33"]


class Fabric:
    """BCube(4,1); `computed` counts the searches for trees."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.graph = bcube41()
        self.graph.graph["defaults"] = {"queue_packets": 100, "rate_bps": 10**8, "mtu": 9000}
        for *_, data in self.graph.edges(data=True):
            data.update(rate_bps=10**8, mtu=9000)
        self.network, self.known, self.computed = Network(self.graph), PlanCache(), 0
        compute = TreeSet.compute

        def counted(trees: TreeSet, exact: bool = True) -> int:
            self.computed += 1
            return compute(trees, exact)

        monkeypatch.setattr(TreeSet, "compute", counted)

    def plan(self, receivers: list[str] = SIX, load: ArcLoad | None = None, trees: int | None = None) -> Plan:
        options = GroupOptions(trees=trees)
        return make_plan(self.graph, "00", receivers, options, load or ArcLoad(self.network), self.network, self.known)

    def forest(self, plan: Plan) -> Forest:
        return Forest(
            self.graph, self.network, "00", plan.found, list(plan.found_routes), ids=list(range(len(plan.trees))),
            payload=plan.payload, labels=plan.room, around=plan.around, most=None, load=dict,
        )  # fmt: skip


@pytest.fixture
def fabric(monkeypatch: pytest.MonkeyPatch) -> Fabric:
    return Fabric(monkeypatch)


def test_the_same_members_get_the_same_trees_without_a_search(fabric: Fabric) -> None:
    first = fabric.plan()
    again = fabric.plan()
    assert fabric.computed == 1
    assert again == first and again.found is not first.found
    assert again.trees[0].routes is first.trees[0].routes, "held once for both"


def test_other_members_or_fewer_trees_are_searched_for(fabric: Fabric) -> None:
    fabric.plan()
    assert len(fabric.plan(trees=1).trees) == 1 and fabric.computed == 2
    assert set(fabric.plan(SIX[:3]).trees[0].routes) == set(SIX[:3]) and fabric.computed == 3


def test_a_link_that_fails_or_comes_back_makes_all_be_found_anew(fabric: Fabric) -> None:
    whole = fabric.plan()
    u, v = whole.trees[0].arcs[0]
    fabric.network.set_up(u, v, False)
    around = fabric.plan()
    assert fabric.computed == 2 and all((u, v) not in tree.arcs for tree in around.trees)
    fabric.network.set_up(u, v, False)  # told again: nothing has changed
    assert fabric.plan() == around and fabric.computed == 2
    fabric.network.set_up(u, v, True)
    assert fabric.plan() == whole and fabric.computed == 3


def test_a_cache_that_goes_makes_all_be_found_anew(fabric: Fabric) -> None:
    plan = fabric.plan()
    switch = next(v for tree in plan.trees for _, v in tree.arcs if fabric.graph.nodes[v]["kind"] == "switch")
    fabric.network.set_cache(switch, False)
    fabric.plan()
    assert fabric.computed == 2


def test_trees_on_which_others_have_come_are_not_given_again(fabric: Fabric) -> None:
    plan = fabric.plan()
    load = ArcLoad(fabric.network)
    load.change(*plan.trees[0].arcs[-1], 1)
    fabric.plan(load=load)
    assert fabric.computed == 2
    elsewhere = next((u, "00") for u in fabric.graph["00"])  # nothing comes to the source
    load = ArcLoad(fabric.network)
    load.change(*elsewhere, 1)
    fabric.plan(load=load)
    assert fabric.computed == 2, "what they do not use does not matter"


def test_what_one_group_does_with_its_trees_the_next_does_not_see(fabric: Fabric) -> None:
    first = fabric.plan()
    forest = fabric.forest(first)
    u, v = first.trees[0].arcs[-1]
    forest.update([(u, v, False)], SIX)
    forest.update([(u, v, True)], SIX)
    again = fabric.plan()
    other = fabric.forest(fabric.plan())
    assert [tree.arcs for tree in again.trees] == [tree.arcs for tree in first.trees]
    change = other.update([(u, v, False)], SIX)
    assert change.changed or change.lost, "it mends trees of its own"
    assert [tree.arcs for tree in again.trees] == [tree.arcs for tree in first.trees]


def test_only_the_last_ones_are_kept(fabric: Fabric) -> None:
    names = [name for name, data in fabric.graph.nodes(data=True) if data["kind"] == "host" and name != "00"]
    pairs = [[a, b] for a in names for b in names if a != b][: PLANS_MAX + 1]
    for pair in pairs:
        fabric.plan(pair)
    searched = fabric.computed
    fabric.plan(pairs[-1])
    assert fabric.computed == searched
    fabric.plan(pairs[0])
    assert fabric.computed == searched + 1


def test_a_repair_writes_routes_of_the_trees_that_it_changed_and_no_others(
    fabric: Fabric, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []

    def counted(*given: Any) -> list[Routes]:
        written.append(given[1][0].id)
        return routes(*given)

    monkeypatch.setattr("datacast.master.forest.routes", counted)
    mended = 0
    for broken in fabric.plan().trees[0].arcs:
        forest = fabric.forest(fabric.plan())
        written.clear()
        change = forest.update([(*broken, False)], SIX)
        if change.changed and not change.lost:
            mended += 1
            assert set(written) == set(change.changed)
        fabric.network.set_up(*broken, True)
    assert mended
