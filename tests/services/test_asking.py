"""The services' HTTP client against a server that answers as it is told."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from authority import Authority

from datacast.services import blocking
from datacast.services.asking import FAILED, NOT_CONNECTED, HttpClient, cause_of, lines
from datacast.services.blocking import BlockingClient
from datacast.services.problems import JsonClient, Unreachable

pytestmark = [pytest.mark.uvloop, pytest.mark.uvloop]


class Server:
    """Gives to each request the next of `answers`; None: closes the connection."""

    def __init__(self, *answers: bytes | None) -> None:
        self.answers, self.requests, self.connections = list(answers), list[bytes](), 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                words = (line.lower() for line in head.split(b"\r\n"))
                length = next((line[15:] for line in words if line.startswith(b"content-length:")), b"0")
                self.requests.append(head + await reader.readexactly(int(length)))
                answer = self.answers.pop(0) if self.answers else None
                if answer is None:
                    break
                writer.write(answer)
        except (asyncio.IncompleteReadError, OSError):
            pass
        writer.close()


@asynccontextmanager
async def asked(*answers: bytes | None, timeout: float = 60.0) -> AsyncIterator[tuple[HttpClient, Server]]:
    there = Server(*answers)
    server = await asyncio.start_server(there.serve, "127.0.0.1", 0)
    client = HttpClient(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", timeout)
    try:
        yield client, there
    finally:
        await client.close()
        server.close()


async def told(client: HttpClient, method: str = "GET", path: str = "/", **more) -> tuple[int, bytes]:
    answer = await client.ask(method, path, **more)
    return answer.status, await answer.read()


def sized(body: bytes, more: bytes = b"") -> bytes:
    return b"HTTP/1.1 200 OK\r\n%scontent-length: %d\r\n\r\n%s" % (more, len(body), body)


async def test_a_connection_is_asked_again_where_its_answer_was_read_to_the_end() -> None:
    chunked = b"HTTP/1.1 404 x\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"
    ends = sized(b"x", b"connection: close\r\n")
    whole = [((200, b"one"), 1), ((404, b"abc"), 1), ((200, b"x"), 1), ((200, b"ab"), 2)]
    async with asked(sized(b"one"), chunked, ends, sized(b"ab"), sized(b"cd")) as (client, there):
        found = [(await told(client), there.connections) for _ in range(4)]
        (await client.ask("GET", "/")).close()
        assert (found, there.connections) == (whole, 2)


async def test_a_request_is_one_line_and_its_headers_whatever_is_asked_for() -> None:
    async with asked(*[sized(b"")] * 3) as (client, there):
        await told(client, path="/../a b\r\nx: y/%2F%20ü?", params={"n": 1, "of": ["p", "q&"]})
        await told(client, "POST", content=b"{}", headers={"x-by": "me"})
        with pytest.raises(ValueError):
            await told(client, headers={"x-by": "me\r\nx-admin: yes"})
        first, second = there.requests
    assert first.startswith(b"GET /../a%20b%0D%0Ax:%20y/%2F%20%C3%BC%3F?n=1&of=p&of=q%26 HTTP/1.1\r\nHost: 127.0.0.1:")
    assert b"\r\nx-by: me\r\n" in second and second.endswith(b"\r\n\r\n{}")
    assert b"cookie" not in second.lower() and b"encoding" not in second.lower()


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
async def test_what_may_have_been_carried_out_is_not_asked_for_again(method: str) -> None:
    """Over a kept connection that ends aiohttp repeats what should do no harm twice; to forget a group does."""
    async with asked(sized(b"x"), None) as (client, there):
        await told(client)
        with pytest.raises(FAILED) as failed:
            await told(client, method)
        assert not isinstance(failed.value, NOT_CONNECTED)
        assert len(there.requests) == 2


@pytest.mark.parametrize("answer", [b"what?\r\n\r\n", sized(b"abc")[:-1], b"HTTP/1.1 200 x\r\na: " + b"x" * 100_000])
async def test_what_is_no_answer_may_have_been_carried_out(answer: bytes) -> None:
    async with asked(answer, timeout=0.5) as (client, _):
        with pytest.raises(FAILED) as failed:
            await told(client, "POST")
        assert not isinstance(failed.value, NOT_CONNECTED)


async def _head_that_trickles(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A byte now and then is no silence."""
    writer.write(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nx: ")
    with contextlib.suppress(OSError):
        while not writer.is_closing():
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.02)


async def test_a_head_that_trickles_is_given_up() -> None:
    server = await asyncio.start_server(_head_that_trickles, "127.0.0.1", 0)
    url, given_up = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", []
    client, blocking = HttpClient(url, 0.5), BlockingClient(url, 0.5)

    def ask() -> None:
        with pytest.raises(TimeoutError, match="no answer within"), blocking.ask("GET", "/"):
            pass

    async with asyncio.timeout(60):
        with pytest.raises(FAILED):
            await client.ask("GET", "/")
        given_up.append("asking")
        await asyncio.to_thread(ask)
        given_up.append("blocking")
    await client.close()
    server.close()
    assert given_up == ["asking", "blocking"]


@pytest.mark.parametrize("head", ["content-length: 9999999", "transfer-encoding: chunked", "connection: close"])
async def test_an_answer_to_a_command_that_trickles_is_given_up(monkeypatch: pytest.MonkeyPatch, head: str) -> None:
    monkeypatch.setattr(blocking, "WHOLE_S", 0.5)

    async def trickles(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 200 OK\r\n{head}\r\n\r\n".encode())
        with contextlib.suppress(OSError):
            while not writer.is_closing():
                writer.write(b"1\r\nx\r\n")
                await writer.drain()
                await asyncio.sleep(0.02)

    server = await asyncio.start_server(trickles, "127.0.0.1", 0)
    client = BlockingClient(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", 5.0)

    def ask() -> None:
        with pytest.raises(TimeoutError, match=r"no whole answer within 0\.5 s"), client.ask("GET", "/") as answer:
            answer.read()

    async with asyncio.timeout(60):
        await asyncio.to_thread(ask)
    server.close()


async def test_what_follows_a_head_may_take_its_time() -> None:
    async def slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\n")
        for _ in range(12):
            await asyncio.sleep(0.25)
            writer.write(b"x")

    server = await asyncio.start_server(slowly, "127.0.0.1", 0)
    client = HttpClient(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", 2.0)
    try:
        assert await told(client) == (200, b"x" * 12)
    finally:
        await client.close()
        server.close()


async def test_where_nobody_listens_nothing_was_asked() -> None:
    async with asked() as (client, _):
        pass
    gone = HttpClient(client._base, 5.0)
    with pytest.raises(NOT_CONNECTED) as refused:
        await told(gone)
    await gone.close()
    assert isinstance(cause_of(refused.value), ConnectionRefusedError)


async def test_a_redirect_is_an_answer_and_a_cookie_is_not_kept() -> None:
    away = b"HTTP/1.1 307 x\r\nlocation: http://127.0.0.1:9/\r\nset-cookie: a=b\r\ncontent-length: 0\r\n\r\n"
    async with asked(away, sized(b"x")) as (client, there):
        assert (await told(client))[0] == 307
        await told(client)
        assert b"a=b" not in there.requests[1]


async def test_lines_of_a_stream_come_whole_and_of_any_length() -> None:
    parts = (b"a\n\n", b"b" * 300_000, b"c\nd\xc3", b"\xbc\nlast")
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
    async with asked(b"HTTP/1.1 200 x\r\ntransfer-encoding: chunked\r\n\r\n" + chunks) as (client, _):
        assert [line async for line in lines(await client.ask("GET", "/"))] == ["a", "b" * 300_000 + "c", "dü", "last"]


@pytest.mark.parametrize("head", [True, False])
async def test_whoever_gives_up_an_answer_takes_no_more_of_it(tmp_path: Path, head: bool) -> None:
    """TLS's own end of a connection reads, and throws away, until the other side has sent what it had begun to."""
    authority, answer = Authority(tmp_path), sized(bytes(16 << 20))
    left = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        if not head:
            asking.cancel()
        try:
            await writer.wait_closed()
            left.set_result(None)
        except OSError as error:
            left.set_result(error)

    trust, own = authority.context("agent/a"), authority.context("controller/a", server=True)
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=own)
    client = HttpClient(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}", 60.0, trust)
    asking = asyncio.create_task(client.ask("GET", "/"))
    with contextlib.suppress(asyncio.CancelledError):
        (await asking).close()
    try:
        assert isinstance(await asyncio.wait_for(left, 60.0), OSError), "the server has sent all of it"
    finally:
        await client.close()
        server.close()


@pytest.mark.parametrize("follower", [False, True], ids=["alone", "beside one that sends on to it"])
async def test_a_service_that_hangs_is_waited_for_once(follower: bool) -> None:
    """Whoever asks waits, too, and would take the one that asks on for gone."""
    asked, free = list[int](), asyncio.Event()

    async def says_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(1)
        await free.wait()
        writer.close()

    hangs = await asyncio.start_server(says_nothing, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{hangs.sockets[0].getsockname()[1]}"
    on = b"HTTP/1.1 307 Temporary Redirect\r\nlocation: " + url.encode() + b"/x\r\ncontent-length: 0\r\n\r\n"
    other = await asyncio.start_server(Server(*[on] * 9).serve, "127.0.0.1", 0)
    urls = [url, *([f"http://127.0.0.1:{other.sockets[0].getsockname()[1]}"] if follower else [])]
    async with JsonClient(",".join(urls), timeout=0.5) as client:
        with pytest.raises(Unreachable) as error:
            await client.request("GET", "/x")
    free.set()
    hangs.close()
    other.close()
    assert (len(asked), error.value.status) == (1, 503)
