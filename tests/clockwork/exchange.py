"""HTTP without sockets: who asks on one side, ASGI on the other, the network between them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import unquote, urlencode, urlsplit

from aiohttp import ConnectionTimeoutError, ServerDisconnectedError, SocketTimeoutError

from datacast.services.asking import Params

from .network import Network
from .virtual import Process, here

log = logging.getLogger("datacast.fabric_manager.http")


class Server:
    """Stands in for services.service.HttpServer."""

    def __init__(self, app: Any, sock: Any, context: Any = None, connections: int = 0) -> None:
        self.network: Network = sock.network
        self.app, self._sock, self.process = app, sock, sock.process
        self.address = sock.address
        self.url = f"http://{self.address}"

    async def start(self) -> None:
        self.network.apps[self.address] = (self.process, self.app)
        self.process.on_death.append(self._close)

    async def stop(self) -> None:
        self._close()

    def _close(self) -> None:
        self._sock.close()
        if self.network.apps.get(self.address, (None,))[0] is self.process:
            del self.network.apps[self.address]
        for request in tuple(self.network.requests):
            if request.server is self.process:
                request.break_off()


class Exchange:
    """A request and its answer, as aiohttp's ClientResponse is one."""

    def __init__(self, network: Network, client: Process, server: Process, patience: float, path: str) -> None:
        self.network, self.client, self.server, self.patience = network, client, server, patience
        self.path = path
        self.status = 0
        self.headers: dict[str, str] = {}
        self._out: list[bytes | None] = []
        self._in: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        self._moving = self.broken = self.over = False
        self._next = network.loop.now + network.late.get((client, path), 0.0)
        self.gone = asyncio.Event()
        """The client is not there any more."""
        network.requests.append(self)

    # ---- the server's side ----
    async def serve(self, app: Any, scope: dict[str, Any], body: bytes) -> None:
        asked = False

        async def receive() -> dict[str, Any]:
            nonlocal asked
            if not asked:
                asked = True
                return {"type": "http.request", "body": body, "more_body": False}
            await self.gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            if self.broken or not self.server.alive:
                return
            if message["type"] == "http.response.start":
                self.status = message["status"]
                self.headers = {name.decode(): value.decode() for name, value in message.get("headers", ())}
                self._put(b"")
            else:
                if message.get("body"):
                    self._put(message["body"])
                if not message.get("more_body"):
                    self._put(None)

        try:
            await app(scope, receive, send)
        except Exception as error:  # uvicorn logs it; the caller has got a 500
            log.exception("%s %s: %r", scope["method"], scope["path"], error)

    def _put(self, data: bytes | None) -> None:
        self._out.append(data)
        self.pump()

    def pump(self) -> None:
        if self._moving or not self._out or self.network.blocked(self.server, self.client):
            return
        self._moving = True
        self._next = max(self._next, self.network.loop.now + self.network.delay())
        self.network.loop.call_at(self._next, self._arrive)

    def _arrive(self) -> None:
        self._moving = False
        if self.network.blocked(self.server, self.client) or self.broken:
            return
        for part in self._out:
            self._in.put_nowait(part)
        self.network.note(self.server.name, "=>", self.client.name, self.status, sum(len(p or b"") for p in self._out))
        self._out.clear()

    def break_off(self) -> None:
        """The connection is gone; the server's part may have been done."""
        if not self.broken and not self.over:
            self.broken = True
            self.gone.set()
            self.network.loop.call_later(
                self.network.delay(), self._in.put_nowait, ServerDisconnectedError("connection lost")
            )

    # ---- the client's side ----
    async def next(self) -> bytes | None:
        try:
            async with asyncio.timeout(self.patience):
                part = await self._in.get()
        except TimeoutError:
            raise SocketTimeoutError("no answer in time") from None
        if isinstance(part, Exception):
            raise part
        return part

    @property
    def content(self) -> Exchange:
        return self

    async def iter_any(self) -> AsyncIterator[bytes]:
        while (part := await self.next()) is not None:
            if part:
                yield part
        self._end()

    async def read(self) -> bytes:
        return b"".join([part async for part in self.iter_any()])

    def close(self) -> None:
        self._end()

    def _end(self) -> None:
        if not self.over:
            self.over = True
            if self in self.network.requests:
                self.network.requests.remove(self)
            # The server hears of it, if it can, a moment later.
            self.network.loop.call_later(self.network.delay(), self.gone.set)


class Client:
    """Stands in for services.asking.HttpClient."""

    def __init__(self, network: Network, url: str, patience: float) -> None:
        self.network, self._address, self._patience = network, urlsplit(url).netloc, patience

    async def ask(
        self,
        method: str,
        path: str,
        content: bytes | None = None,
        params: Params | None = None,
        headers: dict[str, str] | None = None,
        silence: float | None = None,
    ) -> Exchange:
        network, client, address = self.network, here(), self._address
        patience = self._patience if silence is None else silence
        body = content or b""
        network.note(client.name, method, path, len(body))
        there = network.apps.get(address)
        if not client.alive or there is None:
            await asyncio.sleep(network.delay())
            raise ConnectionTimeoutError("nobody listens") from ConnectionRefusedError(111, address)
        server, app = there
        try:
            async with asyncio.timeout(self._patience):
                await network.passage(client, server)
        except TimeoutError:
            raise ConnectionTimeoutError("no answer in time") from None
        if network.apps.get(address, (None, None))[0] is not server or not client.alive:
            raise ConnectionTimeoutError("nobody listens") from ConnectionRefusedError(111, address)
        host, _, port = address.rpartition(":")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": urlencode(params or {}, doseq=True).encode(),
            "root_path": "",
            "headers": [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()],
            "client": ("127.0.0.1", 1),
            "server": (host, int(port)),
        }
        exchange = Exchange(network, client, server, patience, path)
        client.on_death.append(exchange.break_off)
        network.loop.launch(server, exchange.serve(app, scope, body))
        try:
            await exchange.next()
        except BaseException:
            exchange._end()
            raise
        finally:
            client.on_death.remove(exchange.break_off)
        return exchange

    async def close(self) -> None:
        pass


def client_for(network: Network, url: str, *, timeout: float, **_: Any) -> Client:
    """Stands in for services.problems.http_client."""
    return Client(network, url, timeout)
