"""Trees of one group that begin at several agents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from agent_harness import ASAN, Client, Message, Net, digest, make_line, path_direct, random_file

pytestmark = pytest.mark.root

PIECE, PER_BLOCK = 8000, 10
GROUP = "g-1"


@dataclass
class Two:
    """Hosts a and c hold a file, b between them gets it: tree 7 begins at a, tree 8 at c."""

    net: Net
    client: Client
    size: int

    def tree(self, number: int) -> Message:
        return {
            "id": number,
            "rate_init_bps": 10**9,
            "rate_max_bps": 10**9,
            "delta_bps": 10**7,
            "interval_us": 1000,
            "burst": 8,
            "credits": 32,
            "rto_min_ms": 10,
            "cache_bytes": 131072,
        }

    def members(self, parts: dict[str, Message] | None = None) -> Message:
        parts = parts or {}
        children = [self.net.member(name, parts.get(name)) for name in ("b", "c")]
        return self.net.member("a", parts.get("a"), children)

    def open(self, a: Message, b: Message, c: Message) -> dict[str, Message]:
        everyone = {
            "size": self.size,
            "piece": PIECE,
            "per_block": PER_BLOCK,
            "source": "a",
            "lease_ms": 20_000,
            "trees": [self.tree(7), self.tree(8)],
        }
        return self.client.request("open", self.members({"a": a, "b": b, "c": c}), everyone, GROUP)

    def order(self, op: str, body: Message) -> dict[str, Message]:
        return self.client.request(op, self.members(), body, GROUP)

    def digests(self, node: str) -> dict[int, str]:
        told = [e for e in self.client.events if e["event"] == "digests" and e["n"] == node]
        return {block: digest for event in told for block, digest in event["blocks"]}


@pytest.fixture
def two(make_net: Callable[[Path], Net], tmp_path: Path) -> Two:
    net = make_line(make_net(ASAN))
    return Two(net, net.client("a"), 400 * PIECE + 11)


def parts(two: Two, tmp_path: Path) -> tuple[Path, Message, Message, Message]:
    path = random_file(tmp_path / "src", two.size)
    source: Message = {"role": "source", "path": str(path)}
    routes = {"7": path_direct(0).hex(), "8": path_direct(1, 0).hex()}
    receiver: Message = {"role": "receiver", "dest": str(two.net.agents["b"].folder / "got"), "routes": routes}
    return path, {**source, "roots": [7]}, receiver, {**source, "roots": [8]}


def test_a_receiver_gets_one_file_from_two_sources(two: Two, tmp_path: Path) -> None:
    path, a, b, c = parts(two, tmp_path)
    assert all(r["ok"] for r in two.open(a, b, c).values())
    half, pieces = 200, 401
    extents = [[7, 0, 0, half], [8, 0, half, pieces - half]]
    results = two.order("assign", {"n": 1, "extents": extents})
    assert all(r["ok"] for r in results.values()), results
    two.client.wait(lambda: len(two.digests("a")) == len(two.digests("c")) == 41, "both have hashed all of it")
    assert two.digests("a") == two.digests("c")
    blocks = [[block, digest] for block, digest in two.digests("a").items()]
    assert all(r["ok"] for r in two.order("digest", {"n": 2, "blocks": blocks}).values())
    two.client.wait(lambda: two.client.event("done", "b"), "b is done")
    assert digest(two.net.agents["b"].folder / "got") == digest(path)
    status = two.order("status", {})
    assert list(status["a"]["trees"]) == ["7"] and status["a"]["trees"]["7"]["new_packets"] == half
    assert list(status["c"]["trees"]) == ["8"] and status["c"]["trees"]["8"]["new_packets"] == pieces - half


@pytest.mark.parametrize("roots", [[9], [7, 7], "7", [[7]], [7.5], [-7]])
def test_trees_that_a_root_cannot_have_are_refused(two: Two, tmp_path: Path, roots: object) -> None:
    _, a, b, c = parts(two, tmp_path)
    results = two.open({**a, "roots": roots}, b, c)
    assert results["a"]["code"] == "bad_request" and "roots" in results["a"]["error"], results
    assert results["c"]["ok"]


def test_a_tree_that_came_to_a_host_begins_there_and_comes_to_it_again(two: Two, tmp_path: Path) -> None:
    _, a, b, _ = parts(two, tmp_path)
    root, relay = {**b, "roots": [8], "routes": {"7": b["routes"]["7"]}}, {"role": "relay"}
    for part in (b, root, b):
        results = two.open(a, part, relay)
        assert all(r["ok"] for r in results.values()), results
        assert list(two.order("status", {})["b"]["trees"]) == (["7"] if part is root else ["7", "8"])


def test_a_receiver_sends_nothing_that_it_does_not_hold(two: Two, tmp_path: Path) -> None:
    _, a, b, _ = parts(two, tmp_path)
    b = {**b, "roots": [8], "routes": {"7": b["routes"]["7"]}}
    results = two.open(a, b, {"role": "relay"})
    assert all(r["ok"] for r in results.values()), results
    results = two.order("assign", {"n": 1, "extents": [[8, 0, 0, 10]]})
    assert results["b"]["code"] == "bad_request" and "not all on this host" in results["b"]["error"]
    assert two.order("status", {})["b"]["sends"]["8"]["numbers"] == 0
