"""An agent's signalling connections: what is no frame or no message, how many there may be, how much they may hold."""

from __future__ import annotations

import json
import random
import resource
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from agent_harness import (
    ASAN,
    PATIENCE,
    Net,
    inside,
    make_pair,
    path_direct,
    until,
)

from datacast.services.framing import Decoder, Message, encode

pytestmark = pytest.mark.root
CONNECTIONS_MAX = 128
"""agent_limits.h"""


def raw(net: Net, host: str) -> socket.socket:
    ip, _, port = net.address(host).rpartition(":")
    sock = inside(net.management, lambda: socket.create_connection((ip, int(port)), timeout=PATIENCE))
    sock.settimeout(PATIENCE)
    return sock


def answers(sock: socket.socket) -> list[Message]:
    """Everything that comes until the other side closes."""
    decoder, messages = Decoder(), []
    try:
        while data := sock.recv(1 << 16):
            messages += decoder.feed(data)
    except ConnectionError:
        pass
    return messages


@pytest.mark.parametrize(
    "data",
    [
        struct.pack("!I", (4 << 20) + 1),
        struct.pack("!I", 0xFFFFFFFF) + b"x" * 100,
        struct.pack("!I", 4) + b"{{{{",
        struct.pack("!I", 2) + b"[]",
        struct.pack("!I", 2) + b"{}",
        struct.pack("!I", 10) + b'{"type":7}',
        struct.pack("!I", 0),
        struct.pack("!I", 13) + b'{"type":"\xff\xfe"}',
        struct.pack("!I", 100_000) + b"[" * 100_000,
        struct.pack("!I", 29) + b'{"type":"request","type":"x"}',
    ],
    ids=["too-long", "huge", "no-json", "list", "no-type", "type-7", "empty", "no-utf8", "deep", "twice"],
)
def test_bad_frame_closes_with_an_error(pair: Net, data: bytes) -> None:
    with raw(pair, "b") as sock:
        sock.sendall(data)
        (message,) = answers(sock)
        assert message["type"] == "error" and message["code"] == "bad_request" and message["error"]
    assert pair.client("b").request("ping", pair.member("b"))["b"]["ok"]


def test_refused_messages_keep_the_connection(pair: Net) -> None:
    client = pair.client("b")
    deep: Message = {"n": "b"}
    for _ in range(70):
        deep = {"n": "b", "c": [deep]}
    bad = [
        {"type": "ack", "id": 1},
        {"type": "request"},
        {"type": "request", "id": "x", "op": "ping", "tree": pair.member("b")},
        {"type": "request", "id": 2, "tree": pair.member("b")},
        {"type": "request", "id": 3, "op": "ping"},
        {"type": "request", "id": 4, "op": "ping", "tree": []},
        {"type": "request", "id": 5, "op": "ping", "tree": {"n": 5}},
        {"type": "request", "id": 6, "op": "ping", "tree": {"n": "b", "c": {}}},
        {"type": "request", "id": 7, "op": "ping", "tree": {"n": "b", "c": [{}] * 129}},
        {"type": "request", "id": 8, "op": "ping", "tree": deep},
        {"type": "request", "id": 9, "op": "ping", "timeout_ms": 0, "tree": pair.member("b")},
    ]
    for message in bad:
        client.sock.sendall(encode(message))
        client.wait(lambda: client.other, f"the answer to {str(message)[:80]}")
        answer = client.other.pop()
        assert answer["type"] == "error" and answer["code"] in ("bad_request", "limit"), answer
        if isinstance(message.get("id"), int) and message["type"] == "request":
            assert answer["id"] == message["id"]
    assert client.request("ping", pair.member("b"))["b"]["ok"]


def test_random_messages_never_hurt(make_net: Callable[[Path], Net]) -> None:
    """Mutations of good messages, under sanitizers."""
    net = make_pair(make_net(ASAN))
    seed = 77
    print(f"seed {seed}")
    pick = random.Random(seed)
    good = [
        json.dumps(
            {
                "type": "request",
                "id": 1,
                "op": op,
                "group": "g",
                "timeout_ms": 50,
                "all": {
                    "size": 10000,
                    "piece": 1000,
                    "per_block": 2,
                    "lease_ms": 500,
                    "extents": [[1, 0, 0, 10]],
                    "blocks": [[0, "00" * 32]],
                    "trees": [{"id": 1, "rate_max_bps": 10**7}],
                },
                "tree": {
                    "n": "b",
                    "a": net.address("b"),
                    "b": {"role": "receiver", "dest": "x", "routes": {"1": path_direct().hex()}},
                    "c": [{"n": "a", "a": net.address("a"), "b": {"role": "relay"}}],
                },
            }
        ).encode()
        for op in ("open", "assign", "digest", "cut", "reroute", "status", "close", "node", "ping", "stat")
    ]
    for _ in range(60):
        with raw(net, "b") as sock:
            for _ in range(20):
                body = bytearray(pick.choice(good))
                for _ in range(pick.randrange(0, 4)):
                    body[pick.randrange(len(body))] = pick.choice(b'0123456789{}[]",:-.etfn\\ \xc3')
                length = len(body) if pick.random() < 0.97 else pick.randrange(1 << 32)
                try:
                    sock.sendall(struct.pack("!I", length) + body)
                except OSError:
                    break
    for host in "ab":
        assert net.client(host).request("ping", net.member(host))[host]["ok"]


def ended(sock: socket.socket) -> bool:
    """The agent has closed it."""
    sock.setblocking(False)
    try:
        return sock.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def test_many_connections_are_bounded(pair: Net) -> None:
    """Who goes depends on how long they take to come: one that was silent for a second makes room for a new one."""
    socks: list[socket.socket] = []
    gone: set[int] = set()

    def too_many() -> bool:
        gone.update(number for number, sock in enumerate(socks) if number not in gone and ended(sock))
        return len(gone) >= 140 - CONNECTIONS_MAX

    try:
        for _ in range(140):
            socks.append(raw(pair, "b"))
        until(too_many, "the connections beyond the limit are closed")
        assert len(gone) == 140 - CONNECTIONS_MAX
    finally:
        for sock in socks:
            sock.close()
    until(lambda: pair.client("b").request("ping", pair.member("b"))["b"]["ok"], "an answer")


def test_an_agent_without_a_descriptor_left_refuses_who_comes_and_goes_on(pair: Net) -> None:
    """One that waited for a descriptor would wake it for ever."""
    client, agent = pair.client("b"), pair.agents["b"]
    assert client.request("ping", pair.member("b"))["b"]["ok"]
    most = len(list(Path(f"/proc/{agent.process.pid}/fd").iterdir()))
    soft, hard = resource.prlimit(agent.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(agent.process.pid, resource.RLIMIT_NOFILE, (most, hard))
    socks = [raw(pair, "b") for _ in range(8)]  # numbers below the bound may be free
    until(lambda: any(map(ended, socks)), "a connection is closed")
    for sock in socks:
        sock.close()
    assert client.request("ping", pair.member("b"))["b"]["ok"]
    resource.prlimit(agent.process.pid, resource.RLIMIT_NOFILE, (soft, hard))
    assert pair.client("b").request("ping", pair.member("b"))["b"]["ok"]


def test_idle_connections_make_room_for_new_ones(pair: Net) -> None:
    """After as many parents as an agent takes, it still takes the next one; who has just come is not pushed out."""
    busy = pair.client("b")
    assert busy.request("ping", pair.member("b"))["b"]["ok"]
    socks = [raw(pair, "b") for _ in range(127)]
    try:
        socks[-1].sendall(encode({"type": "request", "id": 1, "op": "ping", "tree": pair.member("b")}))
        assert socks[-1].recv(1 << 16), "an answer to the last: the agent has taken all"
        time.sleep(1.2)  # and heard nothing of them for more than a second
        assert busy.request("ping", pair.member("b"))["b"]["ok"]  # not idle
        late = [raw(pair, "b") for _ in range(20)]
        socks += late
        until(lambda: all(map(ended, socks[:20])), "the oldest ones went")
        assert not any(map(ended, late))
        assert busy.request("ping", pair.member("b"))["b"]["ok"]  # over its own connection, as before
        assert pair.client("b").request("ping", pair.member("b"))["b"]["ok"]
    finally:
        for sock in socks:
            sock.close()


def test_unfinished_frames_do_not_fill_the_memory(pair: Net) -> None:
    socks = []
    refused = 0
    try:
        for _ in range(16):
            sock = raw(pair, "b")
            socks.append(sock)
            try:
                sock.sendall(struct.pack("!I", 4 << 20) + bytes(4_000_000))
            except OSError:
                refused += 1
        until(lambda: pair.agents["b"].text().count("too much unfinished input") > 0, "a refusal")
        assert pair.agents["b"].rss_peak() < 64 << 20
    finally:
        for sock in socks:
            sock.close()
    until(lambda: pair.client("b").request("ping", pair.member("b"))["b"]["ok"], "an answer")
