"""What all experiments have in common: the setting, one run of it, the result."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, cast

from msgspec.structs import asdict

from datacast.fabric_manager.api import GroupOptions, RuleName
from datacast.master.plan import CC, transport
from datacast.master.requests import Transport
from datacast.topologies import hosts, parse

from .. import networks
from ..engine import PAPER, SECOND, Faults, Simulation, TreeConfig, rules
from ..errors import ExperimentError

Row = dict[str, Any]
Report = Callable[[str], None]


INTEREST = 16
"""Bytes of an interest in the paper's framing."""
HOPS = 4
"""Links to the farthest receiver of Figure 10's tree."""
PAPERS_RULE = {"delta_bps": 5_000_000, "interval_us": 1000, "credits": 16, "burst": 1, "rto_min_ms": 10}
"""The paper's section 6.2: under its own rule (cc=datacast) these take the place of what masters hand out."""
WORDS = {"policy": ("fifo", "lru", "lfu"), "framing": ("", "paper", "ethernet"), "tcp": ("cubic", "newreno", "bbr")}
"""What fields of a Setting may say."""


@dataclass(frozen=True)
class Setting:
    """The paper's section 6.2, and every knob of it. Rates in bit/s, times in ns, sizes in bytes."""

    cc: str = CC
    topology: str = "bcube:4,1"
    source: str = "00"
    receivers: int = 0
    """How many (0: the six of Figure 10), taken from the topology's hosts by the seed."""
    cache: tuple[int, ...] = ()
    rate: int = 1_000_000_000
    slow: int = 100_000_000
    delay: int = 5_000
    queue: int = 100
    mtu: int = 1500
    delta: int = 0
    """This and the next five: 0 takes what masters hand out (master.plan.transport) to a group on links of
    `rate`; the slow link is not known to it."""
    interval: int = 0
    rate_init: int = 0
    credits: int = 0
    burst: int = 0
    rto_min: int = 0
    loss: float = 0.0
    loss_on_wire: bool = False
    seconds: float = 10.0
    """Length of the ideal transfer."""
    size: int = 0
    """Bytes of the file; 0: what the slowest link carries in `seconds`."""
    seed: int = 1
    policy: str = "fifo"
    framing: str = ""
    """Bytes of a frame: paper (16-byte headers) or ethernet (as on the wire); empty: the experiment's choice."""
    planner: str = ""
    """Whose trees with rates (planners/README.md); empty: all of them, one after another."""
    trees: int = 0
    """Most trees (0: as many as there are)."""
    cases: int = 100
    """Of a sweep."""
    tcp: str = "cubic"
    """TCP's flavour in figure13b: cubic, newreno or bbr."""
    only: str = ""
    """Cells of the matrix with this word."""
    engine: str = "datacast"
    """What simulates: datacast (this project's own) or ns3."""
    punctual: bool = False
    """Hosts of perfect clocks where groups share a cable with nobody else: two simulators can agree on each then."""

    def check(self) -> None:
        """Raises ExperimentError for what makes no sense."""
        for name in ("rate", "slow", "mtu", "seconds", "queue", "cases"):
            if not 0 < getattr(self, name) < math.inf:
                raise ExperimentError(f"{name} must be above zero, not {getattr(self, name)}", what=name)
        for name in (
            *("receivers", "trees", "size", "delay", "delta", "interval", "credits", "burst"),
            *("rate_init", "rto_min"),
        ):
            if getattr(self, name) < 0:
                raise ExperimentError(f"{name} cannot be below zero: {getattr(self, name)}", what=name)
        for name, words in WORDS.items():
            if getattr(self, name) not in words:
                what = ", ".join(filter(None, words))
                raise ExperimentError(f"no {name} {getattr(self, name)!r}; there are {what}", what=name)
        if not 0 <= self.seed < 1 << 64:
            raise ExperimentError(f"a seed has 64 bits and no sign: {self.seed}", what="seed")
        known = rules()
        if self.cc not in known:
            raise ExperimentError(f"no rule of rate control {self.cc!r}; there are {', '.join(known)}", what="cc")
        if self.slow > self.rate:
            raise ExperimentError(
                f"the slow link ({self.slow} bit/s) is faster than the others ({self.rate})", what="slow"
            )
        if not 64 <= self.mtu <= 65000:
            raise ExperimentError(f"mtu must be between 64 and 65000, not {self.mtu}", what="mtu")
        if self.credits > 4096:
            raise ExperimentError(f"at most 4096 credits, not {self.credits}", what="credits")
        if not 0 <= self.loss < 1:
            raise ExperimentError(f"loss must be from 0 to below 1, not {self.loss}", what="loss")
        if any(c < self.mtu for c in self.cache):
            raise ExperimentError("a cache must hold at least one packet", what="cache")

    @property
    def piece(self) -> int:
        """Payload of a data packet with the paper's 16-byte header."""
        return self.mtu - 16

    @property
    def goodput(self) -> float:
        """The most that the slowest link can deliver, bit/s of payload."""
        return self.slow * self.piece / self.mtu

    @property
    def _rule(self) -> RuleName:
        """As a group names it: which there are was looked at."""
        return cast(RuleName, self.cc)

    def overridden(self) -> dict[str, int]:
        """What the setting gives in the place of the master's choice."""
        given, plain = vars(self.options()), vars(GroupOptions(cc=self._rule))
        return {name: value for name, value in given.items() if value != plain[name]}

    def options(self) -> GroupOptions:
        """Of a group: what the setting gives, the paper's values under its own rule, else the master's choice."""

        def given(value: int, papers: int) -> int | None:
            return value or (papers if self.cc == "datacast" else None)

        return GroupOptions(
            cc=self._rule,
            rate_init_bps=given(self.rate_init, self.rate // 2),
            delta_bps=given(self.delta, PAPERS_RULE["delta_bps"]),
            interval_us=given(self.interval // 1000, PAPERS_RULE["interval_us"]),
            credits=given(self.credits, PAPERS_RULE["credits"]),
            burst=given(self.burst, PAPERS_RULE["burst"]),
            rto_min_ms=given(self.rto_min // 1_000_000, PAPERS_RULE["rto_min_ms"]),
        )

    def product(self, others: int = 0, hops: int = HOPS, frame: int = 0, share: float = 1.0) -> Transport:
        """What a master hands out for a tree over `hops` links of `rate`, with `others` trees of other groups on its
        busiest link, for frames of so many bytes (0: the MTU) and a share of the links' rate (master.plan.room)."""
        return transport(
            replace(self.options(), cache_bytes=self.cache[0] if self.cache else None),
            rate_bps=self.rate,
            frame_bytes=frame or self.mtu,
            queue_packets=self.queue,
            others=others,
            hops=hops,
            share=share,
        )

    def tree(self, others: int = 0, hops: int = HOPS, frame: int = 0, share: float = 1.0) -> TreeConfig:
        """The transport's configuration, as an agent makes it of `product` (host_agent/params.c)."""
        return TreeConfig.of(self.product(others, hops, frame, share))

    def store(self, others: int = 0) -> int:
        """Bytes of a content store: the first of the given sizes, or what a master asks for."""
        return self.cache[0] if self.cache else self.product(others).cache_bytes

    def with_(self, **changes: Any) -> Setting:
        """A copy with some fields changed."""
        return replace(self, **changes)


@dataclass
class Result:
    """What an experiment found: one row per line of its table."""

    name: str
    title: str
    setting: Setting
    rows: list[Row]
    columns: dict[str, str] = field(default_factory=dict)
    """Column -> heading of the table; the rows may hold more."""
    notes: list[str] = field(default_factory=list)
    series: list[list[float]] = field(default_factory=list)
    """Values over time, for the plot: one list per step."""

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "experiment": self.name,
            "title": self.title,
            "setting": self.setting.__dict__,
            "product": asdict(self.setting.product()),
            "overridden": self.setting.overridden(),
            "rows": self.rows,
            "notes": self.notes,
        }


@dataclass(frozen=True)
class Experiment:
    """A named experiment. `defaults` are what it changes in the Setting."""

    name: str
    title: str
    run: Callable[[Setting, Report], Result]
    plot: Callable[[Result, Any], None]
    defaults: dict[str, Any] = field(default_factory=dict)
    help: str = ""


def simulation(s: Setting, framing: int) -> Simulation:
    """An empty network in the engine that the setting names."""
    if s.engine == "datacast":
        return Simulation(s.seed, framing, s.policy)
    if s.engine == "ns3":
        from ..ns3 import Ns3Simulation

        return Ns3Simulation(s.seed, framing, s.policy)
    raise ExperimentError(f"no engine {s.engine!r}; there are datacast and ns3", what=s.engine)


def late_hosts(sim: Simulation, s: Setting, links: Iterable[tuple[str, str]]) -> None:
    """What these links of hosts carry comes later by up to a packet's time, as from a processor. With hosts of perfect
    clocks a full queue drops by who comes just before a departure, always the same (Floyd and Jacobson 1991: phase
    effects), and not by who sends more."""
    for a, b in links:
        sim.faults(a, b, Faults(jitter=s.mtu * 8 * SECOND // s.rate))


def members(s: Setting, g: Any) -> list[str]:
    """The group's receivers."""
    if s.receivers == 0 and s.topology == "bcube:4,1" and s.source == "00":
        return networks.FIGURE10_RECEIVERS
    others = [h for h in hosts(g) if h != s.source]
    if s.source not in g:
        raise ExperimentError(f"{s.topology} has no host {s.source}", what="source")
    n = s.receivers or 6
    if n > len(others):
        raise ExperimentError(f"{s.topology} has {len(others)} other hosts, not {n}", what="receivers")
    import random

    return sorted(random.Random(s.seed).sample(others, n))


@dataclass
class Micro:
    """One group on one tree, as in the paper's micro benchmarks: built, not run yet."""

    sim: Simulation
    group: Any
    slow_link: tuple[str, str]
    receivers: list[str]


def micro(s: Setting, cache: int) -> Micro:
    """The paper's Figure 10(a): one tree, the first receiver behind a slow link."""
    s.check()
    g = parse(s.topology)
    receivers = members(s, g)
    arcs = (
        networks.FIGURE10_TREE
        if receivers == networks.FIGURE10_RECEIVERS
        else networks.shortest_path_tree(g, s.source, receivers)
    )
    sim = simulation(s, PAPER)
    sim.graph(g, s.rate, s.delay, s.queue)
    leaves = {c for c, _ in arcs} - {p for _, p in arcs}
    slow = next(r for r in receivers if r in leaves)
    link = (dict(arcs)[slow], slow)
    sim.rate(*link, s.slow)
    if s.loss > 0:
        sim.faults(*link, Faults(loss_data=s.loss, early=not s.loss_on_wire))
    size = s.size or int(s.goodput * s.seconds / 8)
    group = sim.group(s.source, receivers, size, s.piece, cache)
    group.tree(arcs, s.with_(cache=(cache,)).tree())
    group.assign()
    group.schedule()
    return Micro(sim, group, link, receivers)


def measure(s: Setting, cache: int, hosts_are: Faults | None = None) -> Row:
    """Run one micro benchmark: throughput, finish, duplicates, stress. `hosts_are`: faults of all that hosts send."""
    m = micro(s, cache)
    if hosts_are is not None:
        for a, b in m.sim.links:
            if not a.startswith("s"):
                m.sim.faults(a, b, hosts_are)
    ideal = m.group.pieces * s.mtu * 8 / s.slow
    m.sim.run(until=int(50 * ideal * 1e9) + 10**9)
    finish = m.group.finish() / 1e9
    tree = m.group.tree_stats()[0]
    slow = m.group.asker_stats(0, m.slow_link[1])
    return {
        "cache_kb": cache / 1024,
        "throughput_mbps": m.group.size * 8 / finish / 1e6,
        "duplicate_ratio": m.group.duplicate_ratio(),
        "finish_s": finish,
        "finish_over_ideal": finish / ideal,
        "link_stress": m.sim.link_stress(),
        "new_packets": tree["new_packets"],
        "duplicates": tree["dup_packets"],
        "retransmitted": slow["retransmitted"],
        "timeouts": slow["by_timeout"],
        "packet_hops": m.sim.hops,
        "digest": f"{m.sim.digest:016x}",
    }


def theorem1(s: Setting) -> float:
    """Cache bytes above which the paper's rule works at the full rate."""
    delta, interval = s.delta or PAPERS_RULE["delta_bps"], s.interval or PAPERS_RULE["interval_us"] * 1000
    return s.slow**2 * (interval / 1e9) / (2 * delta) / 8


def theorem2(s: Setting, delta: float | None = None) -> float:
    """The paper's duplicate data ratio at the full rate."""
    interval = s.interval or PAPERS_RULE["interval_us"] * 1000
    growth = (delta or s.delta or PAPERS_RULE["delta_bps"]) / (interval / 1e9)
    return growth / (growth + s.slow**2 / (2 * s.mtu * 8))


def jain(rates: list[float]) -> float:
    """Jain's fairness index."""
    squares = sum(r * r for r in rates)
    return 1.0 if squares == 0 else sum(rates) ** 2 / (len(rates) * squares)
