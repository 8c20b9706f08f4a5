"""Frames go where their labels say, in one piece, jumbo ones too."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest
from switch_rig import BINARY, Rig, rig
from waiting import wait_for

from datacast.controller.southbound import lldp
from datacast.core import constants as c
from datacast.core.wire import Header, Segment, encode_data, encode_frame, encode_header

pytestmark = pytest.mark.root


def data_frame(labels: list[int], payload: bytes, seq: int = 1, tree: int = 5) -> bytes:
    header = Header(type=c.TYPE_DATA, tree=tree, seq=seq, length=len(payload))
    return encode_frame(labels, encode_header(header) + payload)


def test_a_frame_leaves_by_the_port_of_its_label_with_one_label_less(rig3: Rig) -> None:
    rig3.start().ready()
    payload = bytes(range(256)) * 4
    rig3.wires[0].send(data_frame([1024 + 2, 1024 + 7, 1000], payload))
    got = rig3.wires[2].receive()
    assert got is not None
    assert got[12:] == data_frame([1024 + 7, 1000], payload)[12:]
    assert rig3.wires[1].silent() and rig3.wires[0].silent()


@pytest.mark.parametrize("workers", [1, 2])
def test_forty_ports_in_one_process(tmp_path: Path, switch_binary: Path, workers: int) -> None:
    """DPDK has 32 devices; kernel interfaces are none of them. With one of DPDK's beside them, which counts alone."""
    with rig(tmp_path, 40, 1500) as r:
        config = r.config(workers=workers)
        config["nodes"][0]["ports"].append({"port": 40, "vdev": "net_null0"})
        process = r.start(config).ready()
        for at, to in ((39, 3), (3, 39), (39, 38), (0, 31), (31, 32)):
            r.wires[at].send(data_frame([1024 + to, 1000], bytes([at, to]) * 50, tree=at))
            got = r.wires[to].receive()
            assert got is not None and got[12:] == data_frame([1000], bytes([at, to]) * 50, tree=at)[12:]
        ports = process.ask("ports")["nodes"]["s0.0"]
        assert len(ports) == 41 and ports["39"]["driver"] == "packet socket" and ports["40"]["driver"] == "net_null"
        assert all(port["carrier"] for port in ports.values())
        assert process.counters()["drop"]["uturn"] == 0


def test_no_frame_leaves_by_the_port_it_came_in(rig3: Rig) -> None:
    process = rig3.start().ready()
    rig3.wires[1].send(data_frame([1025, 1000], b"x" * 100))
    wait_for("the drop", lambda: process.counters()["drop"]["uturn"] == 1)
    assert rig3.wires[1].silent()


def test_addresses_are_the_ports_own_and_the_neighbours(rig3: Rig) -> None:
    config = rig3.config()
    config["nodes"][0]["ports"][1]["neighbour"] = {"node": "00", "port": 0, "mac": "02:00:00:00:00:09"}
    process = rig3.start(config).ready()
    ports = process.ask("ports")["nodes"]["s0.0"]
    rig3.wires[0].send(data_frame([1025, 1000], b"y" * 64))
    rig3.wires[0].send(data_frame([1026, 1000], b"y" * 64))
    known, unknown = rig3.wires[1].receive(), rig3.wires[2].receive()
    assert known is not None and unknown is not None
    assert known[:6] == bytes.fromhex("020000000009") and known[6:12].hex(":") == ports["1"]["mac"]
    assert unknown[:6] == b"\xff" * 6 and unknown[6:12].hex(":") == ports["2"]["mac"]


@pytest.mark.parametrize("mtu", [1500, 9000])
def test_the_largest_frame_passes_whole(tmp_path: Path, switch_binary: Path, mtu: int) -> None:
    with rig(tmp_path, 2, mtu) as r:
        process = r.start().ready()
        payload = bytes(i * 7 % 251 for i in range(mtu - 8 - 16))  # two labels and the header
        for _ in range(40):
            r.wires[0].send(data_frame([1025, 1000], payload))
            got = r.wires[1].receive()
            assert got is not None and got.endswith(payload) and len(got) == 14 + mtu - 4
        counters = process.counters()
        assert counters["forwarded"] == 40
        assert counters["ports"]["0"]["rx_frames"] == 40 and counters["ports"]["1"]["tx_frames"] == 40


def test_a_burst_arrives_whole_and_in_order(rig3: Rig) -> None:
    process = rig3.start(rig3.config(ring_frames=256)).ready()  # the burst fits, however late the switch gets to run
    for seq in range(200):
        rig3.wires[0].send(data_frame([1025, 1000], seq.to_bytes(4, "big") * 2000, seq))
    for seq in range(200):
        got = rig3.wires[1].receive()
        assert got is not None and got.endswith(seq.to_bytes(4, "big") * 2000), f"frame {seq}"
    packets = process.ask("counters")["packets"]
    assert packets["in_place"] == 200 and packets["bytes_copied"] == 0
    assert packets["pool_free"] == packets["pool_size"], "every mbuf went back"


def test_a_slow_link_costs_frames_but_stops_nothing(rig3: Rig) -> None:
    """Behind a shaped port the queue fills up: what does not fit is counted, other ports go on, what fits arrives."""
    config = rig3.config(ring_frames=64)
    rig3.ns.command("tc", "qdisc", "add", "dev", rig3.ifaces[1], "root", "handle", "1:", "tbf", "rate", "10mbit",
                    "burst", "20k", "limit", "200k")
    process = rig3.start(config).ready()
    sent = 0
    while process.counters()["drop"]["tx_full"] == 0:
        assert sent < 2000, process.counters()
        for _ in range(20):  # fewer than the receive ring holds
            rig3.wires[0].send(data_frame([1025, 1000], b"s" * 8000, sent))
            sent += 1
        wait_for("the burst", lambda n=sent: process.counters()["ports"]["0"]["rx_frames"] == n)
    rig3.wires[0].send(data_frame([1026, 1000], b"other" * 100))
    got = rig3.wires[2].receive()
    assert got is not None and got.endswith(b"other" * 100), "a full port must not hold up another one"
    taken = sent - process.counters()["drop"]["tx_full"]
    assert taken >= 20, "as many as 200 KB are"
    # All that the port took leaves without any further traffic.
    for i in range(taken):
        assert rig3.wires[1].receive() is not None, f"frame {i} of {taken}: {process.counters()}"
    assert rig3.wires[1].silent()


def test_frames_beyond_the_receive_ring_are_counted(rig3: Rig) -> None:
    process = rig3.start(rig3.config(ring_frames=16)).ready()
    process.popen.send_signal(signal.SIGSTOP)
    ring = 100
    for seq in range(ring):
        rig3.wires[0].send(data_frame([1025, 1000], b"m" * 100, seq))
    process.popen.send_signal(signal.SIGCONT)

    def accounted() -> bool:
        port = process.counters()["ports"]["0"]
        return port["rx_missed"] > 0 and port["rx_missed"] + port["rx_frames"] == ring

    wait_for("every frame to be counted as received or missed", accounted)


def test_two_switches_side_by_side_and_one_with_two_nodes(rig3: Rig) -> None:
    """Port 0 is one process; ports 1 and 2 are two nodes of another one. Each uses its own numbers."""
    first = rig3.config()
    first["nodes"][0]["ports"] = [{"port": 0, "iface": rig3.ifaces[0]}]
    second = rig3.config()
    second["nodes"] = [{"name": f"s1.{i}", "ports": [{"port": 3, "iface": rig3.ifaces[1 + i]}]} for i in range(2)]
    one, two = rig3.start(first, BINARY), rig3.start(second, BINARY)
    one.ready()
    two.ready()
    rig3.wires[0].send(data_frame([1024, 1000], b"a" * 64))
    rig3.wires[1].send(data_frame([1027, 1000], b"b" * 64))
    rig3.wires[2].send(data_frame([1025, 1000], b"c" * 64))  # its node has no port 1
    for process, node in ((one, "s0.0"), (two, "s1.0")):  # a label that names the node's only port asks for a U-turn
        wait_for("its own port", lambda p=process, n=node: p.counters(n)["drop"]["uturn"] == 1)
    wait_for("the third frame", lambda: two.counters("s1.1")["ports"]["3"]["rx_frames"] == 1)
    counters = two.counters("s1.1")
    assert counters["forwarded"] + counters["drop"]["no_device"] + counters["drop"]["port"] >= 1
    assert counters["drop"]["no_device"] + counters["drop"]["port"] == 1
    assert rig3.wires[2].silent()


def test_an_appliance_answers_by_its_only_port(tmp_path: Path, switch_binary: Path) -> None:
    """A cache appliance sends everything to its switch, so the way out of the waypoint is a label like the others."""
    with rig(tmp_path, 1) as r:
        process = r.start(None, BINARY, "--appliance").ready()
        assert process.ask("config")["nodes"]["s0.0"]["appliance"] is True
        from test_switch_cache import interest_frame, route

        r.wires[0].send(interest_frame(route(receiver=4), seq=1))
        onwards = r.wires[0].receive()
        assert onwards is not None
        assert int.from_bytes(onwards[14:17], "big") >> 4 == 1024, "towards the source: the switch's port 0"
        r.wires[0].send(encode_data(Segment((0,), local=True), Header(type=c.TYPE_DATA, tree=9, seq=1), b"d" * 500))
        answer = r.wires[0].receive()
        assert answer is not None and answer.endswith(b"d" * 500)
        assert int.from_bytes(answer[14:17], "big") >> 4 == 1024 + 4


def test_an_appliance_sends_its_controllers_probes_back_and_no_others(tmp_path: Path, switch_binary: Path) -> None:
    probe = lldp.encode("s0.0", lldp.APPLIANCE, "02:00:00:00:00:09")
    with rig(tmp_path, 1) as r:
        r.start(None, BINARY, "--appliance").ready()
        r.wires[0].send(probe.replace(b"datacast", b"somebody"))
        r.wires[0].send(probe)
        assert (came := r.wires[0].receive()) is not None and came[:len(probe)] == probe
        assert r.wires[0].silent()


def test_a_whitebox_sends_no_probe_back(rig3: Rig) -> None:
    process = rig3.start().ready()
    rig3.wires[0].send(lldp.encode("s0.0", lldp.APPLIANCE, "02:00:00:00:00:09"))
    wait_for("the drop", lambda: process.ask("counters")["nodes"]["s0.0"]["drop"].get("ethertype") == 1)
    assert rig3.wires[0].silent()


def test_check_reads_the_configuration_and_starts_nothing(rig3: Rig) -> None:
    process = rig3.start(rig3.config(), BINARY, "--check")
    assert process.popen.wait(60) == 0, process.log
    assert "1 node(s), good" in process.log


def test_help_and_version_need_nothing(switch_binary: Path) -> None:
    for option, word in (("--help", "usage:"), ("--version", "datacast-switch 0.")):
        done = subprocess.run([switch_binary, option], capture_output=True, text=True)
        assert done.returncode == 0 and word in done.stdout
