"""What the services say of options, addresses, answers and stores that cannot be: each error names the thing."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import socket
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, Response
from fastapi.responses import StreamingResponse

from datacast.fabric_manager import main as fabric_manager
from datacast.fabric_manager import site_groups
from datacast.fabric_manager.keys import SITE_GROUPS, Kept, packed
from datacast.fabric_manager.record import load
from datacast.services import config_file, daemon, service
from datacast.services.framing import FRAME_MAX, FramingError, encode, read
from datacast.services.problems import NO_LEADER, JsonClient, Problem, Unreachable, UrlError, http_client
from datacast.services.service import HttpServer, ListenError, install_problem_handlers, listen, validation_problem
from datacast.services.store import Entry, StoreError, open_store
from datacast.services.tls import PLAIN


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="tried")
    made.add_argument("--listen")
    made.add_argument("--rate", type=int)
    made.add_argument("--site", action="append", default=[])
    made.add_argument("--quiet", action="store_true")
    return made


def test_text_of_others_makes_no_lines_of_its_own_in_the_log() -> None:
    try:
        raise OSError("disk")
    except OSError:
        told = ("h0:/srv/a\n2026-01-01 00:00:00 datacast ERROR all is lost\x1b[2J",)
        record = logging.LogRecord("datacast", logging.WARNING, "", 0, "group %s", told, sys.exc_info())
    first, *traceback = daemon.Line("%(levelname)s %(message)s").format(record).splitlines()
    assert first == "WARNING group h0:/srv/a\\x0a2026-01-01 00:00:00 datacast ERROR all is lost\\x1b[2J"
    assert traceback[0] == "Traceback (most recent call last):" and traceback[-1] == "OSError: disk"


def test_options_from_a_file_come_before_those_of_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "tried.yaml"
    file.write_text("listen: 127.0.0.1:1\nrate: 3\nsite: [a, b]\nquiet: true\n")
    args = config_file.parse_args(parser(), ["--config", str(file), "--rate", "4", "--site", "c"])
    assert (args.listen, args.rate, args.site, args.quiet) == ("127.0.0.1:1", 4, ["a", "b", "c"], True)
    file.write_text("quiet: false\n")
    assert not config_file.parse_args(parser(), ["--config", str(file)]).quiet
    file.write_text("# nothing\n")
    assert config_file.parse_args(parser(), ["--config", str(file)]).rate is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- listen\n", "wanted lines such as"),
        ("lissen: x\n", "there is no option 'lissen'"),
        ("quiet: yes please\n", "quiet: wanted true or false"),
        ("listen: true\n", "listen: wanted a value or a list of them"),
        ("listen: {a: 1}\n", "listen: wanted a value or a list of them"),
        ("listen: [\n", "while parsing"),
        ("rate: many\n", "invalid int value"),
        ("#" * (config_file.BYTES_MAX + 1), "is longer than 1048576 bytes"),
    ],
)
def test_a_file_of_options_that_makes_no_sense_is_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, words: str
) -> None:
    file = tmp_path / "tried.yaml"
    file.write_text(text)
    with pytest.raises(SystemExit) as ended:
        config_file.parse_args(parser(), ["--config", str(file)])
    told = capsys.readouterr().err
    assert ended.value.code == 2 and words in told and ("rate" in words or str(file) in told or "int" in words), told


def test_a_file_of_options_that_is_absent_or_comes_late_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    for argv, words in [
        (["--config", "/absent.yaml"], "/absent.yaml"),
        (["--quiet", "--config", "x"], "as the first option"),
    ]:
        with pytest.raises(SystemExit):
            config_file.parse_args(parser(), argv)
        assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    "wrong",
    [
        ["--mtu", "255"],
        ["--mtu", "65536"],
        ["--queue-packets", "7"],
        ["--groups", "0"],
        ["--groups", "65537"],
        ["--host-groups", "0"],
        ["--workers", "65"],
        ["--realtime", "100"],
        ["--heartbeat-ms", "49"],
        ["--heartbeat-ms", "60001"],
    ],
)
def test_a_fabric_manager_s_option_out_of_its_range_is_named(
    capsys: pytest.CaptureFixture[str], wrong: list[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        fabric_manager.arguments(["--topology", "bcube:4,1", *wrong])
    assert ended.value.code == 2
    assert f"{' '.join(wrong)}: must be" in capsys.readouterr().err


@pytest.mark.parametrize("address", ["7580", ":7580", "host:", "host:http", "127.0.0.1:65536", "127.0.0.1:-1"])
def test_what_is_no_address_is_not_listened_on(address: str) -> None:
    with pytest.raises(ListenError, match="give host:port or unix:/path"):
        listen(address)


def test_an_address_that_is_taken_or_not_ours_is_named_with_a_remedy() -> None:
    with listen("127.0.0.1:0") as first:
        port = first.getsockname()[1]
        with pytest.raises(ListenError, match=rf"127\.0\.0\.1:{port}.*another process listens there"):
            listen(f"127.0.0.1:{port}")
    with pytest.raises(ListenError, match=r"198\.51\.100\.1:0"):
        listen("198.51.100.1:0")


def test_a_socket_that_a_killed_process_left_is_taken_over_and_one_in_use_is_not(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with listen(f"unix:{path}"), pytest.raises(ListenError, match="another process listens there"):
        listen(f"unix:{path}")
    assert path.is_socket(), "left behind"
    with listen(f"unix:{path}"), socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        assert path.stat().st_mode & 0o777 == 0o600


def test_a_socket_is_its_users_alone_from_its_first_moment_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, modes = tmp_path / "s", list[int]()

    class Watched(socket.socket):
        def bind(self, address: Any) -> None:
            super().bind(address)
            modes.append(path.stat().st_mode & 0o777)

    monkeypatch.setattr(socket, "socket", Watched)
    before = os.umask(0)
    try:
        listen(f"unix:{path}").close()
        assert modes == [0o600] and os.umask(0) == 0
    finally:
        os.umask(before)


def test_a_socket_of_a_process_that_hangs_is_in_use(tmp_path: Path) -> None:
    """It takes nobody in, and who wants to come in waits."""
    path, ended = tmp_path / "s", list[str]()

    def second() -> None:
        try:
            listen(f"unix:{path}").close()
        except ListenError as error:
            ended.append(str(error))

    with socket.socket(socket.AF_UNIX) as hangs, ExitStack() as stack:
        hangs.bind(str(path))
        hangs.listen(0)
        with contextlib.suppress(BlockingIOError):
            while True:
                client = stack.enter_context(socket.socket(socket.AF_UNIX))
                client.setblocking(False)
                client.connect(str(path))
        starts = threading.Thread(target=second, daemon=True)
        starts.start()
        starts.join(60)
        assert not starts.is_alive() and "another process listens there" in ended[0]


@pytest.mark.parametrize(
    ("url", "code", "words"),
    [
        ("ftp://x", "bad_url", "give http://host:port"),
        ("x:1", "bad_url", "is no address of a thing"),
        ("http://127.0.0.1:99999", "bad_url", "is no address of a thing"),
        ("https://a..b:1", "bad_url", "is no address of a thing"),
        ("https://x:1", "tls", "needs a certificate"),
        ("http://198.51.100.1:1", "tls", "198.51.100.1:1"),
    ],
)
def test_a_service_is_not_asked_at_what_is_no_address_nor_in_clear(url: str, code: str, words: str) -> None:
    with pytest.raises(UrlError) as refused:
        http_client(url, timeout=1.0, service="thing", security=PLAIN, role="")
    assert refused.value.code == code and words in f"{refused.value.message} {refused.value.remedy}"


def test_a_service_whose_other_side_has_no_address_ends_as_with_wrong_options(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def begins() -> None:
        JsonClient("nonsense")

    with pytest.raises(SystemExit) as ended:
        daemon.run("tried", begins(), False)
    assert ended.value.code == 2 and "is no address" in capsys.readouterr().err


@asynccontextmanager
async def served(*apps: FastAPI) -> AsyncIterator[list[HttpServer]]:
    servers = [HttpServer(app, listen("127.0.0.1:0")) for app in apps]
    for app, server in zip(apps, servers, strict=True):
        install_problem_handlers(app)
        await server.start()
    try:
        yield servers
    finally:
        for server in servers:
            await server.stop()


def url_of(server: HttpServer) -> str:
    return f"http://{server.address}"


async def test_a_mistake_of_a_service_is_a_problem_and_in_the_log(capfd: pytest.CaptureFixture[str]) -> None:
    app = FastAPI()

    @app.get("/broken")
    async def broken() -> None:
        raise KeyError("a mistake")

    async with served(app) as (server,), JsonClient(url_of(server)) as client:
        with pytest.raises(Problem) as caught:
            await client.request("GET", "/broken")
        problem = caught.value
    assert (problem.status, problem.code, problem.what) == (500, "internal", "/broken")
    assert "KeyError: 'a mistake'" in capfd.readouterr().err


async def test_who_waits_for_an_answer_when_the_service_ends_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "GRACE_S", 0.1)
    app, begun = FastAPI(), asyncio.Event()

    @app.get("/long")
    async def long() -> None:
        begun.set()
        await asyncio.Event().wait()

    async with served(app) as (server,), JsonClient(url_of(server)) as client:
        asked = asyncio.create_task(client.request("GET", "/long"))
        await begun.wait()
        await server.stop()
        with pytest.raises(Problem) as caught:
            await asked
        problem = caught.value
    assert (problem.status, problem.code) == (503, "ending"), problem


async def test_answers_of_something_that_is_none_of_our_services_are_problems() -> None:
    app = FastAPI()
    app.get("/text")(lambda: Response("<html>", status_code=502))
    app.get("/list")(lambda: Response("[1]", status_code=500))
    app.get("/odd")(lambda: Response('{"code": 7}', status_code=400))
    app.get("/page")(lambda: Response("<h1>Not Found</h1>", status_code=404))
    app.get("/other")(lambda: Response('{"detail": "Not Found"}', status_code=404))
    none = (502, "bad_answer")  # another's 404 says nothing of a group
    async with served(app) as [server], JsonClient(url_of(server)) as client:
        found = []
        for path in ("/text", "/list", "/odd", "/absent", "/page", "/other"):
            with pytest.raises(Problem) as plain:
                await client.request("GET", path)
            with pytest.raises(Problem) as stream:
                await anext(client.texts(path))
            assert plain.value.to_json() == stream.value.to_json(), path
            found.append((plain.value.status, plain.value.code))
            if plain.value.code == "bad_answer":
                assert url_of(server) in plain.value.message and "not as Datacast does" in plain.value.message
    assert found == [none, none, (400, "7"), (404, "not_found"), none, none]


async def test_of_two_services_the_one_that_leads_is_asked() -> None:
    """One that follows names the other, or says only that it does not lead; one that is gone is passed over."""
    asked: list[str] = []
    leads, follows, waits = FastAPI(), FastAPI(), FastAPI()

    @leads.api_route("/x", methods=["GET", "POST"])
    async def there() -> dict[str, int]:
        asked.append("leads")
        return {"n": 1}

    @waits.api_route("/x", methods=["GET", "POST"])
    async def no_leader() -> None:
        asked.append("waits")
        raise Problem(503, NO_LEADER, "it does not lead", what="waits")

    async with served(leads, follows, waits) as [leader, follower, waiter]:

        @follows.api_route("/x", methods=["GET", "POST"])
        async def elsewhere() -> Response:
            asked.append("follows")
            return Response(status_code=307, headers={"location": url_of(leader) + "/x"})

        for method in ("GET", "POST"):
            for first in (follower, waiter):
                async with JsonClient(f"{url_of(first)},{url_of(leader)}") as client:
                    assert await client.request(method, "/x") == {"n": 1}
                    assert client.url == url_of(leader)
        async with JsonClient(f"{url_of(follower)},{url_of(leader)}") as client:
            assert await anext(client.texts("/x")) == '{"n":1}' and client.url == url_of(leader)
        async with JsonClient(f"{url_of(waiter)},{url_of(leader)}") as client:
            with pytest.raises(Problem, match="it does not lead"):
                await anext(client.texts("/x"))
            assert client.url == url_of(leader)
        async with JsonClient(f"{url_of(follower)},{url_of(waiter)}") as client:
            with pytest.raises(Unreachable):
                await client.request("GET", "/x")
    async with JsonClient(f"{url_of(leader)},{url_of(waiter)}") as client:
        with pytest.raises(Unreachable) as gone:
            await client.request("POST", "/x")
        with pytest.raises(Unreachable) as stream:
            await anext(client.texts("/x"))
    gone, stream = gone.value, stream.value
    assert gone.refused and stream.refused and gone.code == "unreachable"
    assert asked[:4] == ["follows", "leads", "waits", "leads"]


async def test_those_that_hear_at_once_that_a_service_is_gone_go_to_the_next_one_together() -> None:
    """A worker has two streams and asks besides, all by one client: were each to move it on by one, it would pass by
    the one that leads now, and come back to the one that is gone."""
    app = FastAPI()
    ends = asyncio.Event()

    @app.get("/x")
    async def lines() -> StreamingResponse:
        async def texts() -> AsyncIterator[str]:
            yield "there\n"
            await ends.wait()
            raise OSError("it dies")

        return StreamingResponse(texts())

    async with served(FastAPI()) as [gone]:
        nobody = url_of(gone)
    async with served(app, app) as servers:
        urls = [nobody, *map(url_of, servers)]
        async with JsonClient(",".join(urls)) as client:
            streams = [client.texts("/x") for _ in range(3)]
            assert [*await asyncio.gather(*map(anext, streams))] == ["there"] * 3
            assert client.url == urls[1]
            ends.set()
            ended = await asyncio.gather(*map(anext, streams), return_exceptions=True)
            assert [type(one) for one in ended] == [Unreachable] * 3 and urls[1] in str(ended[2])
            assert client.url == urls[2]


async def test_a_frame_that_is_too_long_or_cut_off_is_an_error() -> None:
    with pytest.raises(FramingError, match=f"exceeds the limit of {FRAME_MAX}"):
        encode({"type": "x", "data": "0" * FRAME_MAX})

    async def taken(data: bytes):
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        reader.feed_eof()
        return await read(reader)

    whole = encode({"type": "x"})
    assert await taken(whole) == {"type": "x"} and await taken(b"") is None
    for cut in (1, 3, 5, len(whole) - 1):
        with pytest.raises(FramingError, match="ended inside a frame"):
            await taken(whole[:cut])
    with pytest.raises(FramingError, match="exceeds the limit"):
        await taken(b"\xff\xff\xff\xff")
    with pytest.raises(FramingError, match="not JSON"):
        await taken(len(nan := b'{"type": "x", "n": NaN}').to_bytes(4, "big") + nan)


@pytest.mark.parametrize("damaged", ["zlib:", "zlib:AAAA", "zlib:!", "zlib:é"])
def test_a_packed_record_that_was_damaged_is_an_error_of_the_store(damaged: str) -> None:
    with pytest.raises(StoreError, match="not packed here"):
        site_groups.SiteGroups(Kept(None)).begin([Entry(SITE_GROUPS + "g-1", damaged, 1)])  # type: ignore[arg-type]
    with pytest.raises(StoreError, match="not packed here"):
        load(damaged)
    with pytest.raises(StoreError, match="no group's record"):
        load("{")


async def test_records_of_groups_of_several_sites_are_bounded_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site_groups, "KEPT_MAX", 2)
    long = ", ".join(f"site/host-{number}" for number in range(100_000))  # more than the store takes of a value
    store = open_store(str(tmp_path / "d.sqlite"))
    records = site_groups.SiteGroups(Kept(store))
    records.begin([])
    codes = []

    async def refused(work) -> None:
        with pytest.raises(Problem) as problem:
            await work
        codes.append((problem.value.status, problem.value.code))

    await records.put("g-1", "one")
    await records.put("g-2", "two")
    await records.put("g-1", long)
    again = site_groups.SiteGroups(Kept(store))
    again.begin(await store.list(""))
    assert again.all() == {"g-1": long, "g-2": "two"}
    await records.put("g-1", "uno")
    await refused(records.put("g-3", "three"))
    await refused(records.put("g-1", "x" * (site_groups.TEXT_MAX + 1)))
    await refused(records.delete("g-3"))
    other = site_groups.SiteGroups(Kept(store))
    other.begin(await store.list(""))
    assert other.all() == records.all() == {"g-1": "uno", "g-2": "two"}
    await other.put("g-1", "eins")
    await records.put("g-1", "un")  # whoever leads writes alone: it may have been a write whose answer was lost
    assert (await store.get(SITE_GROUPS + "g-1")).value == packed(b"un")
    await other.delete("g-1")
    assert other.all() == {"g-2": "two"}
    await store.close()
    assert codes == [
        (429, "too_many_groups"),
        (413, "too_large"),
        (404, "group_not_found"),
    ]


def test_a_body_that_is_not_there_is_named_as_such() -> None:
    missing = {"type": "missing", "msg": "Field required"}
    found = validation_problem([{**missing, "loc": ("body",)}, {**missing, "loc": ("body", "receivers")}])
    assert [field["field"] for field in found.fields] == ["body", "receivers"] and found.what == "body"


async def test_a_server_that_has_stopped_listens_no_more() -> None:
    server = HttpServer(FastAPI(), listen("127.0.0.1:0"))
    await server.start()
    host, _, port = server.address.rpartition(":")
    await server.stop()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(host, int(port))
