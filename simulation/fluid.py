"""Many groups over shared links as a fluid: at any moment each sends what the scheduler gives it
(fabric_manager/shares.py) over the trees that it had. What the services and the transport take longer is theirs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from datacast.fabric_manager.shares import Ask, Shares, TreeUse

from .errors import SimulationError

INTEREST = 0.01
"""Bits that go back for each bit of data, where a record does not say."""


@dataclass
class Flow:
    ask: Ask
    left: float
    """Bits of frames still to send."""
    begins: float = 0.0
    ends: float | None = None


def flow_of(record: dict[str, Any]) -> Flow:
    """What a group that has ended asked for."""
    report = record["report"]
    payload = report["payload"]
    frame = 14 + 4 * report["labels"] + 16 + payload
    trees = {
        int(tree): TreeUse([tuple(arc) for arc in told["arcs"]], float(told["most_bps"]), told["interest"] or INTEREST)
        for tree, told in record["trees"].items()
        if told["arcs"]
    }
    ask = Ask(trees, weight=float(record["weight"]), background=record["priority"] == "background")
    return Flow(ask, record["size"] * 8 * frame / payload)


def fluid(flows: dict[str, Flow], capacity: dict[tuple[str, str], float], until: str | None = None) -> None:
    """Fills in when each ends, or stops when `until` does. Raises SimulationError: some never would."""
    shares, now = Shares(), 0.0
    for arc, bps in capacity.items():
        shares.set_capacity(arc, bps)
    rates: dict[str, float] = {}
    waiting = sorted(flows, key=lambda name: flows[name].begins, reverse=True)
    while any(flow.ends is None for flow in flows.values()):
        while waiting and flows[waiting[-1]].begins <= now:
            shares.put(name := waiting.pop(), flows[name].ask)
        rates |= {name: sum(trees.values()) for name, trees in shares.compute().items()}
        steps = [flows[name].left / rate for name, rate in rates.items() if rate > 0]
        steps += [flows[name].begins - now for name in waiting[-1:]]
        if not steps:
            names = ", ".join(name for name, flow in flows.items() if flow.ends is None)
            raise SimulationError(f"{names}: no tree carries anything, so it never ends", what=names)
        step = min(steps)
        now += step
        for name in tuple(rates):
            flow = flows[name]
            flow.left -= rates[name] * step
            if flow.left <= 1.0:
                flow.ends = now
                shares.drop(name)
                rates.pop(name)
        if until is not None and flows[until].ends is not None:
            return
