"""Reading what this site's own hosts have: over signalling, as docs/signalling.md says under `read`."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

from datacast.core.errors import DatacastError
from datacast.fabric_manager.api import FabricManagerClient
from datacast.services import framing
from datacast.services.sites_file import SiteError
from datacast.services.tls import Security, explain

READ_MAX = 1 << 20
"""Bytes of one read."""
CONNECTIONS = 4
"""To one agent."""
ANSWER_S, LOOK_S = 5.0, 5.0
ROOM_S = 20.0
"""For a connection that others read over: a host that crawls, or is asked for too much, holds nobody up for longer."""
WALK_S, WALKING_S = 600.0, 0.1
"""So long a directory is looked through, and so often it is asked for meanwhile."""
SIZE_MAX = 1 << 53


@dataclass(frozen=True)
class What:
    """One of: a file or a directory at its source, what was received of a group, one of those where it was received."""

    path: str | None = None
    group: str | None = None
    dest: str | None = None

    def named(self) -> dict[str, str]:
        return {key: value for key, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class Bytes:
    data: bytes
    size: int
    mtime_ns: int
    inode: int
    folder: bool
    """It is a directory, read as the stream that it is sent as (host_agent/bundle.h)."""


class Agents:
    """Connections are kept from one read to the next. Every method raises SiteError: `no_agent`, or an agent's code."""

    def __init__(self, client: FabricManagerClient, security: Security) -> None:
        self._client, self._security = client, security
        self._idle: dict[str, list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]] = {}
        self._room: dict[str, asyncio.Semaphore] = {}
        self._addresses: dict[str, str] = {}
        self._looked = -LOOK_S
        self._looking = asyncio.Lock()

    async def addresses(self) -> dict[str, str]:
        """Of the hosts that are there."""
        async with self._looking:  # who asks meanwhile waits: hosts that are not known yet are not away
            if time.monotonic() - self._looked > LOOK_S:
                nodes = (await self._client.topology()).nodes
                self._addresses = {node.name: node.addr for node in nodes if node.registered and node.addr}
                self._looked = time.monotonic()
        return self._addresses

    async def read(self, host: str, what: What, off: int, length: int) -> Bytes:
        """An agent that looks through a large directory says so after half a second, and is asked again; not for
        ever."""
        end = time.monotonic() + WALK_S
        while True:
            try:
                return await self._read(host, what, off, length)
            except SiteError as error:
                if error.code != "walking" or time.monotonic() > end:
                    raise
            await asyncio.sleep(WALKING_S)

    @contextlib.asynccontextmanager
    async def _turn(self, host: str) -> AsyncIterator[None]:
        room = self._room.setdefault(host, asyncio.Semaphore(CONNECTIONS))
        try:
            async with asyncio.timeout(ROOM_S):
                await room.acquire()
        except TimeoutError:
            why = f"{host} has no time: others have read over all {CONNECTIONS} connections to it for {ROOM_S:g} s"
            raise SiteError(why, host, "no_agent") from None
        try:
            yield
        finally:
            room.release()

    async def _read(self, host: str, what: What, off: int, length: int) -> Bytes:
        address = (await self.addresses()).get(host)
        if address is None:
            self._looked = -LOOK_S
            raise SiteError(f"host {host} has no agent now", host, "no_agent", f"start datacast-agent on {host}")
        async with self._turn(host):
            idle = self._idle.get(host)
            kept = idle.pop() if idle else None
            message = {"type": "read", "id": 1, "off": off, "len": min(length, READ_MAX), **what.named()}
            try:
                async with asyncio.timeout(ANSWER_S):
                    connection = kept or await self._security.connect(address, "agent", host)
                    try:
                        answer, data = await _ask(connection, message)
                    except BaseException:
                        connection[1].close()
                        raise
            except (OSError, ValueError, TimeoutError, EOFError, DatacastError) as error:
                if kept is not None and not isinstance(error, TimeoutError):  # it had been closed meanwhile
                    return await self._again(host, what, off, length)
                self._looked = -LOOK_S
                why = f"{host} does not answer: {explain(error)}"
                raise SiteError(why, host, "no_agent") from error
            self._idle.setdefault(host, []).append(connection)  # as it is now: `_again` lets go of what there was
        if answer["type"] != "bytes":
            raise SiteError(f"{host}: {answer.get('error')}", host, str(answer.get("code")))
        try:
            about = int(answer["size"]), int(answer["mtime_ns"]), int(answer["inode"])
            if not 0 <= about[0] <= SIZE_MAX:
                raise ValueError(f"{about[0]} bytes")
        except (KeyError, TypeError, ValueError) as error:
            raise SiteError(f"{host} answers what cannot be read", host, "no_agent") from error
        return Bytes(data, *about, "bundle" in answer)

    async def _again(self, host: str, what: What, off: int, length: int) -> Bytes:
        for _, writer in self._idle.pop(host, []):
            writer.close()
        self._room.pop(host, None)
        return await self._read(host, what, off, length)

    def close(self) -> None:
        for connections in self._idle.values():
            for _, writer in connections:
                writer.close()


async def _ask(
    connection: tuple[asyncio.StreamReader, asyncio.StreamWriter], message: framing.Message
) -> tuple[framing.Message, bytes]:
    reader, writer = connection
    writer.write(framing.encode(message))
    answer = await framing.read(reader)
    if answer is None:
        raise EOFError("it closed the connection")
    n = answer.get("n", 0) if answer["type"] == "bytes" else 0
    if not isinstance(n, int) or not 0 <= n <= message["len"]:
        raise ValueError("it answers more than was asked for")
    return answer, await reader.readexactly(n) if n else b""
