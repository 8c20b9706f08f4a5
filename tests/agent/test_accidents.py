"""What goes wrong on a host: bad paths, full disks, files that change, processes that die."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from agent_harness import (
    ASAN,
    PLAIN,
    Client,
    Net,
    Transfer,
    digest,
    join_line,
    join_pair,
    make_line,
    make_pair,
    node_counters,
    path_direct,
    path_end,
    path_middle,
    path_over_source,
    random_file,
    run,
    until,
)
from garbage import garbage_frames, send_frames

pytestmark = pytest.mark.root

SLOW = 50_000_000  # bit/s: transfers that are to be caught half way


def stat(net: Net, host: str, body: dict[str, object]) -> dict[str, object]:
    client = Client(net.management, net.address(host))
    try:
        return client.request("stat", net.member(host, body))[host]
    finally:
        client.close()


def test_stat_of_a_source(pair: Net, tmp_path: Path) -> None:
    source = random_file(tmp_path / "src", 12345)
    result = stat(pair, "a", {"path": str(source)})
    assert result == {"ok": True, "size": 12345, "mtime_ns": source.stat().st_mtime_ns, "inode": source.stat().st_ino}
    assert stat(pair, "a", {"path": str(tmp_path / "absent")})["code"] == "not_found"
    assert stat(pair, "a", {"path": "/dev"})["code"] == "denied", "devices in it"
    assert stat(pair, "a", {"path": "/dev/null"})["code"] == "denied"
    assert stat(pair, "a", {"path": "/dev/../etc/passwd"})["code"] == "outside"
    assert stat(pair, "a", {"path": ""})["code"] == "bad_request"
    os.mkfifo(tmp_path / "fifo")
    assert stat(pair, "a", {"path": str(tmp_path / "fifo")})["code"] == "denied"


def test_what_is_no_file_is_not_even_opened(pair: Net, tmp_path: Path) -> None:
    """Opening a FIFO lets its writer go on, opening a watchdog starts it."""
    libc = ctypes.CDLL(None, use_errno=True)
    watch, in_open = libc.inotify_init1(os.O_NONBLOCK), 0x20
    fifo, source = tmp_path / "fifo", random_file(tmp_path / "src", 100)
    os.mkfifo(fifo)
    for path in (fifo, source):
        assert libc.inotify_add_watch(watch, str(path).encode(), in_open) >= 0
    assert stat(pair, "a", {"path": str(fifo)})["code"] == "denied"
    with pytest.raises(BlockingIOError):
        os.read(watch, 4096)
    assert stat(pair, "a", {"path": str(source)})["ok"]
    assert os.read(watch, 4096), "an open would have shown"
    os.close(watch)


def test_source_folders_confine_what_is_sent(make_net: Callable[[Path], Net], tmp_path: Path) -> None:
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    random_file(allowed / "in", 10)
    secret = random_file(tmp_path / "secret", 10)
    (allowed / "link").symlink_to(secret)
    (allowed / "inner").symlink_to("in")
    net = join_pair(make_net(PLAIN))
    net.start("a", "--source-root", str(allowed))
    assert stat(net, "a", {"path": str(allowed / "in")})["ok"]
    assert stat(net, "a", {"path": str(allowed / "inner")})["ok"]
    assert stat(net, "a", {"path": str(secret)})["code"] == "outside"
    assert stat(net, "a", {"path": str(allowed / "link")})["code"] == "outside"
    assert stat(net, "a", {"path": f"{allowed}/../secret"})["code"] == "outside"
    assert stat(net, "a", {"path": f"{allowed}x/in"})["code"] == "outside"


def test_an_agent_that_was_given_no_source_root_sends_nothing(make_net: Callable[[Path], Net], tmp_path: Path) -> None:
    net = join_pair(make_net(PLAIN))
    net.start("a", sends=False)
    for path in (random_file(tmp_path / "f", 10), Path("/etc/hostname")):
        answer = stat(net, "a", {"path": str(path)})
        assert answer["code"] == "outside" and "--source-root" in str(answer["error"])


def test_stat_of_destinations(pair: Net, tmp_path: Path) -> None:
    folder = pair.agents["b"].folder
    (folder / "sub").mkdir()
    (folder / "file").write_text("x")
    (folder / "out").symlink_to(tmp_path)
    (folder / "here").symlink_to("sub")

    def check(dest: object, size: int = 1) -> object:
        result = stat(pair, "b", {"dest": dest, "size": size})
        return result.get("code", result["ok"])

    assert check(str(folder / "new")) is True
    assert check(str(folder / "file")) is True
    assert check(str(folder / "a" / "b" / "c")) is True
    assert check(str(folder / "here" / "new")) is True
    assert check("new") is True
    assert check(str(folder / "sub")) == "is_directory"
    assert check(str(folder / "new") + "/") == "is_directory"
    assert check(str(folder)) == "is_directory"
    assert check(str(folder / "file" / "new")) == "not_writable"
    assert check(str(folder / "out" / "new")) == "outside"
    assert check(str(folder / ".." / "new")) == "outside"
    assert check("/etc/passwd") == "outside"
    assert check(str(tmp_path / "b-not" / "new")) == "outside"
    assert check("") == "bad_request"
    assert check(str(folder / ("n" * 256))) == "bad_request"
    assert check("x" * 5000) == "bad_request"
    assert check(7) == "bad_request"
    assert check(str(folder / "new"), 1 << 52) == "disk_full"
    assert sorted(p.name for p in folder.iterdir()) == ["file", "here", "out", "sub"], "a check creates nothing"


@pytest.mark.parametrize("dest", ["/etc/datacast-test", "../got", "out/got", "sub/", "sub"])
def test_destination_refused_at_open(pair: Net, tmp_path: Path, dest: str) -> None:
    folder = pair.agents["b"].folder
    (folder / "sub").mkdir()
    (folder / "out").symlink_to(tmp_path)
    path = dest if dest.startswith("/") else f"{folder}/{dest}"
    transfer = Transfer(pair, "a", random_file(tmp_path / "src", 1000), {"b": path_direct()}, dest={"b": path})
    results = transfer.open()
    assert results["a"]["ok"] and results["b"]["code"] == ("is_directory" if "sub" in dest else "outside"), results
    assert not (tmp_path / "got").exists() and not Path("/etc/datacast-test").exists()
    assert transfer.client.request("status", pair.member("b"), group="g-1")["b"]["code"] == "bad_request"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder))
    yield folder
    run("umount", "-l", str(folder))


def test_disk_full_at_open_and_the_others_finish(
    make_net: Callable[[Path], Net], tmp_path: Path, small_disk: Path
) -> None:
    net = join_line(make_net(PLAIN))
    net.start("a")
    net.start("b", dest=small_disk)
    net.start("c")
    transfer = Transfer(net, "a", random_file(tmp_path / "src", 20_000_000), {"b": path_middle(), "c": path_end()})
    results = transfer.open()
    assert results["b"]["code"] == "disk_full", results
    assert results["a"]["ok"] and results["c"]["ok"]
    assert "free" in results["b"]["error"]
    transfer.assign()
    assert transfer.wait_ended("c")["c"]["event"] == "done"
    assert digest(Path(transfer.dest["c"])) == digest(transfer.path)
    assert list(small_disk.iterdir()) == []


def test_of_hosts_that_share_a_folder_one_receives_there(make_net: Callable[[Path], Net], tmp_path: Path) -> None:
    net = join_line(make_net(PLAIN))
    shared = tmp_path / "shared"
    shared.mkdir()
    net.start("a")
    net.start("b", dest=shared)
    net.start("c", dest=shared)
    both = Transfer(net, "a", random_file(tmp_path / "src", 3_000_000), {"b": path_middle(), "c": path_end()})
    results = both.open()
    ok = [name for name in "bc" if results[name]["ok"]]
    for name in {*"bc"}.difference(ok):  # "exists": it looked while the other one tried whether it may write there
        assert results[name]["code"] in ("not_writable", "exists"), results
    both.assign()
    ended = both.wait_ended(ok)  # of two that opened it at one moment one sees in the end that the name is not its own
    [whole] = [name for name in ok if ended[name]["event"] == "done"]
    assert digest(Path(both.dest[whole])) == digest(both.path) and net.agents[whole].leftovers() == []


def test_disk_fills_up_half_way(make_net: Callable[[Path], Net], tmp_path: Path, small_disk: Path) -> None:
    """It had room when the group was opened; somebody else takes it meanwhile."""
    net = join_pair(make_net(PLAIN))
    net.start("a")
    net.start("b", dest=small_disk)
    # Beyond what is reserved at once, so that the reservation runs out in the background.
    run("mount", "-o", "remount,size=40m", str(small_disk))
    transfer = Transfer(net, "a", random_file(tmp_path / "src", 36_000_000), {"b": path_direct()}, rate=SLOW)
    hog = small_disk / "hog"
    assert all(r["ok"] for r in transfer.open().values())
    with hog.open("wb", buffering=0) as handle:  # takes what is left, whichever of the two comes first
        try:
            while handle.write(bytes(1 << 20)):
                pass
        except OSError:
            pass
    transfer.assign()
    ended = transfer.wait_ended()["b"]
    if ended["event"] == "failed":
        assert ended["code"] == "disk_full"
        until(lambda: [p.name for p in small_disk.iterdir()] == ["hog"], "nothing else, nor a note of it")
    else:
        assert digest(Path(transfer.dest["b"])) == digest(transfer.path)


def test_longest_file_name(pair: Net, tmp_path: Path) -> None:
    """The temporary file's name is shortened, not the file's."""
    folder = pair.agents["b"].folder
    transfer = Transfer(
        pair, "a", random_file(tmp_path / "src", 1000), {"b": path_direct()}, dest={"b": str(folder / ("n" * 255))}
    )
    transfer.deliver()
    until(lambda: [p.name for p in folder.iterdir()] == ["n" * 255], "nothing else, nor a note of it")


def test_source_file_changes(pair: Net, tmp_path: Path) -> None:
    source = random_file(tmp_path / "src", 10_000_000)
    transfer = Transfer(pair, "a", source, {"b": path_direct()}, rate=SLOW)
    transfer.open()
    transfer.assign()
    transfer.client.wait(lambda: transfer.client.event("first", "b"), "the first data")
    with source.open("r+b") as handle:
        handle.seek(9_000_000)
        handle.write(b"changed")
    failed = transfer.client.wait(lambda: transfer.ended("a"), "the source's end")
    assert (failed["event"], failed["code"]) == ("failed", "changed")
    assert transfer.status()["a"]["state"] == "failed"
    assert not Path(transfer.dest["b"]).exists()


@pytest.mark.parametrize("how", ["unlink", "truncate", "replace"])
def test_source_file_vanishes(pair: Net, tmp_path: Path, how: str) -> None:
    source = random_file(tmp_path / "src", 10_000_000)
    transfer = Transfer(pair, "a", source, {"b": path_direct()}, rate=SLOW)
    transfer.open()
    transfer.assign()
    transfer.client.wait(lambda: transfer.client.event("first", "b"), "the first data")
    if how == "unlink":
        source.unlink()
    elif how == "truncate":
        os.truncate(source, 1000)
    else:
        random_file(tmp_path / "other", 10_000_000).rename(source)
    failed = transfer.client.wait(lambda: transfer.ended("a"), "the source's end")
    # A file without a name has changed too: it depends on which look comes first.
    assert failed["event"] == "failed"
    assert failed["code"] in (("not_found", "changed") if how == "unlink" else ("changed",))
    assert transfer.close()["b"]["ok"]
    assert pair.agents["b"].leftovers() == []


def test_source_of_another_size_than_announced(pair: Net, tmp_path: Path) -> None:
    transfer = Transfer(pair, "a", random_file(tmp_path / "src", 1000), {"b": path_direct()})
    transfer.size = 999
    assert transfer.open()["a"]["code"] == "changed"


def test_corrupt_block_is_fetched_again_past_the_cache(line: Net, tmp_path: Path) -> None:
    """Wrong digests stand in for a corrupt packet: the block is asked for again until the right one is known."""
    transfer = Transfer(line, "a", random_file(tmp_path / "src", 200 * 8000), {"b": path_middle(), "c": path_end()})
    transfer.open()
    wrong = "00" * 32
    assert transfer.client.request("digest", transfer.members(), {"blocks": [[1, wrong]]}, "g-1")["c"]["ok"]
    transfer.assign()
    bad = transfer.client.wait(lambda: transfer.client.event("bad_block", "c"), "the bad block")
    assert bad["block"] == 1 and bad["pieces"] == 100
    ended = transfer.wait_ended()
    for name in "bc":
        if ended[name]["event"] == "done":
            assert digest(Path(transfer.dest[name])) == digest(transfer.path)
            assert name == "b" or ended[name]["bad_blocks"] >= 1  # b may have heard the right digest in time
        else:  # the right digest came after the last try
            assert ended[name]["code"] == "checksum"
    assert transfer.status()["a"]["trees"]["7"]["refetches"] > 0


def test_block_that_never_comes_right_fails(pair: Net, tmp_path: Path) -> None:
    transfer = Transfer(pair, "a", random_file(tmp_path / "src", 50 * 8000), {"b": path_direct()})
    transfer.open()
    transfer.assign()
    transfer.client.request("digest", transfer.members(), {"blocks": [[0, "ab" * 32]]}, "g-1")
    failed = transfer.client.wait(lambda: transfer.ended("b"), "the end")
    assert (failed["event"], failed["code"]) == ("failed", "checksum")
    assert pair.agents["b"].leftovers() == [] and not Path(transfer.dest["b"]).exists()


def test_receiver_killed_and_the_other_finishes(line: Net, tmp_path: Path) -> None:
    transfer = Transfer(
        line, "a", random_file(tmp_path / "src", 10_000_000), {"b": path_middle(), "c": path_end()}, rate=SLOW
    )
    transfer.open()
    transfer.assign()
    transfer.client.wait(lambda: transfer.client.event("first", "c"), "the first data")
    line.agents["c"].process.send_signal(signal.SIGKILL)
    assert transfer.wait_ended("b")["b"]["event"] == "done"
    assert digest(Path(transfer.dest["b"])) == digest(transfer.path)
    results = transfer.status()
    assert results["b"]["state"] == "done" and results["c"]["code"] == "unreachable"
    # What it left behind goes when it is opened again.
    assert line.agents["c"].leftovers() == [".got.datacast-g-1"]
    line.agents["c"].process.wait()
    line.start("c")
    transfer.close()
    again = Transfer(line, "a", transfer.path, {"c": path_end()}, tree=9)
    again.deliver()
    assert line.agents["c"].leftovers() == []


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_stop_removes_temporary_files(pair: Net, tmp_path: Path, sig: int) -> None:
    transfer = Transfer(pair, "a", random_file(tmp_path / "src", 10_000_000), {"b": path_direct()}, rate=SLOW)
    transfer.open()
    transfer.assign()
    transfer.client.wait(lambda: transfer.client.event("first", "b"), "the first data")
    assert pair.agents["b"].leftovers() == [".got.datacast-g-1"]
    assert pair.agents["b"].stop(sig) == 0
    assert pair.agents["b"].leftovers() == []


def test_close_half_way_removes_or_keeps(pair: Net, tmp_path: Path) -> None:
    for group, keep in (("g-drop", False), ("g-keep", True)):
        transfer = Transfer(
            pair, "a", random_file(tmp_path / "src", 10_000_000), {"b": path_direct()}, rate=SLOW, group=group
        )
        transfer.open()
        transfer.assign()
        transfer.client.wait(lambda t=transfer: t.client.event("first", "b"), "the first data")
        assert all(r["ok"] for r in transfer.close(keep=keep).values())
        assert pair.agents["b"].leftovers() == ([f".got.datacast-{group}"] if keep else [])
        assert transfer.status()["b"]["code"] == "no_group"


def groups_of(net: Net, host: str) -> object:
    return node_counters(net, host)["process"]["groups"]


def test_when_the_master_is_silent_the_source_ends_and_a_receiver_waits_for_the_next_one_a_while(
    pair: Net, tmp_path: Path
) -> None:
    transfer = Transfer(
        pair, "a", random_file(tmp_path / "src", 50_000_000), {"b": path_direct()}, rate=SLOW, lease_ms=500
    )

    def under_way() -> bool:
        """This process may have no turn for longer than the lease."""
        return all(r["ok"] for r in [*transfer.open().values(), *transfer.assign().values()])

    until(under_way, "a group of which the master falls silent")
    transfer.client.close()
    until(lambda: groups_of(pair, "a") == 0, "the end of the source's lease")
    assert groups_of(pair, "b") == 1 and pair.agents["b"].leftovers() != []
    until(lambda: pair.agents["b"].leftovers() == [], "the end of the receiver's")
    assert groups_of(pair, "b") == 0


def test_who_was_done_before_its_lease_ended_fetches_nothing_again(pair: Net, tmp_path: Path) -> None:
    """Fabric managers and workers were away for longer than that."""
    path = random_file(tmp_path / "src", 3_000_000)
    first = Transfer(pair, "a", path, {"b": path_direct()}, lease_ms=2000)
    first.open()
    first.assign()
    assert first.wait_ended()["b"]["event"] == "done"
    first.client.close()
    until(lambda: groups_of(pair, "a") == 0, "the end of the source's lease")
    second = Transfer(pair, "a", path, {"b": path_direct()})
    second.open()
    second.assign()
    assert second.client.wait(lambda: second.ended("b"), "done told again")["event"] == "done"
    assert second.status()["a"]["trees"]["7"]["new_packets"] == 0


def test_a_receiver_that_nobody_asks_for_makes_room_for_another_group(
    make_net: Callable[[Path], Net], tmp_path: Path
) -> None:
    net = join_pair(make_net(PLAIN))
    net.start("a")
    net.start("b", "--groups", "1")
    first = Transfer(net, "a", random_file(tmp_path / "src", 3_000_000), {"b": path_direct()}, lease_ms=2000)
    first.open()
    first.client.close()
    client = net.client("b")
    relay = lambda: client.request("open", net.member("b", {"role": "relay"}), {"lease_ms": 5000}, "g-relay")["b"]  # noqa: E731
    assert relay()["code"] == "limit"
    until(lambda: relay()["ok"], "the end of the receiver's lease")
    assert groups_of(net, "b") == 1


def test_master_comes_back_and_adopts_the_group(pair: Net, tmp_path: Path) -> None:
    transfer = Transfer(pair, "a", random_file(tmp_path / "src", 6_000_000), {"b": path_direct()}, rate=SLOW)
    transfer.open()
    transfer.assign()
    transfer.client.wait(lambda: transfer.client.event("first", "b"), "the first data")
    transfer.client.close()
    second = Transfer(pair, "a", transfer.path, {"b": path_direct()}, rate=SLOW)
    results = second.open()
    assert all(r["ok"] for r in results.values()), results
    assert second.wait_ended()["b"]["event"] == "done"  # digests are told again, what was received stays
    assert second.status()["a"]["trees"]["7"]["new_packets"] == second.pieces
    third = Transfer(pair, "a", transfer.path, {"b": path_direct()}, rate=SLOW)
    third.open()
    assert third.client.wait(lambda: third.ended("b"), "done told again")["event"] == "done"


def test_events_find_their_way_again_after_a_connection_broke(line: Net, tmp_path: Path) -> None:
    """The agent in the middle of the signalling's tree starts anew: its child's events come over the next request."""
    transfer = Transfer(line, "a", random_file(tmp_path / "src", 4_000_000), {"b": path_direct()}, rate=SLOW)

    def below(body: bool) -> dict[str, object]:
        role = {"role": "receiver", "dest": transfer.dest["b"], "routes": {"7": path_direct().hex()}}
        relay = line.member("c", {"role": "relay"} if body else None, [line.member("b", role if body else None)])
        return line.member("a", {"role": "source", "path": str(transfer.path)} if body else None, [relay])

    transfer.members = lambda bodies=False: below(bodies)  # type: ignore[method-assign]
    assert all(r["ok"] for r in transfer.open().values())
    transfer.assign()
    transfer.client.wait(lambda: transfer.client.event("first", "b"), "the first data, over c")
    line.agents["c"].process.send_signal(signal.SIGKILL)
    line.agents["c"].process.wait()
    assert transfer.client.wait(lambda: (transfer.pass_digests(), transfer.ended("b"))[1], "the end")["event"] == "done"
    assert digest(Path(transfer.dest["b"])) == digest(transfer.path)


@pytest.mark.parametrize("program", [PLAIN, ASAN], ids=["plain", "asan"])
def test_garbage_frames_are_counted_and_dropped(make_net: Callable[[Path], Net], tmp_path: Path, program: Path) -> None:
    net = make_line(make_net(program))
    transfer = Transfer(
        net, "a", random_file(tmp_path / "src", 4_000_000), {"b": path_middle(), "c": path_end()}, rate=SLOW
    )
    transfer.open()
    transfer.assign()
    transfer.client.wait(lambda: transfer.client.event("first", "c"), "the first data")
    sent = garbage_frames(seed=20240, count=3000, tree=transfer.tree)
    send_frames(net.namespace("a"), "p0", sent)
    send_frames(net.namespace("c"), "p0", sent)
    transfer.wait_ended()
    assert digest(Path(transfer.dest["c"])) == digest(transfer.path)
    for host in "abc":
        assert net.agents[host].process.poll() is None, net.agents[host].text()
    drop = node_counters(net, "b")["drop"]
    for reason in ("truncated", "version", "type", "reserved", "label", "port", "stack", "route"):
        assert drop[reason] > 0, (reason, drop)


def test_idle_agent_takes_no_processor_time(pair: Net, tmp_path: Path) -> None:
    transfer = Transfer(pair, "a", random_file(tmp_path / "src", 2_000_000), {"b": path_direct()})
    transfer.deliver()
    transfer.close()

    time.sleep(2.2)  # the hellos are quick for two seconds after data
    before = node_counters(pair, "b")["process"]
    began = time.monotonic()
    time.sleep(2)  # the quantity under test is what happens in this time
    after, took = node_counters(pair, "b")["process"], time.monotonic() - began
    assert after["rounds"] - before["rounds"] < 20 * took  # hellos: four a second each way
    assert after["cpu_ns"] - before["cpu_ns"] < 5_000_000 * took


def test_host_that_may_not_forward(make_net: Callable[[Path], Net], tmp_path: Path) -> None:
    net = join_line(make_net(PLAIN))
    net.start("a")
    net.start("b", "--no-forward")
    net.start("c")
    direct = Transfer(net, "a", random_file(tmp_path / "one", 100_000), {"b": path_direct()})
    direct.deliver()
    around = Transfer(net, "a", random_file(tmp_path / "two", 100_000), {"c": path_end()}, group="g-2", tree=2)
    around.open()
    around.assign()
    around.client.wait(lambda: node_counters(net, "b")["drop"]["not_forwarded"] > 0, "frames that are refused")
    assert around.status()["c"]["pieces"] == 0


def test_host_that_may_not_forward_merges_what_its_own_file_is_asked_for(
    make_net: Callable[[Path], Net], tmp_path: Path
) -> None:
    """Where no switch can cache (an appliance is absent) the source's own node is the waypoint."""
    net = join_line(make_net(PLAIN))
    net.start("a")
    net.start("b", "--no-forward")
    net.start("c")
    routes = {"a": path_over_source(0), "c": path_over_source(1)}
    calm = {"cache_bytes": 8 << 20, "rto_min_ms": 300}
    transfer = Transfer(net, "b", random_file(tmp_path / "src", 2_000_000), routes, rate=SLOW, extra=calm)
    transfer.deliver()
    sent = transfer.status()["b"]["trees"]["7"]
    assert sent["dup_packets"] * 20 <= sent["new_packets"], "two receivers are one stream of interests"
    counters = node_counters(net, "b")
    assert counters["drop"]["not_forwarded"] == 0
    assert sum(port["tx_data_payload"] for port in counters["ports"].values()) >= 2 * transfer.size


def test_link_that_goes_down_and_comes_back(make_net: Callable[[Path], Net], tmp_path: Path) -> None:
    net = make_pair(make_net(PLAIN))
    transfer = Transfer(net, "a", random_file(tmp_path / "src", 6_000_000), {"b": path_direct()}, rate=SLOW)
    transfer.open()
    transfer.assign()
    transfer.client.wait(lambda: transfer.client.event("first", "b"), "the first data")
    run("ip", "-n", net.namespace("a"), "link", "set", "p0", "down")
    until(lambda: not node_counters(net, "b")["ports"]["0"]["up"], "b to see it")
    run("ip", "-n", net.namespace("a"), "link", "set", "p0", "up")
    transfer.wait_ended()
    assert digest(Path(transfer.dest["b"])) == digest(transfer.path)


def test_a_disk_that_does_not_sync_holds_up_no_digest(make_net: Callable[[Path], Net], tmp_path: Path) -> None:
    """More files wait for their sync than there are threads: blocks of others are verified all the same."""
    shim, hold = tmp_path / "slow_sync.so", tmp_path / "hold"
    run("cc", "-shared", "-fPIC", "-o", str(shim), str(Path(__file__).with_name("slow_sync.c")))
    hold.touch()
    net = join_pair(make_net(PLAIN))
    net.start("a")
    agent = net.start("b", environment={"LD_PRELOAD": str(shim), "HOLD": str(hold)})
    source = random_file(tmp_path / "f", 400_000)
    transfers = [
        Transfer(net, "a", source, {"b": path_direct()}, dest={"b": str(agent.folder / f"got-{i}")}, group=f"g-{i}",
                 tree=10 + i, piece=1000, per_block=100)
        for i in range(6)
    ]  # fmt: skip
    for transfer in transfers:
        transfer.open()
        transfer.assign()
        transfer.client.wait(
            lambda transfer=transfer: (transfer.pass_digests(), transfer.status()["b"]["blocks_ok"] == 4)[1],
            f"the digests of {transfer.group}",
        )
        assert transfer.ended("b") is None, "it has its name before it is on the disk"
    hold.unlink()
    for transfer in transfers:
        assert transfer.wait_ended()["b"]["event"] == "done"
        assert digest(Path(transfer.dest["b"])) == digest(source)
