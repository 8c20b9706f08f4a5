"""Frames have a thread of their own: what an agent's connections keep it busy with holds none of them up."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from agent_harness import (
    PLAIN,
    Client,
    Message,
    Net,
    Transfer,
    join_line,
    node_counters,
    path_end,
    random_file,
    run,
    until,
)

pytestmark = pytest.mark.root


def wait_for_links(net: Net, client: Client, name: str) -> None:
    def ports() -> Iterable[Message]:
        return client.request("node", net.member(name, {}))[name]["ports"].values()

    until(lambda: all(port["up"] for port in ports()), f"{name}'s links")


def test_frames_go_on_while_a_large_message_is_read(make_net: Callable[[Path], Net], tmp_path: Path) -> None:
    """b reads a message for as long as the transfer through it takes: it forwards, caches and says hello meanwhile."""
    shim, hold, reads = tmp_path / "slow_json.so", tmp_path / "hold", tmp_path / "reads"
    run(
        *("cc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", str(shim), str(Path(__file__).with_name("slow_json.c"))),
        "-ldl",
    )
    hold.touch()
    net = join_line(make_net(PLAIN))
    net.start("a")
    net.start("c")
    net.start("b", environment={"LD_PRELOAD": str(shim), "HOLD": str(hold), "READS": str(reads)})
    client = net.client("b")
    wait_for_links(net, client, "b")
    number = client.send("ping", net.member("b"), {"much": "x" * (3 << 20)})
    until(reads.exists, "b to have the message")
    Transfer(net, "a", random_file(tmp_path / "f", 4_000_000), {"c": path_end()}).deliver()
    for name in "ac":  # a moment without hellos may be the machine's
        wait_for_links(net, net.client(name), name)
    assert not client.pump() and number not in client.acks
    hold.unlink()
    client.wait(lambda: number in client.acks, "b's answer")
    assert client.acks[number]["results"]["b"]["ok"]


@pytest.mark.parametrize("workers", [1, 2])
def test_no_more_trees_have_a_cache_than_the_agent_was_told(
    make_net: Callable[[Path], Net], tmp_path: Path, workers: int
) -> None:
    net = join_line(make_net(PLAIN))
    net.start("a")
    net.start("b", "--cache-trees", "4", "--workers", str(workers))
    net.start("c")
    for n in range(6 * workers):
        transfer = Transfer(net, "a", random_file(tmp_path / str(n), 40_000), {"c": path_end()}, tree=1 + n)
        transfer.deliver()
        transfer.close()
    found = node_counters(net, "b")
    assert found["trees"] == 4 and found["trees_evicted"] >= 6 * workers - 4, found
