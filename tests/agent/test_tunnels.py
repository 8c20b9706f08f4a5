"""Ports that are tunnels: MPLS in UDP between hosts that plain IP routers join, at an MTU of 1500."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from agent_harness import ASAN, CALM, PLAIN, Net, Transfer, inside, path_direct, random_file, run, until
from test_agent_workers import WORKERS, tree_of
from test_registration import Manager

from datacast.core import constants

pytestmark = pytest.mark.root

PATH_MTU = 1500
V4 = {"a": "10.1.0.1", "ra": "10.1.0.2", "rab": "10.2.0.1", "rba": "10.2.0.2", "rb": "10.3.0.2", "b": "10.3.0.1"}
V6 = {name: f"fd00:{address.split('.')[1]}::{address.split('.')[3]}" for name, address in V4.items()}


def piece(v6: bool = False) -> int:
    """The largest payload that fits: IP, UDP, the label of what has none, the Datacast header."""
    return PATH_MTU - (40 if v6 else 20) - 8 - constants.LABEL_LEN - constants.HEADER_LEN


def routed(net: Net, at: dict[str, str] = V4) -> Net:
    """a - r1 - r2 - b: two routers that know nothing of Datacast. No agent is started."""
    hosts = ("a", "r1", "r2", "b")
    for host in hosts:
        net.host(host)
    v6 = ":" in at["a"]
    for left, right in (("a", "r1"), ("r1", "r2"), ("r2", "b")):
        if v6:
            for host in (left, right):
                run("ip", "netns", "exec", net.namespace(host), "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=0")
                run("ip", "netns", "exec", net.namespace(host), "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=0")
        net.cable(left, right, PATH_MTU)
    places = {"a": ("a", "p0"), "ra": ("r1", "p0"), "rab": ("r1", "p1"), "rba": ("r2", "p0"), "rb": ("r2", "p1")}
    for name, (host, port) in {**places, "b": ("b", "p0")}.items():
        length = "64" if v6 else "24"
        run("ip", "-n", net.namespace(host), "addr", "add", f"{at[name]}/{length}", "dev", port, *["nodad"] * v6)
    for host in ("r1", "r2"):
        word = "net.ipv6.conf.all.forwarding=1" if v6 else "net.ipv4.ip_forward=1"
        run("ip", "netns", "exec", net.namespace(host), "sysctl", "-qw", word)
    for host, gate in (("a", "ra"), ("r1", "rba"), ("r2", "rab"), ("b", "rb")):
        default = "::/0" if v6 else "0.0.0.0/0"
        run("ip", "-n", net.namespace(host), "route", "add", default, "via", at[gate])
    for host in hosts:
        net.ports[host] = []  # no port of an agent is a cable here
    return net


def start(net: Net, at: dict[str, str] = V4, program: Path = PLAIN, workers: int = 1) -> None:
    for host, other in (("a", "b"), ("b", "a")):
        net.start(host, "--tunnel", f"0={at[host]},{at[other]}", "--workers", str(workers), program=program)


def port_of(net: Net, host: str) -> dict:
    client = net.client(host)
    try:
        return client.request("node", net.member(host, {}), {"counters": True})[host]["ports"]["0"]
    finally:
        client.close()


def drops(net: Net, host: str) -> dict:
    client = net.client(host)
    try:
        return client.request("node", net.member(host, {}), {"counters": True})[host]["drop"]
    finally:
        client.close()


def fragments(net: Net) -> int:
    """That any node of the network made."""
    total = 0
    for host in ("a", "r1", "r2", "b"):
        text = run("ip", "netns", "exec", net.namespace(host), "nstat", "-asz", "IpFragCreates", "Ip6FragCreates")
        total += sum(int(line.split()[1]) for line in text.splitlines() if "FragCreates" in line)
    return total


@pytest.mark.parametrize("at", [V4, V6], ids=["IPv4", "IPv6"])
def test_a_file_goes_through_a_tunnel_in_frames_that_fill_the_path(
    make_net: Callable[[Path], Net], tmp_path: Path, at: dict[str, str]
) -> None:
    net = routed(make_net(PLAIN), at)
    start(net, at)
    until(lambda: port_of(net, "a")["up"] and port_of(net, "b")["up"], "both ends up")
    source = random_file(tmp_path / "file", 3_000_001)
    largest = piece(":" in at["a"])
    Transfer(net, "a", source, {"b": path_direct()}, piece=largest, rate=10**9, extra=CALM).deliver()
    port = port_of(net, "b")
    assert port["up"] and port["mtu"] == largest + constants.HEADER_LEN
    assert port_of(net, "a")["tx_data_payload"] == 3_000_001  # every byte once
    assert port_of(net, "a")["oversized"] == 0 and fragments(net) == 0


@pytest.mark.parametrize("program", [PLAIN, ASAN], ids=["plain", "asan"])
def test_trees_of_two_workers_share_a_tunnel(make_net: Callable[[Path], Net], tmp_path: Path, program: Path) -> None:
    """All comes in at one thread; endpoints of the other's trees are that one's alone, and send by themselves."""
    net = routed(make_net(program))
    start(net, program=program, workers=WORKERS)
    until(lambda: port_of(net, "a")["up"] and port_of(net, "b")["up"], "both ends up")
    sent = 0
    for worker in range(WORKERS):
        size = 2_000_001 + worker
        source = random_file(tmp_path / f"file{worker}", size)
        transfer = Transfer(net, "a", source, {"b": path_direct()}, piece=piece(), tree=tree_of(worker), extra=CALM)
        transfer.deliver()
        transfer.close()
        sent += size
    assert port_of(net, "a")["tx_data_payload"] == sent  # every byte once
    for host in "ab":
        assert not {reason: n for reason, n in drops(net, host).items() if n}, f"a frame of {host} went astray"
    assert fragments(net) == 0


def test_a_tunnel_is_up_only_once_its_neighbour_answers(make_net: Callable[[Path], Net]) -> None:
    net = routed(make_net(PLAIN))
    net.start("a", "--tunnel", f"0={V4['a']},{V4['b']}")
    assert not port_of(net, "a")["up"]
    net.start("b", "--tunnel", f"0={V4['b']},{V4['a']}")
    until(lambda: port_of(net, "a")["up"] and port_of(net, "b")["up"], "both ends up")
    net.agents["b"].stop()
    until(lambda: not port_of(net, "a")["up"], "a's end down")
    net.start("b", "--tunnel", f"0={V4['b']},{V4['a']}")
    until(lambda: port_of(net, "a")["up"], "a's end up again")


def test_a_path_that_carries_less_than_the_link_s_mtu_is_no_link(make_net: Callable[[Path], Net]) -> None:
    """Nothing tells the sender (routers may not send ICMP): the hellos are as long as the longest frame."""
    net = routed(make_net(PLAIN))
    start(net)
    until(lambda: port_of(net, "a")["up"] and port_of(net, "b")["up"], "both ends up")
    run("ip", "-n", net.namespace("r1"), "link", "set", "p1", "mtu", "1400")
    until(lambda: not port_of(net, "a")["up"] and not port_of(net, "b")["up"], "both ends down")
    run("ip", "-n", net.namespace("r1"), "link", "set", "p1", "mtu", "1500")
    run("ip", "-n", net.namespace("a"), "route", "flush", "cache")  # what the router said is remembered for minutes
    until(lambda: port_of(net, "a")["up"] and port_of(net, "b")["up"], "both ends up again")


def test_an_agent_refuses_a_tunnel_larger_than_its_path(make_net: Callable[[Path], Net]) -> None:
    net = routed(make_net(PLAIN))
    with pytest.raises(AssertionError, match="an MTU of 9000 is wanted, the path carries 1500 bytes"):
        net.start("a", "--tunnel", f"0={V4['a']},{V4['b']},9000")
    with pytest.raises(AssertionError, match="the local address is not this machine's"):
        net.start("a", "--tunnel", f"0={V4['b']},{V4['a']}")
    net.agents.clear()


def stray(net: Net, host: str, to: str, datagrams: list[bytes]) -> None:
    def send() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            for datagram in datagrams:
                sock.sendto(datagram, (to, constants.UDP_PORT))

    inside(net.namespace(host), send)


@pytest.mark.parametrize("workers", [1, WORKERS])
def test_datagrams_of_others_do_not_reach_the_tunnel(make_net: Callable[[Path], Net], workers: int) -> None:
    """A router says hello and asks for data under every label: the kernel throws it away, the sender is another one."""
    net = routed(make_net(PLAIN))
    start(net, workers=workers)
    until(lambda: port_of(net, "b")["up"], "b's end up")
    before, bad = port_of(net, "b"), drops(net, "b")
    hello = struct.pack("!I", constants.LABEL_HELLO << 12 | 0x1FF) + os.urandom(40)
    stray(net, "r2", V4["b"], [hello] * 100 + [os.urandom(60) for _ in range(100)])
    after = port_of(net, "b")
    assert after["up"] and after["hellos_refused"] == before["hellos_refused"]
    assert after["rx_frames"] == before["rx_frames"] and drops(net, "b") == bad


@pytest.mark.parametrize("workers", [1, WORKERS])
def test_garbage_of_the_neighbour_s_own_address_does_no_harm(
    make_net: Callable[[Path], Net], tmp_path: Path, workers: int
) -> None:
    net = routed(make_net(PLAIN))
    start(net, program=ASAN, workers=workers)
    until(lambda: port_of(net, "b")["up"], "b's end up")
    labels = [constants.LABEL_UNLABELLED, constants.LABEL_HELLO, constants.LABEL_LOCAL, constants.LABEL_ADJ]
    garbage = [b"", b"x", b"xyz", os.urandom(4), os.urandom(1468)]
    for label in labels:
        for bottom in (0, 1):
            head = struct.pack("!I", label << 12 | bottom << 8 | 0xFF)
            garbage += [head, head + os.urandom(1), head + os.urandom(16), head * 3 + os.urandom(60)]
    stray(net, "a", V4["b"], garbage * 20)
    until(lambda: drops(net, "b")["malformed"] > 0, "the garbage")
    Transfer(net, "a", random_file(tmp_path / "file", 300_000), {"b": path_direct()}, piece=piece()).deliver()


@pytest.mark.parametrize("workers", [1, WORKERS])
@pytest.mark.parametrize("at", [V4, V6], ids=["v4", "v6"])
def test_the_fabric_manager_gives_tunnels_out_and_takes_them_back(
    make_net: Callable[[Path], Net], tmp_path: Path, at: dict[str, str], workers: int
) -> None:
    net = routed(make_net(PLAIN), at)
    net.start("b", "--tunnel", f"0={at['b']},{at['a']}")
    manager = Manager(net)
    net.start("a", "--tunnel-slots", "2", "--fabric-manager", "198.18.0.1:7500", "--workers", str(workers))
    assert [port["up"] for port in manager.accept()["ports"]] == [False, False]
    given = {"port": 0, "local": at["a"], "remote": at["b"], "mtu": PATH_MTU}
    wrong = [{"port": 9, "local": at["a"], "remote": at["b"]}, {"port": 1, "local": at["a"], "remote": "b"}, 7]
    manager.send({"type": "registered", "node": "a", "heartbeat_ms": 50, "tunnels": [given, *wrong]})
    until(lambda: port_of(net, "a")["up"] and port_of(net, "b")["up"], "both ends up")
    assert port_of(net, "a")["mtu"] == piece(at is V6) + constants.HEADER_LEN
    manager.send({"type": "registered", "node": "a", "heartbeat_ms": 50, "tunnels": []})
    until(lambda: not port_of(net, "a")["up"], "the tunnel taken back")
    manager.send({"type": "registered", "node": "a", "heartbeat_ms": 50, "tunnels": [given]})
    until(lambda: port_of(net, "a")["up"], "the tunnel again")
    source = random_file(tmp_path / "file", 300_000)
    for worker in range(workers):
        transfer = Transfer(net, "a", source, {"b": path_direct()}, piece=piece(at is V6), tree=tree_of(worker))
        transfer.deliver()
        transfer.close()


@pytest.mark.parametrize("workers", [1, WORKERS])
def test_a_tunnel_whose_address_comes_late_is_there_once_it_has_come(
    make_net: Callable[[Path], Net], workers: int
) -> None:
    """As at the start of a machine: the fabric manager says it once."""
    net = routed(make_net(PLAIN), V4)
    net.start("b", "--tunnel", f"0={V4['b']},{V4['a']}")
    run("ip", "-n", net.namespace("a"), "addr", "del", f"{V4['a']}/24", "dev", "p0")
    manager = Manager(net)
    net.start("a", "--tunnel-slots", "1", "--fabric-manager", "198.18.0.1:7500", "--workers", str(workers))
    manager.accept()
    given = {"port": 0, "local": V4["a"], "remote": V4["b"], "mtu": PATH_MTU}
    manager.send({"type": "registered", "node": "a", "heartbeat_ms": 50, "tunnels": [given]})
    log = net.agents["a"]
    until(lambda: "the local address is not this machine's" in log.text(), "its word")
    for _ in range(10):
        manager.next_of("heartbeat")
    assert log.text().count("the local address is not this machine's") == 1
    run("ip", "-n", net.namespace("a"), "addr", "add", f"{V4['a']}/24", "dev", "p0")
    run("ip", "-n", net.namespace("a"), "route", "add", "0.0.0.0/0", "via", V4["ra"])
    assert manager.next_of("link")["up"]


def test_a_tunnel_that_leads_elsewhere_is_not_up_for_what_was_there_before(make_net: Callable[[Path], Net]) -> None:
    net = routed(make_net(PLAIN), V4)
    net.start("b", "--tunnel", f"0={V4['b']},{V4['a']}")
    manager = Manager(net)
    net.start("a", "--tunnel-slots", "1", "--fabric-manager", "198.18.0.1:7500")
    manager.accept()
    given = {"port": 0, "local": V4["a"], "remote": V4["b"], "mtu": PATH_MTU}
    manager.send({"type": "registered", "node": "a", "heartbeat_ms": 50, "tunnels": [given]})
    assert manager.next_of("link")["up"]
    nobody = V4["b"] + "9"
    manager.send({"type": "registered", "node": "a", "heartbeat_ms": 50, "tunnels": [given | {"remote": nobody}]})
    assert not manager.next_of("link")["up"]
    told = [manager.next() for _ in range(6)]
    assert {message["type"] for message in told} == {"heartbeat"}, told
