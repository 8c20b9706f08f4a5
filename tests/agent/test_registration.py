"""An agent registers at a fabric manager, and again."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from agent_harness import (
    PATIENCE,
    PLAIN,
    Net,
    inside,
    join_pair,
    run,
    until,
)

from datacast.services.framing import Decoder, Message, encode

pytestmark = pytest.mark.root


class Manager:
    """The fabric manager's side of a registration."""

    def __init__(self, net: Net, port: int = 7500, address: str = "198.18.0.1") -> None:
        self.listening = inside(net.management, lambda: socket.create_server((address, port)))
        self.listening.settimeout(PATIENCE)
        self.sock: socket.socket | None = None

    def accept(self) -> Message:
        self.sock, _ = self.listening.accept()
        self.sock.settimeout(PATIENCE)
        self.decoder, self.waiting = Decoder(), []
        return self.next()

    def next(self) -> Message:
        assert self.sock
        while not self.waiting:
            data = self.sock.recv(1 << 16)
            assert data, "the agent closed the connection"
            self.waiting = self.decoder.feed(data)
        return self.waiting.pop(0)

    def next_of(self, kind: str) -> Message:
        while (message := self.next())["type"] != kind:
            pass
        return message

    def send(self, message: Message) -> None:
        assert self.sock
        self.sock.sendall(encode(message))

    def close(self) -> None:
        if self.sock:
            self.sock.close()
        self.listening.close()


@pytest.fixture
def manager_net(make_net: Callable[[Path], Net]) -> Iterator[tuple[Net, Manager]]:
    net = join_pair(make_net(PLAIN))
    manager = Manager(net)
    net.start("a", "--fabric-manager", "198.18.0.1:7500")
    yield net, manager
    manager.close()


def test_of_several_fabric_managers_the_one_that_answers_is_registered_at(make_net: Callable[[Path], Net]) -> None:
    net = join_pair(make_net(PLAIN))
    second = Manager(net, 7502)
    net.start("a", "--fabric-manager", "198.18.0.1:7501,198.18.0.1:7502")
    assert second.accept()["type"] == "register"
    second.send({"type": "registered", "node": "a", "heartbeat_ms": 50})
    second.next_of("heartbeat")
    first = Manager(net, 7501)
    second.close()
    assert first.accept()["node"] == "a", "the next one leads"
    first.close()


def test_a_fabric_manager_whose_machine_is_gone_is_followed_by_the_next(make_net: Callable[[Path], Net]) -> None:
    net = join_pair(make_net(PLAIN))
    bridge = ("-n", net.management, "addr")
    run("ip", *bridge, "add", "198.18.0.200/24", "dev", "br0")
    first, second = Manager(net, address="198.18.0.200"), Manager(net)
    net.start("a", "--fabric-manager", "198.18.0.200:7500,198.18.0.1:7500")
    first.accept()
    first.send({"type": "registered", "node": "a", "heartbeat_ms": 50})
    first.next_of("heartbeat")
    run("ip", *bridge, "del", "198.18.0.200/24", "dev", "br0")  # nobody says that it is gone
    gone = time.monotonic()
    assert second.accept()["node"] == "a"
    assert time.monotonic() - gone > 5, "a network may lose some packets"
    first.close()
    second.close()


def test_a_fabric_manager_that_hangs_is_followed_by_the_next(make_net: Callable[[Path], Net]) -> None:
    """Its kernel takes whatever comes, and nobody answers."""
    net = join_pair(make_net(PLAIN))
    first, second = Manager(net, 7501), Manager(net, 7502)
    net.start("a", "--fabric-manager", "198.18.0.1:7501,198.18.0.1:7502")
    first.accept()
    first.send({"type": "registered", "node": "a", "heartbeat_ms": 50, "silence_beats": 4})
    for _ in range(4):
        for _ in range(3):
            first.next_of("heartbeat")
        first.send({"type": "heard"})
    with pytest.raises(AssertionError, match="closed the connection"):
        for beats in range(100):  # noqa: B007
            first.next_of("heartbeat")
    assert 3 <= beats <= 5
    assert second.accept()["node"] == "a"
    assert "7501: says nothing any more" in net.agents["a"].text()
    second.send({"type": "registered", "node": "a", "heartbeat_ms": 50})
    for _ in range(20):  # one of before, that answers no heartbeat, and says so
        second.next_of("heartbeat")
    first.close()
    second.close()


def test_a_disk_that_does_not_answer_holds_up_no_heartbeat(make_net: Callable[[Path], Net], tmp_path: Path) -> None:
    shim, hold = tmp_path / "slow_room.so", tmp_path / "hold"
    run("cc", "-shared", "-fPIC", "-o", str(shim), str(Path(__file__).with_name("slow_room.c")))
    hold.touch()
    net = join_pair(make_net(PLAIN))
    manager = Manager(net)
    environment = {"LD_PRELOAD": str(shim), "HOLD": str(hold)}
    net.start("a", "--fabric-manager", "198.18.0.1:7500", environment=environment)
    assert manager.accept()["type"] == "register"
    manager.send({"type": "registered", "node": "a", "heartbeat_ms": 50})
    for _ in range(3):
        assert "disks" not in manager.next_of("heartbeat")
    hold.unlink()
    until(lambda: "disks" in manager.next_of("heartbeat"), "the room there is")
    (room,) = manager.next_of("heartbeat")["disks"]
    assert 0 <= room[0] <= room[1] > 0
    manager.close()


def test_registration_heartbeat_and_links(manager_net: tuple[Net, Manager]) -> None:
    net, manager = manager_net
    message = manager.accept()
    assert message["type"] == "register" and message["node"] == "a" and message["kind"] == "host"
    assert message["addr"] == net.address("a") and message["dest_roots"] == [str(net.agents["a"].folder)]
    (port,) = message["ports"]
    assert (port["port"], port["ifname"], port["up"], port["mtu"]) == (0, "p0", True, 9000)
    manager.send({"type": "registered", "node": "a", "heartbeat_ms": 50})
    manager.next_of("heartbeat")
    assert manager.next_of("heartbeat")["nodes"]["a"]["carried"] == {}  # b says no hello

    before = time.time_ns()
    run("ip", "-n", net.namespace("b"), "link", "set", "p0", "down")
    down = manager.next_of("link")
    assert (down["port"], down["up"], down["n"]) == (0, False, 1)
    assert before < down["t_ns"] < time.time_ns()
    manager.send({"type": "ok", "n": 1})
    run("ip", "-n", net.namespace("b"), "link", "set", "p0", "up")
    up = manager.next_of("link")
    assert (up["up"], up["n"]) == (True, 2)


def test_registration_comes_back_with_what_was_not_acknowledged(manager_net: tuple[Net, Manager]) -> None:
    net, manager = manager_net
    manager.accept()
    manager.send({"type": "registered", "node": "a", "heartbeat_ms": 50})
    manager.next_of("heartbeat")
    assert manager.sock
    manager.sock.close()
    run("ip", "-n", net.namespace("b"), "link", "set", "p0", "down")
    again = manager.accept()
    assert again["type"] == "register"
    if again["ports"][0]["up"]:  # it registered before the kernel told
        manager.send({"type": "registered", "node": "a", "heartbeat_ms": 50})
        assert manager.next_of("link")["up"] is False
        return
    manager.send({"type": "registered", "node": "a", "heartbeat_ms": 50})
    link = manager.next_of("link")
    assert (link["n"], link["up"]) == (1, False)


def test_refused_registration_is_tried_again(manager_net: tuple[Net, Manager]) -> None:
    net, manager = manager_net
    manager.accept()
    manager.send({"type": "error", "code": "unknown_node", "error": "a is not in the topology"})
    assert manager.accept()["node"] == "a"
    manager.send({"type": "registered", "node": "a", "heartbeat_ms": 1000})
    until(lambda: "at the fabric manager" in net.agents["a"].text(), "the agent's line")
    assert "a is not in the topology" in net.agents["a"].text()
