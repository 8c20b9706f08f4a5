"""Ways of waiting, measured side by side (docs/decisions/switch-waits-on-the-drivers-sockets.md has the figures)."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import pytest
from switch_rig import BINARY, Rig, rig

from datacast.core import constants as c
from datacast.core.wire import Header, encode_frame, encode_header

pytestmark = [pytest.mark.root, pytest.mark.slow]
PAYLOAD = 8800
PAIRS = 4
RATE = 1300  # frames per second of 9,000 bytes are 94 Mbit/s


def frame(port: int) -> bytes:
    header = encode_header(Header(type=c.TYPE_DATA, tree=1, seq=1, length=PAYLOAD))
    return encode_frame([1024 + port, 1000], header + bytes(PAYLOAD))


def measure(r: Rig, *options: str) -> dict[str, float]:
    """Idle share of a core, microseconds from this program's send to its receive (one hop, two system calls), and the
    processor time per frame at RATE per port."""
    process = r.start(None, BINARY, *options, name="-".join(("run", *options)).replace("--", "")).ready()
    cpu, start = process.cpu_precise(), time.monotonic()
    time.sleep(1.5)  # a span to measure
    idle = (process.cpu_precise() - cpu) / (time.monotonic() - start)
    hops = []
    r.wires[1].socket.settimeout(3)
    for _ in range(200):
        begin = time.perf_counter_ns()
        r.wires[0].send(frame(1))
        r.wires[1].socket.recv(65536)
        hops.append((time.perf_counter_ns() - begin) / 1000)
        time.sleep(1 / RATE)  # the pace of the traffic
    r.wires[1].socket.settimeout(None)
    frames = [frame(PAIRS + i) for i in range(PAIRS)]
    sent, cpu, start = 0, process.cpu_precise(), time.monotonic()
    due = start
    while time.monotonic() - start < 1.5:
        for i in range(PAIRS):
            r.wires[i].send(frames[i])
            sent += 1
        due += 1 / RATE
        time.sleep(max(0.0, due - time.monotonic()))  # the pace of the traffic
    busy = process.cpu_precise() - cpu
    lost = sent + len(hops) - process.counters()["forwarded"]
    assert process.stop() == 0
    return {"idle_percent": 100 * idle, "hop_us": statistics.median(hops), "cpu_us_per_frame": 1e6 * busy / sent,
            "lost": lost}


def test_events_idle_for_nothing_and_answer_sooner_than_pauses(tmp_path: Path, switch_binary: Path) -> None:
    results = {}
    with rig(tmp_path, 2 * PAIRS) as r:
        for name, options in (("events", ()), ("pauses", ("--pauses",))):
            results[name] = measure(r, *options)
            print(f"{name}: " + ", ".join(f"{key} {value:.2f}" for key, value in results[name].items()))
    assert results["events"]["idle_percent"] < results["pauses"]["idle_percent"]
    assert results["events"]["hop_us"] < results["pauses"]["hop_us"]
    assert results["events"]["lost"] == 0
