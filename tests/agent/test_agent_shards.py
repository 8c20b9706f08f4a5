"""Receivers that want parts of the file: what comes, what stays a hole, and what is refused."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from agent_harness import (
    ASAN,
    PLAIN,
    Net,
    Transfer,
    make_line,
    path_direct,
    path_end,
    path_middle,
    random_file,
    until,
)

pytestmark = pytest.mark.root

PIECE, PER_BLOCK = 1000, 16
BLOCK = PIECE * PER_BLOCK


def held(path: Path, rows: list[list[int]], original: bytes) -> None:
    """These blocks of the original, and nothing but zeros elsewhere."""
    got = path.read_bytes()
    assert len(got) == len(original)
    wanted = {b for first, count in rows for b in range(first, first + count)}
    for b in range(-(-len(original) // BLOCK)):
        part = original[b * BLOCK : (b + 1) * BLOCK]
        assert got[b * BLOCK : (b + 1) * BLOCK] == (part if b in wanted else bytes(len(part))), b


@pytest.mark.parametrize("program", [PLAIN, ASAN], ids=["plain", "asan"])
def test_each_receiver_gets_its_blocks_and_nothing_else(make_net: Any, tmp_path: Path, program: Path) -> None:
    """b's interests and c's go over one tree; c is behind b."""
    net = make_line(make_net(program))
    path = random_file(tmp_path / "src", 20 * BLOCK + 17)
    wants = {"a": [[0, 3], [9, 12]], "b": [[0, 3], [20, 1]], "c": [[2, 1], [9, 11]]}
    transfer = Transfer(
        net, "a", path, {"b": path_middle(), "c": path_end()}, piece=PIECE, per_block=PER_BLOCK, wants=wants
    )
    assert all(r["ok"] for r in transfer.open().values()) and all(r["ok"] for r in transfer.assign().values())
    ended = transfer.wait_ended()
    status = transfer.status()
    for name in "bc":
        held(Path(transfer.dest[name]), wants[name], path.read_bytes())
        bytes_ = sum(min((f + n) * BLOCK, path.stat().st_size) - f * BLOCK for f, n in wants[name])
        blocks = sum(n for _, n in wants[name])
        assert (ended[name]["bytes"], ended[name]["blocks_ok"]) == (bytes_, blocks)
        assert (status[name]["bytes"], status[name]["blocks_ok"]) == (bytes_, blocks)
    sent = status["a"]["trees"]["7"]["new_packets"]
    assert sent == 3 * PER_BLOCK + 11 * PER_BLOCK + 1, "each piece that anybody wants once, and no other"
    told = {row[0] for e in transfer.client.events if e["event"] == "digests" for row in e["blocks"]}
    assert told == {0, 1, 2, *range(9, 21)}, "nor is it hashed"
    assert Path(transfer.dest["b"]).stat().st_blocks * 512 < 8 * BLOCK, "the rest is holes"


def test_who_wants_nothing_is_done_at_once(pair: Net, tmp_path: Path) -> None:
    transfer = Transfer(pair, "a", random_file(tmp_path / "src", 5 * BLOCK), {"b": path_direct()}, wants={"b": []})
    assert transfer.open()["b"]["ok"]
    assert transfer.wait_ended()["b"]["bytes"] == 0
    assert Path(transfer.dest["b"]).stat().st_size == 5 * BLOCK


def test_an_agent_that_was_killed_goes_on_within_its_blocks(pair: Net, tmp_path: Path) -> None:
    path = random_file(tmp_path / "src", 40 * BLOCK)

    def begin() -> Transfer:
        made = Transfer(
            pair, "a", path, {"b": path_direct()}, piece=PIECE, per_block=PER_BLOCK, wants={"b": [[10, 10], [30, 5]]}
        )
        assert made.open()["b"]["ok"]
        return made

    def verified(of: Transfer) -> int:
        of.pass_digests()
        return int(of.status()["b"]["blocks_ok"])

    transfer = begin()
    transfer.assign(0, 20 * PER_BLOCK)
    until(lambda: verified(transfer) == 10, "its first range")
    until(lambda: pair.agents["b"].noted(40 * BLOCK) == set(range(10, 20)), "they are noted")
    pair.agents["b"].process.send_signal(signal.SIGKILL)
    pair.agents["b"].process.wait()
    pair.start("b")
    again = begin()
    again.assign(0, 20 * PER_BLOCK)
    again.assign(20 * PER_BLOCK)
    assert again.wait_ended()["b"]["blocks_ok"] == 15 and again.status()["b"]["blocks_resumed"] == 10
    held(Path(transfer.dest["b"]), [[10, 10], [30, 5]], path.read_bytes())


@pytest.mark.parametrize(
    "odd",
    [7, "all", {}, [7], [[1]], [[1, 2, 3]], [[0, 0]], [[-1, 2]], [[0, 6]], [[5, 1]], [[2, 1], [1, 1]], [[0, 2], [1, 1]],
     [["0", 1]], [[0.5, 1]], [[0, 1 << 62]], [[k, 1] for k in range(5)] * 300],
    ids=lambda odd: json.dumps(odd)[:20],
)  # fmt: skip
def test_ranges_that_mean_nothing_are_refused(pair: Net, tmp_path: Path, odd: Any) -> None:
    for whose in "ab":
        path = random_file(tmp_path / "src", 5 * 800_000)
        transfer = Transfer(pair, "a", path, {"b": path_direct()}, wants={whose: odd}, group=f"g-{whose}")
        answer = transfer.open()[whose]
        assert answer["code"] == "bad_request" and "wants" in answer["error"], answer


def test_a_group_that_is_open_is_not_opened_with_other_ranges(pair: Net, tmp_path: Path) -> None:
    transfer = Transfer(
        pair, "a", random_file(tmp_path / "src", 5 * 800_000), {"b": path_direct()}, wants={"b": [[0, 2]]}
    )
    assert transfer.open()["b"]["ok"] and transfer.open()["b"]["ok"]
    for other in ([[0, 3]], [[1, 2]], []):
        transfer.wants["b"] = other
        assert "other ranges" in transfer.open()["b"]["error"]
    del transfer.wants["b"]
    assert "other ranges" in transfer.open()["b"]["error"]
