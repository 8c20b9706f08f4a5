"""TLS between the Python services: who gets in, who may say what, and what the log says of the others."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from authority import Authority, stranger
from commands import command
from small import star, until

from datacast.fabric_manager.api import FabricManagerClient
from datacast.master.signalling import Connection, SignallingError
from datacast.services import framing
from datacast.services.address import AddressError
from datacast.services.problems import Problem, Unreachable
from datacast.services.tls import Identity, Security, TlsError, is_local
from lab import lab


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls") / "authority")


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls") / "other")


WORDS = {
    "another-authority": "of another authority",
    "expired": "has expired",
    "not-yet": "is not valid yet",
    "wrong-role": "it is master/g",
    "no-identity": "names no role",
    "no-certificate": "it shows no certificate",
    "plain": "it does not speak TLS",
    "tls-1.2": "it does not speak TLS 1.3",
}


async def speak(address: str, context: ssl.SSLContext | None, message: bytes) -> bytes:
    """What a client hears that says this."""
    host, _, port = address.rpartition(":")
    with contextlib.suppress(OSError):
        reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
        try:
            writer.write(message)
            return await asyncio.wait_for(reader.read(), 60)
        finally:
            writer.close()
    return b""


@pytest.mark.parametrize("kind", WORDS)
async def test_the_registration_turns_strangers_away_and_the_log_says_why(
    authority: Authority, other: Authority, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    register = {"type": "register", "node": "h1", "kind": "host", "addr": "127.0.0.1:1"}
    with caplog.at_level(logging.INFO):
        async with lab(star(2), agents=["h0"], authority=authority) as it:
            context = stranger(authority, other, kind, "agent/h1", "master/g")
            heard = framing.Decoder().feed(
                await speak(it.manager.signalling_address, context, framing.encode(register))
                if kind != "plain"
                else await speak(it.manager.signalling_address, None, framing.encode(register)) and b""
            )
            assert all(m["type"] == "error" and m["code"] == "denied" for m in heard), heard
            await until(lambda: WORDS[kind] in caplog.text, f"a line about it in {caplog.text[-500:]}")
            assert not it.manager.fabric.nodes["h1"].registered and it.manager.fabric.nodes["h0"].registered


@pytest.mark.parametrize("kind", WORDS)
async def test_http_turns_strangers_away(
    authority: Authority, other: Authority, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with lab(star(2), agents=[], authority=authority) as it:
        context = stranger(authority, other, kind, "controller/c", "agent/h0")
        request = b"GET /topology HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
        heard = await speak(it.manager.url.removeprefix("https://"), context, request)
        if kind not in ("wrong-role", "no-identity"):
            await until(lambda: WORDS[kind] in caplog.text, f"a line about it in {caplog.text[-500:]}")
    if kind in ("wrong-role", "no-identity"):
        assert heard.startswith(b"HTTP/1.1 403 ") and b'"denied"' in heard and b'"nodes"' not in heard, heard
    else:
        assert b"HTTP" not in heard


REGISTRATIONS = [
    ("agent/h0", {"node": "h0", "kind": "host"}, True),
    ("agent/h1", {"node": "h0", "kind": "host"}, False),
    ("agent/h0,h1", {"node": "h1", "kind": "host"}, True),
    ("agent/s", {"node": "s", "kind": "switch"}, False),
    ("switch/s", {"node": "s", "kind": "switch"}, True),
    ("switch/other,s", {"node": "s", "kind": "switch"}, True),
    ("switch/other", {"node": "s", "kind": "switch"}, False),
    ("switch/s", {"node": "s", "kind": "switch", "proxy": True}, False),
    ("switch/h0", {"node": "h0", "kind": "host"}, False),
    ("controller/c", {"node": "s", "kind": "switch", "proxy": True}, True),
    ("controller/c", {"node": "s", "kind": "switch"}, False),
    ("controller/c", {"node": "h0", "kind": "host", "proxy": True}, False),
]


@pytest.mark.parametrize(("identity", "message", "good"), REGISTRATIONS)
async def test_a_process_registers_itself_only(
    authority: Authority, identity: str, message: dict[str, Any], good: bool
) -> None:
    async with lab(star(2), agents=[], authority=authority) as it:
        security = authority.security(identity)
        reader, writer = await security.connect(it.manager.signalling_address, "fabric-manager", "main")
        writer.write(framing.encode({"type": "register", "addr": "127.0.0.1:7600", **message}))
        answer = await framing.read(reader)
        writer.close()
        assert answer is not None
    if good:
        assert answer["type"] == "registered", answer
    else:
        assert (answer["type"], answer["code"]) == ("error", "denied") and identity in answer["error"], answer


REQUESTS: list[tuple[str, str, Any, set[str]]] = [
    ("GET", "/healthz", None, {"controller", "master"}),
    ("GET", "/topology", None, {"controller", "master"}),
    ("GET", "/groups", None, {"controller"}),
    ("GET", "/groups/g-1", None, {"controller"}),
    ("GET", "/groups/g-1/master", None, {"controller"}),
    ("POST", "/groups", {"source": "zz", "receivers": ["h1"], "source_path": "/f"}, {"controller"}),
    ("DELETE", "/groups/g-1", None, {"controller"}),
    ("POST", "/groups/g-1/resume", None, {"controller"}),
    ("POST", "/groups/g-1/receivers", {"host": "h1"}, {"controller"}),
    ("DELETE", "/groups/g-1/receivers/h1", None, {"controller"}),
    ("GET", "/workers/w/orders", None, {"master"}),
    ("POST", "/workers/w/reports", None, {"master"}),
    ("POST", "/workers/w/leave", None, {"master"}),
    ("POST", "/trees", {"count": 1}, {"master"}),
    ("GET", "/sets", None, {"controller"}),
    ("PUT", "/sets/a", {"hosts": ["h0"]}, {"controller"}),
    ("GET", "/sets/a", None, {"controller"}),
    ("DELETE", "/sets/a", None, {"controller"}),
]


async def test_over_http_each_role_asks_for_what_is_its_own(authority: Authority) -> None:
    async with lab(star(2), agents=[], authority=authority) as it:
        routes = [r for r in it.manager._front.app.routes if r.path != "/openapi.json"]
        assert len(routes) >= len(REQUESTS) and all(route.dependencies for route in routes), "none for everybody"
        for role in ("controller", "master", "agent", "switch", "fabric-manager"):
            verify = authority.context(f"{role}/x")
            asks = {"verify": verify, "trust_env": False, "timeout": 60.0}
            async with httpx.AsyncClient(base_url=it.manager.url, **asks) as http:
                for method, path, body, roles in REQUESTS:
                    answer = await http.request(method, path, json=body)
                    refused = answer.status_code == 403
                    assert refused is (role not in roles), (role, method, path, answer.text)
                    if refused:
                        assert answer.json()["code"] == "denied"


async def test_a_worker_speaks_for_its_own_groups_only(authority: Authority) -> None:
    async with lab(star(3), rates=[200.0], authority=authority) as it:
        group = await it.start("h0", ["h1", "h2"], 20_000_000)
        await it.running(group)
        async with FabricManagerClient(it.manager.url, security=authority.security("master/false")) as false:
            epoch = (await it.client.group(group["id"]))["epoch"]
            failed = {"group": group["id"], "epoch": epoch, "state": "failed", "progress": {}}
            false.lease = "0" * 32
            (answer,) = await false.report("test-0", [failed])
            assert answer.code == "stale"
            false.lease = ""
            with pytest.raises(Problem):
                await false.report("test-0", [failed])
        assert (await it.client.group(group["id"]))["state"] == "running"
        shown = await it.client.group(group["id"])
        assert "lease" not in shown, "who reads must not learn to speak for it"
        await it.client.cancel_group(group["id"])
        assert (await it.end(group))["state"] == "cancelled"


@pytest.mark.parametrize("processes", [False, True])
async def test_a_group_by_tls_from_order_to_done(authority: Authority, processes: bool) -> None:
    async with lab(star(4), authority=authority, processes=processes) as it:
        assert it.manager.url.startswith("https://")
        record = await it.end(await it.start("h0", ["h1", "h2", "h3"], 2_000_000))
    assert record["state"] == "done", record["error"]


async def test_a_master_says_nothing_to_a_false_agent(authority: Authority, other: Authority) -> None:
    heard: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read())
        writer.close()

    master = authority.security("master/main")
    for maker, identity, words in [
        (authority, "agent/h1", "it is agent/h1, expected is agent/h0"),
        (authority, "master/h0", "it is master/h0, expected is agent/h0"),
        (other, "agent/h0", "of another authority"),
    ]:
        context = maker.context(identity, server=True)
        context.load_verify_locations(authority.ca)
        server = await asyncio.start_server(listen, "127.0.0.1", 0, ssl=context)
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        connection = Connection(address, lambda event: None, name="h0", security=master)
        with pytest.raises(SignallingError, match=words):
            await connection.connect(5.0)
        server.close()
    assert not any(heard)


@pytest.mark.parametrize(
    ("identity", "days", "words", "remedy"),
    [
        ("controller/x", (-1, 30), "it is controller/x, expected is fabric-manager", "the one that is meant"),
        ("fabric-manager/x", (-9, -1), "its certificate has expired", "`datacast certs renew DIR`"),
    ],
)
async def test_a_client_says_nothing_to_a_false_fabric_manager(
    authority: Authority, identity: str, days: tuple[int, int], words: str, remedy: str
) -> None:
    heard: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read())
        writer.close()

    context = authority.context(identity, server=True, days=days)
    server = await asyncio.start_server(listen, "127.0.0.1", 0, ssl=context)
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with FabricManagerClient(url, security=authority.security("controller/c")) as client:
        with pytest.raises(Unreachable) as caught:
            await client.health()
    assert words in caught.value.message, caught.value.message
    assert remedy in caught.value.remedy and "start" not in caught.value.remedy, "it runs"
    server.close()
    assert not any(heard)


async def test_a_client_whose_own_certificate_has_expired_says_so(authority: Authority) -> None:
    """The other side, in Python, ends the connection and does not say why."""
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    security = authority.security("controller/c")
    assert security.identity
    async with FabricManagerClient(url, security=security) as client:
        with pytest.raises(Unreachable) as before:
            await client.health()
        security.identity.own = dataclasses.replace(security.identity.own, until=1.0)
        with pytest.raises(Unreachable) as after:
            await client.health()
        server.close()
        await server.wait_closed()
        with pytest.raises(Unreachable) as nobody:
            await client.health()
    assert "our own certificate" not in before.value.message and "our own certificate" not in nobody.value.message
    assert f"our own certificate {security.identity.files[1]} has expired" in after.value.message
    assert "`datacast certs renew DIR`" in after.value.remedy


async def test_a_handshake_that_fails_again_and_again_is_one_line(
    authority: Authority, other: Authority, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with caplog.at_level(logging.WARNING):
        async with lab(star(2), agents=[], authority=authority) as it:
            address = it.manager.signalling_address
            for _ in range(5):
                await speak(address, stranger(authority, other, "another-authority", "agent/h1", ""), b"x")
            await speak(address, None, b"what is no TLS is another reason")
            refused = it.manager.registry._acceptor
            await until(lambda: refused.refused == 6, "all of them")
            monkeypatch.setattr("datacast.services.acceptor.AGAIN_S", 0.0)
            await speak(address, stranger(authority, other, "another-authority", "agent/h1", ""), b"x")
            await until(lambda: refused.refused == 7, "one more")
    told = [row.getMessage() for row in caplog.records if "TLS with" in row.getMessage()]
    assert len(told) == 3 and "of another authority" in told[0] and "does not speak TLS" in told[1], told
    assert told[2].endswith("of another authority (4 times more since it was last told)")


@pytest.mark.parametrize("by", ["a service", "an agent"])
async def test_who_refuses_our_certificate_shows_in_our_log(
    authority: Authority, other: Authority, by: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A service says no more than that it breaks off; what is in C tells TLS why."""
    words = {"a service": "it broke off the handshake: if it", "an agent": "it refuses our certificate: of another"}
    with caplog.at_level(logging.INFO):
        async with lab(star(2), agents=[], authority=authority) as it:
            believes = Identity(str(other.ca), *other.issue("agent/h0"), "agent")
            if by == "a service":
                with pytest.raises(ssl.SSLCertVerificationError):
                    await Security(believes).connect(it.manager.signalling_address, "fabric-manager")
            else:
                host, _, port = it.manager.signalling_address.rpartition(":")

                def speak() -> None:
                    raw = socket.create_connection((host, int(port)), 60)
                    with raw, pytest.raises(ssl.SSLCertVerificationError):
                        believes.client.wrap_socket(raw)

                await asyncio.to_thread(speak)
            await until(lambda: words[by] in caplog.text, f"a line about it in {caplog.text[-500:]}")


async def test_a_connection_that_never_shakes_hands_ends(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    async with lab(star(2), agents=[], authority=authority) as it:
        host, _, port = it.manager.signalling_address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        assert await asyncio.wait_for(reader.read(), 60) == b""
        writer.close()
        await until(lambda: "no TLS handshake within 5 s" in caplog.text, "the line")


async def test_registrations_have_a_limit(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr("datacast.fabric_manager.registry.CONNECTIONS_MAX", 2)
    async with lab(star(2)) as it:
        host, _, port = it.manager.signalling_address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        assert await asyncio.wait_for(reader.read(), 60) == b""
        writer.close()
        assert all(it.manager.fabric.nodes[name].registered for name in ("h0", "h1"))
        assert "more than 2 connections" in caplog.text


def test_own_certificates_are_looked_at_before_anything_starts(authority: Authority, other: Authority) -> None:
    ca, absent = str(authority.ca), str(authority.folder / "absent")
    good, another = authority.issue("master/m"), authority.issue("master/m")
    for files, words in [
        ((ca, *authority.issue("master/m", days=(-9, -1))), "has expired; make a new one with `datacast certs`"),
        ((ca, *authority.issue("agent/a")), "is the certificate of agent/a; this is master/"),
        ((ca, *authority.issue("master/m", uri="urn:x")), "names nobody"),
        ((ca, good[0], another[1]), "is not the private key of"),
        ((str(other.ca), *good), "does not hold before"),
        ((absent, *good), "holds no certificate of an authority"),
        ((ca, absent, good[1]), "cannot read"),
        ((ca, good[1], good[1]), "is no PEM file of a certificate"),
    ]:
        with pytest.raises(TlsError, match=words):
            Identity(*files, "master")


PROGRAMS: dict[str, Callable[[Path], list[str]]] = {
    "fabric_manager": lambda tmp: ["--topology", "bcube:4,1", "--store", str(tmp / "db")],
    "controller": lambda tmp: [],
    "master": lambda tmp: [],
}


@pytest.mark.parametrize(
    ("program", "options", "words"),
    [
        ("fabric_manager", ["--signalling", "0.0.0.0:0"], "listening on 0.0.0.0:0 without TLS is refused"),
        ("fabric_manager", ["--http", "0.0.0.0:0"], "listening on 0.0.0.0:0 without TLS is refused"),
        ("fabric_manager", ["GOOD", "fabric-manager/main"], "give --master-cert and --master-key too"),
        ("fabric_manager", ["--tls-ca", "x"], "belong together"),
        ("fabric_manager", ["GOOD", "agent/00"], "is the certificate of agent/00; this is fabric-manager/"),
        ("controller", ["--fabric-manager", "http://198.18.0.1:7501"], "connecting to 198.18.0.1:7501 without TLS"),
        ("controller", ["--fabric-manager", "https://127.0.0.1:7501"], "needs a certificate"),
        ("controller", ["GOOD", "controller/c", "--insecure"], "exclude each other"),
        ("master", ["--fabric-manager", "http://198.18.0.1:7501"], "without TLS is refused"),
        ("master", ["GOOD", "controller/c"], "this is master/"),
    ],
)
def test_programs_refuse_what_is_not_safe(
    authority: Authority, tmp_path: Path, program: str, options: list[str], words: str
) -> None:
    if options[0] == "GOOD":
        options = [*authority.options(options[1]), *options[2:]]
    code, _, told = command(*PROGRAMS[program](tmp_path), *options, module=program)
    assert code in (1, 2) and words in told, told


async def test_two_authorities_in_one_file_while_keys_are_changed(authority: Authority, other: Authority) -> None:
    both = authority.folder / "both.pem"
    both.write_text(authority.ca.read_text() + other.ca.read_text())
    new = Identity(str(both), *other.issue("fabric-manager/main"), "fabric-manager")
    async with lab(star(2), agents=[], authority=authority, security=Security(new)) as it:
        for maker, ca in ((authority, both), (other, other.ca), (other, both)):
            agent = Security(Identity(str(ca), *maker.issue("agent/h0"), "agent"))
            _, writer = await agent.connect(it.manager.signalling_address, "fabric-manager")
            writer.close()
        old = Security(Identity(str(authority.ca), *authority.issue("agent/h0"), "agent"))
        with pytest.raises(ssl.SSLCertVerificationError):
            await old.connect(it.manager.signalling_address, "fabric-manager")


ELSEWHERE = ("127.0.0.1:80@example.org", "localhost:x@example.org:80")
"""As a URL has them, with a user and a password in front of the host."""


def test_what_counts_as_loopback() -> None:
    for address in ("127.0.0.1:1", "127.9.9.9:1", "[::1]:7500", "::1", "localhost:80", "unix:/run/x", "localhost"):
        assert is_local(address), address
    for address in ("0.0.0.0:1", "198.18.0.1:7500", "[::]:7500", "example.org:80", "127.0.0.1.example.org:80", ""):
        assert not is_local(address), address
    assert not any(map(is_local, ELSEWHERE))
    with pytest.raises(TlsError, match="--insecure"):
        Security().check("10.0.0.1:1", "listening on")
    Security(insecure=True).check("10.0.0.1:1", "listening on")


async def test_what_is_no_address_is_named() -> None:
    for address in ("127.0.0.1:x", "localhost:65536"):
        with pytest.raises(AddressError, match=f"'{address}' is no address"):
            await Security().connect(address, "agent")
    for host in ("a..b", 64 * "x"):
        with pytest.raises(AddressError, match=f"'{host}' is no name of a host"):
            await Security(insecure=True).connect(f"{host}:1", "agent")
