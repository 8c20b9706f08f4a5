"""Whatever arrives is counted and dropped, no more: golden refusals by reason, then noise, under AddressSanitizer."""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path

import pytest
from switch_rig import BINARY_ASAN, ROOT, Process, Rig, rig
from test_switch_cache import data_frame, interest_frame, route
from waiting import wait_for

from datacast.core import constants as c
from datacast.core.wire import Header, encode_frame, encode_header

pytestmark = pytest.mark.root
GOLDEN = ROOT / "tests" / "golden" / "frames.txt"
# What a host's node refuses and a switch's node refuses for another reason, or not at all: it has no endpoints.
HOST_ONLY = {"no_endpoint"}


def golden(kind: str) -> list[dict[str, str]]:
    entries, entry = [], None
    for line in GOLDEN.read_text().splitlines():
        word, _, rest = line.partition(" ")
        if word == kind:
            entry = {"name": rest}
        elif word == "end":
            if entry is not None:
                entries.append(entry)
            entry = None
        elif entry is not None and word in ("reason", "hex", "port", "out"):
            entry[word] = rest
    assert entries, f"no '{kind}' in {GOLDEN}"
    return entries


def received(process: Process, port: int = 0) -> int:
    return process.counters()["ports"][str(port)]["rx_frames"]


def test_golden_refusals_are_counted_by_their_reason(tmp_path: Path, asan_binary: Path) -> None:
    refusals = [e for e in golden("refuse") if e["reason"] not in HOST_ONLY and len(e["hex"]) // 2 >= 14]
    with rig(tmp_path, 4) as r:
        process = r.start(None, BINARY_ASAN).ready(60)
        assert len(refusals) > 20
        for entry in refusals:
            before = process.counters()["drop"]
            frames = received(process)
            r.wires[0].send(bytes.fromhex(entry["hex"]))
            wait_for(entry["name"], lambda n=frames: received(process) == n + 1)
            after = process.counters()["drop"]
            counted = {reason for reason in after if after[reason] != before[reason]}
            assert counted == {entry["reason"]}, entry["name"]
        assert all(wire.silent(0.05) for wire in r.wires)


def test_golden_frames_are_forwarded_as_every_switch_does(tmp_path: Path, switch_binary: Path) -> None:
    with rig(tmp_path, 8) as r:
        r.start().ready()
        for entry in golden("pop"):
            r.wires[3].send(bytes.fromhex(entry["hex"]))
            got = r.wires[int(entry["port"])].receive()
            assert got is not None, entry["name"]
            assert got[12:] == bytes.fromhex(entry["out"])[12:], entry["name"]


def noise(rng: random.Random) -> bytes:
    """Frames that are nearly right: a good one with bytes changed, cut, or lengthened; or plain noise."""
    labels = [rng.choice([1024, 1025, 1026, 1000, 1000, 17, rng.randrange(1 << 20)]) for _ in range(rng.randrange(5))]
    kind = rng.randrange(6)
    if kind == 0:
        return rng.randbytes(rng.randrange(14, 9014))
    if kind == 1:
        frame = interest_frame(route(rng.randrange(4), rng.random() < 0.5), rng.randrange(64), rng.randrange(8) & 5)
    elif kind == 2:
        frame = data_frame(rng.randrange(64), rng.randbytes(rng.randrange(2000)))
    elif kind == 3:
        frame = encode_frame(labels, rng.randbytes(rng.randrange(200)))
    else:
        header = Header(type=rng.choice([c.TYPE_INTEREST, c.TYPE_DATA, c.TYPE_HELLO]), tree=rng.randrange(400),
                        seq=rng.randrange(1 << 32), flags=rng.choice([0, 1, 2, 4]), length=rng.randrange(300),
                        stops=rng.randrange(4))
        frame = encode_frame(labels, encode_header(header) + rng.randbytes(rng.randrange(300)))
    changed = bytearray(frame)
    for _ in range(rng.choice([0, 0, 1, 2, 8])):
        changed[rng.randrange(12, len(changed))] = rng.randrange(256)
    return bytes(changed[: rng.choice([len(changed), len(changed), rng.randrange(14, len(changed) + 1)])])


def test_noise_crashes_nothing(tmp_path: Path, asan_binary: Path) -> None:
    seed = int(os.environ.get("DATACAST_SEED", "20"))
    print(f"DATACAST_SEED={seed}")
    rng = random.Random(seed)
    with rig(tmp_path, 4) as r:
        process = r.start(r.config(cache={"trees": 16}), BINARY_ASAN).ready(60)
        sent: Counter[int] = Counter()
        for _ in range(60):
            for _ in range(50):
                port = rng.randrange(4)
                r.wires[port].send(noise(rng))
                sent[port] += 1
            for port in range(4):
                wait_for("the burst", lambda p=port: received(process, p) >= sent[p])
        assert process.popen.poll() is None, process.log
        counters = process.counters()
        assert sum(counters["drop"].values()) > 1000
        assert sum(1 for n in counters["drop"].values() if n > 0) > 8, counters["drop"]
        for wire in r.wires:
            while wire.receive(0.05) is not None:
                pass
        # It still works, and what it forgets leaves no packet memory behind.
        r.wires[0].send(encode_frame([1026, 1000], b"still here" * 10))
        got = r.wires[2].receive()
        assert got is not None and got.endswith(b"still here" * 10)
        assert process.ask("wipe", restart=True)["ok"]
        packets = process.ask("counters")["packets"]
        assert packets["pool_size"] == packets["pool_free"] and packets["headers_size"] == packets["headers_free"]
        assert process.stop() == 0, process.log
        assert "ERROR: AddressSanitizer" not in process.log and "runtime error" not in process.log


def test_frames_over_the_mtu_are_counted_and_dropped(tmp_path: Path, switch_binary: Path) -> None:
    """The wire carries 9,000 bytes, the configuration says 1,500."""
    with rig(tmp_path, 2) as r:
        process = r.start(r.config(mtu=1500)).ready()
        r.wires[0].send(encode_frame([1025, 1000], b"l" * 3000))
        wait_for("the long frame", lambda: sum(process.counters()["drop"].values()) == 1)
        assert r.wires[1].silent()
        r.wires[0].send(encode_frame([1025, 1000], b"s" * 1400))
        assert r.wires[1].receive() is not None


def test_rig_alone_is_quiet(rig3: Rig) -> None:
    """No stray frame of the kernel reaches the node: idle counters stay zero, so every count above means something."""
    process = rig3.start().ready()
    assert all(wire.silent(0.3) for wire in rig3.wires)
    assert sum(process.counters()["drop"].values()) == 0
