"""Shares of links in simulated time, by the fabric manager's own scheduler (fabric_manager/shares.py).

Groups come and go at times that are known before anything runs, so what the control plane would tell, and when, is
worked out at once; the engine brings it to the sources while it runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from datacast.fabric_manager.shares import Arc, Ask, Shares, TreeUse, bound, worth_telling

from .engine import Group

TOLD = 10_000_000
"""ns, and a round trip, from a group's start or end until sources send at their new shares: changes are gathered for
2 ms (divider.py), ten groups are computed in one, and the news goes to the master, the source's agent and its cores."""
SHARES = (
    f"Shares: the fabric manager's scheduler, told to sources {TOLD // 10**6} ms and a round trip after every change."
)


@dataclass(frozen=True)
class Span:
    """A group of one tree and the time in which it sends, ns. `most_bps`: what the tree could send alone."""

    group: Group
    start: int
    stop: int
    most_bps: int
    weight: float = 1.0
    background: bool = False
    interest: float = 0.0
    """Bits of interests on the way back for each bit of data."""

    @property
    def ask(self) -> Ask:
        """What it asks of the links."""
        arcs = [(parent, child) for child, parent in self.group.arcs[0]]
        use = TreeUse(arcs, float(self.most_bps), self.interest)
        return Ask({0: use}, weight=self.weight, background=self.background)


def share(spans: Iterable[Span], capacity: Mapping[Arc, int], told: int = TOLD) -> None:
    """Tell the groups' sources their shares whenever one of them has begun or ended, `told` ns later. `capacity`: what
    the fabric manager knows of the links, bit/s."""
    shares = Shares()
    for arc, bps in capacity.items():
        shares.set_capacity(arc, float(bps))
    by_name = {str(span.group.number): span for span in spans}
    before: dict[str, int | None] = {}
    changes = sorted({t for span in by_name.values() for t in (span.start, span.stop)})
    for now in changes:
        for name, span in by_name.items():
            if span.start == now:
                shares.put(name, span.ask)
            elif span.stop == now:
                shares.drop(name)
        for name, rates in shares.compute().items():
            limit = bound(rates[0], by_name[name].most_bps)
            if worth_telling(before.get(name), limit):
                before[name] = limit
                by_name[name].group.limit(0, now + told, limit)
