"""Agents that are killed in the middle of a transfer and go on afterwards."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from agent_harness import Message, Net, Transfer, digest, path_direct, random_file, until

pytestmark = pytest.mark.root

RATE = 80_000_000
SIZE, PIECE, PER_BLOCK = 8_000_003, 8000, 20
BLOCKS = -(-SIZE // (PIECE * PER_BLOCK))


def begin(net: Net, tmp_path: Path, **more: Any) -> Transfer:
    path = tmp_path / "src"
    transfer = Transfer(
        net,
        "a",
        path if path.exists() else random_file(path, SIZE),
        {"b": path_direct()},
        rate=RATE,
        piece=PIECE,
        per_block=PER_BLOCK,
    )
    transfer.more |= more
    for answers in (transfer.open(), transfer.assign()):
        assert all(r["ok"] for r in answers.values()), answers
    return transfer


HAD = 10
"""Blocks that b has verified and noted when it is stopped: no more digests are handed on until then."""


def get_some(net: Net, transfer: Transfer) -> None:
    def noted() -> bool:
        transfer.pass_digests(HAD)
        return len(net.agents["b"].noted(SIZE)) == HAD

    transfer.client.wait(noted, "blocks that are verified and noted")
    assert transfer.status()["b"]["blocks_ok"] == HAD


def kill(net: Net, host: str) -> None:
    agent = net.agents[host]
    agent.process.send_signal(signal.SIGKILL)
    agent.process.wait()


def again(net: Net, tmp_path: Path) -> Transfer:
    """A second master's view: everything is told once more."""
    return begin(net, tmp_path)


def temporary(net: Net) -> Path:
    [name] = net.agents["b"].leftovers()
    return net.agents["b"].folder / name


def finish(transfer: Transfer) -> dict[str, Any]:
    ended = transfer.wait_ended()["b"]
    assert ended["event"] == "done", ended
    assert Path(transfer.dest["b"]).stat().st_size == SIZE, "the table behind the bytes is gone"
    assert digest(Path(transfer.dest["b"])) == digest(transfer.path)
    return transfer.status()["b"]


def test_receiver_goes_on_from_what_it_had_verified(pair: Net, tmp_path: Path) -> None:
    first = begin(pair, tmp_path)
    get_some(pair, first)
    kill(pair, "b")
    pair.start("b")
    second = again(pair, tmp_path)
    status = finish(second)
    assert (status["blocks_resumed"], status["bad_blocks"]) == (HAD, 0)
    tree = status["trees"]["7"]
    new = tree["data"] - tree["duplicates"]
    assert new == second.pieces - HAD * PER_BLOCK, "what was verified is not fetched again"
    assert pair.agents["b"].leftovers() == []


def test_what_it_has_kept_of_a_group_is_told_with_how_it_was_cut(pair: Net, tmp_path: Path) -> None:
    """A master that begins anew, and has heard of no other, cut the file otherwise: all of it came again."""
    first = begin(pair, tmp_path)
    get_some(pair, first)
    first.client.request("close", first.members(), {"reason": "anew", "keep": True}, first.group)

    def told(group: str) -> Message:
        return pair.client("b").request("stat", pair.member("b", {"dest": first.dest["b"]}), {}, group)["b"]

    assert told(first.group).items() >= {"ok": True, "piece": PIECE, "per_block": PER_BLOCK}.items()
    kill(pair, "b")
    pair.start("b")
    assert told(first.group).items() >= {"ok": True, "piece": PIECE, "per_block": PER_BLOCK}.items()
    assert "piece" not in told("g-2") and told("g-2")["ok"]
    assert pair.agents["b"].leftovers(), "who asks takes nothing away"


def test_who_is_opened_again_and_was_started_again_says_that_it_has_no_such_group(pair: Net, tmp_path: Path) -> None:
    """Its master did not hear that it had lost what was not verified."""
    first = begin(pair, tmp_path)
    get_some(pair, first)
    assert all(r["ok"] for r in first.open(again=True).values())
    kill(pair, "b")
    pair.start("b")
    answers = first.open(again=True)
    assert answers["a"]["ok"] and answers["b"]["code"] == "no_group", answers
    second = again(pair, tmp_path)
    assert finish(second)["blocks_resumed"] == HAD


def test_blocks_damaged_meanwhile_are_fetched_again(pair: Net, tmp_path: Path) -> None:
    first = begin(pair, tmp_path)
    get_some(pair, first)
    kill(pair, "b")
    with temporary(pair).open("r+b") as handle:
        handle.seek(PIECE * PER_BLOCK * 3 + 17)
        byte = handle.read(1)
        handle.seek(-1, 1)
        handle.write(bytes([byte[0] ^ 0x20]))
    pair.start("b")
    second = again(pair, tmp_path)
    status = finish(second)
    assert status["blocks_resumed"] == HAD - 1
    tree = status["trees"]["7"]
    assert tree["data"] - tree["duplicates"] == second.pieces - (HAD - 1) * PER_BLOCK


def test_a_noted_digest_that_is_damaged_is_not_held_against_what_comes(pair: Net, tmp_path: Path) -> None:
    """It is the source's digest that counts, however late it comes."""
    first = begin(pair, tmp_path)
    get_some(pair, first)
    kill(pair, "b")
    with temporary(pair).open("r+b") as handle:
        handle.seek(-(-SIZE // 4096) * 4096 + 24 + 3 * 32)
        handle.write(b"torn")
    pair.start("b")
    second = again(pair, tmp_path)
    second.client.wait(lambda: second.status()["b"]["pieces"] == second.pieces, "all pieces, before any digest")
    status = finish(second)
    assert (status["blocks_resumed"], status["bad_blocks"]) == (HAD - 1, 0)


@pytest.mark.parametrize("what", ["cut", "symlink", "hard-link", "fifo", "other-layout"])
def test_a_temporary_file_of_no_use_is_replaced(pair: Net, tmp_path: Path, what: str) -> None:
    first = begin(pair, tmp_path)
    get_some(pair, first)
    kill(pair, "b")
    path, victim = temporary(pair), tmp_path / "victim"
    victim.write_text("not ours")
    if what == "cut":
        os.truncate(path, 100)
    elif what == "other-layout":
        with path.open("r+b") as handle:
            handle.seek(-(-SIZE // 4096) * 4096 + 16)
            handle.write(b"\x01")
    elif what == "hard-link":
        os.link(path, tmp_path / "other")
    else:
        path.unlink()
        path.symlink_to(victim) if what == "symlink" else os.mkfifo(path)
    pair.start("b")
    second = again(pair, tmp_path)
    assert finish(second)["blocks_resumed"] == 0
    assert victim.read_text() == "not ours"


def takes_attributes(folder: Path) -> bool:
    try:
        os.setxattr(folder, "user.datacast-test", b"1")
    except OSError:
        return False
    os.removexattr(folder, "user.datacast-test")
    return True


@pytest.mark.parametrize("how", ["killed", "closed", "touched", "another-source", "no-stamp"])
def test_who_had_the_whole_file_has_it_still_when_it_is_asked_again(pair: Net, tmp_path: Path, how: str) -> None:
    first = begin(pair, tmp_path, stamp="as-it-was")
    finish(first)
    dest = Path(first.dest["b"])
    inode, before = dest.stat().st_ino, dest.stat().st_mtime_ns
    if how == "closed":
        assert first.close(keep=True)["b"]["ok"]
    else:
        kill(pair, "b")
        pair.start("b")
    if how == "touched":
        os.utime(dest, ns=(before, before + 1))
    more = {"another-source": {"stamp": "as-it-is"}, "no-stamp": {}}.get(how, {"stamp": "as-it-was"})
    second = begin(pair, tmp_path, **more)
    status = finish(second)
    if how in ("killed", "closed") and takes_attributes(dest.parent):
        assert status["blocks_resumed"] == BLOCKS and status["bytes"] == SIZE and status["trees"] == {}
        assert dest.stat().st_ino == inode
    else:
        assert status["blocks_resumed"] == 0 and dest.stat().st_ino != inode, "it comes once more"
    assert pair.agents["b"].leftovers() == []


def test_close_with_keep_is_resumed_too(pair: Net, tmp_path: Path) -> None:
    first = begin(pair, tmp_path)
    get_some(pair, first)
    assert first.close(keep=True)["b"]["ok"]
    second = again(pair, tmp_path)
    assert finish(second)["blocks_resumed"] == HAD


def note(net: Net) -> Path:
    return net.agents["b"].folder / ".b.datacast-left"


def stopped_half_way(net: Net, tmp_path: Path) -> None:
    """b keeps what it has when it is stopped, and begins anew: as an upgrade does it."""
    net.agents["b"].stop()
    net.start("b", "--keep-partial")
    transfer = begin(net, tmp_path)
    get_some(net, transfer)
    assert net.agents["b"].stop() == 0
    assert len(net.agents["b"].leftovers()) == 1 and note(net).exists()


def test_an_agent_that_is_stopped_keeps_what_it_has_and_goes_on_with_it(pair: Net, tmp_path: Path) -> None:
    stopped_half_way(pair, tmp_path)
    pair.start("b", "--keep-partial")
    second = again(pair, tmp_path)
    assert finish(second)["blocks_resumed"] == HAD
    second.close()
    until(lambda: pair.agents["b"].leftovers() == [] and not note(pair).exists(), "nothing left")


def test_what_a_stopped_agent_kept_of_a_group_that_is_over_goes(pair: Net, tmp_path: Path) -> None:
    """Nobody opens it again: after ten leases. What a master had it keep stays."""
    kept = begin(pair, tmp_path)
    get_some(pair, kept)
    assert kept.close(keep=True)["b"]["ok"]
    [before] = pair.agents["b"].leftovers()
    pair.agents["b"].stop()
    pair.start("b", "--keep-partial")
    other = Transfer(pair, "a", kept.path, {"b": path_direct()}, {"b": str(pair.agents["b"].folder / "deep/er")}, "g-2")
    assert all(r["ok"] for r in other.open().values())
    pair.agents["b"].stop()
    assert len(pair.agents["b"].leftovers()) == 2
    (row,) = json.loads(note(pair).read_text())
    assert row == ["g-2", other.dest["b"], other.lease_ms]
    pair.start("b", "--keep-partial")
    pair.agents["b"].stop()
    assert json.loads(note(pair).read_text()) == [row], "it was stopped again meanwhile"
    note(pair).write_text(json.dumps([[*row[:2], 100], ["../x", row[1], 100], ["g-3", "/etc/passwd", 100], 7]))
    pair.start("b", "--keep-partial")
    until(lambda: pair.agents["b"].leftovers() == [before], "only what was to be kept")


def test_what_a_stopped_agent_kept_goes_when_its_master_closes_the_group(pair: Net, tmp_path: Path) -> None:
    stopped_half_way(pair, tmp_path)
    pair.start("b", "--keep-partial")
    client = pair.client("b")
    assert client.request("close", pair.member("b"), {"reason": "cancelled", "keep": False}, "g-1")["b"]["ok"]
    until(lambda: pair.agents["b"].leftovers() == [], "nothing left")


def test_what_a_killed_agent_had_goes_when_nobody_goes_on_with_it(pair: Net, tmp_path: Path) -> None:
    """Also what it had unpacked of a directory. The note never follows somebody else's link."""
    victim = tmp_path / "victim"
    victim.write_text("not ours")
    note(pair).with_suffix(".datacast-left.new").hardlink_to(victim)
    get_some(pair, begin(pair, tmp_path))
    kill(pair, "b")
    [name] = pair.agents["b"].leftovers()
    (pair.agents["b"].folder / f"{name}+" / "shut").mkdir(parents=True)
    (row,) = json.loads(note(pair).read_text())
    note(pair).write_text(json.dumps([[*row[:2], 100]]))
    pair.start("b")
    until(lambda: pair.agents["b"].leftovers() == [] and not note(pair).exists(), "nothing left")
    assert victim.read_text() == "not ours"


def test_what_was_received_outlasts_an_open_that_is_refused(pair: Net, tmp_path: Path) -> None:
    """It may be refused for a reason that passes: too many trees, another group's tree."""
    first = begin(pair, tmp_path)
    get_some(pair, first)
    kill(pair, "b")
    pair.start("b")
    second = Transfer(pair, "a", first.path, {"b": path_direct()}, rate=RATE, piece=PIECE, per_block=PER_BLOCK)
    refused = second.open(trees=[])["b"]
    assert not refused["ok"] and len(pair.agents["b"].leftovers()) == 1, refused
    assert [row[0] for row in json.loads(note(pair).read_text())] == ["g-1"], "it goes where nobody opens it again"
    assert finish(again(pair, tmp_path))["blocks_resumed"] == HAD


def test_another_digest_than_the_verified_one_is_refused(pair: Net, tmp_path: Path) -> None:
    first = begin(pair, tmp_path)
    get_some(pair, first)
    kill(pair, "b")
    pair.start("b")
    second = again(pair, tmp_path)
    until(lambda: second.status()["b"]["blocks_resumed"] == HAD, "blocks taken over")
    refused = second.client.request("digest", second.members(), {"blocks": [[0, "00" * 32]]}, "g-1")["b"]
    assert refused["code"] == "changed", refused


def test_source_killed_and_resumed(pair: Net, tmp_path: Path) -> None:
    first = begin(pair, tmp_path)
    get_some(pair, first)
    kill(pair, "a")
    pair.start("a")
    second = again(pair, tmp_path)
    status = finish(second)
    assert status["blocks_resumed"] == 0 and status["bad_blocks"] == 0, "the receiver never stopped"
    assert status["trees"]["7"]["data"] <= second.pieces + 200
    sent = second.status()["a"]["trees"]["7"]
    assert sent["new_packets"] + sent["dup_packets"] < second.pieces, "it went on in the middle"


def test_source_file_that_changed_is_refused(pair: Net, tmp_path: Path) -> None:
    path = random_file(tmp_path / "src", SIZE)
    client = pair.client("a")
    told = client.request("stat", pair.member("a", {"path": str(path)}))["a"]
    marks = {"mtime_ns": told["mtime_ns"], "inode": told["inode"]}

    def open_with(group: str, **given: int | str) -> dict[str, Any]:
        body = {"role": "source", "path": str(path), **given}
        everyone = {"size": SIZE, "piece": PIECE, "per_block": PER_BLOCK, "source": "a", "trees": []}
        return client.request("open", pair.member("a", body), everyone, group)["a"]

    assert open_with("g-same", **marks)["ok"]
    stat = path.stat()
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    assert open_with("g-touched", **marks)["code"] == "changed"
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert open_with("g-back", **marks)["ok"]
    copy = tmp_path / "copy"
    copy.write_bytes(path.read_bytes())
    os.utime(copy, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    copy.replace(path)
    refused = open_with("g-replaced", **marks)
    assert refused["code"] == "changed" and "another file" in refused["error"]
    assert open_with("g-unmarked")["ok"]
    os.utime(path, ns=(0, -1_234_567_890_123_456_789))  # 1930
    told = client.request("stat", pair.member("a", {"path": str(path)}))["a"]
    assert told["mtime_ns"] == path.stat().st_mtime_ns < 0
    assert open_with("g-old", mtime_ns=told["mtime_ns"], inode=told["inode"])["ok"]
    assert open_with("g-older", mtime_ns=told["mtime_ns"] - 1)["code"] == "changed"
    assert open_with("g-text", mtime_ns="1930")["code"] == "bad_request"
