"""The services' HTTP client against a server that answers as it is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from datacast.services import asking
from datacast.services.asking import BrokenOffError, HttpClient, NotConnectedError
from datacast.services.eventloop import run


class Server:
    """Gives to each request the next of `answers`; None: closes the connection."""

    def __init__(self, *answers: bytes | None) -> None:
        self.answers, self.requests, self.connections = list(answers), list[bytes](), 0
        self.ends = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while self.answers:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next((line[15:] for line in head.split(b"\r\n") if line.startswith(b"content-length:")), b"0")
                self.requests.append(head + await reader.readexactly(int(length)))
                answer = self.answers.pop(0)
                if answer is None:
                    break
                writer.write(answer)
            else:
                await asyncio.wait(
                    [asyncio.create_task(reader.read()), asyncio.create_task(self.ends.wait())],
                    return_when="FIRST_COMPLETED",
                )
        except asyncio.IncompleteReadError:
            pass
        writer.close()


@asynccontextmanager
async def asked(*answers: bytes | None, patience: float = 60.0) -> AsyncIterator[tuple[HttpClient, Server]]:
    there = Server(*answers)
    server = await asyncio.start_server(there.serve, "127.0.0.1", 0)
    client = HttpClient(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", patience)
    try:
        yield client, there
    finally:
        await client.close()
        server.close()


async def told(client: HttpClient, method: str = "GET", path: str = "/", **more) -> tuple[int, bytes]:
    answer = await client.ask(method, path, **more)
    try:
        return answer.status, await answer.read()
    finally:
        answer.close()


def sized(body: bytes, more: bytes = b"") -> bytes:
    return b"HTTP/1.1 200 OK\r\n%scontent-length: %d\r\n\r\n%s" % (more, len(body), body)


def test_a_connection_is_asked_again_where_its_answer_was_read_to_the_end() -> None:
    chunked = b"HTTP/1.1 404 x\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"
    none = b"HTTP/1.1 204 No Content\r\n\r\n"
    ends = sized(b"x", b"connection: close\r\n")

    async def scenario():
        async with asked(sized(b"one"), chunked, none, ends, sized(b"ab") + sized(b"cd"), sized(b"ef")) as (
            client,
            there,
        ):
            return [(await told(client), there.connections) for _ in range(6)]

    assert run(scenario()) == [
        ((200, b"one"), 1), ((404, b"abc"), 1), ((204, b""), 1), ((200, b"x"), 1),
        ((200, b"ab"), 2), ((200, b"ef"), 3),
    ]  # fmt: skip


def test_an_answer_without_a_length_ends_with_its_connection() -> None:
    async def scenario():
        async with asked(b"HTTP/1.1 200 x\r\n\r\nto the end") as (client, there):
            answer = await client.ask("GET", "/")
            there.ends.set()
            return await answer.read()

    assert run(scenario()) == b"to the end"


def test_a_request_is_one_line_and_its_headers_whatever_is_asked_for() -> None:
    async def scenario():
        async with asked(*[sized(b"")] * 3) as (client, there):
            await told(client, path="/a b\r\nx: y/%20ü?", params={"n": 1, "of": ["p", "q&"]})
            await told(client, "POST", content=b"{}", headers={"x-by": "me"})
            with pytest.raises(NotConnectedError, match="cannot be sent"):
                await told(client, headers={"x-by": "me\r\nx-admin: yes"})
            await told(client, "POST")
            return there.requests

    first, second, third = run(scenario())
    assert first.startswith(b"GET /a%20b%0D%0Ax:%20y/%20%C3%BC%3F?n=1&of=p&of=q%26 HTTP/1.1\r\nhost: 127.0.0.1:")
    assert b"\r\nx-by: me\r\n" in second and second.endswith(b"content-length: 2\r\n\r\n{}")
    assert third.endswith(b"content-length: 0\r\n\r\n")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "closed before an answer"),
        (b"what?\r\n\r\n", "not HTTP"),
        (sized(b"abc")[:-1], "no answer within"),
        (b"HTTP/1.1 200 x\r\na: " + b"x" * asking.HEAD_MAX, "without end"),
    ],
)
def test_what_is_no_answer_may_have_been_carried_out(answer: bytes | None, words: str) -> None:
    async def scenario():
        async with asked(answer, patience=1.0) as (client, _):
            with pytest.raises(BrokenOffError, match=words):
                await told(client, "POST")
            with pytest.raises(OSError):
                await told(client, "POST")  # on another connection, where nobody answers any more

    run(scenario())


def test_where_nobody_listens_nothing_was_asked() -> None:
    async def scenario():
        async with asked() as (client, _):
            pass
        with pytest.raises(NotConnectedError, match="Connection refused") as refused:
            await told(client)
        return refused.value.__cause__

    assert isinstance(run(scenario()), ConnectionRefusedError)


def test_connections_are_limited_and_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "CONNECTIONS_MAX", 2)

    async def scenario():
        async with asked(*[sized(b"x")] * 9, patience=0.5) as (client, there):
            held = [await client.ask("GET", "/") for _ in range(2)]
            with pytest.raises(NotConnectedError, match="2 requests wait"):
                await told(client)
            held[0].close()  # unread: its connection goes
            assert await told(client) == (200, b"x") and await held[1].read() == b"x"
            held[1].close()
            held[1].close()
            await asyncio.gather(*(told(client) for _ in range(4)))
            return there.connections

    assert run(scenario()) == 3
