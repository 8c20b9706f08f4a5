"""What happens in one seed: groups that are asked for, faults, then peace, in which everything must come to an end."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from unittest import mock

from services_kit.plain import PlainClient

from datacast.fabric_manager.api import FINAL_STATES
from datacast.fabric_manager.keys import RESERVE, TREE_IDS
from datacast.fabric_manager.placing import TREE_IDS_PER_GROUP
from datacast.services.problems import Problem

from .agents import LEASES_KEPT
from .cluster import Cluster, Slot, installed
from .network import Network
from .origin import Fetcher, Origin
from .virtual import Process, world
from .watch import CONFLICT, Listening

FAULTS_S = 8.0
"""Faults begin within so long."""
PATIENCE_S = 90.0
"""Afterwards everything has ended within so long."""
KNOWN_S = 10.0
"""And whoever leads by then knows the links, and workers have let go of what ended or is another's."""

OUTAGES, OUTAGE_S = 0.08, (3.0, 9.0)
"""In so many of the seeds all services are away for so long: for longer than members' leases of 4 s."""

FETCHED, OF_URLS, ALONE = 0.25, 0.8, 0.15
"""In so many of the seeds so many groups are of a URL. Of these so many have one receiver, which fetches alone."""

PLOTS = {"cancelled unheard": 0.06, "hard tree ids": 0.06, "nobody's groups": 0.06, "late orders": 0.06}
"""What comes together too rarely by chance, and in how many of the seeds."""
LOST_S = 6.5
"""A worker that is not heard for so long has lost its groups (workers.SILENCE_S)."""

Fault = Callable[[], Awaitable[None]]


@dataclass
class Result:
    seed: int
    violations: list[str]
    history: str
    virtual_s: float
    real_s: float
    groups: dict[str, int] = field(default_factory=dict)
    takeovers: int = 0
    refused: int = 0


class Story:
    def __init__(
        self,
        cluster: Cluster,
        rng: random.Random,
        chatty: bool,
        outage: tuple[float, float] | None,
        plot: str | None,
        extra: random.Random,
        origin: Origin,
        urls: random.Random | None,
    ) -> None:
        """`outage`: when all services lose their power, and for how long. `plot`: one of PLOTS, which draws from
        `extra`. `urls`: what groups of a URL draw from; no generator, no such groups."""
        self.cluster, self.rng, self.chatty, self.outage = cluster, rng, chatty, outage
        self.plot, self.extra = plot, extra
        self.origin, self.urls = origin, urls
        self.names = list(cluster.hosts)
        self.disturbed: set[str] = set()
        """Hosts to which something happened that may excuse a failure."""
        self.touched: set[str] = set()
        """Groups that somebody changed."""
        self.gentle = False
        """Nothing happens to members and links."""
        self.people = Process("people", "people")
        self._begun: list[asyncio.Task[Any]] = []

    def say(self, *what: object) -> None:
        self.cluster.network.note("*", *what)

    # ---- people ----
    async def order(self, number: int, at: float) -> None:
        rng, watch = self.rng, self.cluster.watch
        source, *receivers = rng.sample(self.names, rng.randint(2, min(len(self.names), 6)))
        size, path = int(10 ** rng.uniform(4.8, 7.1)), f"/srv/{number}"
        self.cluster.sizes[path] = size
        spec: dict[str, Any] = {
            "source": source, "source_path": path, "receivers": receivers, "weight": rng.choice([50, 100, 300]),
            "priority": rng.choice(["normal"] * 4 + ["background"]),
            "options": {"lease_ms": 4000, "member_timeout_ms": rng.choice([3000, 8000])},
        }  # fmt: skip
        deed = rng.choice(["nothing"] * 5 + ["cancel", "resume", "join", "leave", "again"])
        if self.urls is not None and self.urls.random() < OF_URLS:
            deed = self._of_url(spec, size, self.urls)
            receivers = spec["receivers"]
        later = rng.uniform(0.05, 3.0)
        await asyncio.sleep(at)
        key = f"key-{number}"
        async with PlainClient(self.cluster.urls, timeout=rng.choice([1.0, 5.0])) as client:
            group = (await self._until(lambda: client.create_group(spec, by="people", key=key)))["id"]
            watch.acknowledged[key] = group
            self.say("group", group, size, source, *receivers, deed)
            await asyncio.sleep(later)
            if deed == "cancel":
                watch.dropping.add(group)
                self.touched.add(group)
                await self._try(lambda: client.cancel_group(group))
            elif deed == "leave":
                watch.dropping.add(group)
                self.touched.add(group)
                await self._try(lambda: client.remove_receiver(group, receivers[0]))
            elif deed == "join":
                others = [name for name in self.names if name not in (source, *receivers)]
                if others:
                    self.touched.add(group)
                    await self._try(lambda: client.add_receiver(group, others[0]))
            elif deed == "again":
                same = await self._until(lambda: client.create_group(spec, by="people", key=key))
                if same["id"] != group:
                    watch.say(f"the same request made {group} and {same['id']}")
            while True:
                told = await self._until(lambda: client.group(group))
                kept = watch.groups.get(group)
                if told["state"] in FINAL_STATES:
                    if kept is None or kept.record.state not in (told["state"], "queued", "starting", "running"):
                        watch.say(f"{group}: told as {told['state']}, kept as {kept and kept.record.state}")
                    if deed != "resume" or told["state"] not in ("failed", "partial"):
                        return
                    deed = "nothing"
                    watch.resumes[group] += 1
                    self.touched.add(group)
                    await self._try(lambda: client.resume_group(group))
                await asyncio.sleep(1.5)

    def _of_url(self, spec: dict[str, Any], size: int, urls: random.Random) -> str:
        """The same hosts fetch it, or some of them. What somebody does with the group."""
        hosts = [spec.pop("source"), *spec["receivers"]]
        receivers = hosts[:1] if urls.random() < ALONE else hosts
        path = spec.pop("source_path")
        url = f"https://origin{path}"
        self.origin.sizes[url] = size
        fetchers = urls.sample(receivers, urls.randint(1, len(receivers)))
        urls.shuffle(receivers)
        spec |= {"url": url, "dest_path": path, "receivers": receivers, "fetchers": fetchers}
        return urls.choice(["nothing"] * 4 + ["cancel", "resume", "join", "join", "leave", "leave", "again"])

    async def _until(self, ask: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
        """A patient caller."""
        while True:
            try:
                return await ask()
            except Problem as problem:
                self.say(problem.code)
                self._in_order(problem)
                if problem.status not in (503, 409):
                    raise
            await asyncio.sleep(0.3)

    async def _try(self, ask: Callable[[], Awaitable[Any]]) -> None:
        try:
            await ask()
        except Problem as problem:
            self._in_order(problem)

    def _in_order(self, problem: Problem) -> None:
        if CONFLICT in problem.message:
            self.cluster.watch.say(f"a caller is told of a conflict that there is not: {problem.message}")

    # ---- faults ----
    def _faults(self) -> dict[str, tuple[Fault, int]]:
        """By name; how often each is chosen."""
        rng, cluster, network = self.rng, self.cluster, self.cluster.network

        def short() -> float:
            return float(10 ** rng.uniform(-1.5, 0.8))

        async def kill_manager() -> None:
            await self._leader().kill(short())

        async def pause_manager() -> None:
            await self._leader().pause(short())

        async def stop_manager() -> None:
            await self._leader().stop()

        async def kill_worker() -> None:
            await rng.choice(cluster.workers).kill(short())

        async def pause_worker() -> None:
            await rng.choice(cluster.workers).pause(10 ** rng.uniform(-1, 0.95))

        async def stop_worker() -> None:
            await rng.choice(cluster.workers).stop()

        async def store_away() -> None:
            cluster.disk.away = True
            await asyncio.sleep(short() / 2)
            cluster.disk.away = False

        async def store_fails() -> None:
            cluster.disk.failing = 0.3
            await asyncio.sleep(short())
            cluster.disk.failing = 0.0

        async def cut_services() -> None:
            a, b = rng.sample([slot.machine for slot in (*cluster.managers, *cluster.workers)], 2)
            await self._cut([(a, b)], short())

        async def cut_manager_from_agents() -> None:
            machine = self._leader().machine
            self.disturbed.update(self.names)
            await self._cut([(machine, slot.machine) for slot in cluster.agents.values()], short())

        async def break_connections() -> None:
            for end in [end for end in network.links if rng.random() < 0.3]:
                registered = {end.process.name[:5], end.peer.process.name[:5]} == {"agent", "manag"}
                if registered:  # its links are down until it has registered again
                    if self.gentle:
                        continue
                    self.disturbed.update(self.names)
                end.break_off()
            for request in [request for request in network.requests if rng.random() < 0.3]:
                request.break_off()

        async def lossy() -> None:
            network.slow = 0.05
            await asyncio.sleep(short())
            network.slow = 0.0

        async def kill_agent() -> None:
            name = rng.choice(self.names)
            self.disturbed.add(name)
            await cluster.agents[name].kill(short())

        async def pause_agent() -> None:
            name = rng.choice(self.names)
            self.disturbed.add(name)
            await cluster.agents[name].pause(short())

        async def cut_agent() -> None:
            name = rng.choice(self.names)
            self.disturbed.add(name)
            others = [slot.machine for slot in cluster.slots if slot is not cluster.agents[name]]
            some = [machine for machine in others if rng.random() < 0.7]
            await self._cut([(cluster.agents[name].machine, machine) for machine in some], short())

        async def link() -> None:
            u, v = rng.choice(list(cluster.plane.graph.edges))
            self.disturbed.update((u, v))
            self.say("down", u, v)
            cluster.set_link(u, v, False)
            await asyncio.sleep(short())
            cluster.set_link(u, v, True)

        return {
            "kill manager": (kill_manager, 3), "pause manager": (pause_manager, 2), "stop manager": (stop_manager, 2),
            "kill worker": (kill_worker, 3), "pause worker": (pause_worker, 3), "stop worker": (stop_worker, 2),
            "store away": (store_away, 2), "store fails": (store_fails, 2), "cut services": (cut_services, 3),
            "cut manager from agents": (cut_manager_from_agents, 1), "break": (break_connections, 2),
            "lossy": (lossy, 1), "kill agent": (kill_agent, 2), "pause agent": (pause_agent, 2),
            "cut agent": (cut_agent, 2), "link": (link, 3),
        }  # fmt: skip

    def _leader(self) -> Any:
        leading = [slot for slot in self.cluster.managers if slot.leads]
        return leading[0] if leading else self.rng.choice(self.cluster.managers)

    async def _cut(self, pairs: list[tuple[str, str]], for_s: float) -> None:
        for a, b in pairs:
            self.cluster.network.cut(a, b)
        await asyncio.sleep(for_s)
        for a, b in pairs:
            self.cluster.network.heal(a, b)

    async def harm(self) -> None:
        rng, faults = self.rng, self._faults()
        self.gentle = rng.random() < 0.6
        harsh = {"kill agent", "pause agent", "cut agent", "link", "cut manager from agents"}
        names = [name for name in faults if not (self.gentle and name in harsh)]
        weights = [faults[name][1] for name in names]
        chosen = rng.choices(names, weights, k=rng.randint(1, 7))

        async def at(when: float, name: str) -> None:
            await asyncio.sleep(when)
            self.say("fault", name)
            await faults[name][0]()

        times = [0.3 + FAULTS_S * rng.random() ** 2 for _ in chosen]
        work = [at(when, name) for when, name in zip(times, chosen, strict=True)]
        if self.urls is not None:
            work.append(self._harm_fetchers(self.urls))
        await asyncio.gather(*work, *([self._power_cut(*self.outage)] if self.outage else []), self._plot())

    async def _harm_fetchers(self, urls: random.Random) -> None:
        """Of groups of a URL, soon after each has begun: their masters die, and who fetches."""
        cluster, end, seen = self.cluster, self.cluster.loop.now + FAULTS_S, set[str]()
        work: list[asyncio.Task[None]] = []
        while cluster.loop.now < end:
            await asyncio.sleep(0.02)
            for group, told in cluster.watch.groups.items():
                spec, slot = told.record.spec, self._owner(told.record.owner)
                if group in seen or spec.url is None or slot is None:
                    continue
                seen.add(group)
                if urls.random() < 0.5:
                    work.append(asyncio.create_task(self._kill(slot, urls)))
                if not self.gentle and urls.random() < 0.6:
                    name = urls.choice(spec.roots)
                    self.disturbed.add(name)
                    work.append(asyncio.create_task(self._kill(cluster.agents[name], urls)))
        await asyncio.gather(*work)

    async def _kill(self, slot: Slot, urls: random.Random) -> None:
        when, away_s = 10 ** urls.uniform(-2.0, 0.5), 10 ** urls.uniform(-1.5, 0.8)
        await asyncio.sleep(when)
        self.say("fault", "kill", slot.name)
        await slot.kill(away_s)

    def _owner(self, name: str | None) -> Slot | None:
        """The worker of this name."""
        there = [slot for slot in self.cluster.workers if slot.process is not None]
        return next((slot for slot in there if slot.process.name.replace("'", "-") == name), None)

    async def _power_cut(self, when: float, for_s: float) -> None:
        """No fabric manager, no worker; agents have theirs from elsewhere, and data flows."""
        await asyncio.sleep(when)
        self.say("fault", "power cut")
        await asyncio.gather(*(slot.kill(for_s) for slot in (*self.cluster.managers, *self.cluster.workers)))

    # ---- plots ----
    async def _plot(self) -> None:
        if self.plot is not None:
            self.say("plot", self.plot)
        if self.plot == "cancelled unheard":
            await self._cancelled_unheard()
        elif self.plot == "hard tree ids":
            await self._hard_tree_ids()
        elif self.plot == "nobody's groups":
            await self._nobodys_groups()
        elif self.plot == "late orders":
            await self._late_orders()

    async def _cancelled_unheard(self) -> None:
        """A group is cancelled while its worker is cut off, with a report on its way: that comes when the group has
        ended, in its last epoch."""
        cluster, end = self.cluster, self.cluster.loop.now + FAULTS_S
        while cluster.loop.now < end:
            await asyncio.sleep(0.05)
            for group, told in cluster.watch.groups.items():
                if told.record.state != "running" or told.record.owner is None:
                    continue
                if (slot := self._owner(told.record.owner)) is not None:
                    await self._cancel_unheard(group, slot.machine)
                    return

    async def _cancel_unheard(self, group: str, machine: str) -> None:
        cluster = self.cluster
        cluster.watch.dropping.add(group)
        self.touched.add(group)

        async def cancel() -> None:
            async with PlainClient(cluster.urls, timeout=5.0) as client:
                await self._try(lambda: client.cancel_group(group))

        asked = cluster.loop.launch(self.people, cancel())
        await self._cut([(slot.machine, machine) for slot in cluster.managers], LOST_S + self.extra.random())
        await asked

    async def _hard_tree_ids(self) -> None:
        """The first orders of a leader wait for tree ids, or fail; meanwhile groups end."""
        cluster = self.cluster
        cluster.disk.hard = TREE_IDS
        for _ in range(2):
            await asyncio.sleep(self.extra.uniform(0.5, 3.0))
            await self._leader().kill(0.1)
        await asyncio.sleep(3.0)
        cluster.disk.hard = None

    async def _nobodys_groups(self) -> None:
        """The leader dies when groups have lost their workers, and there are no others yet."""
        cluster = self.cluster
        await asyncio.sleep(self.extra.uniform(0.5, 3.0))
        leader = asyncio.create_task(self._leader_dies(self.extra.uniform(0.8, 1.5)))
        await asyncio.gather(leader, *(slot.kill(2.5) for slot in cluster.workers))

    async def _leader_dies(self, after: float) -> None:
        await asyncio.sleep(after)
        await self._leader().kill(0.1)

    async def _late_orders(self) -> None:
        """When a group runs, its worker loses its orders, and hears late what it is told anew: the group ends
        meanwhile."""
        network, seen = self.cluster.network, set()
        end = self.cluster.loop.now + FAULTS_S
        while self.cluster.loop.now < end:
            await asyncio.sleep(0.02)
            for group, told in self.cluster.watch.groups.items():
                if group in seen or told.record.state != "running" or told.record.owner is None:
                    continue
                seen.add(group)
                for stream in [r for r in network.requests if r.path == f"/workers/{told.record.owner}/orders"]:
                    network.late[stream.client, stream.path] = self.extra.uniform(0.5, 3.0)
                    stream.break_off()
        network.late.clear()

    # ---- all of it ----
    async def run(self) -> None:
        cluster, rng = self.cluster, self.rng
        cluster.start()
        await asyncio.sleep(0.4)
        orders = [
            cluster.loop.launch(self.people, self.order(number, 4.0 * rng.random() ** 2))
            for number in range(rng.randint(1, 5))
        ]
        try:
            await self.harm()
            self.say("peace")
            cluster.watch.peace = True
            end = cluster.loop.now + PATIENCE_S
            while cluster.loop.now < end and not (all(task.done() for task in orders) and cluster.watch.settled()):
                await asyncio.sleep(0.1)
            for task in orders:
                if task.done():
                    task.result()
            if rng.random() < 0.25:
                await self._quiet()
            await asyncio.sleep(1.0)
            await self._in_peace(self.cluster.wrong_links)
            await self._in_peace(self.cluster.kept_groups)
            cluster.watch.finish(self._must_be_done())
            if self.chatty:
                self._show()
        finally:
            for task in orders:
                task.cancel()
            await asyncio.gather(*orders, return_exceptions=True)
            await cluster.stop()

    async def _in_peace(self, look: Callable[[], list[str]]) -> None:
        """Nothing is wrong: soon, for agents come to a leader that has just begun."""
        end = self.cluster.loop.now + KNOWN_S
        while (wrong := look()) and self.cluster.loop.now < end:
            await asyncio.sleep(0.1)
        for what in wrong:
            self.cluster.watch.say(what)

    async def _quiet(self) -> None:
        """The members' leases end what nobody ended; a receiver's part lasts longer where nobody told."""
        await asyncio.sleep(7.0)
        if any(slot.agent.roles for slot in self.cluster.agents.values() if slot.agent):
            await asyncio.sleep(LEASES_KEPT * 6.0)
        for slot in self.cluster.agents.values():
            for group in slot.agent.roles if slot.agent else ():
                told = self.cluster.watch.groups.get(group)
                if told is None or told.record.state in FINAL_STATES:
                    self.cluster.watch.say(f"{slot.name} still takes part in {group}")

    def _show(self) -> None:
        """How members stand with groups that do not end."""
        for group, told in self.cluster.watch.groups.items():
            if told.record.state in FINAL_STATES:
                continue
            for slot in self.cluster.agents.values():
                role = slot.agent.roles.get(group) if slot.agent else None
                if role is not None:
                    have = f"n {role.had_n}, {role.held.bit_count()} of {role.pieces} pieces, {len(role.blocks)} blocks"
                    print(group, slot.name, role.kind, role.state, have)
                    for number, tree in role.sending.items():
                        print("   sends", number, tree.rate, tree.extents, tree.sent)
                    for number, taking in role.taking.items():
                        route = role.routes.get(str(number), "")
                        print(
                            "   takes",
                            number,
                            taking.extents,
                            self.cluster.plane.way(slot.host.name, route) if route else "",
                        )

    def _must_be_done(self) -> set[str]:
        found = set()
        for group, told in self.cluster.watch.groups.items():
            members = {*told.record.spec.roots, *told.record.receivers}
            if group not in self.touched and not members & self.disturbed and not self.disturbed:
                found.add(group)
        return found


def tell(seed: int, chatty: bool = False) -> Result:
    """One seed."""
    began = time.perf_counter()
    with world(seed) as (loop, rng):
        network = Network(loop, rng, chatty)
        origin = Origin()
        cluster = Cluster(
            loop, network, spec=rng.choice(["bcube:2,1", "bcube:3,1", "fattree:4,2"]), managers=rng.randint(1, 3),
            workers=rng.randint(2, 3), rate_bps=10_000_000, agent=partial(Fetcher, origin),
        )  # fmt: skip
        for slot in cluster.slots:
            cluster.skew[slot.machine] = int(rng.gauss(0, 0.02) * 1e9)
        listening = Listening(cluster.watch, chatty)
        loop.set_exception_handler(lambda _, context: _unhandled(cluster, context))
        loggers = [logging.getLogger(name) for name in ("datacast.fabric_manager", "datacast.master")]
        levels = [(logger, logger.level, logger.propagate) for logger in loggers]
        for logger in loggers:
            logger.addHandler(listening)
            logger.setLevel(logging.INFO if chatty else logging.ERROR)
            logger.propagate = False
        # Drawn apart, so that what is added changes no other seed.
        extra = random.Random(f"outage {seed}")
        outage = (extra.uniform(0.5, 4.0), extra.uniform(*OUTAGE_S)) if extra.random() < OUTAGES else None
        extra = random.Random(f"gives {seed}")  # a word that leaves the seeds that tests pin without a plot
        plot = extra.choices([*PLOTS, None], [*PLOTS.values(), 1 - sum(PLOTS.values())])[0]
        reserve = TREE_IDS_PER_GROUP if plot == "hard tree ids" else RESERVE
        urls = random.Random(f"changed {seed}")  # likewise, and leaves them without groups of a URL
        fetched = urls.random() < FETCHED
        origin.bps = 10 ** urls.uniform(6.3, 7.3)
        story = Story(cluster, rng, chatty, outage, plot, extra, origin, urls if fetched else None)
        try:
            with installed(cluster), mock.patch("datacast.fabric_manager.keys.RESERVE", reserve):
                loop.run_until_complete(story.run())
        except Exception as error:
            if chatty:
                raise
            cluster.watch.say(f"{type(error).__name__}: {error}")
        finally:
            for logger, level, propagate in levels:
                logger.removeHandler(listening)
                logger.setLevel(level)
                logger.propagate = propagate
        states: dict[str, int] = {}
        for told in cluster.watch.groups.values():
            states[told.record.state] = states.get(told.record.state, 0) + 1
        takeovers = sum(max(0, told.record.epoch - 1) for told in cluster.watch.groups.values())
        virtual, history, refused = loop.now, network.history, cluster.watch.refused
    real = time.perf_counter() - began
    return Result(seed, cluster.watch.violations, history, virtual, real, states, takeovers, refused)


def _unhandled(cluster: Cluster, context: dict[str, Any]) -> None:
    task = context.get("task") or context.get("future")
    error = context.get("exception")
    if isinstance(error, asyncio.CancelledError):
        return
    cluster.watch.say(f"{context.get('message')}: {error!r} {task!r:.200}")
