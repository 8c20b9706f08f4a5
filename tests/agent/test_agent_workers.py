"""Several threads of frames: a tree's frames are one thread's, by its id, and a file over trees of several is whole."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agent_harness import (
    ASAN,
    PLAIN,
    Net,
    Transfer,
    agent_command,
    digest,
    inside,
    join_pair,
    make_line,
    path_end,
    path_middle,
    random_file,
    until,
)

pytestmark = pytest.mark.root
WORKERS = 2
RATE = {"rate_max_bps": 10**9, "credits": 16, "rto_min_ms": 10_000, "burst": 8}


def worker_of(tree: int) -> int:
    """datapath/steering.h"""
    return (tree + (tree >> 4)) % WORKERS


def tree_of(worker: int) -> int:
    return next(tree for tree in range(1, 100) if worker_of(tree) == worker)


def refused(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    return done.stderr


def node(net: Net, host: str) -> dict[str, Any]:
    return net.client(host).request("node", net.member(host, {}))[host]


@pytest.mark.parametrize("program", [PLAIN, ASAN], ids=["plain", "asan"])
def test_a_block_of_trees_of_two_workers_is_whole(
    make_net: Callable[[Path], Net], tmp_path: Path, program: Path
) -> None:
    """Of the second block one tree brings half and waits; the other tree, another thread's, brings the rest."""
    net = make_line(make_net(program), "--workers", str(WORKERS))
    for agent in net.agents.values():
        place = Path(f"/proc/{agent.process.pid}/task")
        until(
            lambda place=place: {"frames 0", "frames 1"} <= {t.read_text().strip() for t in place.glob("*/comm")},
            f"the threads of {agent.name}",
        )
        sockets = inside(agent.namespace, lambda: Path("/proc/thread-self/net/packet").read_text())
        assert len(sockets.splitlines()) - 1 == WORKERS * len(net.ports[agent.name])
    first, second = tree_of(0), tree_of(1)
    source = random_file(tmp_path / "src", 400 * 1000 - 7)
    transfer = Transfer(net, "a", source, {"b": path_middle(), "c": path_end()}, piece=1000)
    everyone = {
        "size": transfer.size,
        "piece": 1000,
        "per_block": 100,
        "lease_ms": 60_000,
        "trees": [{"id": first, **RATE}, {"id": second, **RATE}],
    }

    def receiver(name: str, path: bytes) -> dict[str, Any]:
        routes = {str(first): path.hex(), str(second): path.hex()}
        return net.member(name, {"role": "receiver", "dest": transfer.dest[name], "routes": routes})

    members = [receiver("b", path_middle()), receiver("c", path_end())]
    bodies = net.member("a", {"role": "source", "path": str(source)}, members)
    results = transfer.client.request("open", bodies, everyone, "g-1")
    assert all(r["ok"] for r in results.values()), results

    def had(tree: int) -> list[int]:
        """What was asked for twice counts once: a sanitized agent on a busy machine is late."""
        told = [transfer.status()[name]["trees"][str(tree)] for name in "bc"]
        return [one["data"] - one["duplicates"] for one in told]

    transfer.client.request("assign", transfer.members(), {"extents": [[first, 0, 0, 150]]}, "g-1")
    until(lambda: had(first) == [150, 150], "the first tree's pieces")
    transfer.client.request("assign", transfer.members(), {"extents": [[second, 0, 150, 250]]}, "g-1")
    transfer.wait_ended()
    for name in "bc":
        assert digest(Path(transfer.dest[name])) == digest(source)
    assert had(second) == [250, 250]
    sent = transfer.status()["a"]["trees"]
    assert (sent[str(first)]["new_packets"], sent[str(second)]["new_packets"]) == (150, 250)
    for host in "abc":
        drop = node(net, host)["drop"]
        assert not {reason: n for reason, n in drop.items() if n}, f"a frame of {host} came to the wrong thread"


def test_what_workers_count_is_one_agent_s(make_net: Callable[[Path], Net], tmp_path: Path) -> None:
    """Frames are added up; a link is the first thread's, and counted once."""
    net = make_line(make_net(PLAIN), "--workers", str(WORKERS))
    transfer = Transfer(net, "a", random_file(tmp_path / "f", 2_000_000), {"c": path_end()}, tree=tree_of(1))
    transfer.deliver()
    # A busy machine keeps hellos back: a link may have been down for a moment.
    until(lambda: all(p["up"] for p in node(net, "b")["ports"].values()), "links are up")
    ports = node(net, "b")["ports"]
    assert len(ports) == 2 and all(p["mtu"] == 9000 for p in ports.values())
    assert ports["0"]["rx_frames"] >= transfer.pieces
    transfer.close()


def test_more_workers_than_there_can_be_are_refused(make_net: Callable[[Path], Net]) -> None:
    net = join_pair(make_net(PLAIN))
    assert "wanted a number from 1 to 8" in refused(agent_command(net, "--workers", "9"))
