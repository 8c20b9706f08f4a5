"""HTTP/1.1 from one service to another: connections that are kept, and the parser in C (httptools). A general client
(httpx) takes 0.8 ms of a processor for a request, most of it for what no service asks for: this takes a tenth."""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping
from typing import cast
from urllib.parse import quote, urlencode, urlsplit

import httptools

from .tls import HANDSHAKE_S

KEPT_S = 5.0
"""A connection that was not used for longer is not used again."""
CONNECTIONS_MAX = 100
"""At once, to one address."""
HEAD_MAX = 64 << 10
"""Bytes of an answer's headers."""
UNREAD_MAX = 1 << 20
"""Bytes of an answer that nobody has read yet: then the other side waits."""
_PATH = "/%:@!$&'()*+,;=~"

Params = Mapping[str, str | int | list[str]]


class NotConnectedError(OSError):
    """Nothing was asked."""


class BrokenOffError(OSError):
    """What was asked may have been carried out."""


class _Wire(asyncio.Protocol):
    """A connection: one question after the other."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._changed: asyncio.Future[None] | None = None
        self._parts: deque[bytes] = deque()
        self._unread = self._head = 0
        self._paused = self._lost = self._whole = self._begun = self._kept = False
        self.error: OSError | None = None
        self.status = 0
        self.headers: dict[str, str] = {}
        self.since = 0.0
        """When it was last used."""

    # ---- asyncio's ----
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none of its classes

    def data_received(self, data: bytes) -> None:
        if self._parser is None:
            self.fail(BrokenOffError("it answers what it was not asked"))
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self.fail(BrokenOffError(f"it answers what is not HTTP: {error}"))
            return
        if not self._begun:
            self._head += len(data)
            if self._head > HEAD_MAX:
                self.fail(BrokenOffError("it answers with headers without end"))
        elif self._unread > UNREAD_MAX and self._transport:
            self._paused = True
            self._transport.pause_reading()
        self._tell()

    def connection_lost(self, error: Exception | None) -> None:
        self._lost = True
        if self._parser is not None and not self._whole:
            if self._begun and error is None and not {"content-length", "transfer-encoding"} & self.headers.keys():
                self._whole = True  # the connection's end is the answer's
            else:
                self.error = self.error or BrokenOffError(str(error or "the connection was closed before an answer"))
        self._tell()

    # ---- the parser's ----
    def on_message_begin(self) -> None:
        if self._begun:
            raise ValueError("a second answer")

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._begun:
            self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        assert self._parser
        self.status, self._begun = self._parser.get_status_code(), True

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)
        self._unread += len(body)

    def on_message_complete(self) -> None:
        assert self._parser
        self._whole, self._kept = True, self._parser.should_keep_alive()  # it forgets that with the message

    # ---- the asker's ----
    def _tell(self) -> None:
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    def fail(self, error: OSError) -> None:
        self.error = self.error or error
        self.close()
        self._tell()

    def close(self) -> None:
        if self._transport:
            self._transport.abort()

    @property
    def free(self) -> bool:
        """It may be asked."""
        idle = self._parser is None or (self._whole and self._kept and not self._parts)
        return idle and not self._lost and self.error is None and bool(self._transport)

    def ask(self, request: bytes) -> None:
        assert self._transport
        self._parser = httptools.HttpResponseParser(self)
        self._whole = self._begun = self._kept = False
        self._head, self.headers = 0, {}
        self._transport.write(request)

    async def begun(self, patience: float) -> None:
        """Returns when the status and the headers are there. Raises OSError."""
        while not self._begun:
            await self._wait(patience)

    async def part(self, patience: float) -> bytes | None:
        """What has come; None at the end. Raises OSError."""
        while not self._parts:
            if self._whole:
                return None
            await self._wait(patience)
        body = self._parts.popleft()
        self._unread -= len(body)
        if self._paused and self._unread < UNREAD_MAX // 2 and self._transport:
            self._paused = False
            self._transport.resume_reading()
        return body

    async def _wait(self, patience: float) -> None:
        if self.error is not None:
            raise self.error
        self._changed = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(patience):
                await self._changed
        except TimeoutError:
            raise BrokenOffError(f"no answer within {patience:g} s") from None


class Answer:
    """Read it to its end, or close it."""

    def __init__(self, client: HttpClient, wire: _Wire, patience: float) -> None:
        self._client, self._wire, self._patience, self._closed = client, wire, patience, False
        self.status = wire.status
        self.headers = wire.headers

    async def parts(self) -> AsyncIterator[bytes]:
        """Raises OSError."""
        while (part := await self._wire.part(self._patience)) is not None:
            yield part

    async def read(self) -> bytes:
        """All of it. Raises OSError."""
        return b"".join([part async for part in self.parts()])

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._client.give_back(self._wire)


class HttpClient:
    """Of one address: `http(s)://host:port` or `unix:/path`."""

    def __init__(self, url: str, patience: float, context: ssl.SSLContext | None = None) -> None:
        """`patience`: so long it may take to connect, and to answer, s."""
        self._patience, self._context = patience, context
        self._path = url[len("unix:") :] if url.startswith("unix:") else None
        where = urlsplit("http://unix" if self._path else url)
        self._host, self._port = where.hostname or "", where.port or (443 if context else 80)
        self._prefix = where.path.rstrip("/")
        self._always = f"host: {where.netloc.rpartition('@')[2]}\r\naccept: */*\r\n"
        self._free: list[_Wire] = []
        self._all: set[_Wire] = set()
        self._room = asyncio.Semaphore(CONNECTIONS_MAX)
        self._closed = False

    async def ask(
        self,
        method: str,
        path: str,
        content: bytes | None = None,
        params: Params | None = None,
        headers: Mapping[str, str] | None = None,
        patience: float | None = None,
    ) -> Answer:
        """Returns when the answer begins. `patience`: for what it is silent. Raises NotConnectedError and
        BrokenOffError."""
        patience = self._patience if patience is None else patience
        target = self._prefix + quote(path, safe=_PATH) + (f"?{urlencode(params, doseq=True)}" if params else "")
        head = [f"{method} {target} HTTP/1.1\r\n", self._always]
        for name, value in (headers or {}).items():
            if not value.isprintable():
                raise NotConnectedError(f"the header {name} cannot be sent: {value!r}")
            head.append(f"{name}: {value}\r\n")
        if content is not None or method in ("POST", "PUT"):
            head.append(f"content-length: {len(content or b'')}\r\n")
        request = "".join([*head, "\r\n"]).encode("utf-8") + (content or b"")
        wire = await self._connected()
        try:
            wire.ask(request)
            await wire.begun(patience)
        except BaseException:
            self.give_back(wire)
            raise
        return Answer(self, wire, patience)

    async def _connected(self) -> _Wire:
        try:
            async with asyncio.timeout(self._patience):
                await self._room.acquire()
        except TimeoutError:
            raise NotConnectedError(f"{CONNECTIONS_MAX} requests wait for their answers") from None
        while self._free:
            wire = self._free.pop()
            if wire.free and time.monotonic() - wire.since < KEPT_S:
                return wire
            self._drop(wire)
        try:
            async with asyncio.timeout(self._patience):
                wire = await self._connect()
        except TimeoutError:
            self._room.release()
            raise NotConnectedError(f"no connection within {self._patience:g} s") from None
        except (OSError, EOFError) as error:
            self._room.release()
            number = getattr(error, "errno", None) or 0
            text = os.strerror(number) if number > 0 else str(error)
            raise NotConnectedError(text) from error
        except BaseException:
            self._room.release()
            raise
        self._all.add(wire)
        return wire

    async def _connect(self) -> _Wire:
        loop = asyncio.get_running_loop()
        if self._path is not None:
            return (await loop.create_unix_connection(_Wire, self._path))[1]
        patience = HANDSHAKE_S if self._context else None
        wanted = loop.create_connection(
            _Wire, self._host, self._port, ssl=self._context, ssl_handshake_timeout=patience
        )
        return (await wanted)[1]

    def give_back(self, wire: _Wire) -> None:
        """Of an answer that was read to its end; any other ends its connection."""
        self._room.release()
        if wire.free and not self._closed:
            wire.since = time.monotonic()
            self._free.append(wire)
        else:
            self._drop(wire)

    def _drop(self, wire: _Wire) -> None:
        self._all.discard(wire)
        with contextlib.suppress(RuntimeError):  # its loop has ended
            wire.close()

    async def close(self) -> None:
        self._closed = True
        for wire in tuple(self._all):
            wire.fail(BrokenOffError("this client was closed"))
        self._all.clear()
        self._free.clear()
