"""`datacast trees --planner NAME`: trees with rates, each receiver's rate beside its bound, and the cut behind it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datacast import planners
from datacast.core.lists import few
from datacast.core.rates import arc_rates, rated_trees
from datacast.core.trees import Network

from .output import json_text, output
from .times import Times

CUTS_SHOWN = 8


@dataclass(frozen=True)
class Drawn:
    """A planner's tree as trees_svg draws it."""

    id: int
    arcs: list[tuple[str, str]]
    depth: int
    rate_bps: float


@dataclass(frozen=True)
class TreeTold:
    rate_bps: int
    hops: list[tuple[str, str]]
    receivers: list[str]


@dataclass(frozen=True)
class Rate:
    rate_bps: int
    bound_bps: int


@dataclass(frozen=True)
class CutTold:
    capacity_bps: int
    arcs: list[tuple[str, str]]


@dataclass(frozen=True, kw_only=True)
class Result:
    """What is printed."""

    planner: str
    note: str
    source: str
    trees: list[TreeTold]
    receivers: dict[str, Rate]
    common_bps: int
    common_bound_bps: int
    unreachable: list[str]
    gap: planners.Gap
    aggregate_bps: int
    cuts: dict[str, CutTold]
    time_ms: Times


def show(
    g: Any,
    source: str,
    receivers: list[str],
    planner: str,
    *,
    overlay: bool,
    link_bps: int,
    seed: int,
    repeat: int,
    as_json: bool,
    svg: Path | None,
) -> list[str]:
    """Shows a plan; returns the receivers that no path reaches."""
    network = Network(g)
    alone = rated_trees(network, source, receivers, arc_rates(network, g, default=link_bps))
    unreachable = [name for name in receivers if not alone.bound[name]]
    receivers = [name for name in receivers if alone.bound[name]]
    net = (planners.hosts if overlay else planners.cables)(g, link_bps)
    times = []
    for _ in range(repeat):
        begin = time.thread_time_ns()
        plan = planners.plan(net, source, receivers, planner, seed=seed)
        times.append((time.thread_time_ns() - begin) / 1e6)
    times.sort()
    cuts = {name: alone.cut(name) for name in sorted(receivers, key=lambda name: alone.bound[name])[:CUTS_SHOWN]}
    got = plan.got
    result = Result(
        planner=planner,
        note=plan.note,
        source=source,
        trees=[TreeTold(round(tree.rate_bps), list(tree.hops), list(tree.receivers)) for tree in plan.trees],
        receivers={name: Rate(round(got[name]), alone.bound[name]) for name in receivers},
        common_bps=round(min(got.values())),
        common_bound_bps=min(alone.bound[name] for name in receivers),
        unreachable=unreachable,
        gap=planners.gap(got, {name: alone.bound[name] for name in receivers}),
        aggregate_bps=round(plan.aggregate),
        cuts={name: CutTold(cut.capacity_bps, list(cut.arcs)) for name, cut in cuts.items()},
        time_ms=Times.of(times),
    )
    if svg is not None:
        from .trees_svg import bars, draw, save

        trees = [Drawn(i, _on_cables(net, t.hops), _depth(t.hops), t.rate_bps) for i, t in enumerate(plan.trees)]
        save(svg, draw(g, trees, source, receivers))
        rows = [(name, got[name], float(alone.bound[name])) for name in receivers]
        save(svg.with_stem(svg.stem + "-rates"), bars(rows))
    if as_json:
        print(json_text(result))
    else:
        _tables(g, result)
    return unreachable


def _on_cables(net: planners.Net, hops: tuple[tuple[str, str], ...]) -> list[tuple[str, str]]:
    return [arc for u, v in hops for arc in net.path(u, v)]


def _depth(hops: tuple[tuple[str, str], ...]) -> int:
    depth: dict[str, int] = {}
    for parent, child in hops:
        depth[child] = depth.get(parent, 0) + 1
    return max(depth.values(), default=0)


def _mbit(rate: float) -> str:
    return f"{rate / 1e6:.1f}"


def _tables(g: Any, result: Result) -> None:
    from rich.table import Table

    console = output()
    table = Table(title=f"{g.graph.get('topology') or 'graph'}: {result.planner}, source {result.source}")
    for head in ("tree", "Mb/s", "receivers", "hops"):
        table.add_column(head, justify="right")
    table.add_column("parent>child")
    for i, tree in enumerate(result.trees):
        hops = [f"{u}>{v}" for u, v in tree.hops]
        shown = few(hops, 24, " ")
        table.add_row(str(i), _mbit(tree.rate_bps), str(len(tree.receivers)), str(len(hops)), shown)
    console.print(table)
    table = Table()
    for head in ("receiver", "Mb/s", "bound", "of it"):
        table.add_column(head, justify="right")
    table.add_column("the cut")
    for name, row in sorted(result.receivers.items(), key=lambda item: item[1].bound_bps)[:40]:
        cut = result.cuts.get(name)
        arcs = few((f"{u}>{v}" for u, v in cut.arcs), by=" ") if cut else ""
        part = row.rate_bps / row.bound_bps if row.bound_bps else 0.0
        table.add_row(name, _mbit(row.rate_bps), _mbit(row.bound_bps), f"{part:.3f}", arcs)
    console.print(table)
    ms, gap = result.time_ms, result.gap
    console.print(
        f"every receiver: {_mbit(result.common_bps)} Mb/s of {_mbit(result.common_bound_bps)}; together "
        f"{_mbit(result.aggregate_bps)}; "
        + (f"gap {100 * gap.part:.1f} % at {gap.receiver}" if gap.part else "no gap: all at their bounds")
        + f"; {ms.median:.2f} ms median"
        + (f"; {result.note}" if result.note else ""),
        highlight=False,
    )
