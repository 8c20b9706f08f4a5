"""What a group is served with, over networks drawn by chance: no link overfull, each tree a tree to somebody,
nobody who can be reached left out."""

from __future__ import annotations

from collections import Counter

import hypothesis.strategies as st
import networkx as nx
import pytest
from drawing import examples
from hypothesis import given, settings

from datacast.core.trees import Network, Unreachable
from datacast.fabric_manager.api import GroupOptions
from datacast.master.plan import make_plan
from datacast.planners import PlannerError, deliver
from datacast.planners.delivery import TREES_MAX

OVER_CABLES = [None, "stable", "fpfr", "balanced", "depth-first", "dijkstra", "max-bottleneck"]


@st.composite
def networks(draw: st.DrawFn) -> tuple[nx.Graph, list[str]]:
    """Hosts, of which some pass on, and switches; links differ by direction, and some are down. And receivers."""
    count = draw(st.integers(3, 9))
    names = [f"h{i}" for i in range(count)] + [f"s{i}" for i in range(draw(st.integers(0, 4)))]
    rate = st.sampled_from([1, 7, 10, 100, 1000, 10**6])
    g, ports = nx.Graph(), Counter[str]()
    for name in names:
        kind = "host" if name[0] == "h" else "switch"
        g.add_node(name, kind=kind, forwards=kind == "switch" or draw(st.booleans()))
    for i, v in enumerate(names[1:], 1):
        for u in (names[j] for j in sorted(draw(st.sets(st.integers(0, i - 1), min_size=1, max_size=3)))):
            rates = {u: draw(rate), v: draw(rate)}
            up = draw(st.integers(0, 9)) > 0
            g.add_edge(u, v, ports={u: ports[u], v: ports[v]}, rates_bps=rates, rate_bps=min(rates.values()), up=up)
            ports.update([u, v])
    return g, draw(st.lists(st.sampled_from(names[1:count]), min_size=1, unique=True))


@settings(max_examples=examples(150))
@given(networks(), st.data())
def test_whatever_the_network_a_group_s_trees_are_sound(made: tuple[nx.Graph, list[str]], data: st.DataObject) -> None:
    g, receivers = made
    caps = data.draw(st.none() | st.dictionaries(st.sampled_from(receivers), st.integers(1, 2000), min_size=1))
    planner = None if caps else data.draw(st.sampled_from(OVER_CABLES))
    together, most = planner is None and data.draw(st.booleans()), data.draw(st.none() | st.integers(1, 5))
    try:
        found = deliver(
            g, Network(g), "h0", receivers, default=10**9, most=most, caps=caps, planner=planner, together=together
        )
    except (Unreachable, PlannerError):
        return
    load, got = Counter[tuple[str, str]](), Counter[str]()
    for tree in found.trees:
        seen, passed = {"h0"}, {u for u, _ in tree.arcs}
        for u, v in tree.arcs:
            assert g.edges[u, v]["up"] and u in seen and v not in seen and (u == "h0" or g.nodes[u]["forwards"])
            seen.add(v)
            load[u, v] += tree.rate_bps
        assert tree.rate_bps > 0 and tree.receivers and set(tree.receivers) <= seen
        assert seen - passed <= set(tree.receivers), "each of its ends is somebody's"
        got.update(dict.fromkeys(tree.receivers, tree.rate_bps))
    assert all(rate <= g.edges[arc]["rates_bps"][arc[0]] for arc, rate in load.items())
    assert all(found.got[name] == got[name] <= found.bound[name] for name in receivers)
    assert all(got[name] > 0 for name in receivers if found.bound[name])
    assert len(found.trees) <= min(most or TREES_MAX, TREES_MAX) or planner is None
    if together and not caps:
        assert len({got[name] for name in receivers if found.bound[name]}) == 1


@pytest.mark.parametrize("fast", [100, 10])
def test_no_tree_ends_where_only_a_switch_could_take_more(fast: int) -> None:
    """With dijkstra a group whose source has a faster link than its receivers failed: `a group without receivers`."""
    g = nx.Graph()
    for port, (name, mbps) in enumerate((("a", fast), ("b", 10), ("c", 5))):
        g.add_edge(name, "s", ports={name: 0, "s": port}, rate_bps=mbps * 10**6, mtu=1500, up=True)
    for name, node in g.nodes(data=True):
        node |= {"kind": "switch" if name == "s" else "host", "forwards": name == "s"}
    plan = make_plan(g, "a", ["b", "c"], GroupOptions(planner="dijkstra"))
    trees = [(tree.rate_bps, sorted(tree.routes)) for tree in plan.trees]
    assert trees == [(5 * 10**6, ["b", "c"]), (5 * 10**6, ["b"])]
