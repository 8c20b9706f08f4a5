"""What a group would get if it began now: trees, their shares, the time. Nothing is written, nobody is asked.

Trees of a large fabric take a while, so they are computed in a thread, from what the event loop has copied for it:
there groups and nodes come and go meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from datacast import planners
from datacast.core.rates import arc_rates, rated_trees
from datacast.core.trees import Network, TreeError, Unreachable, steiner_trees
from datacast.services import ranges
from datacast.services.problems import Problem

from .api import GroupSpec
from .api.records import Cut, Gap, Plan, PlannedTree
from .api.topology import graph_of
from .divider import MARGIN, Divider, Others
from .fabric import Fabric
from .requests import check_holds, receivers_of, with_fetchers, with_shards
from .shares import Ask, TreeUse

if TYPE_CHECKING:
    import networkx as nx

RATE_UNKNOWN = 10**9
"""Bit/s of a link that nobody gave a rate."""


class DryRun:
    """Of a request, over the fabric and beside the groups as they are when it is made: `plan` looks at nothing that
    changes, and may run in a thread. Raises Problem for a request that cannot be meant."""

    def __init__(self, fabric: Fabric, sets: dict[str, list[str]], divider: Divider, spec: GroupSpec) -> None:
        receivers = receivers_of(fabric, sets, spec)
        if spec.url is not None:
            spec = with_fetchers(fabric, spec, receivers)
        self._spec = with_shards(spec, receivers)
        self._receivers = [name for name in receivers if name != spec.source]
        check_holds(self._spec)
        self._topology, self._others = fabric.snapshot(), divider.others()

    def plan(self, size: int | None = None) -> Plan:
        """`size` of the file, where the request does not say it, or another one. Raises Problem."""
        return _plan(graph_of(self._topology), self._others, self._spec, self._receivers, size)

    def check_deadline(self) -> None:
        """Raises Problem where the links cannot give in time what is asked for."""
        spec, found = self._spec, self.plan()
        if found.deadline_met is False:
            raise Problem(
                409,
                "deadline",
                f"it takes {found.expected_s:.1f} s at the {found.rate_bps / 1e6:.1f} Mbit/s that the links have for "
                f"it beside other groups, more than {spec.deadline_s:g} s",
                what=spec.source,
                remedy="give it more time, or wait until others are done: POST /plan says what it would get",
            )


def _plan(graph: nx.Graph, others: Others, spec: GroupSpec, receivers: list[str], size: int | None) -> Plan:
    if not receivers:  # one alone fetches: nothing is sent to anybody
        return _alone(spec, size)
    unreachable: list[str] = []
    try:
        found = steiner_trees(graph, spec.source, receivers, spec.options.trees, {})
    except Unreachable as error:
        if not error.trees:
            raise Problem(409, "no_tree", error.message, what=spec.source, remedy="bring links up") from error
        found, unreachable = error.trees, list(error.receivers)
    except TreeError as error:
        raise Problem(409, error.code, error.message, what=error.what) from error
    reached = [name for name in receivers if name not in unreachable]
    rated = _rated(graph, spec, reached)
    trees = rated or [
        _Planned(
            tuple(tree.arcs),
            tree.depth,
            float(min((graph.edges[arc]["rate_bps"] or RATE_UNKNOWN for arc in tree.arcs), default=RATE_UNKNOWN)),
            frozenset(reached),
        )
        for tree in found.trees
    ]
    uses = {
        number: TreeUse(tree.arcs, min(tree.most_bps, float(spec.options.rate_bps or tree.most_bps)))
        for number, tree in enumerate(trees)
    }
    most = float(spec.most_bps) if spec.most_bps else float("inf")
    size = spec.size if size is None else size
    least = MARGIN * size * 8 / spec.deadline_s if size is not None and spec.deadline_s is not None else 0.0
    ask = Ask(uses, float(spec.weight), spec.priority == "background", least, most)
    rates = others.beside(ask, graph)
    total = sum(rates.values())
    each = {name: sum(rates[i] for i, tree in enumerate(trees) if name in tree.receivers) for name in reached}
    slowest = min(each.values(), default=0.0)
    sent, wanted = (None, {}) if size is None else _shares(spec, receivers, size)
    time_s = None
    if sent is not None and slowest:
        # What all want goes at the slowest one's rate; ranges of their own go one beside another, out of the source.
        time_s = max([sent * 8 / (total if spec.shards else slowest), *(n * 8 / slowest for n in wanted.values())])
    bound, gap, cut = _beside_bounds(graph, spec.source, reached, trees, together=not rated)
    return Plan(
        source=spec.source,
        receivers=receivers,
        unreachable=unreachable,
        rate_bps=round(total),
        size=size,
        expected_s=time_s,
        deadline_met=None if time_s is None or spec.deadline_s is None else time_s <= spec.deadline_s,
        trees=[
            PlannedTree(depth=tree.depth, links=len(tree.arcs), share_bps=round(rates[number]), arcs=list(tree.arcs))
            for number, tree in enumerate(trees)
        ],
        wanted_bytes=wanted,
        receiver_bps={name: round(rate) for name, rate in each.items()},
        bound_bps=bound,
        gap=gap,
        cut=cut,
    )


def _alone(spec: GroupSpec, size: int | None) -> Plan:
    """How long its origin takes nobody knows here."""
    return Plan(
        source=spec.source, receivers=[], unreachable=[], rate_bps=0, size=spec.size if size is None else size,
        expected_s=None, deadline_met=None, trees=[], wanted_bytes={}, receiver_bps={}, bound_bps={},
        gap=Gap(part=0.0, receiver=None), cut=None,
    )  # fmt: skip


def _shares(spec: GroupSpec, receivers: list[str], size: int) -> tuple[int, dict[str, int]]:
    """Bytes of the file that anybody wants, and how many of them each. Raises Problem."""
    if not spec.shards:
        return size, {}
    try:
        rows = {name: ranges.blocks(spec.shards.get(name, ["0-"]), size, 1) for name in receivers}
    except ranges.RangeProblem as error:
        raise Problem(422, "bad_shards", str(error), remedy="ranges are in bytes of the file") from None
    counts = {name: sum(count for _, count in found) for name, found in rows.items()}
    return sum(count for _, count in ranges.union(row for found in rows.values() for row in found)), counts


def _beside_bounds(
    graph: nx.Graph, source: str, receivers: list[str], trees: list[_Planned], *, together: bool
) -> tuple[dict[str, int], Gap, Cut]:
    """What the trees could carry with nobody beside them, held against what any trees could: each receiver's own bound,
    or for one common rate the least of them. And the cut that allows the one with the least bound no more."""
    network = Network(graph)
    alone = rated_trees(network, source, receivers, arc_rates(network, graph, default=RATE_UNKNOWN))
    bound = dict.fromkeys(receivers, alone.common_bound) if together else alone.bound
    got = {name: sum(tree.most_bps for tree in trees if name in tree.receivers) for name in receivers}
    tightest = min(receivers, key=lambda name: alone.bound[name])
    cut = alone.cut(tightest)
    gap = planners.gap(got, bound)
    return (
        bound,
        Gap(part=gap.part, receiver=gap.receiver),
        Cut(receiver=tightest, bps=cut.capacity_bps, arcs=list(cut.arcs)),
    )


@dataclass(frozen=True)
class _Planned:
    arcs: tuple[tuple[str, str], ...]
    depth: int
    most_bps: float
    receivers: frozenset[str]


def _rated(graph: nx.Graph, spec: GroupSpec, receivers: list[str]) -> list[_Planned]:
    """Trees with rates, as the master plans them for receivers that differ; none where all get the same."""
    options = spec.options
    try:
        given = planners.unequal(
            graph,
            spec.source,
            receivers,
            delivery=options.delivery,
            planner=options.planner,
            default=RATE_UNKNOWN,
            most=options.trees,
        )
    except (planners.PlannerError, TreeError) as error:
        raise Problem(409, error.code, error.message, what=error.what) from error
    if given is None:
        return []
    return [
        _Planned(tree.arcs, _depth(tree.arcs), float(tree.rate_bps), frozenset(tree.receivers)) for tree in given.trees
    ]


def _depth(arcs: tuple[tuple[str, str], ...]) -> int:
    depth: dict[str, int] = {}
    for parent, child in arcs:
        depth[child] = depth.get(parent, 0) + 1
    return max(depth.values(), default=0)
