"""`datacast trees`: edge-disjoint Steiner trees of a topology, as a table, as JSON or drawn."""

from __future__ import annotations

import os
import random
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from msgspec import UNSET, UnsetType

from datacast import topologies
from datacast.core.errors import DatacastError, UsageError
from datacast.core.lists import few

from .output import json_text, output
from .times import Times

if TYPE_CHECKING:
    from datacast.core.trees import TreeSet

EPILOG = (
    "A link failure rate takes that share of all links down, by --seed; a group of N is N receivers and a source drawn "
    "by --seed from the hosts that a path joins. Exit codes: 0 done; 1 some receivers are cut off (the trees of the "
    "others are shown); 2 wrong usage."
)


def register(app: typer.Typer) -> None:
    app.command("trees", epilog=EPILOG)(trees)


def trees(
    topology: Annotated[str | None, typer.Option(help=f"A builder's form: {topologies.FORMS}")] = None,
    graph: Annotated[Path | None, typer.Option(help="A GraphML or node-link JSON file.")] = None,
    source: Annotated[str | None, typer.Option(help="The source; drawn when not given.")] = None,
    receivers: Annotated[str | None, typer.Option(help="Receivers, with commas between.")] = None,
    group: Annotated[int | None, typer.Option(help="Draw so many receivers.")] = None,
    lfr: Annotated[float, typer.Option(help="Link failure rate, 0 to 1.")] = 0.0,
    down: Annotated[str | None, typer.Option(help="Links that are down: A-B,C-D.")] = None,
    seed: Annotated[int, typer.Option(help="Of failures and group.")] = 1,
    max_trees: Annotated[int | None, typer.Option(help="No more trees than this.")] = None,
    repeat: Annotated[int, typer.Option(help="Compute so many times; median and p99 of the processor time.")] = 20,
    planner: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Trees with rates: datacast, stable, fpfr, balanced, depth-first, dijkstra, "
            "random-pipeline, flat-tree, max-bottleneck.",
        ),
    ] = None,
    overlay: Annotated[
        bool, typer.Option("--overlay", help="With --planner: hosts pass data on, switches do not.")
    ] = False,
    link: Annotated[str, typer.Option(help="With --planner: rate of links that have none, each way.")] = "100mbit",
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
    svg: Annotated[Path | None, typer.Option(help="Draw small ones into this file.")] = None,
) -> None:
    """Compute edge-disjoint Steiner trees and show them.

    datacast trees --topology bcube:8,3 --lfr 0.01 --group 1024 --seed 7 --repeat 50

    datacast trees --topology torus:4,2 --source 00 --receivers 12,13,21,33 --svg trees.svg

    datacast trees --graph net.json --source 00 --receivers 02,31 --planner datacast --svg trees.svg

    The last draws each tree as wide as its rate, and into trees-rates.svg each receiver's rate beside its bound.
    """
    from datacast.core.trees import Network, Unreachable

    g, rng = _graph(topology, graph), random.Random(seed)
    _fail(g, lfr, down, rng)
    network = Network(g)
    who, to = _group(g, source, receivers, group, rng)
    if repeat < 1:
        raise UsageError(f"--repeat is {repeat}: give at least 1", what="repeat")
    if overlay and planner is None:
        raise UsageError("--overlay goes with --planner: name one", what="overlay")
    if planner is not None:
        from datacast.core.quantities import parse_rate

        from .trees_planned import show

        cut_off = show(
            g,
            who,
            to,
            planner,
            overlay=overlay,
            link_bps=parse_rate(link),
            seed=seed,
            repeat=repeat,
            as_json=as_json,
            svg=svg,
        )
        if cut_off:
            _cut_off(Unreachable(cut_off, None), as_json)
        return
    unreachable: list[str] = []
    found: TreeSet | None
    try:
        found = network.steiner_trees(who, to, max_trees)
    except Unreachable as error:
        unreachable, found = error.receivers, error.trees
    times = []
    for _ in range(repeat):
        if found is None:
            break
        begin = time.thread_time_ns()
        found.compute()
        times.append((time.thread_time_ns() - begin) / 1e6)
    result = _result(found, unreachable, sorted(times))
    if svg is not None:
        from .trees_svg import draw, save

        save(svg, draw(g, found.trees if found is not None else [], who, to))
    if as_json:
        print(json_text(result))
    else:
        _table(g, who, to, result)
    if unreachable:
        _cut_off(Unreachable(unreachable, found), as_json)


def _cut_off(error: DatacastError, as_json: bool) -> None:
    if not as_json:
        print(f"datacast: {error}; the trees above are those of the others", file=sys.stderr)
    raise typer.Exit(1)


def _graph(topology: str | None, path: Path | None) -> Any:
    if (topology is None) == (path is None):
        raise UsageError("give either --topology or --graph", what="topology")
    if path is not None:
        return topologies.from_file(path)
    assert topology is not None
    return topologies.from_file(topology) if os.path.exists(topology) else topologies.parse(topology)


def _fail(g: Any, rate: float, down: str | None, rng: random.Random) -> None:
    if not 0 <= rate <= 1:
        raise UsageError(f"--lfr is {rate}: give a share from 0 to 1", what="lfr")
    links = list(g.edges)
    for u, v in rng.sample(links, round(rate * len(links))):
        g.edges[u, v]["up"] = False
    for text in filter(None, (down or "").split(",")):
        # Names may have hyphens: try every place to cut.
        cuts = [(text[:i], text[i + 1 :]) for i, c in enumerate(text) if c == "-"]
        link = next((cut for cut in cuts if g.has_edge(*cut)), None)
        if link is None:
            raise UsageError(f"--down: no link {text}; give the names of its ends, as in A-B", what=text)
        g.edges[link]["up"] = False


def _group(
    g: Any, source: str | None, receivers: str | None, size: int | None, rng: random.Random
) -> tuple[str, list[str]]:
    if (receivers is None) == (size is None):
        raise UsageError("give either --receivers or --group", what="receivers")
    names = topologies.hosts(g)
    if source is None:
        source = rng.choice([name for name in names if any(d.get("up", True) for d in g.adj[name].values())] or names)
    if receivers is not None:
        return source, [name for name in receivers.split(",") if name]
    assert size is not None
    if source not in g:
        return source, names[:1]
    joined = _joined(g, source)
    choice = [name for name in names if name in joined and name != source]
    if not 1 <= size <= len(choice):
        raise UsageError(f"--group is {size}: {len(choice)} hosts can be reached from {source}", what="group")
    return source, rng.sample(choice, size)


def _joined(g: Any, source: str) -> set[str]:
    """Nodes that a path of links that are up joins to the source."""
    seen, queue = {source}, [source]
    for node in queue:
        if node != source and not g.nodes[node]["forwards"]:
            continue
        for peer, data in g.adj[node].items():
            if peer not in seen and data.get("up", True):
                seen.add(peer)
                queue.append(peer)
    return seen


class TreeTold(msgspec.Struct):
    id: int
    arcs: list[tuple[str, str]]
    depth: int


class Result(msgspec.Struct, kw_only=True):
    """What is printed."""

    source: str | UnsetType = UNSET
    """Of trees; without any it is left out."""
    trees: list[TreeTold]
    bound_degree: int
    bound_maxflow: int
    unreachable: list[str]
    time_ms: Times


def _result(found: TreeSet | None, unreachable: list[str], times: list[float]) -> Result:
    return Result(
        source=found.source if found else UNSET,
        trees=[TreeTold(tree.id, list(tree.arcs), tree.depth) for tree in found.trees] if found else [],
        bound_degree=found.bound_degree if found else 0,
        bound_maxflow=found.bound_maxflow if found else 0,
        unreachable=unreachable,
        time_ms=Times.of(times),
    )


def _table(g: Any, source: str, receivers: list[str], result: Result) -> None:
    from rich.table import Table

    down = sum(not data.get("up", True) for _, _, data in g.edges(data=True))
    table = Table(
        title=f"{g.graph.get('topology') or 'graph'}: {len(receivers)} receivers, source {source}, "
        f"{down} of {g.number_of_edges()} links down"
    )
    for head in ("tree", "depth", "arcs"):
        table.add_column(head, justify="right")
    table.add_column(
        "parent>child, first ones" if any(len(tree.arcs) > 24 for tree in result.trees) else "parent>child"
    )
    for tree in result.trees:
        arcs = [f"{u}>{v}" for u, v in tree.arcs]
        table.add_row(str(tree.id), str(tree.depth), str(len(arcs)), few(arcs, 24, " "))
    console = output()
    console.print(table)
    ms = result.time_ms
    shown = f"; {ms.median:.3f} ms median, {ms.p99:.3f} ms p99" if ms.median is not None else ""
    console.print(
        f"{len(result.trees)} trees; bounds: {result.bound_maxflow} by max-flow, "
        f"{result.bound_degree} by degree{shown}",
        highlight=False,
    )
