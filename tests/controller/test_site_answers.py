"""What another site answers is looked at: what it cannot mean is refused by name, one that stands still is given up."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from authority import Authority

from datacast.controller.sites import agents, patience
from datacast.controller.sites import peers as module
from datacast.controller.sites.directory import Directory
from datacast.controller.sites.peers import Peers
from datacast.controller.sites.records import Progress
from datacast.services import framing
from datacast.services.problems import Problem
from datacast.services.sites_file import SiteError
from datacast.services.tls import PLAIN, Identity

ID, ETAG = "s-0123456789abcdef", '"s-0123456789abcdef-1000"'
RANGE = {"content-range": "bytes 0-99/1000", "etag": ETAG}
Answer = Callable[[Peers], Awaitable[None]]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both sites are this process: without a processor each seems away to the other."""
    for limit in ("CONNECT_S", "HEAD_S"):
        monkeypatch.setattr(module, limit, 60.0)


def answer(status: int, body: bytes = b"", length: int | None = None, **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"content-length: {len(body) if length is None else length}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def ask(tmp_path: Path, answers: bytes, question: Answer, then: str = "close") -> int:
    """`question` of a site that answers so, whatever it is asked, and then closes the connection, stands still, says
    a letter now and then (`trickle`), or answers the next one so (`more`). How many connections it had."""
    came = 0
    ams, sfo = Authority(tmp_path / "ams"), Authority(tmp_path / "sfo")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*sfo.issue("controller/main"))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal came
        came, some = came + 1, b"some"
        while some:
            asked = b""
            while not asked.endswith(b"\r\n\r\n") and b"\r\n\r\n{" not in asked and (some := await reader.read(4096)):
                asked += some
            if asked or then != "more":
                writer.write(answers)
                await writer.drain()
            if then != "more":
                break
        while then == "trickle" and not writer.is_closing():
            writer.write(b" ")
            await asyncio.sleep(0.02)
        if then == "still":
            await reader.read()
        writer.close()

    async def run() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        file = tmp_path / "sites.yaml"
        row = {"ca": str(sfo.ca), "url": url}
        file.write_text(yaml.safe_dump({"name": "ams", "url": "https://127.0.0.1:1", "sites": {"sfo": row}}))
        identity = Identity(str(ams.ca), *ams.issue("controller/main"), "controller")
        peers = Peers(Directory(file, str(ams.ca)), identity)
        try:
            async with asyncio.timeout(60.0):
                await question(peers)
        finally:
            await peers.close()
            server.close()

    asyncio.run(run())
    return came


async def read(peers: Peers) -> bytes:
    return b"".join([chunk async for chunk in peers.stream("sfo", ID, 0, 99, ETAG)])


def refused(code: str, words: str) -> Answer:
    async def question(peers: Peers) -> None:
        with pytest.raises(SiteError, match=words) as caught:
            await read(peers)
        assert caught.value.code == code and caught.value.what == "sfo"

    return question


@pytest.mark.parametrize(
    ("answers", "code", "words"),
    [
        (answer(503), "not_yet", "has not got that yet"),
        (answer(429), "not_yet", "too much at once"),
        (answer(412), "changed", "has changed at site sfo"),
        (answer(416), "changed", "has changed"),
        (answer(404), "origin_denied", "does not offer"),
        (answer(500), "site_away", "answers 500"),
        (answer(302, location="https://127.0.0.1:1/"), "bad_answer", "answers 302"),
        (answer(200, bytes(100), **RANGE), "bad_answer", "answers 200"),
        (answer(206, bytes(100), **RANGE | {"content-range": "bytes 1-100/1000"}), "bad_answer", "other bytes"),
        (answer(206, bytes(100), **RANGE | {"etag": '"else"'}), "bad_answer", "other bytes"),
        (answer(206, bytes(101), **RANGE), "bad_answer", "more bytes"),
        (answer(206, bytes(50), **RANGE), "site_away", "breaks off"),
        (answer(206, bytes(50), 100, **RANGE), "site_away", "site sfo at https"),
    ],
)
def test_bytes_that_are_not_those_asked_for_are_refused(tmp_path: Path, answers: bytes, code: str, words: str):
    ask(tmp_path, answers, refused(code, words))


def test_connections_for_bytes_are_open_before_there_is_an_order(tmp_path: Path):
    """Those who then ask for bytes, all at once, open no others."""

    async def question(peers: Peers) -> None:
        for _ in range(2):
            with pytest.raises(SiteError, match="no JSON"):  # bytes are no orders
                await peers.orders("sfo")
            opening = peers.get("sfo").opening
            assert opening
            await opening
        assert await asyncio.gather(*(read(peers) for _ in range(module.OPEN))) == [bytes(100)] * module.OPEN

    assert ask(tmp_path, answer(206, bytes(100), **RANGE), question, "more") == module.OPEN + 1


def test_a_site_of_another_authority_has_one_connection_tried_and_not_nine(tmp_path: Path):
    """One that was not there when it was asked first has them with the next question."""

    wrong = ssl.SSLError(1, "another authority")
    wrong.reason = "CERTIFICATE_VERIFY_FAILED"

    async def question(peers: Peers) -> None:
        peer = peers.get("sfo")
        for error, other in ((OSError("nobody listens"), False), (wrong, True)):
            peers._failed(peer, error)
            peer.opening = None
            with pytest.raises(SiteError, match="no JSON"):
                await peers.orders("sfo")
            assert (peer.opening is None) == other
            if peer.opening:
                await peer.opening

    assert ask(tmp_path, answer(206, bytes(100), **RANGE), question, "more") == module.OPEN + 1


def test_bytes_come_as_they_are(tmp_path: Path):
    async def question(peers: Peers) -> None:
        assert await read(peers) == bytes(range(100)) and peers.get("sfo").there

    ask(tmp_path, answer(206, bytes(range(100)), **RANGE), question)


@pytest.mark.parametrize(
    ("status", "told", "rests"), [(429, "50", True), (503, "999999999", True), (503, "soon", False)]
)
def test_a_site_that_asks_for_a_rest_is_left_alone(tmp_path: Path, status: int, told: str, rests: bool):
    async def question(peers: Peers) -> None:
        with pytest.raises(SiteError, match=r"has not got that yet|too much at once"):
            await read(peers)
        with pytest.raises(SiteError, match="left alone" if rests else "has not got that yet") as caught:
            await read(peers)
        assert caught.value.code == "not_yet"  # its lines come again, and it is not taken to be away
        assert peers.get("sfo").rests - time.monotonic() <= 60.0
        peers.get("sfo").rests = 0.0
        with pytest.raises(SiteError, match=r"has not got that yet|too much at once"):
            await read(peers)

    ask(tmp_path, answer(status, retry_after=told), question)


@pytest.mark.parametrize("came", [b"", answer(206, bytes(50), 100, **RANGE)])
def test_a_site_that_stands_still_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, came: bytes):
    monkeypatch.setattr(patience, "TICK_S", 0.02)
    ask(tmp_path, came, refused("site_away", "it does not answer"), then="still")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"nonsense", "with no JSON"), (b"[" * 100_000, "with no JSON"), (b'{"orders": 3}', "orders what cannot be"),
        (b" " * 200_000, "with too much"),
    ],
)
def test_orders_that_cannot_be_read_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: bytes, words: str
):
    monkeypatch.setattr(module, "JSON_MAX", 150_000)

    async def question(peers: Peers) -> None:
        with pytest.raises(SiteError, match=words) as caught:
            await peers.orders("sfo")
        assert caught.value.code == "bad_answer"

    ask(tmp_path, answer(200, body), question)


def test_an_answer_that_trickles_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "JSON_S", 0.5)

    async def question(peers: Peers) -> None:
        with pytest.raises(SiteError, match="does not answer") as caught:
            await peers.orders("sfo")
        assert caught.value.code == "site_away"

    ask(tmp_path, answer(200, b"{", 100_000), question, "trickle")


async def test_a_host_that_crawls_holds_up_nobody_who_waits_for_a_connection_for_long(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(agents, "ANSWER_S", 60.0)
    monkeypatch.setattr(agents, "ROOM_S", 0.2)

    came = asyncio.Semaphore(0)

    async def says_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.release()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(says_nothing, "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def topology() -> SimpleNamespace:
        return SimpleNamespace(nodes=[SimpleNamespace(name="a0", registered=True, addr=address)])

    read = agents.Agents(SimpleNamespace(topology=topology), PLAIN).read
    async with asyncio.timeout(60.0):
        first = [asyncio.create_task(read("a0", agents.What(path="/x"), 0, 9)) for _ in range(agents.CONNECTIONS)]
        for _ in first:
            await came.acquire()
        with pytest.raises(SiteError, match="a0 has no time: others have read over all 4") as caught:
            await read("a0", agents.What(path="/x"), 0, 9)
        assert caught.value.code == "no_agent" and not any(task.done() for task in first)
    for task in first:
        task.cancel()
    await asyncio.gather(*first, return_exceptions=True)
    server.close()


async def test_a_connection_that_others_were_let_go_beside_is_read_over_again() -> None:
    """It was kept where nobody looked any more: never closed, and opened anew for the next read."""

    async def steps() -> int:
        there, again, both = list[int](), asyncio.Event(), asyncio.Barrier(2)

        async def agent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there.append(number := len(there))
            while (asked := await framing.read(reader)) is not None:
                if asked["off"] == 1 and number < 2:  # it has ended this one meanwhile
                    break
                if asked["off"] == 2:
                    await again.wait()
                if asked["off"] == 0:
                    await both.wait()
                told = {"type": "bytes", "n": 0, "size": 0, "mtime_ns": 0, "inode": 0}
                writer.write(framing.encode(told))
                if asked["off"] == 1:
                    again.set()
            writer.close()

        server = await asyncio.start_server(agent, "127.0.0.1", 0)
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"

        async def topology() -> SimpleNamespace:
            return SimpleNamespace(nodes=[SimpleNamespace(name="a0", registered=True, addr=address)])

        reads = agents.Agents(SimpleNamespace(topology=topology), PLAIN)  # type: ignore[arg-type]
        for offs in ((0, 0), (1, 2), (0, 0)):
            await asyncio.gather(*(reads.read("a0", agents.What(path="/x"), off, 9) for off in offs))
        reads.close()
        server.close()
        return len(there)

    async with asyncio.timeout(60.0):
        assert await steps() == 3


def test_a_report_that_cannot_be_read_is_refused(tmp_path: Path):
    async def question(peers: Peers) -> None:
        with pytest.raises(SiteError, match="tells what cannot be read"):
            await peers.held("sfo", ID, 0)

    ask(tmp_path, answer(200, json.dumps({"version": -1}).encode()), question)


def test_what_a_site_refuses_is_told_in_its_words(tmp_path: Path):
    async def question(peers: Peers) -> None:
        with pytest.raises(Problem, match="no part in it") as caught:
            await peers.tell("sfo", ID, Progress(state="done"))
        assert caught.value.status == 404 and caught.value.code == "group_not_found"

    problem = {"code": "group_not_found", "detail": "no part in it", "status": 404}
    ask(tmp_path, answer(404, json.dumps(problem).encode()), question)


def test_whose_a_certificate_is_is_remembered_until_the_file_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    ams, sfo = Authority(tmp_path / "ams"), Authority(tmp_path / "sfo")
    file = tmp_path / "sites.yaml"

    def write(*names: str) -> None:
        rows = {name: {"ca": str(sfo.ca), "url": f"https://{name}:1"} for name in names}
        file.write_text(yaml.safe_dump({"name": "ams", "url": "https://127.0.0.1:1", "sites": rows}))

    write("sfo")
    directory = Directory(file, str(ams.ca))
    shown = ssl.PEM_cert_to_DER_cert(Path(sfo.issue("controller/main")[0]).read_text())
    looked = []
    issued_by = Directory._issuer
    monkeypatch.setattr(Directory, "_issuer", lambda self, one: looked.append(one) or issued_by(self, one))
    assert [directory.whose(shown) for _ in range(3)] == ["sfo"] * 3 and len(looked) == 1
    write("oak")
    assert directory.look() and directory.whose(shown) == "oak"
    write()
    assert directory.look() and directory.whose(shown) is None
