"""A group whose trees have rates and may reach some receivers only, in the simulator: the master's own plan, its
parameters, and its dealing of pieces (stages), in virtual time. Cuts are not simulated."""

from __future__ import annotations

from dataclasses import dataclass

import networkx as nx

from datacast.fabric_manager.api import GroupOptions
from datacast.master.plan import Plan, PlanError, make_plan, per_block
from datacast.master.schedule import Scheduler
from datacast.master.tree_queue import links_needed

from .engine import ETHERNET, SECOND, Group, Simulation, TreeConfig
from .errors import ExperimentError

LOOK = SECOND // 20
"""Between two looks at the trees; a master hears of a tree that runs dry at once."""
LIMIT_S = 600


@dataclass
class Staged:
    """A delivery, built and not run yet."""

    sim: Simulation
    group: Group
    plan: Plan
    scheduler: Scheduler

    @classmethod
    def of(
        cls, g: nx.Graph, source: str, receivers: list[str], size: int, options: GroupOptions, *, seed: int = 1
    ) -> Staged:
        """`g` as topologies make it, with `rates_bps` or `rate_bps` on its links. Raises ExperimentError."""
        for _, _, data in g.edges(data=True):
            data.setdefault("mtu", 9000)
            data.setdefault("up", True)
        try:
            plan = make_plan(g, source, receivers, options)
        except PlanError as error:
            raise ExperimentError(error.message, what=error.what) from error
        sim = Simulation(seed, ETHERNET)
        sim.graph(g, options.rate_bps or 1_000_000_000)
        cache = plan.trees[0].transport.cache_bytes
        group = sim.group(source, receivers, size, plan.payload, cache, waiting=4096)
        for planned in plan.trees:
            arcs = [(child, parent) for parent, child in planned.arcs]
            group.tree(arcs, TreeConfig.of(planned.transport), routes=planned.routes)
        group.schedule()
        ids = list(range(len(plan.trees)))
        frame = plan.frame_bytes
        scheduler = Scheduler(
            group.pieces,
            per_block(size, plan.payload, None),
            ids,
            min(t.transport.rate_max_bps for t in plan.trees) / 8 / frame,
            rates={i: t.transport.rate_max_bps / 8 / frame for i, t in enumerate(plan.trees)},
            reach={i: frozenset(t.routes) for i, t in enumerate(plan.trees)},
        )
        return cls(sim, group, plan, scheduler)

    def run(self) -> dict[str, float]:
        """To the end. Seconds from the first packet until each receiver has the file. Raises ExperimentError."""
        sim, group, dealt = self.sim, self.group, self.scheduler
        numbers = [0] * len(group.trees)
        now = 0
        while True:
            self._feed(now / SECOND)
            now += LOOK
            sim.run(until=now)
            told = group.receiver_stats()
            working = [name for name, one in told.items() if not one["whole"]]
            if not working:
                break
            if now > LIMIT_S * SECOND:
                raise ExperimentError(f"{len(working)} receivers have not finished after {LIMIT_S} s", what=working[0])
            dealt.gone(frozenset(told) - frozenset(working))
            for i, stats in enumerate(group.tree_stats()):
                rate = (stats["numbers"] - numbers[i]) * SECOND / LOOK
                numbers[i] = stats["numbers"]
                dealt.status(i, stats["seq"], rate, now / SECOND)
                # What all receivers hold they pass, and the source is never asked for it.
                there = [name for name in working if name in self.plan.trees[i].routes]
                if there:
                    passed = min(group.asker_stats(i, name)["seq"] for name in there)
                    dealt.sent(i, passed, now / SECOND)
        first = group.first()
        return {name: (one["finish"] - first) / SECOND for name, one in told.items()}

    def _feed(self, now: float) -> None:
        for extent in self.scheduler.assign(now):
            self.group.extent(extent.tree, extent.first, extent.count)

    def link_stress(self) -> float:
        """Payload on all links over what had to cross them: each piece the links to those who waited for it."""
        crossed = sum(
            queue.assigned * links_needed(self.plan.trees[i].arcs, queue) for i, queue in self.scheduler.trees.items()
        )
        return self.sim.payload() / (crossed * self.group.piece)
