"""DPDK's telemetry socket: the commands under /datacast say what the control socket says, of running workers."""

from __future__ import annotations

import concurrent.futures
import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest
from switch_rig import BINARY_ASAN, PATIENCE, Process, Rig, rig
from test_switch_workers import RECEIVER, TREES, arrived, ask, bring

pytestmark = pytest.mark.root


class Telemetry:
    """What dpdk-telemetry.py does."""

    def __init__(self, process: Process) -> None:
        pid = process.ask("config")["pid"]
        self.path = f"/var/run/dpdk/datacast-{pid}/dpdk_telemetry.v2"
        assert self.path.removeprefix("/var") in process.log, "the log says where it is"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(PATIENCE)
        self.socket.connect(self.path)
        self.hello = json.loads(self.socket.recv(1024))

    def ask(self, command: str) -> Any:
        self.socket.send(command.encode())
        return json.loads(self.socket.recv(self.hello["max_output_len"]))[command.partition(",")[0]]

    def close(self) -> None:
        self.socket.close()


def test_telemetry_shows_ports_workers_trees_and_caches(rig3: Rig, asan_binary: Path) -> None:
    process = rig3.start(rig3.config(workers=2, eal={"telemetry": True}), asan_binary).ready(60)
    for tree in TREES:
        bring(rig3, tree, 5, tree.to_bytes(2, "big") * 1000)
        ask(rig3, tree, 5)
        arrived(rig3, RECEIVER)
    told = Telemetry(process)
    assert told.ask("/datacast/nodes") == ["s0.0"]
    assert told.ask("/datacast/ports,s0.0") == [0, 1, 2]
    assert told.ask("/datacast/workers") == [0, 1]

    port = told.ask("/datacast/port,s0.0,1")
    seen = process.counters()["ports"]["1"]
    assert port["rx_frames"] == seen["rx_frames"] == 2 * len(TREES)
    assert port["ifname"] == rig3.ifaces[1] and port["carrier"] == 1 and port["spread_by"] == "tree"

    workers = [told.ask(f"/datacast/worker,{i}") for i in (0, 1)]
    assert all(w["trees"] > 0 and w["hits"] > 0 for w in workers), "both have a part"
    total = told.ask("/datacast/node,s0.0")
    for key in ("trees", "bytes", "hits", "data", "interests"):
        assert sum(w[key] for w in workers) == total[key] == process.counters()[key], key
    assert total["bytes"] == 2000 * len(TREES) and total["hits"] == len(TREES)
    assert total["drop_tx_full"] == 0, "what is inside has the outer name before it"

    assert sorted(told.ask("/datacast/trees,s0.0")) == list(TREES)
    tree = told.ask(f"/datacast/tree,s0.0,{TREES[7]}")
    assert (tree["tree"], tree["stored"], tree["bytes"], tree["hits"]) == (TREES[7], 1, 2000, 1)
    assert process.ask("counters", worker=1)["nodes"]["s0.0"]["trees"] == workers[1]["trees"]
    told.close()
    assert process.stop() == 0, process.log
    assert not os.path.exists(os.path.dirname(told.path)), "nothing is left behind"


REFUSED = [
    "/datacast/node",
    "/datacast/node,",
    "/datacast/node,s9.9",
    "/datacast/node,s0.0,1",
    "/datacast/port,s0.0",
    "/datacast/port,s0.0,77",
    "/datacast/port,s0.0,-1",
    "/datacast/port,s0.0,1x",
    "/datacast/worker,2",
    "/datacast/worker,",
    "/datacast/worker,-1",
    "/datacast/worker,99999999999999999999",
    "/datacast/tree,s0.0,100",
    "/datacast/tree,s0.0",
    f"/datacast/node,{'n' * 500}",
    "/datacast/trees,../..",
]


@pytest.mark.parametrize("command", REFUSED)
def test_what_telemetry_cannot_answer_is_refused(telemetry: Telemetry, command: str) -> None:
    assert telemetry.ask(command) is None
    assert telemetry.ask("/datacast/nodes") == ["s0.0"]


@pytest.fixture(scope="module")
def telemetry(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with rig(tmp_path_factory.mktemp("telemetry")) as r:
        told = Telemetry(r.start(r.config(workers=2, eal={"telemetry": True}), BINARY_ASAN).ready(60))
        yield told
        told.close()


def test_who_asks_often_costs_no_memory(rig3: Rig) -> None:
    process = rig3.start(rig3.config(eal={"telemetry": True})).ready(60)
    bring(rig3, TREES[0], 5, b"x" * 1000)
    told = Telemetry(process)
    commands = ["nodes", "node,s0.0", "ports,s0.0", "port,s0.0,1", "workers", "worker,0", "trees,s0.0"]
    commands += [f"tree,s0.0,{TREES[0]}", "port,s0.0,77", "tree,s0.0,100"]

    def often(times: int) -> float:
        for command in commands * times:
            told.ask(f"/datacast/{command}")
        return process.rss_mb()

    before = often(50)
    assert often(500) < before + 1
    told.close()


def test_many_ask_at_once_and_it_stops_all_the_same(rig3: Rig, asan_binary: Path) -> None:
    process = rig3.start(rig3.config(workers=2, eal={"telemetry": True}), asan_binary).ready(60)
    told = [Telemetry(process) for _ in range(6)]

    def often(one: Telemetry) -> int:
        return sum(one.ask("/datacast/node,s0.0")["trees"] == 0 for _ in range(50))

    with concurrent.futures.ThreadPoolExecutor(len(told)) as pool:
        assert list(pool.map(often, told)) == [50] * len(told)
    for one in told:
        one.socket.send(b"/datacast/node,s0.0")
    assert process.stop() == 0, process.log
    for one in told:
        one.close()


def test_there_is_no_telemetry_unless_asked_for(rig3: Rig) -> None:
    process = rig3.start(rig3.config()).ready()
    folder = f"/var/run/dpdk/datacast-{process.ask('config')['pid']}"
    assert not os.path.exists(folder)
    assert "dpdk_telemetry" not in process.log
