"""A host sends what it had received of a group that broke off."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from agent_harness import ASAN, PLAIN, Message, Net, Transfer, make_pair, path_direct, random_file, until

pytestmark = pytest.mark.root

PIECE, PER_BLOCK, BLOCKS = 1000, 16, 40
BLOCK = PIECE * PER_BLOCK
SIZE = (BLOCKS - 1) * BLOCK + 17
HAD = [[0, 12], [BLOCKS - 5, 5]]
"""Blocks that b gets before it breaks off."""


def break_off(net: Net, path: Path) -> Path:
    """b's temporary file."""
    first = Transfer(net, "a", path, {"b": path_direct()}, piece=PIECE, per_block=PER_BLOCK)
    assert all(r["ok"] for r in first.open().values())
    tree, at = first.tree, 0
    for block, count in HAD:
        pieces = min(count * PER_BLOCK, first.pieces - block * PER_BLOCK)
        orders = {"extents": [[tree, at, block * PER_BLOCK, pieces]]}
        assert all(r["ok"] for r in first.client.request("assign", first.members(), orders, first.group).values())
        at += pieces

    def verified() -> int:
        first.pass_digests()
        return int(first.status()["b"]["blocks_ok"])

    until(lambda: verified() == 17, "what b gets")
    assert first.close(keep=True)["b"]["ok"]
    [name] = net.agents["b"].leftovers()
    left = net.agents["b"].folder / name
    until(lambda: len(rows_of(stat(net))) == len(HAD), "its table has all of them")
    return left


def stat(net: Net, **part: Any) -> Message:
    own = {"path": str(net.agents["b"].folder / "got"), "unfinished": "g-1", **part}
    return net.client("b").request("stat", net.member("b", own), {}, "")["b"]


def rows_of(answer: Message) -> list[list[int]]:
    return answer.get("held", []) if answer["ok"] else []


def second(net: Net, path: Path, **other: Any) -> Transfer:
    """From b to a."""
    part = {"path": str(net.agents["b"].folder / "got"), "unfinished": "g-1"}
    given = {"piece": PIECE, "per_block": PER_BLOCK, **other}
    return Transfer(net, "b", path, {"a": path_direct()}, group="g-2", tree=9, part=part, **given)


@pytest.mark.parametrize("program", [PLAIN, ASAN], ids=["plain", "asan"])
def test_a_host_tells_and_sends_the_blocks_that_it_had_verified(make_net: Any, tmp_path: Path, program: Path) -> None:
    net = make_pair(make_net(program))
    path = random_file(tmp_path / "src", SIZE)
    break_off(net, path)
    answer = stat(net)
    assert (answer["size"], answer["piece"], answer["per_block"], answer["held"]) == (SIZE, PIECE, PER_BLOCK, HAD)
    transfer = second(net, path, wants={"a": HAD})
    assert all(r["ok"] for r in transfer.open().values())
    refused = transfer.assign(11 * PER_BLOCK, 2 * PER_BLOCK)["b"]
    assert refused["code"] == "bad_request" and "not all on this host" in refused["error"], refused
    transfer.client.request("close", transfer.members(), {"reason": "anew"}, "g-2")
    assert all(r["ok"] for r in transfer.open().values())
    assert transfer.assign(0, 12 * PER_BLOCK)["b"]["ok"]
    assert transfer.assign((BLOCKS - 5) * PER_BLOCK)["b"]["ok"]
    assert transfer.wait_ended()["a"]["blocks_ok"] == 17
    got, original = Path(transfer.dest["a"]).read_bytes(), path.read_bytes()
    assert got[: 12 * BLOCK] == original[: 12 * BLOCK] and got[35 * BLOCK :] == original[35 * BLOCK :]
    told = {row[0] for e in transfer.client.events if e["event"] == "digests" for row in e["blocks"]}
    assert told == {*range(12), *range(35, 40)}, "nothing else is hashed"


def test_a_block_that_is_not_what_it_was_ends_the_source_s_part(pair: Net, tmp_path: Path) -> None:
    path = random_file(tmp_path / "src", SIZE)
    left = break_off(pair, path)
    with left.open("r+b") as handle:
        handle.seek(3 * BLOCK + 5)
        byte = handle.read(1)
        handle.seek(-1, 1)
        handle.write(bytes([byte[0] ^ 1]))
    transfer = second(pair, path)
    assert all(r["ok"] for r in transfer.open().values())
    transfer.assign(0, 12 * PER_BLOCK)
    transfer.client.wait(lambda: transfer.client.event("failed", "b"), "b has failed")
    assert transfer.client.event("failed", "b")["code"] == "changed"


def test_a_source_of_what_was_left_looks_at_it_again_and_goes_on(pair: Net, tmp_path: Path) -> None:
    path = random_file(tmp_path / "src", SIZE)
    left = break_off(pair, path)
    transfer = second(pair, path, wants={"a": HAD}, rate=2_000_000)
    assert all(r["ok"] for r in transfer.open().values())
    assert transfer.assign(0, 12 * PER_BLOCK)["b"]["ok"]
    assert transfer.assign((BLOCKS - 5) * PER_BLOCK)["b"]["ok"]
    assert transfer.wait_ended()["a"]["blocks_ok"] == 17
    assert transfer.status()["b"]["state"] == "running"
    left.unlink()
    transfer.client.wait(lambda: transfer.client.event("failed", "b"), "b has seen that its file is gone")
    assert transfer.client.event("failed", "b")["code"] == "not_found"


def test_what_is_sent_of_a_group_that_broke_off_is_not_taken_away(pair: Net, tmp_path: Path) -> None:
    """What an agent had as it was killed goes after ten leases: not what it sends by then."""
    path = random_file(tmp_path / "src", SIZE)
    left, folder = break_off(pair, path), pair.agents["b"].folder
    other = folder / ".other.datacast-g-3"
    other.write_bytes(b"nobody wants it")
    pair.agents["b"].stop()
    rows = [["g-1", str(folder / "got"), 1000], ["g-3", str(folder / "other"), 1000]]
    (folder / ".b.datacast-left").write_text(json.dumps(rows))
    pair.start("b")
    transfer = second(pair, path, wants={"a": HAD})
    assert all(r["ok"] for r in transfer.open().values())
    until(lambda: not other.exists(), "ten leases")
    assert left.exists() and transfer.status()["b"]["state"] == "running"


def test_another_cut_is_refused(pair: Net, tmp_path: Path) -> None:
    path = random_file(tmp_path / "src", SIZE)
    break_off(pair, path)
    answer = second(pair, path, per_block=8).open()["b"]
    assert answer["code"] == "changed" and "blocks of 16 pieces of 1000 bytes" in answer["error"], answer


@pytest.mark.parametrize(
    ("what", "code"),
    [("gone", "not_found"), ("symlink", "outside"), ("hard-link", "denied"), ("fifo", "denied"), ("cut", "not_found"),
     ("empty", "not_found"), ("head", "not_found")],
)  # fmt: skip
def test_what_is_no_such_file_of_the_agent_s_is_refused(pair: Net, tmp_path: Path, what: str, code: str) -> None:
    left = break_off(pair, random_file(tmp_path / "src", SIZE))
    if what == "cut":
        os.truncate(left, SIZE)
    elif what == "empty":
        os.truncate(left, 0)
    elif what == "head":  # a table that says of itself that it lies elsewhere
        with left.open("r+b") as handle:
            handle.seek(-(-SIZE // 4096) * 4096 + 8)
            handle.write((SIZE * 1000).to_bytes(8, "little"))
    elif what == "hard-link":
        os.link(left, tmp_path / "other")
    else:
        left.unlink()
    if what == "symlink":
        left.symlink_to("/etc/passwd")
    elif what == "fifo":
        os.mkfifo(left)
    assert stat(pair)["code"] == code


@pytest.mark.parametrize("group", ["../../etc", "g/../x", "", ".", "x" * 200, 7, None])
def test_a_group_that_has_no_such_name_leads_nowhere(pair: Net, tmp_path: Path, group: Any) -> None:
    answer = stat(pair, unfinished=group)
    assert answer["code"] == "bad_request" and "name of a group" in answer["error"], answer
