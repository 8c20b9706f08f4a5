"""The control socket, its client, and the faults that campaigns ask for."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
from typing import Any

import pytest
from switch_rig import BINARY, PATIENCE, Process, Rig
from test_switch_cache import SOURCE, ask_for, payload_of
from test_switch_cache import data_frame as tree_data
from test_switch_forwarding import data_frame
from waiting import wait_for

pytestmark = pytest.mark.root


def client(process: Process, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([BINARY, "--ctl", process.control, *arguments], capture_output=True, text=True, timeout=90)


def raw(process: Process, line: bytes) -> dict[str, Any]:
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(PATIENCE)
        s.connect(process.control)
        s.sendall(line + b"\n")
        return json.loads(s.makefile().readline())


def test_only_the_owner_may_use_the_socket(rig3: Rig) -> None:
    process = rig3.start().ready()
    assert stat.S_IMODE(os.stat(process.control).st_mode) == 0o600


def test_the_client_prints_json_and_says_by_its_exit_code_how_it_went(rig3: Rig) -> None:
    process = rig3.start().ready()
    good = client(process, "counters")
    assert good.returncode == 0 and set(json.loads(good.stdout)["nodes"]) == {"s0.0"}
    ports = json.loads(client(process, "ports", '{"node":"s0.0"}').stdout)["nodes"]["s0.0"]
    assert {p["ifname"] for p in ports.values()} == set(rig3.ifaces)
    assert all(p["wakes_by"] == "socket" and p["up"] for p in ports.values())
    bad = client(process, "nonsense")
    assert bad.returncode == 1 and "unknown op 'nonsense'" in json.loads(bad.stdout)["error"]
    assert client(process, "wipe", '{"node":"s9.9"}').returncode == 1
    assert client(process, "wipe", "no json").returncode == 2
    assert process.stop() == 0
    gone = client(process, "counters")
    assert gone.returncode == 1 and "no datacast-switch serves this socket" in gone.stderr


def test_it_says_how_it_is_configured(rig3: Rig) -> None:
    cache = {"bytes_per_tree": "64K", "max_bytes_per_tree": "2M", "memory": "4M", "trees": 8, "packets_per_tree": 64}
    cache |= {"waiting_per_tree": 32, "retx_ms": 7, "idle_ms": 9000}
    process = rig3.start(rig3.config(cache=cache)).ready()
    told = process.ask("config")
    assert (told.pop("pid"), bool(told.pop("version"))) == (process.popen.pid, True)
    sizes = {"bytes_per_tree": 64 << 10, "max_bytes_per_tree": 2 << 20, "memory": 4 << 20}
    packets = {"memory_packets": (4 << 20) // (9000 - 256) + 1}
    node = {"appliance": False, **cache, **sizes, **packets}
    assert told.pop("nodes") == {"s0.0": node}
    assert told == {"ok": True, "mtu": 9000, "workers": 1, "huge": False, "fabric_manager": ""}


BAD = [
    (b"{", "not JSON"), (b"[1]", "object"), (b"{}", "'op'"), (b'{"op":7}', "'op'"),
    (b'{"op":"counters","node":3}', "'node'"),
    (b'{"op":"counters","node":"x"}', "no node 'x'"), (b'{"op":"fault"}', "needs 'node' and 'port'"),
    (b'{"op":"fault","node":"s0.0","port":77,"blackhole":true}', "no port 77"),
    (b'{"op":"fault","node":"s0.0","port":-1,"blackhole":true}', "no port -1"),
    (b'{"op":"fault","node":"s0.0","port":1}', "'blackhole' or 'corrupt'"),
    (b'{"op":"fault","node":"s0.0","port":1,"corrupt":2}', "probability"),
    (b'{"op":"fault","node":"s0.0","port":1,"blackhole":1}', "must be"), (b"\xff\xfe", "not JSON"),
    (b'{"op":"counters","worker":1}', "'worker' must be a number from 0 to 0"),
    (b'{"op":"counters","worker":-1}', "'worker' must be a number from 0 to 0"),
    (b'{"op":"counters","worker":"0"}', "'worker' must be a number from 0 to 0"),
    (('{"op":"%s"}' % ("ä" * 400)).encode(), "unknown op"),
    (b'{"op":"config","worker":0}', "workers answer counters, totals, trees, wipe and fault one by one"),
]


def test_bad_requests_get_an_answer(rig3: Rig) -> None:
    process = rig3.start().ready()
    answers = {line: raw(process, line) for line, _ in BAD}
    assert [line for line, word in BAD if answers[line]["ok"] is not False or word not in answers[line]["error"]] == []
    assert process.ask("counters", worker=0)["ok"] and process.ask("config")["ok"]


def test_an_endless_request_ends_the_connection_only(rig3: Rig) -> None:
    process = rig3.start().ready()
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(PATIENCE)
        s.connect(process.control)
        with pytest.raises(OSError):
            for _ in range(1000):
                s.sendall(b"x" * 10000)
            assert s.recv(1) != b"", "expected the switch to hang up"
            raise AssertionError("the switch swallowed 10 MB")
    assert process.ask("config")["ok"]


def test_several_requests_on_one_connection(rig3: Rig) -> None:
    process = rig3.start().ready()
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(PATIENCE)
        s.connect(process.control)
        s.sendall(b'{"op":"config"}\n{"op":"trees"}\n{"op":"con')
        s.sendall(b'fig"}\n')
        lines = s.makefile()
        assert ["version" in json.loads(lines.readline()) for _ in range(3)] == [True, False, True]


def test_shutdown(rig3: Rig) -> None:
    process = rig3.start().ready()
    assert process.ask("shutdown")["ok"]
    assert process.popen.wait(60) == 0
    assert not os.path.exists(process.control)


def test_a_stale_socket_is_replaced_and_a_live_one_is_not(rig3: Rig) -> None:
    first = rig3.start().ready()
    first.popen.kill()
    first.popen.wait()
    assert os.path.exists(first.control)
    config = rig3.config(control=first.control)
    second = rig3.start(config).ready()
    third = rig3.start(config)
    assert third.popen.wait(60) == 1
    assert "is in use by another datacast-switch" in third.log
    assert second.ask("config")["pid"] == second.popen.pid


def test_a_black_hole_swallows_both_ways_and_the_carrier_stays(rig3: Rig) -> None:
    process = rig3.start().ready()
    assert process.ask("fault", node="s0.0", port=1, blackhole=True)["ok"]
    rig3.wires[0].send(data_frame([1025, 1000], b"b" * 100))
    rig3.wires[1].send(data_frame([1024, 1000], b"b" * 100))
    wait_for("both frames", lambda: process.counters()["drop"]["blackholed"] == 2)
    assert rig3.wires[0].silent() and rig3.wires[1].silent()
    facts = process.ask("ports")["nodes"]["s0.0"]["1"]
    assert facts["up"] and facts["blackhole"] == "both"
    assert process.ask("fault", node="s0.0", port=1, blackhole=False)["ok"]
    rig3.wires[0].send(data_frame([1025, 1000], b"b" * 100))
    assert rig3.wires[1].receive() is not None


def test_corruption_flips_one_bit_of_the_payload(rig3: Rig) -> None:
    process = rig3.start().ready()
    assert process.ask("fault", node="s0.0", port=SOURCE, corrupt=1.0)["ok"]
    payload = bytes(4000)
    ask_for(rig3, 1, 1)
    assert rig3.wires[SOURCE].receive() is not None
    rig3.wires[SOURCE].send(tree_data(1, payload))
    got = payload_of(rig3.wires[1].receive())
    assert len(got) == len(payload) and sum(byte.bit_count() for byte in got) == 1
    assert process.counters()["ports"]["0"]["corrupted"] == 1
    assert process.ask("fault", node="s0.0", port=SOURCE, corrupt=0)["ok"]
    ask_for(rig3, 1, 2)
    assert rig3.wires[SOURCE].receive() is not None
    rig3.wires[SOURCE].send(tree_data(2, payload))
    assert payload_of(rig3.wires[1].receive()) == payload
