"""Registrations over real connections: one that ends with notice, and with what an agent is answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from small import star, until
from test_fabric_health import tunnelled

from datacast.fabric_manager.api.topology import NodeChange
from datacast.fabric_manager.fabric import Fabric
from datacast.fabric_manager.registry import UNHEARD_BEATS, Registry
from datacast.services import framing
from datacast.services.service import listen

SWITCH = {"type": "register", "node": "s", "kind": "switch", "ports": [], "n": 1}


class Net:
    """A registry of a fabric, and what it has told of it."""

    def __init__(self, graph: Any) -> None:
        self.fabric, self.changes = Fabric(graph), list[Any]()
        self.registry = Registry(self.fabric, self.changes.append)
        self.sock = listen("127.0.0.1:0")

    @property
    def lives(self) -> bool:
        return self.fabric.nodes["s"].alive

    def down(self) -> list[Any]:
        return [c for c in self.changes if isinstance(c, NodeChange) and not c.alive]

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        """`say` to it; the answer, where one is waited for."""
        reader, writer = await asyncio.open_connection(*self.sock.getsockname())

        async def say(message: dict[str, Any], answered: bool = True) -> dict[str, Any] | None:
            writer.write(framing.encode(message))
            return await framing.read(reader) if answered else None

        try:
            yield say
        finally:
            writer.close()
            await writer.wait_closed()


@asynccontextmanager
async def net(graph: Any = None) -> AsyncIterator[Net]:
    one = Net(graph or star(2))
    await one.registry.start(one.sock)
    yield one
    await one.registry.stop()


async def test_a_switch_that_goes_with_notice_and_is_back_in_time_was_never_lost() -> None:
    async with net() as it:
        async with it.connection() as say:
            assert await say(SWITCH) == {
                "type": "registered", "node": "s", "heartbeat_ms": 1000, "silence_beats": UNHEARD_BEATS
            }  # fmt: skip
            await say({"type": "away", "for_ms": 2000}, answered=False)
        await until(lambda: not it.registry._open, "its connection has ended")
        async with it.connection() as say:
            await say({**SWITCH, "n": 2})
            await asyncio.sleep(2.1)
            assert it.lives and it.down() == []
        await until(lambda: it.down(), "without notice it is lost at once")


async def test_one_that_is_not_back_in_time_is_lost() -> None:
    async with net() as it:
        async with it.connection() as say:
            await say(SWITCH)
            refused = await say({"type": "away", "for_ms": "long"})
            assert refused and (refused["type"], refused["code"]) == ("error", "bad_request")
            await say({"type": "away", "for_ms": 200}, answered=False)
        await until(lambda: not it.registry._open, "its connection has ended")
        assert it.lives and it.down() == []
        await until(lambda: it.down(), "it did not come back")
        assert not it.lives


async def test_who_registers_is_told_of_its_tunnels() -> None:
    async with net(tunnelled()) as it, it.connection() as say:
        told = await say({"type": "register", "node": "b", "kind": "host", "addr": "10.0.0.2:7600", "ports": []})
        assert told and told["tunnels"] == [{"port": 3, "local": "10.0.1.1", "remote": "10.0.0.1", "mtu": 1500}], told
