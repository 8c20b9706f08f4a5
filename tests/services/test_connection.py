"""What a connection of an HTTP server bears: bytes as they come from anybody."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse

from datacast.services import connection, service
from datacast.services.connection import HEAD_MAX, WAITING_MAX
from datacast.services.service import HttpServer, install_problem_handlers, listen

pytestmark = pytest.mark.uvloop

Open = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
CHUNKED = b"POST /x HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"


@asynccontextmanager
async def served() -> AsyncIterator[Open]:
    app = FastAPI()
    install_problem_handlers(app)

    @app.post("/x")
    async def x(request: Request) -> dict[str, Any]:
        return {"took": len(await request.body())}

    @app.get("/slow")
    async def slow() -> None:
        await asyncio.sleep(1)

    server = HttpServer(app, listen("127.0.0.1:0"))
    await server.start()
    host, _, port = server.address.rpartition(":")
    try:
        yield lambda: asyncio.open_connection(host, int(port))
    finally:
        await server.stop()


async def answered(open_: Open, *parts: bytes) -> bytes:
    """All that comes until the other side ends the connection."""
    reader, writer = await open_()
    try:
        for part in parts:
            writer.write(part)
            await asyncio.sleep(0.02)
        return await asyncio.wait_for(reader.read(), 10)  # silence would end it later
    except ConnectionError:  # it was closed with something unread
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize(
    "said",
    [
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET\r\n\r\n",
        b"GET /x HTTP/1.1\r\nno colon\r\n\r\n",
        b"POST /x HTTP/1.1\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\n",
        b"POST /x HTTP/1.1\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        CHUNKED + b"ten\r\n",
        b"CONNECT a:1 HTTP/1.1\r\n\r\n",
    ],
)
async def test_what_is_no_request_is_answered_with_a_problem(said: bytes) -> None:
    async with served() as open_:
        head, _, body = (await answered(open_, said)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ") and b"application/problem+json" in head
    problem = json.loads(body)
    assert problem["status"] == 400 and problem["code"] == "malformed_request"


@pytest.mark.parametrize(
    ("first", "more"),
    [
        (b"GET /", b"x" * 4096),
        (b"GET /x HTTP/1.1\r\na: ", b"x" * 4096),
        (b"GET /x HTTP/1.1\r\n", b"a: x\r\n" * 700),
        (CHUNKED + b"1;", b"x" * 4096),
        (CHUNKED + b"1\r\nx\r\n0\r\n", b"a: x\r\n" * 700),
        (CHUNKED + b"1\r\nx\r\n0\r\na: ", b"x" * 4096),
    ],
    ids=["line", "header", "headers", "chunk", "trailers", "trailer"],
)
async def test_what_precedes_or_follows_a_body_has_a_limit(first: bytes, more: bytes) -> None:
    # Where it was closed with something unread, the answer may be lost on its way.
    async with served() as open_:
        assert (await answered(open_, first, *[more] * (2 + HEAD_MAX // len(more))))[:13] in (b"HTTP/1.1 400 ", b"")


async def test_a_body_has_no_limit_of_the_connection_s() -> None:
    body = b"x" * (4 * HEAD_MAX)
    whole = b"POST /x HTTP/1.1\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
    chunked = [CHUNKED.replace(b"host: a", b"connection: close"), *[b"1\r\nx\r\n" * 1000] * 8, b"0\r\n\r\n"]
    async with served() as open_:
        first, second = [await answered(open_, whole), await answered(open_, *chunked)]
    assert first.endswith(b'{"took":%d}' % len(body)) and second.endswith(b'{"took":8000}')


async def test_many_requests_before_an_answer_end_the_connection() -> None:
    """The parser would take each of them for a request to keep: 18 bytes become some thousand."""
    one, last = b"GET /slow HTTP/1.1\r\n\r\n", b"GET /none HTTP/1.1\r\nconnection: close\r\n\r\n"
    async with served() as open_:
        few = asyncio.create_task(answered(open_, one + last))
        many, few = await answered(open_, one * (WAITING_MAX + 2)), await few
    assert many.startswith(b"HTTP/1.1 400 ")
    assert few.startswith(b"HTTP/1.1 200 ") and b"HTTP/1.1 404 " in few


@pytest.mark.parametrize("part", [b"G", b"\r\n", b"GET /x HTTP/1.1\r\na: b"])
async def test_a_part_of_a_further_request_keeps_no_connection(monkeypatch: pytest.MonkeyPatch, part: bytes) -> None:
    """Else some thousand of them would keep everybody else out for as long as they like."""
    monkeypatch.setattr(service, "KEPT_S", 0.3)
    one = b"GET /none HTTP/1.1\r\nhost: a\r\n\r\n"
    async with served() as open_:
        assert (await answered(open_, one, part)).count(b"HTTP/1.1 404 ") == 1


async def test_a_connection_is_kept_between_requests_and_for_as_long_as_one_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(service, "KEPT_S", 0.4)
    slow, last = b"GET /slow HTTP/1.1\r\nhost: a\r\n\r\n", b"GET /none HTTP/1.1\r\nconnection: close\r\n\r\n"
    async with served() as open_:
        told = await answered(open_, slow[:20], slow[20:], b"", slow[:20], slow[20:] + last)
    assert told.count(b"HTTP/1.1 200 ") == 2 and told.count(b"HTTP/1.1 404 ") == 1


async def test_who_reads_nothing_of_an_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that hangs, and whose kernel keeps the connection: its place among the streams would be taken for ever.
    One that reads slowly is waited for."""
    monkeypatch.setattr(connection, "STUCK_S", 1.0)
    ended = dict[str, asyncio.Event]()
    app = FastAPI()

    @app.get("/{who}")
    async def stream(who: str) -> StreamingResponse:
        ended[who] = asyncio.Event()

        async def parts() -> AsyncIterator[bytes]:
            try:
                while True:
                    yield b"x" * 65536
                    await asyncio.sleep(0)
            finally:
                ended[who].set()

        return StreamingResponse(parts())

    server = HttpServer(app, listen("127.0.0.1:0"))
    await server.start()
    host, _, port = server.address.rpartition(":")
    opened = []
    try:
        for who in (b"hangs", b"reads"):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"GET /" + who + b" HTTP/1.1\r\nhost: a\r\n\r\n")
            opened.append((reader, writer))
        async with asyncio.timeout(60):
            while "hangs" not in ended or not ended["hangs"].is_set():
                assert await opened[1][0].read(1 << 20)
                await asyncio.sleep(0.05)
        assert not ended["reads"].is_set()
    finally:
        for _, writer in opened:
            writer.transport.abort()
        await server.stop()
