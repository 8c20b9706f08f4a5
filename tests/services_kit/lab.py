"""A fabric manager, masters and fake agents in one event loop, and the controller's app on top when it is wanted."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, nullcontext
from functools import cache
from itertools import count
from typing import Any
from unittest.mock import patch

import httpx
import routes_once
from authority import Authority
from fake_agents import World
from plain import PlainClient
from small import until

from datacast.controller.app import make_app
from datacast.fabric_manager import leadership
from datacast.fabric_manager.api import FINAL_STATES, FabricManagerClient
from datacast.fabric_manager.main import FabricManager
from datacast.master.group import Group
from datacast.master.view import View
from datacast.master.worker import Worker
from datacast.services.tls import PLAIN, Security

routes_once.install()

PATIENCE_S = 60.0


class InProcessWorkers:
    """Workers as tasks of the test's own loop, one at a time. `kill(group)` ends the one that has a group as SIGKILL
    would: nobody is told anything; another one comes."""

    def __init__(self, url: str, security: Security = PLAIN) -> None:
        self.url, self.security = url, security
        self._workers: list[tuple[Worker, FabricManagerClient, list[asyncio.Task]]] = []
        self._seen: dict[str, Group] = {}
        self._numbers = count()

    @property
    def groups(self) -> dict[str, Group]:
        """The present master of each group."""
        for worker, _, _ in tuple(self._workers):
            self._seen.update({name: running.group for name, running in worker.groups.items()})
        return self._seen

    def start(self) -> None:
        client = FabricManagerClient(self.url, security=self.security)
        view = View(client)
        worker = Worker(client, view, f"test-{next(self._numbers)}")
        tasks = [asyncio.create_task(view.follow()), asyncio.create_task(worker.run(1))]
        self._workers.append((worker, client, tasks))

    async def _end(self, worker: Worker, client: FabricManagerClient, tasks: list[asyncio.Task]) -> None:
        for running in tuple(worker.groups.values()):
            running.task.cancel()
            await asyncio.gather(running.task, return_exceptions=True)
            await running.group.drop()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await client.close()

    async def kill(self, name: str) -> None:
        _ = self.groups  # the last one seen stays until another comes
        ending = [entry for entry in self._workers if name in entry[0].groups]
        for entry in ending:
            self._workers.remove(entry)
            await self._end(*entry)
        self.start()

    async def stop(self) -> None:
        for entry in self._workers:
            await self._end(*entry)


class Lab:
    def __init__(self, manager: FabricManager, world: World, client: PlainClient, masters: InProcessWorkers) -> None:
        self.manager, self.world, self.client, self.masters = manager, world, client, masters

    async def start(self, source: str, receivers: list[str] | str, size: int, path: str = "/srv/file", **options: Any):
        """POST a group; its record."""
        self.world.sizes.setdefault(path, size)
        return await self.client.create_group(
            {"source": source, "receivers": receivers, "source_path": path, "options": options}
        )

    async def end(self, group: dict[str, Any], timeout: float = 60.0) -> dict[str, Any]:
        """Wait until a group has ended; its record as a client reads it, asked for once: to ask all the time would take
        more of the processor than the group does."""
        name = group["id"]
        await until(lambda: self.manager.groups.get(name).state in FINAL_STATES, f"group {name} ends", timeout)
        return await self.client.group(name)

    async def running(self, group: dict[str, Any], pieces: int = 1) -> None:
        """Wait until so many pieces were sent."""
        await until(lambda: len(self.world.sent_pieces.get(group["id"], ())) >= pieces, f"{pieces} pieces are sent")


@asynccontextmanager
async def lab(
    graph: Any,
    *,
    rates: list[float] | None = None,
    processes: bool = False,
    agents: list[str] | None = None,
    authority: Authority | None = None,
    **settings: Any,
):
    """`processes`: real worker processes; otherwise there is one as a task. `authority`: TLS everywhere. `settings` as
    FabricManager."""

    @cache
    def security(identity: str) -> Security:
        return authority.security(identity) if authority else PLAIN

    settings = {
        "signalling": "127.0.0.1:0",
        "http": "127.0.0.1:0",
        "rate_bps": 100_000_000,
        "mtu": 9000,
        "security": security("fabric-manager/main"),
        "worker_options": security("master/main").options if processes else [],
        "workers": 1 if processes else 0,
        **settings,
    }
    # A busy machine lets all this stand still for seconds. Where a test is not about it, that ends nobody's lease.
    patience = nullcontext() if "store" in settings else patch.object(leadership, "LEASE_S", PATIENCE_S)
    with patience:
        manager = FabricManager(graph, **settings)
        if "heartbeat_ms" not in settings:
            manager.registry.silence_s = PATIENCE_S
        await manager.start()
        masters = InProcessWorkers(manager.url, security("master/main"))
        if not processes:
            masters.start()
        world = World(rates, security)
        client = PlainClient(manager.url, security=security("controller/main"))
        try:
            names = [n for n, data in graph.nodes(data=True) if data["kind"] == "host"] if agents is None else agents
            await world.add(names, manager.signalling_address)
            yield Lab(manager, world, client, masters)
            assert world.violations == [], world.violations
        finally:
            await client.close()
            await masters.stop()
            await manager.stop()
            await world.stop()


@asynccontextmanager
async def rest(url: str):
    """An httpx client of the controller's app, in process."""
    async with FabricManagerClient(url) as client:
        transport = httpx.ASGITransport(app=make_app(client))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost:7580") as http:
            yield http
