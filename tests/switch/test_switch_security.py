"""The switch's way to the fabric manager by TLS, and what it may still do once it runs."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from authority import Authority
from switch_rig import PATIENCE, Process, Rig
from waiting import wait_for

from datacast.services.framing import Decoder, encode

pytestmark = pytest.mark.root


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


@pytest.fixture
def server(rig3: Rig) -> Iterator[socket.socket]:
    made = rig3.ns.inside(lambda: socket.create_server(("127.0.0.1", 7500)))
    made.settimeout(PATIENCE)
    yield made
    made.close()


def files(authority: Authority, identity: str, **more: Any) -> dict[str, str]:
    cert, key = authority.issue(identity, **more)
    return {"ca": str(authority.ca), "cert": cert, "key": key}


def start(rig: Rig, authority: Authority, **more: Any) -> Process:
    return rig.start(rig.config(fabric_manager="127.0.0.1:7500", tls=files(authority, "switch/s0.0"), **more)).ready()


def accept(server: socket.socket, context: ssl.SSLContext) -> ssl.SSLSocket:
    raw, _ = server.accept()
    raw.settimeout(PATIENCE)
    return context.wrap_socket(raw, server_side=True)


def test_a_fabric_manager_of_several_names_is_known_by_the_first(
    rig3: Rig, server: socket.socket, authority: Authority
) -> None:
    start(rig3, authority)
    uris = ["datacast://fabric-manager/main", "datacast://fabric-manager/spare"]
    with accept(server, authority.context("fabric-manager/main", server=True, uris=uris)) as sock:
        assert Decoder().feed(sock.recv(1 << 16))[0]["type"] == "register"


def test_it_registers_by_tls(rig3: Rig, server: socket.socket, authority: Authority) -> None:
    process = start(rig3, authority)
    with accept(server, authority.context("fabric-manager/main", server=True)) as sock:
        assert sock.version() == "TLSv1.3"
        peer = sock.getpeercert()
        assert peer and ("URI", "datacast://switch/s0.0") in peer["subjectAltName"]  # type: ignore[comparison-overlap]
        [message] = Decoder().feed(sock.recv(1 << 16))
        assert (message["type"], message["node"]) == ("register", "s0.0")
        sock.sendall(encode({"type": "registered", "node": "s0.0", "heartbeat_ms": 50}))
        assert [m["type"] for m in Decoder().feed(sock.recv(1 << 16))] == ["heartbeat"]
    wait_for("the switch's line", lambda: "registered 1 node(s)" in process.log)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("wrong-role", "it is agent/00, expected is fabric-manager"),
        ("expired", "its certificate has expired"),
        ("another-authority", "of another authority"),
        ("no-identity", "its certificate names no role"),
        ("several-roles", "its certificate names no role"),
        ("tls-1.2", "it does not speak TLS 1.3"),
    ],
)
def test_a_false_fabric_manager_hears_nothing(
    rig3: Rig, server: socket.socket, authority: Authority, tmp_path: Path, kind: str, words: str
) -> None:
    maker = Authority(tmp_path / "other") if kind == "another-authority" else authority
    context = maker.context(
        "agent/00" if kind == "wrong-role" else "fabric-manager/main",
        server=True,
        days=(-9, -1) if kind == "expired" else (-1, 30),
        uris={
            "no-identity": ["https://example.org/fabric-manager/main"],
            "several-roles": ["datacast://fabric-manager/main", "datacast://controller/main"],
        }.get(kind),
    )
    context.load_verify_locations(authority.ca)
    if kind == "tls-1.2":
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    process = start(rig3, authority)
    heard = b""
    with contextlib.suppress(OSError), accept(server, context) as sock:
        heard = sock.recv(1 << 16)
    assert heard == b""
    wait_for("the switch's line", lambda: words in process.log)


@pytest.mark.parametrize(
    ("more", "code", "words"),
    [
        ({"fabric_manager": "198.18.0.1:7500"}, 2, "plain TCP to the fabric manager at 198.18.0.1:7500 is refused"),
        ({"tls": {"ca": "a", "cert": "b"}}, 2, "key"),
        ({"insecure": True, "tls": {"ca": "a", "cert": "b", "key": "c"}}, 2, "exclude each other"),
        ({"tls": {"ca": "/absent/ca", "cert": "b", "key": "c"}}, 1, "/absent/ca holds no certificate of an authority"),
    ],
)
def test_what_is_not_safe_is_refused(rig3: Rig, more: dict[str, Any], code: int, words: str) -> None:
    process = rig3.start(rig3.config(**more))
    assert process.popen.wait(60) == code
    assert words in process.log


def test_anothers_certificate_is_refused(rig3: Rig, authority: Authority) -> None:
    process = rig3.start(rig3.config(tls=files(authority, "agent/00")))
    assert process.popen.wait(60) == 1
    assert "is the certificate of agent/00; this is switch/" in process.log


def test_capabilities_are_gone_when_it_runs(rig3: Rig) -> None:
    process = rig3.start().ready()
    status = Path(f"/proc/{process.popen.pid}/status").read_text()
    shown = dict(line.split(":\t") for line in status.splitlines() if line.startswith(("Cap", "NoNew")))
    assert int(shown["CapEff"], 16) == int(shown["CapPrm"], 16) == int(shown["CapInh"], 16) == 0
    assert shown["NoNewPrivs"] == "1"
    for task in Path(f"/proc/{process.popen.pid}/task").iterdir():
        effective = next(
            int(line.split()[1], 16) for line in (task / "status").read_text().splitlines() if line.startswith("CapEff")
        )
        assert effective & ~(1 << 1 | 1 << 12 | 1 << 13 | 1 << 14) == 0, (
            "DPDK's own threads have what the start needed, at most"
        )
