"""The services in their processes: the real fabric manager and workers, on simulated machines."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any
from unittest import mock

from datacast import topologies
from datacast.core.errors import DatacastError
from datacast.fabric_manager import workers
from datacast.fabric_manager.api import FINAL_STATES, FabricManagerClient, orders
from datacast.fabric_manager.http import make_app
from datacast.fabric_manager.main import FabricManager, serve
from datacast.master.view import View
from datacast.master.worker import Worker

from .agents import Agent, Host
from .exchange import Server, client_for
from .keeping import Disk, SimulatedStore
from .network import Network
from .plane import Plane
from .virtual import PROCESS, Process, VirtualLoop
from .watch import Watch

PUT = workers.Worker.put
AGAIN_S = 0.2
"""Whoever starts a process again (systemd) waits so long."""


@cache
def _graph(spec: str) -> Any:
    return topologies.parse(spec)


class Current:
    """Whichever fabric manager's process runs, a part of it."""

    def __init__(self, *path: str) -> None:
        self._path = path

    def __getattr__(self, name: str) -> Any:
        process = PROCESS.get()
        if process is None:
            return Current(*self._path, name)
        found: Any = process.serves
        for part in (*self._path, name):
            found = getattr(found, part)
        return found


@cache
def _app() -> Any:
    """The fabric manager's HTTP. One for all: to make it takes longer than most seeds."""
    return contextvars.Context().run(make_app, *(Current(part) for part in ("fabric", "groups", "hub", "registry")))


class Slot:
    """A process that is started again when it has ended."""

    def __init__(self, cluster: Cluster, name: str, machine: str) -> None:
        self.cluster, self.name, self.machine = cluster, name, machine
        self.process: Process | None = None
        self.stopping = asyncio.Event()
        self.runs = 0
        self.held = False
        """Not to be started."""

    async def run(self) -> None:
        """In no process."""
        while True:
            while self.held:
                await asyncio.sleep(0.01)
            self.runs += 1
            name = self.name if self.runs == 1 else f"{self.name}'{self.runs}"
            self.process = Process(name, self.machine, skew_ns=self.cluster.skew.get(self.machine, 0))
            self.stopping = asyncio.Event()
            task = self.cluster.loop.launch(self.process, self.main(self.process))
            await asyncio.wait((task,))
            if self.process.alive:
                error = None if task.cancelled() else task.exception()
                if error is not None and not isinstance(error, DatacastError):  # those end it with a line that says why
                    self.cluster.watch.say(f"{name} ends with {error!r}")
                await self.cluster.loop.kill(self.process)
            await asyncio.sleep(AGAIN_S)

    async def main(self, process: Process) -> None:
        raise NotImplementedError

    # ---- faults ----
    async def kill(self, away_s: float) -> None:
        self.held = True
        if self.process is not None and self.process.alive:
            await self.cluster.loop.kill(self.process)
        await asyncio.sleep(away_s)
        self.held = False

    async def pause(self, for_s: float) -> None:
        process = self.process
        if process is not None and process.alive and not process.paused:
            self.cluster.loop.pause(process)
            await asyncio.sleep(for_s)
            if process.paused:
                self.cluster.loop.resume(process)

    async def stop(self) -> None:
        """As SIGTERM."""
        self.stopping.set()


class ManagerSlot(Slot):
    def __init__(self, cluster: Cluster, number: int) -> None:
        super().__init__(cluster, f"manager{number}", f"m{number}")
        self.http = f"127.0.1.{number}:7501"
        self.signalling = f"127.0.1.{number}:7500"
        self.manager: FabricManager | None = None
        self.leads = False

    async def main(self, process: Process) -> None:
        cluster = self.cluster
        manager = self.manager = FabricManager(
            _graph(cluster.spec).copy(), spec=cluster.spec, signalling=self.signalling, http=self.http, store="sim:",
            rate_bps=cluster.rate_bps, mtu=cluster.mtu, workers=0,
        )  # fmt: skip
        process.serves = manager

        def started() -> None:
            self.leads = True
            process.on_death.append(self._over)

        await serve(manager, self.stopping, started)
        self._over()

    def _over(self) -> None:
        self.leads = False


class WorkerSlot(Slot):
    def __init__(self, cluster: Cluster, number: int) -> None:
        super().__init__(cluster, f"worker{number}", f"w{number}")
        self.worker: Worker | None = None

    async def main(self, process: Process) -> None:
        # As master.main.run.
        client = FabricManagerClient(self.cluster.urls)
        view = View(client)
        worker = self.worker = Worker(client, view, process.name.replace("'", "-"))
        tasks = [asyncio.create_task(view.follow()), asyncio.create_task(worker.run(1))]
        stop = asyncio.create_task(self.stopping.wait())
        try:
            await asyncio.wait((stop, *tasks), return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()
            await worker.leave()
        finally:
            for task in (*tasks, stop):
                task.cancel()
            await asyncio.gather(*tasks, stop, return_exceptions=True)
            await client.close()


class AgentSlot(Slot):
    def __init__(self, cluster: Cluster, host: Host) -> None:
        super().__init__(cluster, f"agent{host.name}", f"h{host.name}")
        self.host = host
        self.agent: Agent | None = None

    async def main(self, process: Process) -> None:
        cluster = self.cluster
        addresses = [slot.signalling for slot in cluster.managers]
        self.agent = cluster.agent(self.host, cluster.plane, process, addresses, cluster.sizes)
        await self.agent.run()


class Cluster:
    def __init__(
        self,
        loop: VirtualLoop,
        network: Network,
        *,
        spec: str,
        managers: int,
        workers: int,
        rate_bps: int,
        mtu: int = 1500,
        agent: Callable[..., Agent] = Agent,
    ) -> None:
        self.loop, self.network, self.spec, self.rate_bps, self.mtu = loop, network, spec, rate_bps, mtu
        self.agent = agent
        graph = _graph(spec)
        names = [name for name, data in graph.nodes(data=True) if data["kind"] == "host"]
        self.hosts = {name: Host(name, f"127.2.0.{at + 1}:7600") for at, name in enumerate(names)}
        self.watch = Watch(loop, self.hosts)
        self.plane = Plane(loop, graph)
        self.plane.watch = self.watch
        self.disk = Disk(network)
        self.disk.on_write.append(self.watch.wrote)
        self.sizes: dict[str, int] = {}
        self.skew: dict[str, int] = {}
        self.managers = [ManagerSlot(self, number) for number in range(managers)]
        self.workers = [WorkerSlot(self, number) for number in range(workers)]
        self.agents = {name: AgentSlot(self, host) for name, host in self.hosts.items()}
        self.urls = ",".join(f"http://{slot.http}" for slot in self.managers)
        self._tasks: list[asyncio.Task[Any]] = []

    @property
    def slots(self) -> list[Slot]:
        return [*self.managers, *self.workers, *self.agents.values()]

    def start(self) -> None:
        self._tasks = [asyncio.create_task(slot.run()) for slot in self.slots]
        self._tasks.append(asyncio.create_task(self.plane.run()))
        self._tasks.append(asyncio.create_task(self._look()))
        for task in self._tasks:
            task.add_done_callback(self._broken)

    def _broken(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self.watch.say(f"the simulation itself: {task.exception()!r}")

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(0.25)
            for slot in self.managers:
                if slot.leads and slot.manager is not None:
                    self.watch.shares(slot.manager.groups)
                    self.watch.bounds(slot.manager.groups, self.plane.agents)
                    self.watch.answers(slot.name, slot.manager.groups.records())

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for slot in self.slots:
            if slot.process is not None and slot.process.alive:
                await self.loop.kill(slot.process)

    def wrong_links(self) -> list[str]:
        """What the leader does not know about which links work."""
        wrong = [] if any(slot.leads for slot in self.managers) else ["nobody leads"]
        for slot in self.managers:
            if slot.leads and slot.manager is not None:
                for u, v in self.plane.graph.edges:
                    if slot.manager.fabric.link_up(u, v) == (frozenset((u, v)) in self.plane.down):
                        wrong.append(f"{slot.name} is wrong about {u}-{v}")
        return wrong

    def kept_groups(self) -> list[str]:
        """What workers still run that has ended."""
        kept = []
        for slot in self.workers:
            for group in slot.worker.groups if slot.worker is not None else ():
                told = self.watch.groups.get(group)
                if told is None or told.record.state in FINAL_STATES:
                    kept.append(f"{slot.name} still runs {group}")
        return kept

    def set_link(self, u: str, v: str, up: bool) -> None:
        """The hosts at its ends notice, and say so."""
        (self.plane.down.discard if up else self.plane.down.add)(frozenset((u, v)))
        ports = self.plane.graph.edges[u, v]["ports"]
        for name in (u, v):
            slot = self.agents.get(name)
            if slot is None:
                continue
            port = ports[name]
            (slot.host.down.discard if up else slot.host.down.add)(port)
            if slot.agent is not None and slot.process is not None and slot.process.alive:
                self.loop.launch(slot.process, _call(partial(slot.agent.link, port, up)))


async def _call(work: Any) -> None:
    await asyncio.sleep(0.05)
    work()


def _put(cluster: Cluster, worker: workers.Worker, message: orders.ToWorker) -> None:
    process = PROCESS.get()
    if isinstance(message, orders.StartOrder) and process is not None:
        cluster.watch.ordered(process.name, message.epoch, process.serves.groups.get(message.group))
    PUT(worker, message)


@contextlib.contextmanager
def installed(cluster: Cluster) -> Iterator[None]:
    """The services find the simulation where they look for the machine."""
    network = cluster.network
    with (
        mock.patch.object(workers.Worker, "put", lambda worker, message: _put(cluster, worker, message)),
        mock.patch("datacast.fabric_manager.main.listen", lambda address, security=None: network.listen(address)),
        mock.patch("datacast.fabric_manager.main.HttpServer", Server),
        mock.patch("datacast.fabric_manager.main.make_app", lambda *_: _app()),
        mock.patch("datacast.fabric_manager.main.open_store", lambda *_: SimulatedStore(cluster.disk)),
        mock.patch("datacast.services.problems.http_client", partial(client_for, network)),
    ):
        yield
