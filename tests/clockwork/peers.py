"""The kept connections of simulated agents to their children."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from datacast.services import framing

if TYPE_CHECKING:
    from .agents import Agent

Message = dict[str, Any]


class Peer:
    """The kept connection to a child; what is asked before it stands waits."""

    def __init__(self, agent: Agent, address: str) -> None:
        self.agent, self.address = agent, address
        self.lost = False
        self._waiting: dict[int, asyncio.Future[Message]] = {}
        self._early: list[bytes] = []
        self._writer: asyncio.StreamWriter | None = None
        agent.spawn(self._run())

    def ask(self, message: Message) -> asyncio.Future[Message]:
        number = self.agent.next_id
        self.agent.next_id += 1
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        data = framing.encode({**message, "id": number})
        if self._writer is not None:
            self._writer.write(data)
        else:
            self._early.append(data)
        return future

    async def _run(self) -> None:
        try:
            host, _, port = self.address.rpartition(":")
            reader, self._writer = await asyncio.open_connection(host, int(port))
            for data in self._early:
                self._writer.write(data)
            while (message := await framing.read(reader)) is not None:
                if message["type"] == "ack":
                    future = self._waiting.pop(message["id"], None)
                    if future is not None and not future.done():
                        future.set_result(message["results"])
                elif message["type"] == "event":
                    self.agent.relay(message)
        except (OSError, framing.FramingError):
            pass
        finally:
            self.lost = True
            if self._writer is not None:
                self._writer.close()
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(ConnectionResetError("the child is gone"))
                    future.exception()
