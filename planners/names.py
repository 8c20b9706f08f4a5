"""The planners by name, as the papers call them."""

from __future__ import annotations

import contextlib
import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from datacast.core.lists import few
from datacast.core.rates import RATED_TREES_MAX, RatedTrees, arc_rates, rated_trees
from datacast.core.trees import Network, TreeError

from .balance import balance
from .model import Arc, Net, Plan, PlannerError, RateTree, take, width
from .search import depth_first, fair, pruned, widest
from .small import packed

RANDOM_PIPELINES = 100
SHUFFLES = 16
"""Depth-first orders that Balanced Multicasting chooses trees from, beside the one in the order of names."""
PARTIAL_MAX = 4096
Planner = Callable[[Net, str, Sequence[str], random.Random], tuple[list[RateTree], str]]


def _one_rate(net: Net, source: str, wanted: Sequence[str], hops: list[Arc]) -> list[RateTree]:
    """One tree at the rate of its narrowest cable; it must hold everybody."""
    missing = set(wanted) - {child for _, child in hops}
    if missing:
        raise PlannerError(f"no path with room leads to {few(sorted(missing))}", what=",".join(sorted(missing)))
    return [net.tree(width(net.capacity, net.uses(hops)), hops, wanted)]


def _shared(net: Net, source: str, wanted: Sequence[str], hops: list[Arc]) -> list[RateTree]:
    """A tree whose hops share cables as TCP would: as nested trees, one per rate. Who cannot be reached over it is left
    out."""
    reached, there = {source}, []
    for parent, child in hops:
        if parent in reached and net.path(parent, child):
            reached.add(child)
            there.append((parent, child))
    hops = there
    rates = fair(net, hops, net.capacity)
    trees: list[RateTree] = []
    below = 0.0
    for level in sorted(set(rates.values())):
        part = pruned([hop for hop in hops if rates[hop[1]] >= level], set(wanted))
        if part and level > below:
            trees.append(net.tree(level - below, part, wanted))
            below = level
    return trees


def depth_first_planner(net: Net, source: str, wanted: Sequence[str], rng: random.Random) -> tuple[list[RateTree], str]:
    return _one_rate(net, source, wanted, depth_first(net, source, wanted, net.capacity)), ""


def fpfr(net: Net, source: str, wanted: Sequence[str], rng: random.Random) -> tuple[list[RateTree], str]:
    """Izmailov, Ganguly, Tu 2004: depth-first spanning trees in what is left until there is none."""
    left = dict(net.capacity)
    trees: list[RateTree] = []
    while len(trees) < PARTIAL_MAX:
        hops = depth_first(net, source, wanted, left)
        tree = net.tree(width(left, net.uses(hops)), hops, wanted)
        if set(tree.receivers) != set(wanted) or tree.rate_bps <= 0:
            break
        take(left, tree)
        trees.append(tree)
    return trees, ""


def _partial(net: Net, source: str, wanted: Sequence[str], trees: list[RateTree]) -> list[RateTree]:
    """Go on with depth-first trees to whomever there is room to (Takahashi and others, Algorithm 1)."""
    left, trees = dict(net.capacity), list(trees)
    most = max(left.values(), default=0.0)
    for tree in trees:
        take(left, tree)
    for arc, room in left.items():
        if room < 1e-9 * most:
            left[arc] = 0.0
    while len(trees) < PARTIAL_MAX:
        hops = depth_first(net, source, wanted, left)
        tree = net.tree(width(left, net.uses(hops)), hops, wanted)
        if not tree.receivers or tree.rate_bps <= 0:
            break
        take(left, tree)
        for arc in tree.uses:
            if left[arc] < 1e-9 * most:
                left[arc] = 0.0
        trees.append(tree)
    return trees


def stable(net: Net, source: str, wanted: Sequence[str], rng: random.Random) -> tuple[list[RateTree], str]:
    """Takahashi, Saito, Shibata, Taura: Algorithm 1."""
    return _partial(net, source, wanted, []), ""


def balanced(net: Net, source: str, wanted: Sequence[str], rng: random.Random) -> tuple[list[RateTree], str]:
    """den Burger, Kielmann, Bal 2005: spanning trees with rates from a linear programme. (They choose trees by a
    heuristic of their own; here: FPFR's in several orders, and the widest one.)"""
    candidates = fpfr(net, source, wanted, rng)[0]
    for _ in range(SHUFFLES):
        hops = depth_first(net, source, wanted, net.capacity, rng)
        candidates.append(net.tree(1.0, hops, wanted))
    candidates.append(net.tree(1.0, widest(net, source, wanted, net.capacity, True), wanted))
    whole = [tree for tree in candidates if set(tree.receivers) == set(wanted)]
    if not whole:
        raise PlannerError("no tree holds every receiver", what=source)
    return balance(whole, net.capacity), f"{len(whole)} candidates"


def dijkstra(net: Net, source: str, wanted: Sequence[str], rng: random.Random) -> tuple[list[RateTree], str]:
    """Wang, Wu, Chang 2007: the best reached next; hops share cables."""
    return _shared(net, source, wanted, widest(net, source, wanted, net.capacity, False)), ""


def max_bottleneck(net: Net, source: str, wanted: Sequence[str], rng: random.Random) -> tuple[list[RateTree], str]:
    """Prim's maximum-bottleneck tree (Robber, 2.3), at one rate."""
    return _one_rate(net, source, wanted, widest(net, source, wanted, net.capacity, False)), ""


def random_pipeline(net: Net, source: str, wanted: Sequence[str], rng: random.Random) -> tuple[list[RateTree], str]:
    """The best of a hundred pipelines in random order."""
    if not net.overlay:
        raise PlannerError(
            "random-pipeline sends from host to host; here switches make the copies: plan between hosts "
            "(`datacast trees --overlay`), or with another planner",
            what="random-pipeline",
        )
    best: list[RateTree] = []
    for _ in range(RANDOM_PIPELINES):
        order = [source, *rng.sample(list(wanted), len(wanted))]
        trees = _shared(net, source, wanted, list(itertools.pairwise(order)))
        if sum(t.rate_bps * len(t.receivers) for t in trees) > sum(t.rate_bps * len(t.receivers) for t in best):
            best = trees
    return best, ""


def flat_tree(net: Net, source: str, wanted: Sequence[str], rng: random.Random) -> tuple[list[RateTree], str]:
    """The source sends to each by itself."""
    if not net.overlay:
        raise PlannerError(
            "flat-tree sends from host to host; here switches make the copies: plan between hosts "
            "(`datacast trees --overlay`), or with another planner",
            what="flat-tree",
        )
    return _shared(net, source, wanted, [(source, name) for name in wanted]), ""


def datacast(net: Net, source: str, wanted: Sequence[str], rng: random.Random) -> tuple[list[RateTree], str]:
    """Ours: the core's trees with rates over cables. Beside them what FPFR and Balanced Multicasting give, with partial
    trees in what they leave; the best for the receivers, from the one that gets least on, is taken."""
    answers: list[tuple[list[RateTree], str]] = []
    if net.overlay:
        answers.append((_partial(net, source, wanted, []), "partial trees"))
    else:
        try:
            found = _core(net, source, wanted)
            made = found.trees if found.exact else packed(found)
        except TreeError as error:
            raise PlannerError(error.message, what=error.what) from error
        trees = [net.tree(float(tree.rate_bps), tree.arcs, wanted) for tree in made]
        if found.exact:
            return trees, "every receiver has its max-flow"
        answers.append((trees, "the core's trees" if made is found.trees else "trees by linear programme"))
    for other in (fpfr, balanced):
        with contextlib.suppress(PlannerError):
            answers.append((_partial(net, source, wanted, other(net, source, wanted, rng)[0]), other.__name__))
    return max(answers, key=lambda answer: _rank(answer[0], wanted))


def _rank(trees: list[RateTree], wanted: Iterable[str]) -> list[float]:
    got = dict.fromkeys(wanted, 0.0)
    for tree in trees:
        for name in tree.receivers:
            got[name] += tree.rate_bps
    return sorted(round(rate) for rate in got.values())


def _core(net: Net, source: str, wanted: Sequence[str]) -> RatedTrees:
    graph = net.graph.copy()
    for u, v, data in graph.edges(data=True):
        data["up"] = (u, v) in net.capacity
        # What is down needs a rate as well.
        data["rates_bps"] = {a: max(1, int(net.capacity.get((a, b), 1))) for a, b in ((u, v), (v, u))}
    network = Network(graph)
    most = min(max(64, len(wanted)), RATED_TREES_MAX)
    return rated_trees(network, source, wanted, arc_rates(network, graph), most=most)


PLANNERS: dict[str, Planner] = {
    "datacast": datacast,
    "stable": stable,
    "fpfr": fpfr,
    "balanced": balanced,
    "depth-first": depth_first_planner,
    "dijkstra": dijkstra,
    "random-pipeline": random_pipeline,
    "flat-tree": flat_tree,
    "max-bottleneck": max_bottleneck,
}


def plan(net: Net, source: str, receivers: Iterable[str], planner: str = "datacast", *, seed: int = 1) -> Plan:
    """Trees with rates. `seed`: of planners that draw.

    Raises PlannerError: no such planner (with those there are), a member that is no host or named twice, a network that
    the planner cannot serve.
    """
    wanted = list(receivers)
    if planner not in PLANNERS:
        raise PlannerError(f"no planner {planner!r}: there are {', '.join(PLANNERS)}", what=planner)
    if not wanted:
        raise PlannerError("a group without receivers", what="receivers")
    for name in (source, *wanted):
        if name not in net.graph or net.graph.nodes[name]["kind"] != "host":
            raise PlannerError(f"{name} is no host of this network", what=name)
    if twice := [name for name, times in Counter((source, *wanted)).items() if times > 1]:
        raise PlannerError(f"{twice[0]} is named twice: name each member once", what=twice[0])
    trees, note = PLANNERS[planner](net, source, wanted, random.Random(seed))
    return Plan(planner, source, tuple(wanted), tuple(trees), note)
