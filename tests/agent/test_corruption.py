"""Bits that flip on the way: between the source and a switch that stores what it corrupted, and below it.

a - s - b, c: s is datacast-switch with its `fault` operation.
"""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from agent_harness import PATIENCE, PLAIN, ROOT, Net, Transfer, digest, random_file, until
from made import made

from datacast.core import wire
from datacast.core.wire import Segment, Stop

pytestmark = pytest.mark.root

SWITCH = ROOT / "build" / "datacast-switch"
TO_SOURCE, TO_B = 0, 1


class Star:
    def __init__(self, net: Net, folder: Path) -> None:
        self.net, self.control = net, str(folder / "s.sock")
        for host in "sabc":
            net.host(host)
        for host in "abc":
            net.cable("s", host)
        ports = [{"port": i, "iface": name} for i, name in enumerate(net.ports["s"])]
        config = {"nodes": [{"name": "s", "ports": ports, "cache": {"memory": "4M"}}], "control": self.control}
        (folder / "s.yaml").write_text(yaml.safe_dump(config))
        self.log = folder / "s.log"
        with self.log.open("wb") as handle:
            self.process = subprocess.Popen(
                ["ip", "netns", "exec", net.namespace("s"), str(SWITCH), "--config", str(folder / "s.yaml")],
                stderr=handle,
            )
        until(lambda: " ready: " in self.log.read_text() or self.process.poll() is not None, "the switch")
        assert self.process.poll() is None, self.log.read_text()
        for host in "abc":
            net.start(host)

    def ask(self, op: str, **more: Any) -> dict[str, Any]:
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(PATIENCE)
            s.connect(self.control)
            s.sendall(json.dumps({"op": op, **more}).encode() + b"\n")
            return json.loads(s.makefile().readline())

    def corrupt(self, port: int, part: float) -> None:
        assert self.ask("fault", node="s", port=port, corrupt=part)["ok"]

    def node(self) -> dict[str, Any]:
        return self.ask("counters")["nodes"]["s"]

    def route(self, port: int) -> bytes:
        return wire.encode_route(
            [
                Stop(fwd=Segment((0,), True)),
                Stop(fwd=Segment((TO_SOURCE,)), ret=Segment((port,)), store=True),
                Stop(ret=Segment((0,), True)),
            ]
        )


@pytest.fixture
def star(make_net: Callable[[Path], Net], tmp_path: Path) -> Iterator[Star]:
    made(SWITCH)
    star = Star(make_net(PLAIN), tmp_path)
    yield star
    star.process.terminate()
    assert star.process.wait(60) == 0


def test_a_stored_corrupt_packet_is_bypassed_and_leaves_the_cache(star: Star, tmp_path: Path) -> None:
    transfer = Transfer(
        star.net, "a", random_file(tmp_path / "src", 10 * 8000), {"b": star.route(1), "c": star.route(2)}, per_block=10
    )
    assert all(r["ok"] for r in transfer.open().values())
    star.corrupt(TO_SOURCE, 1.0)
    transfer.assign()
    until(lambda: star.node()["ports"]["0"]["corrupted"] >= 10, "ten corrupt packets")
    stored = star.node()["tree_counters"][0]
    assert stored["packets"] == 10, "every one of them stands in the switch's cache"
    star.corrupt(TO_SOURCE, 0)
    ended = transfer.wait_ended()
    for name in "bc":
        assert ended[name]["event"] == "done"
        assert digest(Path(transfer.dest[name])) == digest(transfer.path)
    # Who asks late gets what replaced it.
    assert sum(ended[name]["bad_blocks"] for name in "bc") >= 1
    assert transfer.status()["a"]["trees"]["7"]["refetches"] >= 10, "the source was asked, not the cache"
    assert star.node()["tree_counters"][0]["packets"] == 0, "what was corrupt is not kept"


@pytest.mark.parametrize("port", [TO_SOURCE, TO_B], ids=["above-the-cache", "nowhere-near-data"])
def test_random_corruption_costs_time_and_never_a_wrong_file(star: Star, tmp_path: Path, port: int) -> None:
    """Interests arrive at b's port, and they carry no payload: nothing there is touched."""
    transfer = Transfer(
        star.net, "a", random_file(tmp_path / "src", 6_000_003), {"b": star.route(1), "c": star.route(2)}, per_block=8
    )
    assert all(r["ok"] for r in transfer.open().values())
    star.corrupt(port, 0.02)
    transfer.assign()
    ended = transfer.wait_ended()
    corrupted = star.node()["ports"][str(port)]["corrupted"]
    bad = [ended[name]["bad_blocks"] for name in "bc"]
    assert (corrupted > 0) == (port == TO_SOURCE) and (sum(bad) > 0) == (corrupted > 0), (corrupted, bad)
    for name in "bc":
        assert ended[name]["event"] == "done", ended
        assert digest(Path(transfer.dest[name])) == digest(transfer.path)
    status = transfer.status()
    assert [status[name]["bad_blocks"] for name in "bc"] == bad
    assert len([e for e in transfer.client.events if e["event"] == "bad_block"]) == sum(bad)
