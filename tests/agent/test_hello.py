"""An agent's links: what its hellos find, and what the fabric manager is told."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agent_harness import (
    ASAN,
    PLAIN,
    Client,
    Net,
    Transfer,
    inside,
    ip,
    make_pair,
    path_direct,
    random_file,
    run,
    until,
)

from datacast.core import constants

pytestmark = pytest.mark.root


def link(net: Net, host: str, port: int = 0) -> dict[str, Any]:
    client = Client(net.management, net.address(host))
    try:
        return client.request("node", net.member(host, {}), {"counters": True})[host]["ports"][str(port)]
    finally:
        client.close()


def test_two_agents_find_each_other(pair: Net) -> None:
    until(lambda: link(pair, "a")["link"] == link(pair, "b")["link"] == "up", "both directions")
    assert link(pair, "a")["up"] and link(pair, "a")["link_failures"] == 0
    until(lambda: link(pair, "a")["carried"] == link(pair, "b")["carried"] == 9000, "full-size hellos")


def test_frames_of_a_vlan_are_not_the_cables(pair: Net) -> None:
    """The kernel takes the tag off before a packet socket sees the frame."""
    until(lambda: link(pair, "a")["link"] == link(pair, "b")["link"] == "up", "both directions")
    wrong = constants.ETHERTYPE_HELLO.to_bytes(2, "big") + bytes(60)

    def send(*tags: bytes) -> None:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sock:
            sock.bind(("p0", 0))
            for tag in tags:
                sock.send(b"\xff" * 6 + b"\2\0\0\0\0\1" + tag + wrong)

    vlan_5, priority, none = b"\x81\x00\x00\x05", b"\x81\x00\xe0\x00", b""
    inside(pair.namespace("b"), lambda: send(vlan_5, vlan_5, vlan_5, priority, none))
    until(lambda: link(pair, "a")["hellos_refused"] >= 2, "what is the cable's")
    assert link(pair, "a")["hellos_refused"] == 2


def test_a_bridge_that_lets_go_of_an_interface_does_not_take_it_away(pair: Net) -> None:
    """The kernel tells that with the message that tells the end of an interface, but for another family."""
    until(lambda: link(pair, "a")["link"] == link(pair, "b")["link"] == "up", "both directions")
    lines = ["link add br1 type bridge", "link set p0 master br1", "link set p0 nomaster"]
    ip(pair.namespace("a"), *lines)
    ip(pair.namespace("b"), "link set p0 down")
    until(lambda: not link(pair, "a")["carrier"], "what was told after that")
    assert "is gone" not in pair.agents["a"].text()
    assert pair.agents["a"].text().count("(p0) is down") == 1


def make_again(net: Net, mtu: int = 9000) -> None:
    """The cable between a and b, as where a driver is loaded again."""
    a, b = net.namespace("a"), net.namespace("b")
    ip(a, "link del p0")
    until(lambda: not link(net, "a")["carrier"] and not link(net, "b")["carrier"], "its end")
    ip(a, f"link add p0 mtu {mtu} type veth peer name p0 mtu {mtu} netns {b}")
    for namespace in (a, b):
        ip(namespace, "link set p0 up")


@pytest.mark.parametrize("program", [PLAIN, ASAN], ids=["plain", "asan"])
def test_an_interface_that_is_made_again_is_gone_on_with(
    make_net: Callable[[Path], Net], tmp_path: Path, program: Path
) -> None:
    """To the kernel it is another one."""
    net = make_pair(make_net(program))
    until(lambda: link(net, "a")["link"] == link(net, "b")["link"] == "up", "both directions")
    for _ in range(2):
        make_again(net)
        until(lambda: link(net, "a")["up"] and link(net, "b")["up"], "both ends up again")
    assert net.agents["a"].text().count("interface p0 is there again") == 2
    Transfer(net, "a", random_file(tmp_path / "src", 200_000), {"b": path_direct()}).deliver()


def test_an_interface_that_is_made_again_and_carries_less_is_not_used(pair: Net) -> None:
    make_again(pair, 1500)
    for host in "ab":
        wanted = "interface p0 is there again, and is not used: its MTU is smaller"
        until(lambda host=host, wanted=wanted: wanted in pair.agents[host].text(), "a word")
        assert not link(pair, host)["up"]
        ip(pair.namespace(host), "link set p0 mtu 9000")
    until(lambda: link(pair, "a")["up"] and link(pair, "b")["up"], "both ends up again")


def test_an_interface_that_several_workers_share_and_that_is_made_again_wants_a_start(
    make_net: Callable[[Path], Net],
) -> None:
    net = make_pair(make_net(PLAIN), "--workers", "2")
    make_again(net)
    until(lambda: "several workers share it" in net.agents["a"].text(), "a word")
    assert not link(net, "a")["up"]
    net.agents["a"].stop()
    net.start("a", "--workers", "2")
    until(lambda: link(net, "a")["carrier"], "the new one")


def test_frames_that_find_the_receive_ring_full_are_counted(pair: Net) -> None:
    until(lambda: link(pair, "a")["link"] == link(pair, "b")["link"] == "up", "both directions")
    assert link(pair, "a")["rx_missed"] == 0
    frame = b"\xff" * 6 + b"\2\0\0\0\0\1" + constants.ETHERTYPE_DATACAST.to_bytes(2, "big") + bytes(60)

    def flood() -> None:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sock:
            sock.bind(("p0", 0))
            for _ in range(1000):  # 2 MiB hold 230 of 9,000 bytes
                sock.send(frame)

    process = pair.agents["a"].process
    process.send_signal(signal.SIGSTOP)
    try:
        inside(pair.namespace("b"), flood)
    finally:
        process.send_signal(signal.SIGCONT)
    counters = link(pair, "a")
    assert 500 < counters["rx_missed"] < 1000


def test_a_device_between_that_carries_less_is_found(make_net: Callable[[Path], Net]) -> None:
    net = make_net(PLAIN)
    for host in "abx":
        net.host(host)
    run("ip", "-n", net.namespace("x"), "link", "add", "between", "type", "bridge")
    run("ip", "-n", net.namespace("x"), "link", "set", "between", "up")
    for host in "ab":
        net.cable(host, "x")
        inside = net.ports["x"][-1]
        run("ip", "-n", net.namespace("x"), "link", "set", inside, "mtu", "1500", "master", "between")
        net.start(host)
    until(lambda: link(net, "a")["link"] == link(net, "b")["link"] == "up", "both directions")
    until(lambda: link(net, "a")["carried"] == link(net, "b")["carried"] == 0, "that no long frame comes")
    assert link(net, "a")["up"] and link(net, "a")["mtu"] == 9000, "small ones do: the link is up, and the doctor tells"


def test_a_neighbour_that_stops_is_silent_and_comes_back(pair: Net) -> None:
    until(lambda: link(pair, "a")["link"] == link(pair, "b")["link"] == "up", "both directions")
    process = pair.agents["b"].process
    process.send_signal(signal.SIGSTOP)
    try:
        until(lambda: "is down: silent" in pair.agents["a"].text(), "silence")
        shown = link(pair, "a")
        assert (shown["up"], shown["carrier"], shown["link"], shown["link_failures"]) == (False, True, "silent", 1)
    finally:
        process.send_signal(signal.SIGCONT)
    until(lambda: link(pair, "a")["up"] and link(pair, "b")["up"], "both ends up again")
    assert "is down: silent" not in pair.agents["b"].text(), "it was stopped itself: no fault of its neighbour"


def test_without_hellos_carrier_alone_decides(make_net: Callable[[Path], Net]) -> None:
    net = make_pair(make_net(PLAIN), "--no-hello")
    shown = link(net, "a")
    assert (shown["link"], shown["up"], shown["hellos_sent"], shown["hellos_received"]) == ("unknown", True, 0, 0)
