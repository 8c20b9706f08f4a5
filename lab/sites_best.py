"""The soonest that a host can have a file over cables whose rates change: what `lab run --sites` is measured by."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise

import networkx as nx

from datacast.lab.faults import Fault

ETHER_LEN, TCP_LEN = 14, 52
"""What a shaper charges for beside a packet; IP's and TCP's headers in it, with timestamps."""
LONGEST_S = 1e6
STEPS = 40
"""Halvings: a millionth of a second in a day."""


@dataclass(frozen=True)
class Step:
    """From `at_s` on a cable has another rate, or is down, or up again."""

    at_s: float
    cable: frozenset[str]
    rate_bps: int | None = None
    """None: the one that it was made with."""
    up: bool | None = None
    """None: this is about the rate."""


def steps_of(faults: Iterable[Fault]) -> list[Step]:
    """What faults do to cables. Half a black hole counts for nothing: the bound stays one."""
    steps = []
    for fault in faults:
        for cable in fault.links:
            if fault.kind == "rate":
                steps.append(Step(fault.at_s, cable, fault.rate_bps))
                steps += [Step(fault.end_s, cable)] if fault.end_s is not None else []
            elif fault.kind == "link" or (fault.kind == "blackhole" and fault.way == "both"):
                steps.append(Step(fault.at_s, cable, up=fault.up))
                steps += [Step(fault.end_s, cable, up=True)] if fault.end_s is not None else []
    return sorted(steps, key=lambda step: step.at_s)


def best_s(
    graph: nx.Graph,
    stores: Iterable[str],
    source: str,
    target: str,
    size: int,
    mtu: int,
    steps: list[Step],
    check: Callable[[], None],
) -> float | None:
    """The maximum flow over time from `source` to `target`, by any way; `stores` keep what came. With TCP's headers and
    the delay of the shortest way. None: never. `check`: called again and again; raises where nobody waits any more."""
    stores, bits = [*stores, source, target], size * 8 * (mtu + ETHER_LEN) / (mtu - TCP_LEN)

    def enough(until: float) -> bool:
        check()
        return _flow(graph, stores, source, target, until, steps) >= bits

    low, high = 0.0, 1.0
    while not enough(high):
        low, high = high, 2 * high
        if high > LONGEST_S:
            return None
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high + nx.shortest_path_length(graph, source, target, lambda u, v, data: data.get("delay_ms", 0.0)) / 1000


def _flow(graph: nx.Graph, stores: list[str], source: str, target: str, until: float, steps: list[Step]) -> float:
    """Bits until then, through a copy of the network for each time between two steps."""
    times = sorted({0.0, until, *(step.at_s for step in steps if step.at_s < until)})
    spread = nx.DiGraph()
    for number, (begin, end) in enumerate(pairwise(times)):
        for u, v, data in graph.edges(data=True):
            if any(graph.nodes[n]["kind"] == "host" and n not in (source, target) for n in (u, v)):
                continue
            bits = int(_rate(frozenset((u, v)), data["rate_bps"], begin, steps) * (end - begin))
            spread.add_edge((u, number), (v, number), capacity=bits)
            spread.add_edge((v, number), (u, number), capacity=bits)
        if number:
            for name in stores:
                spread.add_edge((name, number - 1), (name, number))  # no capacity: no limit
    return float(nx.maximum_flow_value(spread, (source, 0), (target, len(times) - 2)))


def _rate(cable: frozenset[str], made_bps: int, at_s: float, steps: list[Step]) -> int:
    rate, up = made_bps, True
    for step in steps:
        if step.cable == cable and step.at_s <= at_s:
            if step.up is None:
                rate = made_bps if step.rate_bps is None else step.rate_bps
            else:
                up = step.up
    return rate if up else 0
