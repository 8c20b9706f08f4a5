"""Breaks links of a lab and mends them, and reads from the masters' reports what came of it."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import Any

from datacast.fabric_manager.api.topology import LinkChange
from datacast.lab.counters import ask_control
from datacast.lab.fabric_events import FabricEvents, Seen
from datacast.lab.interfaces import Interfaces
from datacast.lab.lab import Lab
from datacast.lab.report import plain

WAYS = ("rx", "tx", "both")
BACK_S = 12.0
"""A mended link is reported up by then: the longest hold is 5 s, and a busy machine may take longer."""


@dataclass
class Failure:
    """One link that was broken. Times are Unix nanoseconds."""

    link: frozenset[str]
    what: str
    group: str
    failed_ns: int
    mended_ns: int = 0
    reaction: dict[str, Any] = field(default_factory=dict)
    detected_ns: int | None = None

    def ms(self, key: str) -> float | None:
        at = self.detected_ns if key == "detected_ns" else self.reaction.get(key)
        return (at - self.failed_ns) / 1e6 if at else None


class Breaker:
    """One failure at a time. `chosen` is the seeded random source."""

    def __init__(self, lab: Lab, chosen: random.Random) -> None:
        self.lab, self.chosen = lab, chosen
        self.events = FabricEvents(lab)
        self.events.start()
        self.failures: list[Failure] = []
        self._interfaces = Interfaces()
        for node in lab.graph:
            self._interfaces.prepare(self._pid(node))

    def close(self) -> None:
        self.events.stop()
        self._interfaces.close()

    def _pid(self, node: str) -> int:
        return int(self.lab.network.nodes[self.lab.plan.machine_of(node).name].pid)

    def links_down(self) -> int:
        return int(self.lab.fabric_json("/healthz")["links_down"])

    def break_one(self, group: str, arcs: list[list[str]], silent: bool, broken_s: float) -> Failure:
        """A link that a tree uses, at one of its ends; whole again after `broken_s`."""
        u, v = self.chosen.choice(arcs)
        failure = self._swallow(group, u, v) if silent else self._cut(group, u, v)
        self.failures.append(failure)
        self.lab.signals.sleep(broken_s)
        if silent:
            switch, port = self._switch_end(u, v)
            ask_control(self._control(switch), "fault", node=switch, port=port, blackhole="off")
        else:
            self._set(*failure.what.split()[0].split(":"), up=True)
        failure.mended_ns = time.time_ns()
        end = time.monotonic() + BACK_S
        while self.links_down() and time.monotonic() < end:
            self.lab.signals.sleep(0.02)
        return failure

    # ---- carrier ----
    def _cut(self, group: str, u: str, v: str) -> Failure:
        node = self.chosen.choice((u, v))
        port = str(self.lab.graph.edges[u, v]["ports"][node])
        at = time.time_ns()
        self._set(node, port, up=False)
        return Failure(frozenset((u, v)), f"{node}:{port} down", group, at)

    def _set(self, node: str, port: str, *, up: bool) -> None:
        ports = self.lab.plan.machine_of(node).ports[node]
        ifname = next(p.ifname for p in ports if p.port == int(port))
        self._interfaces.set(self._pid(node), ifname, up)

    # ---- black holes ----
    def _switch_end(self, u: str, v: str) -> tuple[str, int]:
        switch = next(node for node in (u, v) if self.lab.graph.nodes[node]["kind"] == "switch")
        return switch, int(self.lab.graph.edges[u, v]["ports"][switch])

    def _control(self, switch: str):
        return self.lab.plane.control(self.lab, self.lab.plan.machine_of(switch))  # type: ignore[attr-defined]

    def _swallow(self, group: str, u: str, v: str) -> Failure:
        switch, port = self._switch_end(u, v)
        way = self.chosen.choice(WAYS)
        at = time.time_ns()
        ask_control(self._control(switch), "fault", node=switch, port=port, blackhole=way)
        return Failure(frozenset((u, v)), f"{switch}:{port} blackhole {way}", group, at)

    # ---- what came of it ----
    def _links(self) -> list[tuple[LinkChange, Seen]]:
        return [(seen.event, seen) for seen in self.events.seen if isinstance(seen.event, LinkChange)]

    def note(self, group: str, reactions: list[dict[str, Any]]) -> None:
        """Give the failures of a group its master's reactions, and when the link's own nodes noticed."""
        for failure in self.failures:
            if failure.group != group:
                continue

            def mine(links: list[Any], at_ns: int, failure: Failure = failure) -> bool:
                return failure.failed_ns <= at_ns <= failure.mended_ns and any(
                    frozenset((u, v)) == failure.link and not up for u, v, up in links
                )

            seen = [one for link, one in self._links() if mine([[link.u, link.v, link.up]], one.received_ns)]
            failure.detected_ns = min((one.happened_ns for one in seen), default=None)
            failure.reaction = next((r for r in reactions if mine(r["links"], r["received_ns"])), {})

    def false_alarms(self) -> list[dict[str, Any]]:
        """Links reported down that were whole. A failure counts until a second after it was mended."""
        broken = [(f.link, f.failed_ns, f.mended_ns + 10**9) for f in self.failures]
        return [
            plain(seen)
            for event, seen in self._links()
            if not event.up
            and not any(
                frozenset((event.u, event.v)) == link and since <= seen.received_ns <= until
                for link, since, until in broken
            )
        ]
