"""A dry run says how far its trees are from what any trees could do, and why there is no more."""

from __future__ import annotations

import random
from dataclasses import replace

import networkx as nx
import pytest

from datacast.core.trees import TreeError
from datacast.fabric_manager.api import GroupOptions, GroupSpec
from datacast.fabric_manager.api.records import Cut, Gap, Plan
from datacast.fabric_manager.api.reports import Progress, TreeFigures
from datacast.fabric_manager.divider import MARGIN, Divider
from datacast.fabric_manager.dry_run import DryRun
from datacast.fabric_manager.fabric import Fabric
from datacast.fabric_manager.record import Record
from datacast.fabric_manager.told import Registration
from datacast.services.problems import Problem

MBIT = 10**6


def fabric(edges: list[tuple[str, str, int]], hosts: int) -> Fabric:
    g, ports = nx.Graph(), dict[str, int]()
    for name in sorted({name for edge in edges for name in edge[:2]}):
        host = name[0] == "h" and int(name[1:]) < hosts
        g.add_node(name, kind="host" if host else "switch", forwards=not host)
    for u, v, rate in edges:
        at = {name: ports.setdefault(name, 0) for name in (u, v)}
        ports |= {name: port + 1 for name, port in at.items()}
        g.add_edge(u, v, rate_bps=rate, ports=at)
    made = Fabric(g)
    for session, name in enumerate((name for name in g if made.nodes[name].kind == "host"), 1):
        told = {"type": "register", "node": name, "kind": "host", "addr": "10.0.0.1:7600", "pid": 100, "ports": []}
        made.register(Registration.read(told), session, 1)
    return made


def planned(it: Fabric, source: str, receivers: list[str], **options: object) -> Plan:
    spec = GroupSpec(source=source, source_path="/f", receivers=receivers, options=GroupOptions(**options))
    return DryRun(it, {}, Divider(it, lambda group, message: None), spec).plan(10**6)


def combination() -> Fabric:
    """Three relays, receivers below each two of them: each could have 2 alone; one rate for all over trees is 1.5."""
    edges = [("h0", f"s{i}", MBIT) for i in range(3)]
    edges += [(f"s{i}", f"h{n}", MBIT) for n, pair in enumerate([(0, 1), (1, 2), (0, 2)], 1) for i in pair]
    return fabric(edges, 4)


def test_a_plan_at_its_bounds_has_no_gap_and_names_the_cut() -> None:
    it = fabric([("h0", "s0", 100 * MBIT), ("s0", "h1", 100 * MBIT), ("s0", "h2", 10 * MBIT)], 3)
    found = planned(it, "h0", ["h1", "h2"])
    assert found.bound_bps == {"h1": 100 * MBIT, "h2": 10 * MBIT} and found.gap == Gap(part=0.0, receiver=None)
    assert found.cut == Cut(receiver="h2", bps=10 * MBIT, arcs=[("s0", "h2")])


def test_a_plan_is_of_the_moment_it_was_asked_for_in() -> None:
    """It is computed in a thread, while groups and nodes come and go."""
    it = fabric([("h0", "s0", 100 * MBIT), ("s0", "h1", 100 * MBIT)], 2)
    divider = Divider(it, lambda group, message: None)
    spec = GroupSpec(source="h0", source_path="/f", receivers=["h1"])
    asked = DryRun(it, {}, divider, spec)
    figures = TreeFigures(state="running", arcs=[("h0", "s0"), ("s0", "h1")], most_bps=100 * MBIT)
    other = Record(id="g", spec=spec, state="running", owner="w", progress=Progress(size=1, trees={"1": figures}))
    divider.follow(other, False)
    it.remove("h1", None)
    assert asked.plan(10**6).rate_bps == 100 * MBIT
    it.restore("h1", 2)
    assert DryRun(it, {}, divider, spec).plan(10**6).rate_bps == 50 * MBIT


@pytest.mark.parametrize("size, mbit, met", [(10**7, 80 * MARGIN, True), (10**8, 100, False), (None, 50, None)])
def test_a_deadline_is_promised_what_it_takes_where_the_size_is_known(
    size: int | None, mbit: float, met: bool | None
) -> None:
    """Beside another group on the same cable, which is left the rest."""
    it = fabric([("h0", "s0", 100 * MBIT), ("s0", "h1", 100 * MBIT)], 2)
    divider = Divider(it, lambda group, message: None)
    spec = GroupSpec(source="h0", source_path="/f", receivers=["h1"], deadline_s=1.0)
    figures = TreeFigures(state="running", arcs=[("h0", "s0"), ("s0", "h1")], most_bps=100 * MBIT)
    other = replace(spec, deadline_s=None)
    progress = Progress(size=1, trees={"1": figures})
    divider.follow(Record(id="g", spec=other, state="running", owner="w", progress=progress), False)
    found = DryRun(it, {}, divider, spec).plan(size)
    assert found.rate_bps == pytest.approx(mbit * MBIT, rel=0.01) and found.deadline_met == met


def test_one_rate_for_all_is_held_against_the_least_bound() -> None:
    it = fabric([("h0", "s0", 100 * MBIT), ("s0", "h1", 100 * MBIT), ("s0", "h2", 10 * MBIT)], 3)
    found = planned(it, "h0", ["h1", "h2"], delivery="together")
    assert found.bound_bps == {"h1": 10 * MBIT, "h2": 10 * MBIT} and found.gap.part == 0.0


def test_trees_that_cannot_reach_the_bound_say_by_how_much() -> None:
    found = planned(combination(), "h0", ["h1", "h2", "h3"], delivery="together")
    assert set(found.bound_bps.values()) == {2 * MBIT}
    assert found.gap.part == pytest.approx(0.5) and found.gap.receiver in ("h1", "h2", "h3")


def test_of_random_networks_each_plan_is_at_its_bounds_or_tells_a_gap_that_is_true() -> None:
    short = 0
    for seed in range(60):
        rng = random.Random(seed)
        names = [f"h{i}" if i < 5 else f"s{i}" for i in range(8)]
        edges = [
            (u, v, rng.choice([10, 20, 50]) * MBIT)
            for i, u in enumerate(names)
            for v in names[:i]
            if rng.random() < 0.45
        ]
        if "h0" not in {name for edge in edges for name in edge[:2]}:
            continue
        receivers = sorted({name for edge in edges for name in edge[:2] if name[0] == "h"} - {"h0"})
        try:
            found = planned(fabric(edges, 5), "h0", receivers, delivery="stable")
        except (Problem, TreeError):
            continue
        d = nx.DiGraph()
        for a, b, rate in [*edges, *((v, u, rate) for u, v, rate in edges)]:
            if a == "h0" or (a[0] == "s" and b != "h0"):
                d.add_edge(a, b, capacity=rate)
        reached = [name for name in receivers if name not in found.unreachable]
        bound = {name: nx.maximum_flow_value(d, "h0", name) for name in reached}
        assert found.bound_bps == bound, f"seed {seed}"
        # Nobody is beside it: the shares are what the trees carry, up to what the divider keeps back.
        part = max(1 - found.receiver_bps[name] / bound[name] for name in reached)
        assert found.gap.part == pytest.approx(part, abs=0.03), f"seed {seed}"
        assert sum(next(rate for u, v, rate in edges if {u, v} == {*arc}) for arc in found.cut.arcs) == (
            found.cut.bps
        ), f"seed {seed}"
        assert found.cut.bps == min(bound.values())
        short += found.gap.part > 0.01
    assert short, "some must fall short, or this shows nothing"


def test_one_that_fetches_alone_sends_to_nobody_and_may_be_asked_for() -> None:
    it = fabric([("h0", "s0", MBIT), ("s0", "h1", MBIT)], 2)
    spec = GroupSpec(url="https://a/b", receivers=["h1"], size=10**6, deadline_s=1.0)
    dry = DryRun(it, {}, Divider(it, lambda group, message: None), spec)
    found = dry.plan()
    assert (found.source, found.receivers, found.trees, found.size, found.deadline_met) == ("h1", [], [], 10**6, None)
    dry.check_deadline()


def test_who_fetches_may_want_ranges_as_any_receiver() -> None:
    it = fabric([("h0", "s0", MBIT), ("s0", "h1", MBIT), ("s0", "h2", MBIT)], 3)
    shards = {"h1": ["0-99"], "h2": ["0-199"]}
    spec = GroupSpec(url="site://a:1/site/objects/s-0", receivers=["h1", "h2"], shards=shards, size=1000)
    found = DryRun(it, {}, Divider(it, lambda group, message: None), spec).plan()
    (other,) = found.receivers
    assert found.wanted_bytes == {other: 200 if other == "h2" else 100}
