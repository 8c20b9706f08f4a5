"""Links that fail without losing their carrier, between two switches."""

from __future__ import annotations

import re
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from switch_rig import PATIENCE, Process, Rig
from waiting import wait_for

from datacast.services.framing import Decoder, encode

pytestmark = pytest.mark.root

AWAY_MS = 10_000
"""The most that neighbours wait: a busy machine may take some seconds to start a switch."""


class Pair:
    """wire 0 - s0.0 - s0.1 - wire 1, each switch a process of its own."""

    def __init__(self, path: Path, **more: Any) -> None:
        self.rig = Rig(path, 2)
        a, b = (f"{name}{self.rig.ifaces[0][1:-2]}" for name in "xy")
        self.rig.ns.ip("link", "add", a, "mtu", "9000", "type", "veth", "peer", "name", b, "mtu", "9000")
        self.cable = (a, b)
        for end in self.cable:
            self.rig.ns.ip("link", "set", end, "up")
        self.ends = [self.start("s0.0", self.rig.ifaces[0], a, more), self.start("s0.1", self.rig.ifaces[1], b, more)]

    def start(self, name: str, outside: str, inside: str, more: dict[str, Any], folder: str = "") -> Process:
        ports = [{"port": 0, "iface": outside}, {"port": 1, "iface": inside}]
        config = {"nodes": [{"name": name, "ports": ports, "cache": {"memory": "1M"}}], "no_hello": False, **more}
        return self.rig.start(config, name=folder or name, first=True).ready()

    def link(self, i: int) -> str:
        return str(self.ends[i].ask("ports")["nodes"][f"s0.{i}"]["1"]["link"])

    def alive(self) -> bool:
        return self.link(0) == self.link(1) == "up"

    def wait_alive(self) -> None:
        wait_for("both directions", self.alive)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    yield made
    made.rig.close()


class Traffic:
    """A frame every two milliseconds through both switches, one way."""

    FRAME = (
        bytes(12) + b"\x88\x47" + (1025 << 12 | 255).to_bytes(4, "big") + (1024 << 12 | 0x100 | 255).to_bytes(4, "big")
    )

    def __init__(self, pair: Pair) -> None:
        self.pair, self.ended = pair, threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self) -> None:
        for _ in range(30_000):
            if self.ended.wait(0.002):
                return
            self.pair.rig.wires[0].send(self.FRAME + bytes(100))

    def __enter__(self) -> Traffic:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.thread.join()


def stamps(process: Process, what: str) -> list[float]:
    """Seconds of the day of the log's lines that hold `what`."""
    found = re.findall(rf"^(\d\d):(\d\d):(\d\d\.\d+) .*{what}", process.log, re.MULTILINE)
    return [int(h) * 3600 + int(m) * 60 + float(s) for h, m, s in found]


def second_of_day() -> float:
    now = time.time()
    local = time.localtime(now)
    return local.tm_hour * 3600 + local.tm_min * 60 + local.tm_sec + now % 1


@pytest.mark.parametrize(
    ("way", "first", "second"), [("rx", "silent", "unheard"), ("tx", "unheard", "silent"), ("both", "silent", "silent")]
)
def test_a_black_hole_is_found_in_each_direction(pair: Pair, way: str, first: str, second: str) -> None:
    """How soon: tests/clockwork/test_figures.py, bench/failures."""
    pair.wait_alive()
    with Traffic(pair):
        wait_for("traffic", lambda: pair.ends[1].counters("s0.1")["forwarded"] > 20)
        for _ in range(2):
            # A busy machine keeps hellos back, too: the port may have been down before.
            told = [(end, f"port 1 .* is down: {why}") for end, why in zip(pair.ends, (first, second), strict=True)]
            before = [len(stamps(end, what)) for end, what in told]
            assert pair.ends[0].ask("fault", node="s0.0", port=1, blackhole=way)["ok"]
            for (end, what), n in zip(told, before, strict=True):
                wait_for(what, lambda end=end, what=what, n=n: len(stamps(end, what)) > n)  # type: ignore[misc]
            assert not pair.ends[0].ask("ports")["nodes"]["s0.0"]["1"]["up"]
            assert pair.ends[0].ask("ports")["nodes"]["s0.0"]["1"]["carrier"]
            assert pair.ends[0].ask("fault", node="s0.0", port=1, blackhole="off")["ok"]
            pair.wait_alive()


def test_a_switch_that_dies_is_silence_and_its_return_is_seen(pair: Pair) -> None:
    pair.wait_alive()
    pair.ends[1].popen.kill()
    pair.ends[1].popen.wait()
    wait_for("silence", lambda: "is down: silent" in pair.ends[0].log)
    pair.ends[1] = pair.start("s0.1", pair.rig.ifaces[1], pair.cable[1], {}, "again")
    pair.wait_alive()
    assert pair.ends[0].ask("ports")["nodes"]["s0.0"]["1"]["link_failures"] == 1


def test_an_upgrade_is_no_failure(tmp_path: Path) -> None:
    """SIGUSR2: it is away longer than its silence would be borne, and forwards again as another run."""
    pair = Pair(tmp_path, away_ms=AWAY_MS)
    try:
        upgrade(pair)
    finally:
        pair.rig.close()


def upgrade(pair: Pair) -> None:
    pair.wait_alive()
    with Traffic(pair):
        wait_for("traffic", lambda: pair.ends[1].counters("s0.1")["forwarded"] > 20)
        assert pair.ends[1].stop(signal.SIGUSR2) == 75
        time.sleep(1)  # its silence would be borne for 750 ms at most
        pair.ends[1] = pair.start("s0.1", pair.rig.ifaces[1], pair.cable[1], {}, "next")
        pair.wait_alive()
        wait_for("traffic again", lambda: pair.ends[1].counters("s0.1")["forwarded"] > 20)
    assert pair.ends[0].ask("ports")["nodes"]["s0.0"]["1"]["link_failures"] == 0
    assert "is down" not in pair.ends[0].log
    pair.ends[1].popen.kill()  # and nothing of it lasts
    wait_for("silence", lambda: "is down: silent" in pair.ends[0].log)


def test_who_does_not_come_back_from_an_upgrade_has_failed(tmp_path: Path) -> None:
    pair = Pair(tmp_path, away_ms=1500)
    try:
        pair.wait_alive()
        began = second_of_day()
        assert pair.ends[1].stop(signal.SIGUSR2) == 75
        wait_for("silence", lambda: "is down: silent" in pair.ends[0].log)
        assert stamps(pair.ends[0], "is down: silent")[-1] - began > 1.4  # it tells whole milliseconds
    finally:
        pair.rig.close()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("nodes: [{name: s0.1, ports: []}]", "ports is empty"),
        ("nodes: [{name: s0.1, ports: [{port: 0, iface: absent0}]}]", "interface absent0 does not exist"),
        ("nodes: [{name: s0.1, ports: [{port: 0, iface: PORT}]}]\nmtu: 16000", "has an MTU of 9000"),
        ("nodes: [{name: s0.1, ports: [{port: 0, iface: PORT}]}]\ntls: {ca: /ca, cert: /c, key: /k}", "/ca holds no"),
    ],
    ids=["configuration", "interface", "mtu", "certificate"],
)
def test_a_switch_whose_next_run_could_not_start_stays(pair: Pair, text: str, why: str) -> None:
    pair.wait_alive()
    (pair.ends[1].path / "switch.yaml").write_text(text.replace("PORT", pair.cable[1]))
    pair.ends[1].popen.send_signal(signal.SIGUSR2)
    wait_for("its refusal", lambda: "not leaving, the next run would not start: " in pair.ends[1].log)
    assert why in pair.ends[1].log
    assert pair.ends[1].ask("ports")["ok"]
    time.sleep(0.5)
    assert pair.alive()


def test_a_stopped_process_does_not_blame_its_neighbours(pair: Pair) -> None:
    pair.wait_alive()
    pair.ends[0].popen.send_signal(signal.SIGSTOP)
    wait_for("the other end's verdict", lambda: "is down: silent" in pair.ends[1].log)
    pair.ends[0].popen.send_signal(signal.SIGCONT)
    pair.wait_alive()
    assert "is down: silent" not in pair.ends[0].log


def test_carrier_comes_first_and_names_itself(pair: Pair) -> None:
    pair.wait_alive()
    pair.rig.ns.ip("link", "set", pair.cable[1], "down")
    wait_for("carrier", lambda: "is down: carrier" in pair.ends[0].log)
    pair.rig.ns.ip("link", "set", pair.cable[1], "up")
    pair.wait_alive()
    wait_for("up again", lambda: " is up" in pair.ends[0].log)
    assert "is down: silent" not in pair.ends[0].log


def test_without_hellos_carrier_alone_decides(tmp_path: Path) -> None:
    pair = Pair(tmp_path, no_hello=True)
    try:
        assert pair.link(0) == "unknown"
        facts = pair.ends[0].ask("counters")["nodes"]["s0.0"]["ports"]["1"]
        assert facts["hellos_sent"] == facts["hellos_received"] == 0
        assert pair.ends[0].ask("ports")["nodes"]["s0.0"]["1"]["up"]
    finally:
        pair.rig.close()


def test_a_hello_that_was_routed_here_is_none(pair: Pair) -> None:
    """Whoever may send a frame can have it routed to any link's end: what comes out must never be taken for a hello."""
    pair.wait_alive()
    header = b"\x23\x00\x00\x08" + b"\xde\xad\xbe\xef" + b"\x00\x00\x00\x01" + bytes(4)
    down = header + b"\x01\x00\x00\x19" + bytes(4)  # another instance, that hears nothing
    label = (1025 << 12 | 0x100 | 255).to_bytes(4, "big")
    for under in (down, b"\x88\xb6" + down, bytes(12) + b"\x88\xb6" + down):
        pair.rig.wires[0].send(bytes(12) + b"\x88\x47" + label + under + bytes(60))
    pair.rig.wires[0].send(bytes(12) + b"\x88\xb5" + down + bytes(60))
    wait_for("the frames", lambda: pair.ends[0].counters("s0.0")["forwarded"] >= 3)
    time.sleep(0.5)
    assert pair.alive()
    assert [end.ask("ports")["nodes"][f"s0.{i}"]["1"]["link_failures"] for i, end in enumerate(pair.ends)] == [0, 0]
    assert "is down" not in pair.ends[0].log + pair.ends[1].log


def test_idle_hellos_are_few(pair: Pair) -> None:
    pair.wait_alive()

    def sent() -> int:
        return int(pair.ends[0].counters("s0.0")["ports"]["1"]["hellos_sent"])

    time.sleep(2.5)  # the fast interval of the start ends
    before, cpu, began = sent(), pair.ends[0].cpu_precise(), time.monotonic()
    time.sleep(2)
    took = time.monotonic() - began
    assert 0 < sent() - before <= 6 * took
    assert pair.ends[0].cpu_precise() - cpu < 0.02 * took


def test_malformed_hellos_are_counted_and_change_nothing(pair: Pair) -> None:
    pair.wait_alive()
    hello = bytes(12) + b"\x88\xb6\x23\x00"
    for bad in (
        hello,
        hello + bytes(12),
        hello + b"\x00\x08" + bytes(12),
        hello + b"\x00\x08" + bytes(12) + b"\x09" * 8,
    ):
        pair.rig.wires[0].send(bad)
    wait_for("refusals", lambda: pair.ends[0].counters("s0.0")["ports"]["0"]["hellos_refused"] == 4)
    assert pair.alive()


def test_the_fabric_manager_hears_the_reason(tmp_path: Path) -> None:
    rig = Rig(tmp_path, 1)
    server = rig.ns.inside(lambda: socket.create_server(("127.0.0.1", 7500)))
    a, b = (f"{name}{rig.ifaces[0][1:-2]}" for name in "uv")
    rig.ns.ip("link", "add", a, "mtu", "9000", "type", "veth", "peer", "name", b, "mtu", "9000")
    for end in (a, b):
        rig.ns.ip("link", "set", end, "up")
    try:
        node = {"cache": {"memory": "1M"}}
        nodes = [
            {"name": "s0.0", "ports": [{"port": 0, "iface": a}], **node},
            {"name": "s0.1", "ports": [{"port": 0, "iface": b}], **node},
        ]
        process = rig.start({"nodes": nodes, "no_hello": False, "fabric_manager": "127.0.0.1:7500"}).ready()
        server.settimeout(PATIENCE)
        conn, _ = server.accept()
        conn.settimeout(PATIENCE)
        decoder, links = Decoder(), []

        def link_of(up: bool) -> dict[str, Any]:
            while True:
                for message in links:
                    if message["up"] is up:
                        links.remove(message)
                        return message
                for message in decoder.feed(conn.recv(1 << 16)):
                    if message["type"] == "register":
                        conn.sendall(encode({"type": "registered", "node": message["node"], "heartbeat_ms": 1000}))
                    elif message["type"] == "link":
                        conn.sendall(encode({"type": "ok", "n": message["n"]}))
                        links.append(message)

        def alive() -> bool:
            nodes = process.ask("ports")["nodes"]
            return all(nodes[name]["0"]["link"] == "up" for name in nodes)

        wait_for("both ends", alive)
        assert process.ask("fault", node="s0.0", port=0, blackhole="rx")["ok"]
        told = {m["node"]: m for m in (link_of(False), link_of(False))}
        assert told["s0.0"]["reason"] == "silent" and told["s0.1"]["reason"] == "unheard", told
        assert process.ask("fault", node="s0.0", port=0, blackhole="off")["ok"]
        assert all("reason" not in m for m in (link_of(True), link_of(True)))
        conn.close()
    finally:
        server.close()
        rig.close()
