"""Trees with rates, against max-flows and linear programmes of somebody else's."""

from __future__ import annotations

import itertools
import random
import sys
from collections import Counter
from pathlib import Path

import networkx as nx
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench" / "planners"))
import forestcoll

from datacast import topologies
from datacast.core.rates import CapacityError, RatedTrees, arc_rates, rated_trees
from datacast.core.trees import Network, Unreachable


def rated(edges, *, switches=(), forwards=True) -> nx.Graph:
    """A graph of (u, v, rate); hosts pass on when `forwards`."""
    g = nx.Graph()
    ports: Counter[str] = Counter()
    for u, v, rate in edges:
        g.add_edge(u, v, rate_bps=rate, ports={u: ports[u], v: ports[v]})
        ports[u] += 1
        ports[v] += 1
    for name, data in g.nodes(data=True):
        host = name not in switches
        data |= {"kind": "host" if host else "switch", "forwards": forwards or not host}
    return g


def plan_of(g: nx.Graph, source: str, receivers: list[str], **options) -> RatedTrees:
    network = Network(g)
    return rated_trees(network, source, receivers, arc_rates(network, g), **options)


def directed(g: nx.Graph, source: str) -> nx.DiGraph:
    d = nx.DiGraph()
    d.add_nodes_from(g)
    for u, v, data in g.edges(data=True):
        for a, b in ((u, v), (v, u)):
            if data.get("up", True) and b != source and (a == source or g.nodes[a]["forwards"]):
                d.add_edge(a, b, capacity=data.get("rates_bps", {}).get(a, data["rate_bps"]))
    return d


def check(g: nx.Graph, plan: RatedTrees) -> None:
    """Trees are trees, nothing is overfull, the figures are the trees', and the bounds are true and proved by cuts."""
    d = directed(g, plan.source)
    used: Counter[tuple[str, str]] = Counter()
    got: Counter[str] = Counter()
    for tree in plan.trees:
        seen = {plan.source}
        for parent, child in tree.arcs:
            assert parent in seen and child not in seen
            seen.add(child)
            used[parent, child] += tree.rate_bps
        assert set(tree.receivers) == seen & set(plan.receivers)
        inner = {parent for parent, _ in tree.arcs}
        assert all(child in inner or child in plan.receivers for _, child in tree.arcs)
        got.update({name: tree.rate_bps for name in tree.receivers})
    for arc, rate in used.items():
        assert rate <= d.edges[arc]["capacity"]
    for name in plan.receivers:
        flow = nx.maximum_flow_value(d, plan.source, name)
        cut = plan.cut(name)
        assert plan.got[name] == got[name] <= plan.bound[name] == flow == cut.capacity_bps
        without = d.copy()
        without.remove_edges_from(cut.arcs)
        assert not nx.has_path(without, plan.source, name)


def random_graph(rng: random.Random, *, forwards: bool) -> tuple[nx.Graph, str, list[str]]:
    n, dense = rng.randint(4, 14), rng.uniform(0.2, 0.6)
    names = [f"n{i}" for i in range(n)]
    most = rng.choice([2, 10, 1000])
    edges = [(u, v, rng.randint(1, most)) for i, u in enumerate(names) for v in names[:i] if rng.random() < dense]
    g = rated(edges, switches=names[max(2, n * 2 // 3) :], forwards=forwards)
    for u, v in list(g.edges):
        g.edges[u, v]["up"] = rng.random() > 0.05
    hosts = [name for name in g if g.nodes[name]["kind"] == "host"]
    if len(hosts) < 2:
        return random_graph(rng, forwards=forwards)
    return g, hosts[0], rng.sample(hosts[1:], rng.randint(1, len(hosts) - 1))


@pytest.mark.parametrize("together", [False, True])
def test_where_everybody_passes_on_every_receiver_gets_its_max_flow(together):
    """Bang-Jensen, Frank, Jackson 1995: nobody sends more than it can receive."""
    whole = 0
    for seed in range(400):
        g, source, receivers = random_graph(random.Random(seed), forwards=True)
        try:
            plan = plan_of(g, source, receivers, together=together, most=512)
        except Unreachable:
            continue
        check(g, plan)
        whole += 1
        if together:
            least = min(bound for bound in plan.bound.values() if bound)
            assert min(got for name, got in plan.got.items() if plan.bound[name]) == least, f"seed {seed}"
        else:
            assert plan.got == plan.bound, f"seed {seed}"
    assert whole > 300


@pytest.mark.parametrize("together", [False, True])
def test_where_receivers_pass_nothing_on_the_plan_is_sound(together):
    for seed in range(300):
        g, source, receivers = random_graph(random.Random(seed), forwards=False)
        try:
            check(g, plan_of(g, source, receivers, together=together, most=512))
        except Unreachable:
            continue


@pytest.mark.parametrize("symmetric", [True, False])
def test_trees_are_exact(symmetric):
    """Takahashi and others, section 3.4; the narrowest link towards a receiver is what counts, so it need not be as
    wide the other way."""
    for seed in range(40):
        rng = random.Random(seed)
        n = rng.randint(3, 40)
        edges = [(f"n{i}", f"n{rng.randrange(max(0, i - 6), i)}", rng.randint(1, 1000)) for i in range(1, n)]
        g = rated(edges, forwards=True)
        if not symmetric:
            for u, v, data in g.edges(data=True):
                data["rates_bps"] = {u: rng.randint(1, 1000), v: rng.randint(1, 1000)}
        receivers = [name for name in g if name != "n0"]
        plan = plan_of(g, "n0", receivers, most=512)
        check(g, plan)
        assert plan.exact and not plan.split
        # Each tree holds all that the next one holds: Algorithm 2 needs it.
        trees = sorted(plan.trees, key=lambda tree: -len(tree.receivers))
        assert all(set(b.receivers) <= set(a.receivers) for a, b in itertools.pairwise(trees)), seed


def test_a_slow_receiver_lowers_nobody_s_rate():
    g = topologies.parse("bcube:4,1")
    for u, v, data in g.edges(data=True):
        data["rate_bps"] = 5_000_000 if "31" in (u, v) else 50_000_000
    receivers = ["02", "10", "21", "23", "31", "33"]
    plan = plan_of(g, "00", receivers)
    check(g, plan)
    assert plan.got == {name: 10_000_000 if name == "31" else 100_000_000 for name in receivers}
    assert len(plan.trees) == 4
    assert plan.cut("31").arcs == (("s0.3", "31"), ("s1.1", "31"))


def test_a_wish_is_kept_to_the_bit():
    """Capacities alone have a large common divisor; a measured rate has not."""
    g = topologies.parse("bcube:4,1")
    for _, _, data in g.edges(data=True):
        data["rate_bps"] = 50_000_000
    receivers = ["02", "10", "31", "33"]
    plan = plan_of(g, "00", receivers, wish={"31": 27_008_999})
    check(g, plan)
    assert plan.got["31"] == 27_008_999
    assert {plan.got[name] for name in receivers if name != "31"} == {100_000_000}


def test_nobody_who_passes_nothing_on_gets_more_than_it_wishes():
    """One of two trees took over the other's rate for receivers that were in the first only."""
    split = 0
    for seed in range(300):
        rng = random.Random(seed)
        g, source, receivers = random_graph(rng, forwards=True)
        for name in receivers:
            g.nodes[name]["forwards"] = rng.random() < 0.5
        wish = {name: rng.randint(1, 10) for name in receivers if rng.random() < 0.4}
        try:
            plan = plan_of(g, source, receivers, wish=wish, most=rng.choice([2, 12]))
        except Unreachable:
            continue
        check(g, plan)
        split += plan.split
        assert all(plan.got[name] <= most for name, most in wish.items() if not g.nodes[name]["forwards"]), (
            f"seed {seed}"
        )
    assert split > 10


def test_few_trees_give_like_receivers_a_common_level():
    g = rated([("s", "x", 1000)] + [("x", f"r{i}", 100 + i) for i in range(40)], switches=("x",), forwards=False)
    plan = plan_of(g, "s", [f"r{i}" for i in range(40)], most=4)
    check(g, plan)
    assert len(plan.trees) <= 4
    assert all(plan.got[name] >= 0.85 * plan.bound[name] for name in plan.receivers)


def rails(hosts: int, rails: int, per_leaf: int, spines: int) -> nx.Graph:
    edges = []
    for r in range(rails):
        for leaf in range(hosts // per_leaf):
            edges += [(f"r{r}l{leaf}", f"h{h}", 400) for h in range(leaf * per_leaf, (leaf + 1) * per_leaf)]
            edges += [(f"r{r}l{leaf}", f"r{r}s{s}", 1600) for s in range(spines)]
    return rated(edges, switches={name for edge in edges for name in edge[:2] if name[0] == "r"}, forwards=False)


def test_rails_with_failed_links_lose_what_failed_only():
    g = rails(128, 8, 16, 2)
    rng = random.Random(7)
    for u, v in rng.sample([edge for edge in g.edges if any(name[0] == "h" for name in edge)], 12):
        g.edges[u, v]["up"] = False
    receivers = [f"h{i}" for i in range(1, 128)]
    plan = plan_of(g, "h0", receivers)
    assert plan.got == plan.bound
    assert min(plan.got.values()) >= 2400 and max(plan.got.values()) == sum(
        400 for leaf in g["h0"] if g.edges["h0", leaf].get("up", True)
    )


def test_what_others_take_is_not_there():
    g = rated([("s", "x", 100), ("x", "a", 100), ("x", "b", 40)], switches=("x",))
    network = Network(g)
    left = arc_rates(network, g, taken={("x", "a"): 30}, caps={("x", "b"): 10})
    plan = rated_trees(network, "s", ["a", "b"], left)
    assert plan.got == {"a": 70, "b": 10}


@pytest.mark.parametrize("rate", [0, -5, None, 1.5, True, 10**30])
def test_a_rate_that_is_none_is_refused_by_name(rate):
    g = rated([("s", "a", 10), ("a", "b", 10)])
    g.edges["a", "b"]["rate_bps"] = rate
    with pytest.raises(CapacityError, match=r"link a-b|link b-a"):
        arc_rates(Network(g), g)


def test_receivers_beyond_reach_get_nothing_and_the_others_theirs():
    g = rated([("s", "a", 10), ("b", "c", 10)])
    plan = plan_of(g, "s", ["a", "b"])
    assert plan.got == {"a": 10, "b": 0} and plan.bound["b"] == 0
    with pytest.raises(Unreachable):
        plan_of(g, "s", ["b", "c"])


def test_large_rates_are_counted_in_a_larger_unit():
    g = rated([("s", "a", 400_000_000_001), ("a", "b", 399_999_999_999)])
    plan = plan_of(g, "s", ["a", "b"])
    assert plan.unit > 1
    assert all(0 <= plan.bound[n] - plan.got[n] <= 1000 for n in plan.receivers)
    assert 0 <= 400_000_000_001 - plan.got["a"] < 1000


@pytest.mark.parametrize(
    "fabric",
    [forestcoll.a100, forestcoll.h100, forestcoll.mi250, forestcoll.half_mi250],
    ids=lambda make: make.__name__,
)
def test_forestcoll_s_fabrics_are_filled_to_their_optimum(fabric):
    """Two boxes each. The optimum comes from networkx's max-flows, not from the engine."""
    made = fabric(2)
    best = forestcoll.optimum(made)
    plan = forestcoll.filled(made, best)
    check(forestcoll.with_source(made, best), plan)
    assert plan.common == best * len(made[1])
    # With all of the source's arcs full, each tree hangs on one GPU: it is that GPU's own tree.
    assert all(sum(parent == forestcoll.SOURCE for parent, _ in tree.arcs) == 1 for tree in plan.trees)
