"""A fabric manager, masters and fake agents in one event loop, and the controller's app on top when it is wanted."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import asdict
from functools import cache, partial
from typing import Any

import httpx
from authority import Authority
from fake_agents import World
from small import until

from datacast.controller.app import make_app
from datacast.fabric_manager.api import FINAL_STATES, FabricManagerClient
from datacast.fabric_manager.main import FabricManager
from datacast.master.group import Group
from datacast.master.view import View
from datacast.services.tls import PLAIN, Security


class InProcessMasters:
    """The interface of fabric_manager.masters.Masters, with masters as tasks. `kill(group)` ends one as SIGKILL would:
    nobody is told anything."""

    def __init__(self, url: str, exited: Any, spares: int, security: Security = PLAIN) -> None:
        self.url, self.exited, self.security = url, exited, security
        self.groups: dict[str, Group] = {}
        self._tasks: dict[str, asyncio.Task] = {}
        self.spare_pids: list[int] = []

    def warm_soon(self, delay: float = 0.0) -> None:
        pass

    def pid(self, group: str) -> int | None:
        return 1 if group in self._tasks and not self._tasks[group].done() else None

    def identity(self, group: str) -> None:
        return None

    def watch(self, group: str, identity: Any) -> bool:
        return False

    async def start(self, order: Any) -> int:
        self._tasks[order.group] = asyncio.create_task(self._run(asdict(order)))
        return 1

    async def _run(self, order: dict[str, Any]) -> None:
        code = -9
        client = FabricManagerClient(self.url, security=self.security)
        client.key = order["key"]
        view = View(client)
        following = asyncio.create_task(view.follow())
        try:
            group = self.groups[order["group"]] = Group(order, view, client, received_ns=time.time_ns())
            await group.run()
            code = 0
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            await client.close()
            self.exited(order["group"], code)

    async def kill(self, name: str) -> None:
        group = self.groups[name]
        for task in tuple(group._tasks):
            task.cancel()
        if group.crew._root:
            await group.crew._root.close()
        self._tasks[name].cancel()
        await asyncio.gather(self._tasks[name], return_exceptions=True)

    async def stop(self, grace: float = 5.0) -> None:
        for name, group in self.groups.items():
            if not self._tasks[name].done():
                group.cancel("the master was told to stop")
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)


class Lab:
    def __init__(self, manager: FabricManager, world: World, client: FabricManagerClient) -> None:
        self.manager, self.world, self.client = manager, world, client

    @property
    def masters(self) -> InProcessMasters:
        return self.manager.groups.masters  # type: ignore[return-value]

    async def start(self, source: str, receivers: list[str] | str, size: int, path: str = "/srv/file", **options: Any):
        """POST a group; its record."""
        self.world.sizes.setdefault(path, size)
        return await self.client.create_group(
            {"source": source, "receivers": receivers, "source_path": path, "options": options}
        )

    async def end(self, group: dict[str, Any], timeout: float = 20.0) -> dict[str, Any]:
        """Wait until a group has ended; its record."""

        async def ended():
            record = await self.client.group(group["id"])
            return record if record["state"] in FINAL_STATES else None

        return await until(ended, f"group {group['id']} ends", timeout)

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
    """`processes`: real master processes; otherwise masters are tasks. `authority`: TLS everywhere. `settings` as
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
        "master_options": security("master/main").options if processes else [],
        **settings,
    }
    manager = FabricManager(graph, **settings)
    if not processes:
        manager.masters_factory = partial(InProcessMasters, security=security("master/main"))
    await manager.start()
    world = World(rates, security)
    client = FabricManagerClient(manager.url, security=security("controller/main"))
    try:
        names = [n for n, data in graph.nodes(data=True) if data["kind"] == "host"] if agents is None else agents
        await world.add(names, manager.signalling_address)
        yield Lab(manager, world, client)
        assert world.violations == [], world.violations
    finally:
        await client.close()
        await manager.stop()
        await world.stop()


@asynccontextmanager
async def rest(url: str):
    """An httpx client of the controller's app, in process."""
    async with FabricManagerClient(url) as client:
        transport = httpx.ASGITransport(app=make_app(client))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost:7580") as http:
            yield http
