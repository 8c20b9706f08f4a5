"""Signalling by TLS: who may speak, who is believed, and what the log says of the others."""

from __future__ import annotations

import contextlib
import signal
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_harness import (
    PATIENCE,
    PLAIN,
    Client,
    Net,
    Transfer,
    agent_command,
    digest,
    inside,
    join_line,
    path_end,
    path_middle,
    random_file,
    until,
)
from authority import Authority, stranger

from datacast.services.framing import Decoder, encode

pytestmark = pytest.mark.root

MANAGER = "198.18.0.1:7500"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


class TlsClient(Client):
    """A master that speaks TLS."""

    def __init__(self, namespace: str, address: str, context: ssl.SSLContext) -> None:
        super().__init__(namespace, address)
        self.sock = context.wrap_socket(self.sock)

    def pump(self, timeout: float = 0.0) -> bool:
        if self.sock.pending() == 0:  # type: ignore[attr-defined]
            return super().pump(timeout)
        return super().pump(0) or self._take_pending()

    def _take_pending(self) -> bool:
        for message in self.decoder.feed(self.sock.recv(1 << 16)):
            (self.events if message["type"] == "event" else self.other).append(message)
        return True


def two_hosts(net: Net) -> Net:
    for host in "ab":
        net.host(host)
    net.cable("a", "b")
    return net


def test_a_file_over_a_tree_of_tls_connections(
    make_net: Callable[[Path], Net], tmp_path: Path, authority: Authority
) -> None:
    net = join_line(make_net(PLAIN))
    for host in "abc":
        net.start(host, *authority.options(f"agent/{host}"))
    transfer = Transfer.__new__(Transfer)
    context = authority.context("master/g-1")
    original, net.client = net.client, lambda host: TlsClient(net.management, net.address(host), context)  # type: ignore[method-assign]
    try:
        transfer.__init__(net, "a", random_file(tmp_path / "src", 3_000_001), {"b": path_middle(), "c": path_end()})  # type: ignore[misc]
    finally:
        net.client = original  # type: ignore[method-assign]
    transfer.deliver()
    for name in "bc":
        assert digest(Path(transfer.dest[name])) == digest(transfer.path)
    transfer.client.close()


STRANGERS = {
    "another-authority": "of another authority",
    "expired": "has expired",
    "not-yet": "is not valid yet",
    "wrong-role": "it is switch/s0.0, expected is master agent",
    "no-identity": "names no role",
    "no-certificate": "it shows no certificate",
    "plain": "it does not speak TLS",
    "tls-1.2": "it does not speak TLS 1.3",
}


@pytest.mark.parametrize("kind", STRANGERS)
def test_strangers_get_nothing_and_the_log_says_why(
    make_net: Callable[[Path], Net], tmp_path: Path, authority: Authority, kind: str
) -> None:
    net = two_hosts(make_net(PLAIN))
    agent = net.start("a", *authority.options("agent/a"))
    context = stranger(authority, Authority(tmp_path / "other"), kind, "master/g", "switch/s0.0")
    raw = inside(net.management, lambda: socket.create_connection(("198.18.0.2", 7600), timeout=PATIENCE))
    request = encode({"type": "request", "id": 1, "op": "ping", "tree": net.member("a")})
    answers: list[Any] = []
    with contextlib.suppress(OSError), raw:
        sock = context.wrap_socket(raw) if context else raw
        sock.sendall(request)
        decoder = Decoder()
        while data := sock.recv(1 << 16):
            if context:
                answers += decoder.feed(data)
    assert all(m["type"] == "error" for m in answers), answers
    until(lambda: STRANGERS[kind] in agent.text(), f"a line about it in {agent.text()[-500:]}")
    good = TlsClient(net.management, net.address("a"), authority.context("master/g"))
    assert good.request("ping", net.member("a"))["a"]["ok"]
    good.close()


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("good", ""),
        ("another-name", "it is agent/z, expected is agent/b"),
        ("expired", "has expired"),
        ("another-authority", "of another authority"),
        ("master", "it is master/b, expected is agent/b"),
        ("plain", "TLS"),
    ],
)
def test_a_child_must_be_whom_the_tree_names(
    make_net: Callable[[Path], Net], tmp_path: Path, authority: Authority, kind: str, reason: str
) -> None:
    """The child is a Python server here: an agent refuses to start with another's certificate."""
    net = two_hosts(make_net(PLAIN))
    agent = net.start("a", *authority.options("agent/a"))
    other = Authority(tmp_path / "other")
    identity = {"another-name": "agent/z", "master": "master/b"}.get(kind, "agent/b")
    maker = other if kind == "another-authority" else authority
    context = maker.context(identity, server=True, days=(-9, -1) if kind == "expired" else (-1, 30))
    if maker is other:
        context.load_verify_locations(authority.ca)
    server = inside(net.namespace("b"), lambda: socket.create_server(("198.18.0.3", 7600)))
    server.settimeout(PATIENCE)
    client = TlsClient(net.management, net.address("a"), authority.context("master/g"))
    try:
        number = client.send("ping", net.member("a", children=[net.member("b")]))
        child, _ = server.accept()
        child.settimeout(PATIENCE)
        heard = b""
        with contextlib.suppress(OSError), child:
            sock = child if kind == "plain" else context.wrap_socket(child, server_side=True)
            if kind == "plain":
                sock.sendall(b"hello, this is no TLS at all\n")
            decoder = Decoder()
            while not heard and (data := sock.recv(1 << 16)):
                for message in decoder.feed(data) if kind != "plain" else []:
                    heard = data
                    sock.sendall(encode({"type": "ack", "id": message["id"], "results": {"b": {"ok": True}}}))
            client.wait(lambda: number in client.acks, "the answer")
        results = client.wait(lambda: client.acks.get(number), "the answer")["results"]
        assert results["a"]["ok"] and results["b"]["ok"] is (kind == "good")
        if kind != "good":
            assert not heard, "nothing was told to a stranger"
            assert results["b"]["code"] == "unreachable" and reason in results["b"]["error"], results["b"]
            until(lambda: reason in agent.text(), "the agent's line")
    finally:
        client.close()
        server.close()


@pytest.fixture
def manager(make_net: Callable[[Path], Net]) -> Iterator[tuple[Net, socket.socket]]:
    net = two_hosts(make_net(PLAIN))
    server = inside(net.management, lambda: socket.create_server(("198.18.0.1", 7500)))
    server.settimeout(PATIENCE)
    yield net, server
    server.close()


def test_registration_checks_the_fabric_manager(manager: tuple[Net, socket.socket], authority: Authority) -> None:
    net, server = manager
    agent = net.start("a", "--fabric-manager", MANAGER, *authority.options("agent/a"))
    false, true = authority.context("controller/c", server=True), authority.context("fabric-manager/main", server=True)
    first, _ = server.accept()
    first.settimeout(PATIENCE)
    with contextlib.suppress(OSError), first:
        sock = false.wrap_socket(first, server_side=True)
        assert sock.recv(1 << 16) == b"", "it does not register at somebody else"
    until(lambda: "it is controller/c, expected is fabric-manager" in agent.text(), "the agent's line")
    second, _ = server.accept()
    second.settimeout(PATIENCE)
    with second, true.wrap_socket(second, server_side=True) as sock:
        [message] = Decoder().feed(sock.recv(1 << 16))
        assert (message["type"], message["node"]) == ("register", "a")
        peer = sock.getpeercert()
        assert peer and ("URI", "datacast://agent/a") in peer["subjectAltName"]  # type: ignore[comparison-overlap]
        sock.sendall(encode({"type": "registered", "node": "a", "heartbeat_ms": 50}))
        until(lambda: "at the fabric manager" in agent.text(), "the agent's line")


def start(net: Net, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(agent_command(net, *options), capture_output=True, text=True, timeout=90)


def test_start_refuses_what_is_not_safe(make_net: Callable[[Path], Net], tmp_path: Path, authority: Authority) -> None:
    net = two_hosts(make_net(PLAIN))
    plain = start(net)
    assert plain.returncode == 1 and "without TLS is refused" in plain.stderr and "--insecure" in plain.stderr
    half = start(net, "--tls-ca", str(authority.ca))
    assert half.returncode == 2 and "belong together" in half.stderr
    for options, words in [
        (authority.options("agent/b"), "is the certificate of agent/b; this is agent/a"),
        (authority.options("master/a"), "is the certificate of master/a"),
        (authority.options("agent/a", days=(-9, -1)), "has expired"),
        (authority.options("agent/a", uri="urn:x"), "names nobody"),
        (
            ["--tls-ca", str(tmp_path / "absent"), *authority.options("agent/a")[2:]],
            "holds no certificate of an authority",
        ),
        ([*authority.options("agent/a")[:4], "--tls-key", authority.issue("agent/a")[1]], "is not the private key of"),
    ]:
        done = start(net, *options)
        assert done.returncode == 1 and words in done.stderr, done.stderr
    command = agent_command(net, listen="127.0.0.1:7600")
    loopback = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert loopback.stderr is not None and "ready on" in loopback.stderr.readline()
    loopback.terminate()
    assert loopback.wait(60) == 0
    loopback.stderr.close()


def test_a_connection_that_never_shakes_hands_ends(make_net: Callable[[Path], Net], authority: Authority) -> None:
    net = two_hosts(make_net(PLAIN))
    agent = net.start("a", *authority.options("agent/a"))
    raw = inside(net.management, lambda: socket.create_connection(("198.18.0.2", 7600), timeout=PATIENCE))
    assert raw.recv(1) == b""
    until(lambda: "no TLS handshake within 5 s" in agent.text(), "the agent's line")
    raw.close()


def capabilities(pid: int) -> dict[str, set[int]]:
    """Per kind (CapPrm, CapEff, CapBnd …) the numbers set, over all threads."""
    found: dict[str, set[int]] = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        for line in (task / "status").read_text().splitlines():
            name, _, value = line.partition(":")
            if name.startswith("Cap"):
                found.setdefault(name, set()).update(i for i in range(64) if int(value, 16) >> i & 1)
            elif name == "NoNewPrivs":
                assert value.strip() == "1"
    return found


def test_no_agent_sends_its_private_key(make_net: Callable[[Path], Net], tmp_path: Path, authority: Authority) -> None:
    net = two_hosts(make_net(PLAIN))
    options = authority.options("agent/a")
    net.start("a", *options)  # it may send any file of this machine
    key = Path(options[options.index("--tls-key") + 1])
    (tmp_path / "innocent").hardlink_to(key)
    client = TlsClient(net.management, net.address("a"), authority.context("master/g-1"))
    try:
        for path in (key, tmp_path / "innocent"):
            answer = client.request("stat", net.member("a", {"path": str(path)}))["a"]
            assert answer["code"] == "denied" and "private key" in str(answer["error"])
        certificate = Path(options[options.index("--tls-cert") + 1])
        assert client.request("stat", net.member("a", {"path": str(certificate)}))["a"]["ok"]
    finally:
        client.close()
    received = net.agents["a"].folder / "received"
    received.hardlink_to(key)  # where it received something
    controller = TlsClient(net.management, net.address("a"), authority.context("controller/c"))
    try:
        controller.sock.sendall(encode({"type": "read", "id": 1, "off": 0, "len": 0, "dest": str(received)}))
        until(lambda: controller.pump(0.1) or controller.other, "an answer")
        assert controller.other[0]["code"] == "denied" and "private key" in controller.other[0]["error"]
    finally:
        controller.close()


def test_the_agent_keeps_what_files_need_only(make_net: Callable[[Path], Net], authority: Authority) -> None:
    net = two_hosts(make_net(PLAIN))
    agent = net.start("a", *authority.options("agent/a"))
    pid = agent.process.pid
    caps = capabilities(pid)
    dac_override, dac_read_search = 1, 2
    assert caps["CapPrm"] == caps["CapEff"] == {dac_override, dac_read_search}
    assert caps["CapInh"] == caps["CapAmb"] == set()


def test_one_caller_with_all_that_it_may_have_under_way_leaves_room_for_others(
    make_net: Callable[[Path], Net], authority: Authority
) -> None:
    net = two_hosts(make_net(PLAIN))
    for host in "ab":
        net.start(host, *authority.options(f"agent/{host}"))
    taken, master = (TlsClient(net.management, net.address("a"), authority.context(w)) for w in ("agent/b", "master/g"))
    tree = net.member("a", None, [net.member("b")])
    assert master.request("ping", tree)["b"]["ok"]  # the connection to b stands
    net.agents["b"].process.send_signal(signal.SIGSTOP)
    try:
        for _ in range(4097):
            taken.send("ping", tree, timeout_ms=60_000)
        [refused] = taken.wait(lambda: taken.other, "a refusal")
        assert refused["code"] == "limit", refused
        results = master.request("ping", tree, timeout_ms=1000)
        assert results["a"]["ok"] and "no answer in time" in results["b"]["error"], "it was asked"
    finally:
        net.agents["b"].process.send_signal(signal.SIGCONT)
    for client in (taken, master):
        client.close()
