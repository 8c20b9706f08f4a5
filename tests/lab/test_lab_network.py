"""The emulated cables: rate, queue, MTU, silence; and the management network beside them."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import uuid

import pytest

from datacast import topologies
from datacast.lab.network import Network, burst_bytes
from datacast.lab.plan import ip_queue, make_plan
from datacast.lab.signals import Signals
from datacast.lab.state import MARK, kill_marked

pytestmark = [pytest.mark.root]

RATE = 100_000_000
SENDER = """
import socket, sys, time
name, size, count, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
sock.setsockopt(socket.SOL_SOCKET, 32, 1 << 26)  # SO_SNDBUFFORCE: the queue is to drop
sock.bind((name, 0))
frame = b"\\xff" * 6 + bytes(6) + b"\\x88\\xb5" + bytes(size - 14)
end, sent = time.monotonic() + seconds, 0
while time.monotonic() < end and (not count or sent < count):
    try:
        sock.send(frame)
        sent += 1
    except OSError as error:
        if count:
            sent += 1
        else:
            time.sleep(0.0005)
"""
RECEIVER = """
import socket, struct, sys
name, seconds, size, idle = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x88b5))
sock.setsockopt(socket.SOL_SOCKET, 33, 1 << 24)
sock.setsockopt(socket.SOL_SOCKET, 35, 1)  # SO_TIMESTAMPNS: when the kernel had it, not when we ran
sock.bind((name, 0x88b5))
sock.settimeout(0.5)
print("ready", flush=True)
first, last, count, total, rests, rested = None, None, 0, 0, 0, 0.0
while first is None or last < first + seconds:
    try:
        data, more, _, _ = sock.recvmsg(1 << 16, 64)
    except TimeoutError:
        if first is not None:
            break
        continue
    now = float("%d.%09d" % struct.unpack("qq", more[0][2]))
    first = now if first is None else first
    if last is not None and now - last > idle:
        rests, rested = rests + 1, rested + now - last
    last, count, total = now, count + 1, total + len(data)
print(count, total, last - first, rests, rested)
"""


@pytest.fixture(scope="module")
def network():
    identity = uuid.uuid4().hex
    os.environ[MARK] = identity
    plan = make_plan(topologies.parse("bcube:2,1"), rate_bps=RATE, mtu=9000, slot=30)
    with Signals() as signals:
        made = Network(plan, "dctest30", signals)
        try:
            made.up()
            yield made
        finally:
            made.down()
            kill_marked(identity)
            os.environ.pop(MARK)
    assert not os.path.exists("/sys/class/net/dctest30")


def measure(network, size: int, count: int, seconds: float) -> tuple[int, int, float, int, float]:
    """Frames from host 00 to switch s0.0: frames, bytes and seconds at the far end; rests, of several frames' time, in
    which the sender was kept from its processor, and the seconds of those."""
    rx = network.spawn("sw0")(
        [sys.executable, "-c", RECEIVER, "s0.0-eth0", str(seconds), str(size), str(5 * 9014 * 8 / RATE)],
        stdout=subprocess.PIPE, stderr=None
    )
    assert rx.stdout.readline() == b"ready\n"
    tx = network.spawn("00")(
        [sys.executable, "-c", SENDER, "00-eth0", str(size), str(count), str(seconds + 0.5)], stdout=None, stderr=None
    )
    frames, total, took, rests, rested = rx.communicate(timeout=60)[0].split()
    tx.wait()
    return int(frames), int(total), float(took), int(rests), float(rested)


@pytest.mark.lab
@pytest.mark.alone  # it measures a rate
@pytest.mark.parametrize("size", [9014, 1514])
def test_a_cable_carries_its_rate_and_no_more(network, size):
    _, total, took, rests, rested = measure(network, size, 0, 1.0)
    assert rested < took / 2, "the sender hardly ran"
    busy = took - rested
    # The bucket's depth comes on top, once, and once more after every rest.
    deep = (1 + rests) * burst_bytes(RATE, 9000) * 8
    assert 0.985 * RATE < (total - size) * 8 / busy < RATE + 1.1 * deep / busy, (took, rests, rested)


@pytest.mark.lab
@pytest.mark.alone  # it counts what a queue takes while it drains
def test_a_burst_beyond_the_queue_is_cut_at_100_packets(network):
    frames, *_ = measure(network, 9014, 400, 3.0)
    in_bucket = burst_bytes(RATE, 9000) // 9014
    # What the port sent while the burst was being handed over comes on top.
    assert 100 + in_bucket <= frames <= 100 + in_bucket + 40


def test_data_ports_are_quiet_and_large(network):
    for machine, port in (("00", "00-eth0"), ("sw0", "s0.0-eth0")):
        link = json.loads(network.run_in(machine, ["ip", "-j", "addr", "show", "dev", port]))[0]
        assert link["mtu"] == 9000 and "NOARP" in link["flags"] and "UP" in link["flags"]
        assert link["addr_info"] == []


def test_the_management_network_joins_everyone_and_the_root_side(network):
    code = (
        "import socket; s = socket.create_server(('0.0.0.0', 7)); print('up', flush=True)\n"
        "for _ in range(2): s.accept()[0].send(b'hello')"
    )
    server = network.spawn("11")([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=None)
    assert server.stdout.readline() == b"up\n"
    address = network.plan.hosts["11"].address
    ask = f"import socket; print(socket.create_connection(('{address}', 7)).recv(9))"
    assert "hello" in network.run_in("00", [sys.executable, "-c", ask])
    with socket.create_connection((address, 7), timeout=60) as sock:
        assert sock.recv(9) == b"hello"
    server.wait()


def test_a_port_taken_down_takes_the_carrier_of_its_peer(network):
    def carrier() -> str:
        return json.loads(network.run_in("sw0", ["ip", "-j", "link", "show", "dev", "s0.1-eth0"]))[0]["operstate"]

    before = carrier()
    network.set_port("10", 0, False)
    during = carrier()
    network.set_port("10", 0, True)
    assert (before, during, carrier()) == ("UP", "DOWN", "UP")


def test_a_port_that_swallows_has_the_rate_again_that_it_was_given_meanwhile(network):
    def rates() -> list[int]:
        told = [json.loads(network.run_in(*where)) for where in (
            ("10", ["tc", "-j", "qdisc", "show", "dev", "10-eth0"]),
            ("sw0", ["tc", "-j", "qdisc", "show", "dev", "s0.1-eth0"]),
        )]
        return [8 * one["options"]["rate"] for rows in told for one in rows if one["kind"] == "tbf"]

    network.rate("10", 0, RATE // 5)
    network.swallow("10", 0, True)
    assert rates() == [RATE // 5]
    network.swallow("10", 0, False)
    assert rates() == [RATE // 5] * 2
    network.swallow("10", 0, True)
    network.rate("10", 0, RATE // 2)
    assert rates() == [RATE // 2]
    network.swallow("10", 0, False)
    assert rates() == [RATE // 2] * 2
    network.rate("10", 0, None)
    assert rates() == [RATE] * 2


TALKER = """
import socket, sys, time
end = time.monotonic() + float(sys.argv[2])
sock = socket.create_connection((sys.argv[1], 7), timeout=60)
sock.settimeout(1)
while time.monotonic() < end:
    try:
        sock.send(bytes(1 << 16))
    except TimeoutError:
        pass
"""
LISTENER = """
import socket, sys, time
sock = socket.create_server((sys.argv[1], 7))
print("ready", flush=True)
talk, _ = sock.accept()
talk.settimeout(1)
total, said = 0, 0
while True:
    try:
        data = talk.recv(1 << 16)
    except TimeoutError:
        continue
    if not data:
        break
    total += len(data)
    if total - said > 100_000:
        print(total, flush=True)
        said = total
"""


def test_a_rate_that_falls_stops_no_connection_whose_packets_are_larger_than_its_bucket():
    """TCP's are, with offloads: a smaller bucket would let the first of them, and all behind it, never through."""
    plan = make_plan(topologies.parse("bcube:2,1"), rate_bps=40_000_000, mtu=1500, slot=28)
    with Signals() as signals:
        made = Network(plan, "dctest28", signals)
        made.ip = True
        try:
            made.up()
            made.script("00", "ip addr add 10.9.0.1/30 dev 00-eth0\n")
            made.script("sw0", "ip addr add 10.9.0.2/30 dev s0.0-eth0\n")
            listener = made.spawn("sw0")(
                [sys.executable, "-c", LISTENER, "10.9.0.2"], stdout=subprocess.PIPE, stderr=None
            )
            assert listener.stdout.readline() == b"ready\n"
            talker = made.spawn("00")([sys.executable, "-c", TALKER, "10.9.0.2", "4"], stdout=None, stderr=None)
            while int(listener.stdout.readline()) < 2_000_000:
                pass
            for rate in (20_000_000, 8_000_000, 60_000_000, 8_000_000, None, 5_000_000):
                made.rate("00", 0, rate)
                before = int(listener.stdout.readline())
                assert int(listener.stdout.readline()) > before  # pytest's timeout ends a wait for ever
            shown = made.run_in("00", ["tc", "qdisc", "show", "dev", "00-eth0"])
            assert f"pfifo 6: parent 5:1 limit {ip_queue(plan.cables[0].queue_packets, 1500)}p" in shown, shown
            assert f"burst {burst_bytes(60_000_000, 1500)}b" in shown, shown
            assert talker.wait(60) == 0
            listener.wait(60)
        finally:
            made.down()


INTERRUPTED = """
import os, sys
from datacast import topologies
from datacast.lab.errors import Interrupted
from datacast.lab.network import Network
from datacast.lab.plan import make_plan
from datacast.lab.signals import Signals

with Signals() as signals:
    network = Network(make_plan(topologies.parse("bcube:2,0"), rate_bps=10**8, mtu=9000, slot=30), "dctest31", signals)
    node = network._node("00")
    try:
        signals.check()
    except Interrupted:
        print("interrupted", os.readlink(f"/proc/{node.pid}/ns/net") != os.readlink("/proc/self/ns/net"))
    node.terminate()
"""


def test_ctrl_c_while_a_namespace_comes_to_be_ends_the_lab_and_not_its_shell(tmp_path):
    """The terminal tells all of a process group, those too that were forked a moment ago."""
    fake = tmp_path / "mnexec"
    fake.write_text(f'#!/bin/sh\nkill -INT "-$GROUP"\nexec {shutil.which("mnexec")} "$@"\n')
    fake.chmod(0o755)
    code = f"import os\nos.environ['GROUP'] = str(os.getpgrp())\n{INTERRUPTED}"
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    process = subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert process.communicate(timeout=30)[0] == "interrupted True\n"
    finally:
        process.kill()
        process.wait()
