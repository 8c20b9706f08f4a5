"""Files between agents: sizes, groups at once, waypoints, limits on memory."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from agent_harness import (
    ASAN,
    CALM,
    PLAIN,
    Net,
    Transfer,
    digest,
    make_line,
    make_pair,
    node_counters,
    path_direct,
    path_end,
    path_middle,
    random_file,
    run,
    until,
)

pytestmark = pytest.mark.root

PIECE = 8000


@pytest.mark.parametrize("size", [0, 3 * PIECE + 17], ids=["empty", "odd"])
def test_a_file_with_the_expected_digest_gets_its_name(pair: Net, tmp_path: Path, size: int) -> None:
    path = random_file(tmp_path / "src", size)
    more = {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    Transfer(pair, "a", path, {"b": path_direct()}, piece=PIECE, more=more).deliver()


@pytest.mark.parametrize("size", [0, 3 * PIECE + 17], ids=["empty", "odd"])
def test_a_file_without_the_expected_digest_is_not_kept(pair: Net, tmp_path: Path, size: int) -> None:
    path = random_file(tmp_path / "src", size)
    transfer = Transfer(pair, "a", path, {"b": path_direct()}, piece=PIECE, more={"sha256": "ab" * 32})
    transfer.open()
    transfer.assign()
    transfer.wait_ended()
    ended = transfer.ended("b")
    assert ended is not None and (ended["event"], ended["code"]) == ("failed", "digest")
    assert "ab" * 32 in ended["error"] and hashlib.sha256(path.read_bytes()).hexdigest() in ended["error"]
    assert pair.agents["b"].leftovers() == [] and not Path(transfer.dest["b"]).exists()


def test_an_expected_digest_that_is_none_is_refused(pair: Net, tmp_path: Path) -> None:
    for odd in ("ab", 7, "zz" * 32, "ab" * 33):
        transfer = Transfer(pair, "a", random_file(tmp_path / "src", 9), {"b": path_direct()}, more={"sha256": odd})
        assert transfer.open()["b"]["code"] == "bad_request", odd


def test_a_file_has_all_its_room_before_it_comes(pair: Net, tmp_path: Path) -> None:
    """Or the disk is full when most of it is there. It is reserved in steps."""
    with (tmp_path / "src").open("wb") as source:
        source.truncate(52 << 20)
    transfer = Transfer(pair, "a", tmp_path / "src", {"b": path_direct()}, piece=PIECE)
    assert transfer.open()["b"]["ok"]
    [name] = pair.agents["b"].leftovers()
    until(lambda: (pair.agents["b"].folder / name).stat().st_blocks * 512 >= 52 << 20, "room for the file")


@pytest.mark.parametrize(
    "size",
    [0, 1, PIECE, 3 * PIECE + 17, 100 * PIECE, 100 * PIECE + 1, 50_000_000],
    ids=["empty", "1-byte", "one-piece", "odd", "one-block", "block-and-a-byte", "50-MB"],
)
def test_file_of_any_size(pair: Net, tmp_path: Path, size: int) -> None:
    transfer = Transfer(pair, "a", random_file(tmp_path / "src", size), {"b": path_direct()}, piece=PIECE)
    ended = transfer.deliver()
    assert ended["b"]["blocks_ok"] == -(-size // (100 * PIECE))
    status = transfer.status()
    assert status["b"]["state"] == "done"
    assert status["b"]["pieces"] == transfer.pieces
    assert status["b"]["blocks"] == "f" * -(-size // (100 * PIECE))
    assert status["a"]["trees"]["7"]["new_packets"] == transfer.pieces
    assert (transfer.client.event("first", "b") is not None) == (size > 0)
    assert transfer.close()["b"]["ok"]
    assert pair.agents["b"].leftovers() == []


@pytest.mark.parametrize("program", [PLAIN, ASAN], ids=["plain", "asan"])
def test_waypoint_in_the_middle_answers_once_for_both(
    make_net: Callable[[Path], Net], tmp_path: Path, program: Path
) -> None:
    net = make_line(make_net(program))
    source = random_file(tmp_path / "src", 20_000_003)
    transfer = Transfer(net, "a", source, {"b": path_middle(), "c": path_end()}, extra=CALM)
    transfer.deliver()
    sent = transfer.status()["a"]["trees"]["7"]
    assert sent["new_packets"] == transfer.pieces
    assert sent["dup_packets"] <= transfer.pieces // 50
    middle = node_counters(net, "b")
    tree = middle["tree_counters"][0]
    assert tree["aggregated"] + tree["hits"] >= transfer.pieces * 0.9
    payload = middle["ports"]["1"]["tx_data_payload"]
    assert transfer.size <= payload <= transfer.size * 1.05
    assert node_counters(net, "a")["ports"]["0"]["tx_data_payload"] >= transfer.size


def test_line_with_standard_mtu_and_small_pieces(make_net: Callable[[Path], Net], tmp_path: Path) -> None:
    net = make_pair(make_net(PLAIN), mtu=1500)
    transfer = Transfer(
        net, "a", random_file(tmp_path / "src", 5_000_001), {"b": path_direct()}, piece=1448, per_block=500
    )
    transfer.deliver()


def test_pieces_too_long_for_the_cable_are_counted_and_dropped(make_net: Callable[[Path], Net], tmp_path: Path) -> None:
    net = make_pair(make_net(PLAIN), mtu=1500)
    transfer = Transfer(net, "a", random_file(tmp_path / "src", 20_000), {"b": path_direct()}, piece=1500)
    assert all(r["ok"] for r in transfer.open().values())
    transfer.assign()
    transfer.client.wait(lambda: node_counters(net, "a")["drop"]["oversized"] > 0, "a frame longer than the MTU")
    assert transfer.status()["b"]["pieces"] < transfer.pieces
    too_long = Transfer(net, "a", transfer.path, {"b": path_direct()}, piece=9000, group="g-2", tree=8)
    assert too_long.open()["b"]["code"] == "limit"


def test_groups_at_once_in_both_directions(pair: Net, tmp_path: Path) -> None:
    there = Transfer(pair, "a", random_file(tmp_path / "one", 8_000_001), {"b": path_direct()}, group="g-there", tree=1)
    back = Transfer(pair, "b", random_file(tmp_path / "two", 8_000_002), {"a": path_direct()}, group="g-back", tree=2)
    third = Transfer(
        pair,
        "a",
        random_file(tmp_path / "three", 3_000_000),
        {"b": path_direct()},
        group="g-third",
        tree=3,
        dest={"b": str(pair.agents["b"].folder / "deep" / "er" / "third")},
    )
    for transfer in (there, back, third):
        assert all(r["ok"] for r in transfer.open().values())
    for transfer in (there, back, third):
        assert all(r["ok"] for r in transfer.assign().values())
    for transfer in (there, back, third):
        for name, event in transfer.wait_ended().items():
            assert event["event"] == "done"
            assert digest(Path(transfer.dest[name])) == digest(transfer.path)
    assert node_counters(pair, "a")["process"]["groups"] == 3


def test_extents_come_piece_by_piece_and_digests_late(pair: Net, tmp_path: Path) -> None:
    transfer = Transfer(pair, "a", random_file(tmp_path / "src", 300 * PIECE), {"b": path_direct()})
    transfer.open()
    for first in range(0, 300, 60):
        assert all(r["ok"] for r in transfer.assign(first, 60).values())
    transfer.client.wait(lambda: transfer.status()["b"]["pieces"] == 300, "all pieces")
    assert transfer.status()["b"]["blocks_ok"] == 0 and transfer.ended("b") is None

    def marks() -> list[int]:
        return [e["seq"] for e in transfer.client.events if e["event"] == "progress"]

    transfer.client.wait(lambda: 300 in marks(), "it is told")
    assert marks() == sorted(marks())
    transfer.wait_ended()
    assert digest(Path(transfer.dest["b"])) == digest(transfer.path)


def test_a_tree_that_becomes_slow_is_told_of(pair: Net, tmp_path: Path) -> None:
    """How often, and when not: host_agent/tests/test_window.c."""
    rate = {"rate_init_bps": 20 * 10**6, "rate_max_bps": 20 * 10**6}
    transfer = Transfer(pair, "a", random_file(tmp_path / "src", 60_000_000), {"b": path_direct()}, extra=rate)
    assert all(r["ok"] for r in transfer.open().values())
    transfer.assign()
    transfer.client.wait(lambda: transfer.status()["b"]["bytes"] > 3_000_000, "a part of it")
    transfer.client.request("rates", pair.member("a"), {"n": 1, "rates": {"7": 4 * 10**6}}, transfer.group)

    def slowed() -> bool:
        return any(e["event"] == "slowed" and e["tree"] == 7 for e in transfer.client.events)

    transfer.client.wait(slowed, "the slow tree")


def test_two_trees_share_the_pieces(make_net: Callable[[Path], Net], tmp_path: Path) -> None:
    net = make_pair(make_net(PLAIN), cables=2)
    source = random_file(tmp_path / "src", 400 * PIECE)
    transfer = Transfer(net, "a", source, {"b": path_direct()})
    second = path_direct(1).hex()
    rate = {"rate_max_bps": 10**9, "credits": 16, "rto_min_ms": 10_000, "burst": 8}
    everyone = {
        "size": transfer.size,
        "piece": PIECE,
        "per_block": 100,
        "source": "a",
        "lease_ms": 10000,
        "trees": [{"id": 1, **rate}, {"id": 2, **rate}],
    }
    bodies = net.member(
        "a",
        {"role": "source", "path": str(source)},
        [
            net.member(
                "b", {"role": "receiver", "dest": transfer.dest["b"], "routes": {"1": path_direct().hex(), "2": second}}
            )
        ],
    )
    results = transfer.client.request("open", bodies, everyone, "g-1")
    assert all(r["ok"] for r in results.values()), results
    extents = [[1, 0, 0, 150], [2, 1000, 150, 100], [1, 150, 0, 0], [1, 150, 250, 50], [2, 1100, 300, 100]]
    transfer.client.request("assign", transfer.members(), {"extents": extents}, "g-1")
    transfer.wait_ended()
    assert digest(Path(transfer.dest["b"])) == digest(source)
    trees = transfer.status()["b"]["trees"]
    assert (trees["1"]["data"], trees["2"]["data"]) == (200, 200)
    ports = node_counters(net, "a")["ports"]
    assert ports["0"]["tx_data"] == 200 and ports["1"]["tx_data"] == 200


def test_cut_hands_the_rest_to_another_tree(make_net: Callable[[Path], Net], tmp_path: Path) -> None:
    net = make_pair(make_net(PLAIN), cables=2)
    source = random_file(tmp_path / "src", 200 * PIECE)
    transfer = Transfer(net, "a", source, {"b": path_direct()})
    run("ip", "-n", net.namespace("b"), "link", "set", "p0", "down")  # tree 1 gets nowhere
    rate = {"rate_max_bps": 10**9, "credits": 16, "rto_min_ms": 10, "burst": 8}
    everyone = {
        "size": transfer.size,
        "piece": PIECE,
        "per_block": 100,
        "lease_ms": 10000,
        "trees": [{"id": 1, **rate}, {"id": 2, **rate}],
    }
    second = path_direct(1).hex()
    bodies = net.member(
        "a",
        {"role": "source", "path": str(source)},
        [
            net.member(
                "b", {"role": "receiver", "dest": transfer.dest["b"], "routes": {"1": path_direct().hex(), "2": second}}
            )
        ],
    )
    transfer.client.request("open", bodies, everyone, "g-1")
    transfer.client.request("assign", transfer.members(), {"extents": [[1, 0, 0, 200]]}, "g-1")
    assert transfer.status()["b"]["pieces"] == 0
    transfer.client.request("cut", transfer.members(), {"trees": [[1, 0]]}, "g-1")
    transfer.client.request("assign", transfer.members(), {"extents": [[2, 0, 0, 200]]}, "g-1")
    transfer.wait_ended()
    assert digest(Path(transfer.dest["b"])) == digest(source)


def test_a_receiver_that_leaves_a_tree_gets_the_rest_over_another(
    make_net: Callable[[Path], Net], tmp_path: Path
) -> None:
    net = make_pair(make_net(PLAIN), cables=2)
    source = random_file(tmp_path / "src", 400 * PIECE)
    transfer = Transfer(net, "a", source, {"b": path_direct()})
    rate = {"credits": 16, "rto_min_ms": 10, "burst": 8}
    everyone = {
        "size": transfer.size,
        "piece": PIECE,
        "per_block": 100,
        "source": "a",
        "lease_ms": 10000,
        "trees": [{"id": 1, "rate_max_bps": 10**6, **rate}, {"id": 2, "rate_max_bps": 10**9, **rate}],
    }
    routes = {"1": path_direct().hex(), "2": path_direct(1).hex()}
    receiver = net.member("b", {"role": "receiver", "dest": transfer.dest["b"], "routes": routes})
    bodies = net.member("a", {"role": "source", "path": str(source)}, [receiver])
    transfer.client.request("open", bodies, everyone, "g-1")
    transfer.client.request("assign", transfer.members(), {"extents": [[1, 0, 0, 200]]}, "g-1")
    transfer.client.wait(lambda: transfer.status()["b"]["pieces"] > 0, "the first pieces")
    # No timer for a slow tree ends before all credits had their turn there; that of another one is behind them.
    turn_us = PIECE * 8
    assert transfer.status()["b"]["trees"]["1"]["rto_us"] >= rate["credits"] * turn_us
    everyone["trees"].append({"id": 3, "rate_max_bps": 10**6, **rate})
    routes["3"] = path_direct(1).hex()
    assert transfer.client.request("open", bodies, everyone, "g-1")["b"]["ok"]
    told = transfer.status()["b"]["trees"]
    assert told["1"]["outstanding"] == rate["credits"] and told["3"]["rto_us"] >= 2 * rate["credits"] * turn_us

    def leave(trees: object) -> dict:
        part = net.member("a", None, [net.member("b", {"routes": {}, "leave": trees})])
        return transfer.client.request("reroute", part, {"n": 1}, "g-1")["b"]

    assert leave([9])["code"] == leave("1")["code"] == leave([1] * 99)["code"] == "bad_request"
    assert leave([1])["ok"]
    told = transfer.status()["b"]["trees"]["1"]
    assert told["low"] <= told["seq"] < 200
    transfer.client.request("assign", transfer.members(), {"extents": [[1, 200, 200, 200]]}, "g-1")
    transfer.client.request("assign", transfer.members(), {"extents": [[2, 0, 0, 400]]}, "g-1")
    transfer.wait_ended()
    told = transfer.status()["b"]["trees"]
    assert told["1"]["seq"] < 200 and told["1"]["interests"] < 200
    assert digest(Path(transfer.dest["b"])) == digest(source)


def test_reroute_goes_on_from_what_is_there(make_net: Callable[[Path], Net], tmp_path: Path) -> None:
    net = make_pair(make_net(PLAIN), cables=2)
    source = random_file(tmp_path / "src", 2000 * PIECE)
    calm = {"rto_min_ms": 1000}
    transfer = Transfer(net, "a", source, {"b": path_direct()}, per_block=500, rate=100_000_000, extra=calm)
    transfer.open()
    transfer.assign()
    transfer.client.wait(lambda: transfer.status()["b"]["pieces"] > 200, "the first pieces")
    run("ip", "-n", net.namespace("a"), "link", "set", "p0", "down")
    blob = path_direct(1).hex()
    results = transfer.client.request(
        "reroute", net.member("a", None, [net.member("b", {"routes": {"7": blob}})]), group="g-1"
    )
    assert results["b"]["ok"], results
    transfer.wait_ended()
    assert digest(Path(transfer.dest["b"])) == digest(source)
    got = transfer.status()["b"]["trees"]["7"]
    assert got["data"] - got["duplicates"] == transfer.pieces


def bytes_read(pid: int) -> int:
    words = Path(f"/proc/{pid}/io").read_text().split()
    return int(words[words.index("rchar:") + 1])


def test_a_source_reads_its_file_once_to_hash_and_to_send_it_where_a_block_takes_longer_than_its_looks(
    pair: Net, tmp_path: Path
) -> None:
    """It looks every quarter of a second whether anybody asks, and a block takes half a second: a tree that goes on
    within a block is asked."""
    source = random_file(tmp_path / "f", 6 * 40 * 8000)
    transfer = Transfer(pair, "a", source, {"b": path_direct()}, piece=8000, per_block=40, rate=5_000_000, credits=8)
    before = bytes_read(pair.agents["a"].process.pid)
    transfer.deliver()
    assert bytes_read(pair.agents["a"].process.pid) - before < 1.1 * source.stat().st_size


def test_digests_of_what_nobody_asks_for_are_told_all_the_same(pair: Net, tmp_path: Path) -> None:
    """A receiver may have the pieces already: it waits for digests, and the tree never comes to their blocks."""
    transfer = Transfer(pair, "a", random_file(tmp_path / "f", 4_000_000), {"b": path_direct()}, piece=1000)
    run("ip", "-n", pair.namespace("a"), "link", "set", "p0", "down")
    transfer.open()
    transfer.assign()
    transfer.client.wait(lambda: transfer.status()["a"]["hashed"] == 40, "every digest")
    told = [b for e in transfer.client.events if e["event"] == "digests" for b, _ in e["blocks"]]
    assert sorted(told) == list(range(40)), "each is told once"


@pytest.mark.slow
def test_memory_stays_bounded_with_a_large_file(
    pair: Net, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    source = tmp_path / "sparse"
    with source.open("wb") as handle:
        handle.truncate(1 << 28)
        handle.seek(12_345_678)
        handle.write(os.urandom(1 << 20))
    transfer = Transfer(pair, "a", source, {"b": path_direct()}, piece=8900, per_block=500, rate=10**10, credits=64)
    transfer.deliver(timeout=100)
    for name in "ab":
        peak = pair.agents[name].rss_peak()
        record_property(f"rss_peak_{name}", peak)
        print(f"agent {name}: {peak / 2**20:.1f} MiB resident at most, {pair.agents[name].cpu_s():.2f} s of processor")
        assert peak <= 64 << 20
