"""The REST API's tokens: roles, revocation, limits, and what the controller refuses to be started as."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from commands import command
from small import star, until

from datacast.controller import access, app
from datacast.controller.api import ControllerClient
from datacast.controller.app import make_app
from datacast.controller.audit import Audit
from datacast.fabric_manager import streams
from datacast.fabric_manager.admission import Caps
from datacast.fabric_manager.api import FabricManagerClient
from datacast.services import tls, tokens
from datacast.services.problems import Problem
from datacast.services.service import HttpServer, listen
from lab import lab

ORDER = {"source": "h0", "receivers": ["h1"], "source_path": "/srv/file"}
REQUESTS = [
    ("GET", "/healthz", None, None),
    ("GET", "/openapi.json", None, None),
    ("GET", "/groups", None, "viewer"),
    ("GET", "/groups/g-1", None, "viewer"),
    ("GET", "/topology", None, "viewer"),
    ("GET", "/switches", None, "viewer"),
    ("GET", "/switches/s", None, "viewer"),
    ("GET", "/sets", None, "viewer"),
    ("GET", "/metrics", None, "viewer"),
    ("GET", "/nothing", None, "viewer"),
    ("POST", "/groups", {**ORDER, "source": "zz"}, "operator"),
    ("DELETE", "/groups/g-1", None, "operator"),
    ("POST", "/groups/g-1/cancel", None, "operator"),
    ("POST", "/plan", {**ORDER, "source": "zz"}, "viewer"),
    ("GET", "/hosts", None, "viewer"),
    ("PUT", "/hosts/zz/cordon", {"reason": ""}, "admin"),
    ("DELETE", "/hosts/zz/cordon", None, "admin"),
    ("POST", "/groups/g-1/resume", None, "operator"),
    ("POST", "/groups/g-1/receivers", {"host": "h1"}, "operator"),
    ("DELETE", "/groups/g-1/receivers/h1", None, "operator"),
    ("POST", "/healthz", None, "operator"),
    ("PUT", "/sets/a", {"hosts": ["zz"]}, "admin"),
    ("DELETE", "/sets/a", None, "admin"),
]


@contextlib.asynccontextmanager
async def guarded(url: str, path: Path | None, rate: float = 0):
    file = tokens.TokenFile(path) if path else None
    async with FabricManagerClient(url) as client:
        transport = httpx.ASGITransport(app=make_app(client, tokens=file, rate=rate))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost:7580") as http:
            yield http


def bearer(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


async def test_each_role_gets_what_is_its_own_and_nobody_else_anything(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    given = {role: tokens.create(path, role, role)[1] for role in tokens.ROLES}
    expired = tokens.create(path, "old", "admin", days=-1)[1]
    async with lab(star(2)) as it, guarded(it.manager.url, path) as http:
        for method, where, body, needed in REQUESTS:
            for wrong in ({}, bearer("dct_wrong"), bearer(expired), {"authorization": "Basic eDp5"}, bearer("")):
                answer = await http.request(method, where, json=body, headers=wrong)
                if needed is None:
                    assert answer.status_code == (401 if wrong and wrong != bearer("") else 200), (method, where)
                    continue
                problem = answer.json()
                assert (answer.status_code, problem["code"]) == (401, "unauthorized"), (method, where, wrong)
                assert answer.headers["www-authenticate"].startswith("Bearer") and "TOKEN" in problem["remedy"]
            for role, secret in given.items():
                answer = await http.request(method, where, json=body, headers=bearer(secret))
                enough = needed is None or tokens.ROLES.index(role) >= tokens.ROLES.index(needed)
                assert (answer.status_code == 403) is not enough, (role, method, where, answer.text)
                assert answer.status_code not in (401, 500)
                if not enough:
                    assert needed in answer.json()["remedy"] and answer.json()["code"] == "forbidden"


async def test_every_route_that_openapi_names_takes_a_token(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    tokens.create(path, "x", "viewer")
    async with guarded("http://127.0.0.1:9", path) as http:
        api = (await http.get("/openapi.json")).json()
        for where, methods in api["paths"].items():
            for method in methods:
                answer = await http.request(method.upper(), where)
                assert where in access.OPEN or answer.status_code == 401, (method, where)
    (scheme,) = api["components"]["securitySchemes"].values()
    assert (scheme["type"], scheme["scheme"]) == ("http", "bearer")
    for where, methods in api["paths"].items():
        for method, operation in methods.items():
            assert operation["security"], (method, where)
            assert ({} in operation["security"]) is (where in access.OPEN)
            assert {"401", "403", "429"} <= set(operation["responses"]), (method, where)


async def test_a_revoked_token_ends_at_once_and_a_bad_file_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    first, secret = tokens.create(path, "a", "viewer")
    async with lab(star(2)) as it, guarded(it.manager.url, path) as http:
        assert (await http.get("/groups", headers=bearer(secret))).status_code == 200
        _, later = tokens.create(path, "b", "viewer")
        assert (await http.get("/groups", headers=bearer(later))).status_code == 200
        tokens.revoke(path, first.id)
        assert (await http.get("/groups", headers=bearer(secret))).status_code == 401
        path.write_text("{")
        assert (await http.get("/groups", headers=bearer(later))).status_code == 200
        path.unlink()
        assert (await http.get("/groups", headers=bearer(later))).status_code == 200


async def test_a_stream_ends_with_its_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever took a token has listened already when it is revoked."""
    monkeypatch.setattr(streams, "PING_S", 0.05)
    monkeypatch.setattr(app, "LOOK_S", 0.0)
    path = tmp_path / "tokens.json"
    (first, secret), (_, other) = (tokens.create(path, name, "viewer") for name in "ab")
    async with (
        lab(star(2)) as it,
        FabricManagerClient(it.manager.url) as client,
        contextlib.AsyncExitStack() as stack,
    ):
        server = HttpServer(app.make_app(client, tokens=tokens.TokenFile(path)), listen("127.0.0.1:0"))
        await server.start()
        stack.push_async_callback(server.stop)
        http = await stack.enter_async_context(httpx.AsyncClient(timeout=60))
        lines = []
        for one in (secret, other):
            answer = http.stream("GET", f"{server.url}/events", headers=bearer(one))
            lines.append((await stack.enter_async_context(answer)).aiter_lines())
        while await anext(lines[0]) != ": ping":
            pass
        tokens.revoke(path, first.id)
        told = [line async for line in lines[0]]
        assert "event: error" in told and '"status": 401' in told[-2], told
        while await anext(lines[1]) != ": ping":
            pass
        client.end_streams()


async def test_without_tokens_no_web_page_gives_orders() -> None:
    async with lab(star(2)) as it, guarded(it.manager.url, None) as http:
        for good in ({}, {"host": "127.0.0.1:7580"}, {"host": "[::1]:7580"}, {"origin": "http://localhost:7580"}):
            assert (await http.get("/groups", headers=good)).status_code == 200, good
        strange = ("https://evil.example", "null", "http://[")
        for bad in ({"host": "evil.example"}, *({"origin": origin} for origin in strange)):
            answer = await http.get("/groups", headers=bad)
            assert answer.status_code == 403 and "--tokens" in answer.json()["remedy"], bad


async def test_bodies_and_rates_have_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tokens.json"
    secrets = [tokens.create(path, name, "operator")[1] for name in "ab"]

    async def slow():
        yield b"{"
        await asyncio.sleep(60)

    async def chunks():
        for _ in range(3):
            yield b" " * (access.BODY_MAX // 2)

    async with lab(star(2)) as it, guarded(it.manager.url, path, rate=2) as http:
        first, second = (bearer(secret) for secret in secrets)
        for content in (b" " * (access.BODY_MAX + 1), chunks()):
            answer = await http.post("/groups", content=content, headers=first)
            assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
        monkeypatch.setattr(access, "BODY_S", 0.05)
        answer = await http.post("/groups", content=slow(), headers=first)
        assert (answer.status_code, answer.json()["code"]) == (408, "timeout")
        monkeypatch.undo()
        # At once: one after another they take longer on a full machine than the rate allows for.
        answers = await asyncio.gather(*(http.get("/groups", headers=first) for _ in range(20)))
        late = [answer for answer in answers if answer.status_code == 429]
        assert late and late[0].json()["code"] == "too_many_requests" and late[0].headers["retry-after"]
        assert (await http.get("/groups", headers=second)).status_code == 200, "one does not slow another"


@pytest.mark.parametrize("whole", [True, False])
async def test_what_breaks_off_before_it_is_whole_is_not_carried_out(whole: bool) -> None:
    """A host was cordoned for no reason, where the reason was still to come."""
    done, sent = [], []
    rest = {"type": "http.request", "body": b"", "more_body": False} if whole else {"type": "http.disconnect"}
    came = iter([{"type": "http.request", "body": b"", "more_body": True}, rest])

    async def route(scope: Any, receive: Any, send: Any) -> None:
        done.append(await receive())

    async def receive() -> Any:
        return next(came)

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "PUT", "path": "/hosts/h1/cordon", "headers": []}
    await access.Access(route)(scope, receive, send)
    assert len(done) == whole and bool(sent) is not whole


async def test_a_flood_without_tokens_takes_nothing_from_health_checks(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    tokens.create(path, "x", "viewer", None)
    async with lab(star(2)) as it, guarded(it.manager.url, path, rate=2) as http:
        flood = [(await http.get("/groups", headers=bearer("guess"))).status_code for _ in range(40)]
        assert set(flood) == {401, 429}
        assert (await http.get("/healthz")).status_code == 200


def test_a_bucket_fills_again() -> None:
    now = [0.0]
    bucket = access.Bucket(10, 2, lambda: now[0])
    assert [bucket.take() == 0 for _ in range(3)] == [True, True, False]
    now[0] = 0.1
    assert [bucket.take() == 0 for _ in range(2)] == [True, False]
    assert all(access.Bucket(0, 0).take() == 0 for _ in range(100))


async def test_groups_and_streams_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("datacast.controller.app.STREAMS_MAX", 1)
    async with lab(star(3), rates=[50.0]) as it, FabricManagerClient(it.manager.url) as client:
        it.manager.groups.admission.caps = Caps(groups=1)
        server = HttpServer(make_app(client), listen("127.0.0.1:0"), connections=8)
        await server.start()
        try:
            async with httpx.AsyncClient(base_url=server.url, timeout=60.0) as http:
                it.world.sizes["/srv/file"] = 50_000_000
                one = await http.post("/groups", json=ORDER)
                assert one.status_code == 201
                more = await http.post("/groups", json=ORDER)
                assert (more.status_code, more.json()["state"]) == (201, "queued"), "it can wait"
                async with http.stream("GET", "/events") as stream:
                    chunks = stream.aiter_bytes()  # one that nobody holds is closed, and the stream with it
                    await anext(chunks)
                    other = await http.get("/events")
                    assert (other.status_code, other.json()["code"]) == (429, "too_many_streams")
                await http.post(one.headers["location"] + "/cancel")
                await it.end(one.json())
                await until(lambda: it.manager.groups.get(more.json()["id"]).state == "running", "its turn")
                await http.post(more.headers["location"] + "/cancel")
                await it.end(more.json())
        finally:
            await server.stop()


async def test_streams_that_begin_at_once_have_a_limit_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """They count while the fabric manager is waited for, and no more when it has refused them."""
    monkeypatch.setattr("datacast.controller.app.STREAMS_MAX", 2)

    async def scenario() -> list[int]:
        late = asyncio.Event()

        async def events(*asked: object) -> AsyncIterator[str]:
            await late.wait()
            raise Problem(503, "unreachable", "no fabric manager")
            yield ""

        client = FabricManagerClient("http://127.0.0.1:1")
        monkeypatch.setattr(client, "events", events)
        server = HttpServer(make_app(client), listen("127.0.0.1:0"), connections=16)
        await server.start()
        try:
            async with httpx.AsyncClient(base_url=server.url, timeout=60.0) as http:
                first = [asyncio.create_task(http.get("/events")) for _ in range(6)]
                await until(lambda: sum(task.done() for task in first) == 4, "four are refused")
                late.set()
                told = sorted(answer.status_code for answer in await asyncio.gather(*first))
                return [*told, (await http.get("/events")).status_code]
        finally:
            await server.stop()

    assert await scenario() == [429] * 4 + [503] * 2 + [503]


async def test_connections_have_a_limit() -> None:
    async with lab(star(2)) as it, FabricManagerClient(it.manager.url) as client:
        server = HttpServer(make_app(client), listen("127.0.0.1:0"), connections=2)
        await server.start()
        host, _, port = server.address.rpartition(":")
        held = [await asyncio.open_connection(host, int(port)) for _ in range(2)]
        reader, writer = await asyncio.open_connection(host, int(port))
        assert await asyncio.wait_for(reader.read(), 60) == b""
        for _, one in held:
            one.close()
        writer.close()
        await server.stop()


async def test_a_connection_on_which_no_request_comes_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("datacast.services.connection.SILENCE_S", 0.3)
    async with lab(star(2)) as it, FabricManagerClient(it.manager.url) as client:
        server = HttpServer(make_app(client), listen("127.0.0.1:0"))
        await server.start()
        host, _, port = server.address.rpartition(":")
        for said in (b"", b"GET /healthz HTTP/1.1\r\nhost: "):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(said)
            assert await asyncio.wait_for(reader.read(), 60) == b""
            writer.close()
        await server.stop()


async def test_https_with_a_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from datacast.services.authority import Authority as Real
    from datacast.services.authority import Identity

    real = Real.create(tmp_path / "ca", sync=False)
    cert, key = real.issue(Identity.parse("controller/main"), ip=["127.0.0.1"])
    path = tmp_path / "tokens.json"
    _, secret = tokens.create(path, "x", "viewer")
    async with lab(star(2)) as it, FabricManagerClient(it.manager.url) as client:
        app = make_app(client, tokens=tokens.TokenFile(path))
        context = tls.https_context(str(cert), str(key))
        server = HttpServer(app, listen("127.0.0.1:0"), context)
        await server.start()

        def ask(url: str = server.url) -> list[Any]:
            with ControllerClient(url, token=secret) as asking:
                return asking.groups()

        try:
            assert server.url.startswith("https://")
            with pytest.raises(Problem, match="is not believed") as unknown:
                await asyncio.to_thread(ask)
            assert "$DATACAST_CA" in unknown.value.remedy
            monkeypatch.setenv("DATACAST_CA", str(real.ca))
            assert await asyncio.to_thread(ask) == []
            with pytest.raises(Problem, match="mismatch") as elsewhere:
                await asyncio.to_thread(ask, server.url.replace("127.0.0.1", "localhost"))
            assert "--dns or --ip" in elsewhere.value.remedy
            begin = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=2)
            who = Identity.parse("controller/main")
            context.load_cert_chain(*real.issue(who, ip=["127.0.0.1"], begin=begin, days=-1, stem=tmp_path / "old"))
            with pytest.raises(Problem, match="has expired") as ended:
                await asyncio.to_thread(ask)
            assert "`datacast certs renew DIR`" in ended.value.remedy
        finally:
            await server.stop()


async def test_the_commands_take_a_token_from_a_file_or_the_environment(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    secret = tokens.create(path, "me", "viewer")[1]
    (tmp_path / "token").write_text(secret + "\n")
    (tmp_path / "bad").write_text("two words")
    clean = {k: v for k, v in os.environ.items() if not k.startswith("DATACAST_")} | {"HOME": str(tmp_path)}

    async def datacast(url: str, *args: str, **environment: str) -> tuple[int, str]:
        words = (*args, "--controller", url)
        code, out, err = await asyncio.to_thread(command, *words, environment={**clean, **environment})
        return code, out + err

    async with lab(star(2)) as it, FabricManagerClient(it.manager.url) as client:
        app = make_app(client, tokens=tokens.TokenFile(path))
        server = HttpServer(app, listen("127.0.0.1:0"))
        await server.start()
        url = server.url
        try:
            code, text = await datacast(url, "groups", "--json")
            assert code == 2 and "no token was given" in text and "--token-file" in text
            assert (await datacast(url, "groups", "--json", "--token-file", str(tmp_path / "token")))[0] == 0
            assert (await datacast(url, "groups", "--json", DATACAST_TOKEN=secret))[0] == 0
            own = tmp_path / ".config" / "datacast" / "token"
            own.parent.mkdir(parents=True)
            own.write_text(secret)
            assert (await datacast(url, "groups", "--json"))[0] == 0
            code, text = await datacast(url, "cancel", "g-1")
            assert code == 2 and "takes the role operator" in text
            code, text = await datacast(url, "groups", "--token-file", str(tmp_path / "absent"))
            assert code == 2 and "cannot read" in text
            code, text = await datacast(url, "groups", "--token-file", str(tmp_path / "bad"))
            assert code == 2 and "holds spaces" in text
        finally:
            await server.stop()


def test_a_token_never_travels_in_clear() -> None:
    for there in ("192.0.2.1:7580", "127.0.0.1:7580@192.0.2.1"):  # of the second all in front of the @ is a user
        with pytest.raises(Problem, match="in clear"):
            ControllerClient(f"http://{there}", token="dct_x")
    ControllerClient("http://192.0.2.1:7580").close()
    ControllerClient("http://127.0.0.1:7580", token="dct_x").close()


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--listen", "0.0.0.0:0"], 2, "without --tokens is refused"),
        (["--listen", "0.0.0.0:0", "--insecure"], 2, "without --tokens is refused"),
        (["--listen", "0.0.0.0:0", "--tokens", "FILE"], 2, "without https is refused"),
        (["--tokens", "ABSENT"], 1, "cannot read"),
        (["--tokens", "BAD"], 1, "is no token file"),
        (["--tokens", "OPEN"], 1, "may be changed by others"),
        (["--rest-cert", "FILE"], 2, "belong together"),
        (["--rest-cert", "FILE", "--rest-key", "FILE"], 1, "is no PEM file"),
    ],
)
def test_the_controller_refuses_what_is_not_safe(tmp_path: Path, options: list[str], code: int, words: str) -> None:
    names = {name: str(tmp_path / name) for name in ("FILE", "ABSENT", "BAD", "OPEN")}
    tokens.create(Path(names["FILE"]), "x", "viewer")
    tokens.create(Path(names["OPEN"]), "x", "viewer")
    os.chmod(names["OPEN"], 0o666)
    Path(names["BAD"]).write_text('{"tokens": [{"id": "t-1", "role": "root"}]}')
    found, _, told = command(*(names.get(option, option) for option in options), module="controller")
    assert found == code and words in told, told


async def test_who_shows_no_token_sends_little(tmp_path: Path) -> None:
    """A thousand connections of anybody kept 2 MiB each in memory before anything was looked at."""
    path = tmp_path / "tokens.json"
    tokens.create(path, "x", "viewer")
    here = {"origin": "http://localhost:7580"}
    async with guarded("http://127.0.0.1:9", path) as http:
        for method, where in (("POST", "/console/session"), ("DELETE", "/console/session"), ("GET", "/")):
            content = b" " * (access.OPEN_BODY_MAX + 1)
            answer = await http.request(method, where, content=content, headers=here)
            assert (answer.status_code, answer.json()["code"]) == (413, "too_large"), where
            assert str(access.OPEN_BODY_MAX) in answer.json()["detail"]
        longest = {"token": "\u4e3b" * 512}
        assert (await http.post("/console/session", json=longest, headers=here)).status_code == 401


async def test_a_rate_below_one_in_five_seconds_lets_requests_through(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    tokens.create(path, "x", "viewer")
    async with guarded("http://127.0.0.1:9", path, rate=0.01) as http:
        assert [(await http.get("/openapi.json")).status_code for _ in range(2)] == [200, 429]


def test_no_token_travels_in_clear_however_its_scheme_is_written() -> None:
    for there in ("HTTP://192.0.2.1:7580", "hTTp://192.0.2.1:7580", "http://192.0.2.1:7580"):
        with pytest.raises(Problem, match="in clear"):
            ControllerClient(there, token="dct_x")
    ControllerClient("HTTP://127.0.0.1:7580", token="dct_x").close()


async def test_a_flood_without_tokens_leaves_few_lines(tmp_path: Path) -> None:
    """Each request without a token was a line, whatever the rate: a disk was full of them within the hour."""
    path = tmp_path / "tokens.json"
    _, secret = tokens.create(path, "x", "viewer")
    lines = tmp_path / "audit"
    async with FabricManagerClient("http://127.0.0.1:9") as client:
        it = app.make_app(client, tokens=tokens.TokenFile(path), rate=2, audit=Audit(lines))
        transport = httpx.ASGITransport(app=it)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost:7580") as http:
            flood = [(await http.post("/groups", headers=bearer("guess"))).status_code for _ in range(60)]
            known = [(await http.post("/groups", headers=bearer(secret))).status_code for _ in range(3)]
    told = [json.loads(line)["status"] for line in lines.read_text().splitlines()]
    assert 429 in flood and told == [*(status for status in flood if status != 429), *known]
