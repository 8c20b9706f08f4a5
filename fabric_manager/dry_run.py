"""What a group would get if it began now: trees, their shares, the time. Nothing is written, nobody is asked."""

from __future__ import annotations

from typing import Any

from datacast.core.trees import TreeError, Unreachable, steiner_trees
from datacast.services.problems import Problem

from .api import GroupSpec, graph_of
from .divider import Divider
from .fabric import Fabric
from .requests import receivers_of
from .shares import Ask, TreeUse


def dry_run(
    fabric: Fabric, sets: dict[str, list[str]], divider: Divider, spec: GroupSpec, size: int | None
) -> dict[str, Any]:
    """Runs in a thread of its own. `size` of the file, when it is known. Raises Problem."""
    receivers = receivers_of(fabric, sets, spec)
    graph = graph_of(fabric.snapshot())
    unreachable: list[str] = []
    try:
        found = steiner_trees(graph, spec.source, receivers, spec.options.trees, {})
    except Unreachable as error:
        if not error.trees:
            raise Problem(409, "no_tree", error.message, what=spec.source, remedy="bring links up") from error
        found, unreachable = error.trees, list(error.receivers)
    except TreeError as error:
        raise Problem(409, error.code, error.message, what=error.what) from error
    uses: dict[int, TreeUse] = {}
    for number, tree in enumerate(found.trees):
        rates = [graph.edges[arc]["rate_bps"] for arc in tree.arcs if graph.edges[arc]["rate_bps"]]
        most = float(min(rates, default=10**9))
        uses[number] = TreeUse(tuple(tree.arcs), min(most, float(spec.options.rate_bps or most)))
    most = float(spec.most_bps) if spec.most_bps else float("inf")
    ask = Ask(uses, float(spec.weight), spec.priority == "background", most_bps=most)
    rates = divider.plan(ask)
    total = sum(rates.values())
    time_s = size * 8 / total if size is not None and total else None
    return {
        "source": spec.source,
        "receivers": receivers,
        "unreachable": unreachable,
        "rate_bps": round(total),
        "size": size,
        "expected_s": time_s,
        "deadline_met": None if time_s is None or spec.deadline_s is None else time_s <= spec.deadline_s,
        "trees": [
            {
                "depth": tree.depth,
                "links": len(tree.arcs),
                "share_bps": round(rates[number]),
                "arcs": [list(arc) for arc in tree.arcs],
            }
            for number, tree in enumerate(found.trees)
        ],
    }
