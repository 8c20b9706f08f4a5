"""Directories: a source reads one as a stream, receivers make it of the stream."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
from pathlib import Path

import pytest
from agent_harness import ASAN, PLAIN, Message, Net, Transfer, join_pair, make_pair, path_direct, read, until

pytestmark = pytest.mark.root


@pytest.fixture
def net(make_net) -> Net:  # type: ignore[no-untyped-def]
    return make_pair(make_net(ASAN))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One of everything."""
    it = tmp_path / "model"
    (it / "a" / "deep" / "deeper").mkdir(parents=True)
    (it / "a" / "weights.bin").write_bytes(os.urandom(700_001))
    (it / "a" / "deep" / "small").write_bytes(b"small")
    (it / "empty").touch()
    (it / "run").write_text("#!/bin/sh\n")
    (it / "run").chmod(0o755)
    (it / "secret").write_bytes(b"x" * 70_000)
    (it / "secret").chmod(0o600)
    (it / "a" / "latest").symlink_to("../run")
    (it / "a" / "way").symlink_to("deep")
    (it / "ä name with\nodd bytes").write_bytes(b"1")
    (it / "locked").mkdir()
    (it / "locked" / "in").write_bytes(b"2")
    (it / "a" / "other name").hardlink_to(it / "run")
    (it / "z").hardlink_to(it / "a" / "weights.bin")
    (it / "empty too").hardlink_to(it / "empty")
    outside = tmp_path / "outside"
    outside.write_bytes(b"another name of it is not in the directory")
    (it / "one of two").hardlink_to(outside)
    (it / "locked").chmod(0o555)
    for n, path in enumerate(sorted([*it.rglob("*"), it])):
        os.utime(path, ns=(0, (n - 3) * 10**17 + n), follow_symlinks=False)  # some before 1970
    return it


def seen(top: Path) -> dict[str, tuple[str, int, object]]:
    rows: dict[str, tuple[str, int, object]] = {}
    for path in sorted(top.rglob("*")):
        name, mode = str(path.relative_to(top)), path.lstat().st_mode & 0o777
        if path.is_symlink():
            rows[name] = ("link", 0, os.readlink(path))
        elif path.is_dir():
            rows[name] = ("folder", mode, None)
        else:
            rows[name] = ("file", mode, path.read_bytes())
    return rows


def names(top: Path) -> list[list[str]]:
    """Files that have several names in the directory."""
    by_inode: dict[int, list[str]] = {}
    for path in sorted(top.rglob("*")):
        if path.is_file() and not path.is_symlink():
            by_inode.setdefault(path.lstat().st_ino, []).append(str(path.relative_to(top)))
    return sorted(found for found in by_inode.values() if len(found) > 1)


def times(top: Path) -> dict[str, int]:
    return {str(path.relative_to(top)): path.lstat().st_mtime_ns for path in top.rglob("*")}


def owners(top: Path) -> dict[str, tuple[int, int]]:
    return {str(p.relative_to(top)): ((s := p.lstat()).st_uid, s.st_gid) for p in top.rglob("*")}


def ask(net: Net, path: Path) -> Message:
    """Until it has been looked through, as a master does."""
    client = net.client("a")
    while True:
        answer = client.request("stat", net.member("a", {"path": str(path)}), {}, "g-0")["a"]
        if answer.get("code") != "walking":
            return answer
        assert "entries until now" in answer["error"] and path.name in answer["error"], answer


def begin(net: Net, path: Path, **more: object) -> Transfer:
    transfer = Transfer(net, "a", path, {"b": path_direct()}, per_block=4, **more)  # type: ignore[arg-type]
    transfer.more = {"bundle": True}
    transfer.size = ask(net, path)["size"]
    return transfer


def test_a_directory_arrives_as_it_is(net: Net, folder: Path) -> None:
    known = ask(net, folder)
    assert known["ok"] and known["bundle"] == len(seen(folder)), known
    transfer = begin(net, folder)
    assert all(r["ok"] for r in transfer.open().values())
    transfer.assign()
    ended = transfer.wait_ended()["b"]
    assert ended["event"] == "done", ended
    got = Path(transfer.dest["b"])
    assert seen(got) == seen(folder) and times(got) == times(folder)
    assert names(got) == names(folder) == [["a/other name", "run"], ["a/weights.bin", "z"], ["empty", "empty too"]]
    assert (got / "one of two").stat().st_nlink == 1
    assert transfer.size < 1_000_000, "what has several names is sent once"
    assert net.agents["b"].leftovers() == []


def test_many_files_are_looked_through_while_the_agent_answers_others(net: Net, tmp_path: Path) -> None:
    many = tmp_path / "many"
    for n in range(100):
        (many / str(n)).mkdir(parents=True)
        for k in range(80):
            (many / str(n) / f"{k:03}").write_bytes(b"%d" % k)
    client = net.client("a")
    asked = client.send("stat", net.member("a", {"path": str(many)}), {}, "g-0")
    assert client.request("ping", net.member("a"), {}, "g-0")["a"]["ok"]
    assert asked not in client.acks, "it was walked first"
    transfer = begin(net, many, lease_ms=5000)  # a busy machine looks through them for longer
    assert all(r["ok"] for r in transfer.open().values())
    transfer.assign()
    assert transfer.wait_ended()["b"]["event"] == "done"
    assert seen(Path(transfer.dest["b"])) == seen(many) and len(seen(many)) == 8_100


def test_a_directory_is_made_where_there_is_no_room_for_it_twice(net: Net, tmp_path: Path) -> None:
    top = tmp_path / "model"
    (top / "small").mkdir(parents=True)
    for n in range(60):
        (top / f"weights-{n}").write_bytes(os.urandom(1 << 20))
        (top / "small" / str(n)).write_bytes(os.urandom(n))
    room = net.agents["b"].folder
    net.agents["b"].stop()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=90m", "none", str(room)], check=True)
    try:
        net.start("b")
        transfer = begin(net, top)
        assert all(r["ok"] for r in transfer.open().values())
        transfer.assign()
        ended = transfer.wait_ended()["b"]
        assert ended["event"] == "done", ended
        assert seen(Path(transfer.dest["b"])) == seen(top) and net.agents["b"].leftovers() == []
    finally:
        subprocess.run(["umount", "-l", str(room)], check=True)


@pytest.mark.parametrize("wanted", [True, False])
def test_owners_arrive_where_the_receiver_s_agent_is_told_so(make_net, folder: Path, wanted: bool) -> None:  # type: ignore[no-untyped-def]
    net = make_pair(make_net(ASAN), *(["--owners"] if wanted else []))
    for n, path in enumerate(sorted(folder.rglob("*"))):
        os.chown(path, 2000 + n % 3, 3000 + n, follow_symlinks=False)
    transfer = begin(net, folder)
    assert all(r["ok"] for r in transfer.open().values())
    transfer.assign()
    assert transfer.wait_ended()["b"]["event"] == "done"
    got = Path(transfer.dest["b"])
    assert seen(got) == seen(folder) and times(got) == times(folder)
    own = {name: (os.geteuid(), os.getegid()) for name in owners(folder)}
    assert owners(got) == (owners(folder) if wanted else own)
    assert (got.stat().st_uid, got.stat().st_mode & 0o777) == (os.geteuid(), 0o755)


def xattrs(top: Path) -> dict[str, dict[str, bytes]]:
    rows = {str(p.relative_to(top)): p for p in top.rglob("*") if not p.is_symlink()}
    return {name: {k: os.getxattr(p, k) for k in os.listxattr(p) if k.startswith("user.")} for name, p in rows.items()}


@pytest.mark.parametrize("wanted", [True, False])
def test_extended_attributes_arrive_where_the_agents_are_told_so(make_net, folder: Path, wanted: bool) -> None:  # type: ignore[no-untyped-def]
    net = make_pair(make_net(ASAN), *(["--xattrs"] if wanted else []))
    large = b"\0" * 2000
    os.setxattr(folder / "run", "user.zone", large)
    os.setxattr(folder / "a", "user.of a folder", b"1")
    os.setxattr(folder / "a" / "weights.bin", "user.b", b"")
    os.setxattr(folder / "a" / "weights.bin", "user.a", b"first")
    os.setxattr(folder / "empty", "user.datacast", b"what an agent has noted")
    (folder / "run").chmod(0o400)
    there = {name: {k: v for k, v in told.items() if k != "user.datacast"} for name, told in xattrs(folder).items()}
    transfer = begin(net, folder)
    assert all(r["ok"] for r in transfer.open().values())
    transfer.assign()
    assert transfer.wait_ended()["b"]["event"] == "done"
    got = Path(transfer.dest["b"])
    assert seen(got) == seen(folder) and times(got) == times(folder) and names(got) == names(folder)
    assert xattrs(got) == (there if wanted else {name: {} for name in there})
    assert ask(net, got)["size"] == transfer.size, "what arrived is the same stream"


def test_attributes_that_a_file_system_cannot_keep_are_told_and_leave_nothing(make_net, folder: Path) -> None:  # type: ignore[no-untyped-def]
    net = make_pair(make_net(ASAN), "--xattrs")
    os.setxattr(folder / "a" / "deep" / "small", "user.zone", b"1")
    room = net.agents["b"].folder
    net.agents["b"].stop()
    subprocess.run(["mount", "-t", "ramfs", "none", str(room)], check=True)
    try:
        net.start("b", "--xattrs")
        transfer = begin(net, folder)
        assert all(r["ok"] for r in transfer.open().values())
        transfer.assign()
        ended = transfer.wait_ended()["b"]
        assert (ended["event"], ended["code"]) == ("failed", "no_xattrs") and "a/deep/small" in ended["error"], ended
        assert not Path(transfer.dest["b"]).exists() and net.agents["b"].leftovers() == []
    finally:
        subprocess.run(["umount", "-l", str(room)], check=True)


def test_attributes_too_large_for_a_file_system_with_room_are_no_full_disk(make_net, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    net = make_pair(make_net(ASAN), "--xattrs")
    source, room = tmp_path / "source", net.agents["b"].folder
    source.mkdir()
    for name in "ab":
        net.agents[name].stop()
    subprocess.run(["mount", "-t", "tmpfs", "none", str(source)], check=True)
    # as ext4 has 4 KiB of a file's: the attributes of this one take of what there is for inodes
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m,nr_inodes=50", "none", str(room)], check=True)
    try:
        (source / "model" / "a").mkdir(parents=True)
        (source / "model" / "a" / "labelled").write_bytes(b"1")
        os.setxattr(source / "model" / "a" / "labelled", "user.labels", b"x" * 60_000)
        for name in "ab":
            net.start(name, "--xattrs")
        transfer = begin(net, source / "model")
        assert all(r["ok"] for r in transfer.open().values())
        transfer.assign()
        ended = transfer.wait_ended()["b"]
        assert (ended["event"], ended["code"]) == ("failed", "no_xattrs") and "a/labelled" in ended["error"], ended
        assert not Path(transfer.dest["b"]).exists() and net.agents["b"].leftovers() == []
    finally:
        subprocess.run(["umount", "-l", str(source)], check=True)
        subprocess.run(["umount", "-l", str(room)], check=True)


def test_a_directory_over_something_else_is_refused_at_once(net: Net, folder: Path) -> None:
    transfer = begin(net, folder)
    Path(transfer.dest["b"]).mkdir()
    answer = transfer.open()["b"]
    assert answer["code"] == "exists" and "--dest" in answer["error"], answer


def test_a_receiver_that_is_killed_goes_on(net: Net, folder: Path) -> None:
    transfer = begin(net, folder, rate=4_000_000)
    assert all(r["ok"] for r in transfer.open().values())
    transfer.assign()
    until(lambda: transfer.pass_digests(6) or len(net.agents["b"].noted(transfer.size)) >= 4, "blocks")
    net.agents["b"].process.kill()
    net.agents["b"].process.wait()
    net.start("b")
    second = begin(net, folder)
    assert all(r["ok"] for r in second.open().values())
    second.assign()
    assert second.wait_ended()["b"]["event"] == "done"
    assert second.status()["b"]["blocks_resumed"] >= 4
    assert seen(Path(second.dest["b"])) == seen(folder)


def test_what_a_killed_agent_had_unpacked_goes_with_its_group(net: Net, folder: Path) -> None:
    transfer = begin(net, folder, rate=2_000_000)
    assert all(r["ok"] for r in transfer.open().values())
    (file,) = net.agents["b"].leftovers()
    unpacked = net.agents["b"].folder / f"{file}+"
    (unpacked / "shut" / "in").mkdir(parents=True)
    (unpacked / "shut" / "file").write_bytes(b"1")
    (unpacked / "shut").chmod(0o500)
    assert transfer.close()["b"]["ok"]
    until(lambda: net.agents["b"].leftovers() == [], "an empty folder")


def test_an_empty_directory(net: Net, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    transfer = begin(net, tmp_path / "none")
    assert all(r["ok"] for r in transfer.open().values())
    transfer.assign()
    assert transfer.wait_ended()["b"]["event"] == "done"
    assert Path(transfer.dest["b"]).is_dir() and not seen(Path(transfer.dest["b"]))


@pytest.mark.parametrize("how", ["write", "replace", "add", "rights"])
def test_a_directory_that_changes_ends_the_group_and_leaves_nothing(net: Net, folder: Path, how: str) -> None:
    transfer = begin(net, folder, rate=2_000_000)
    assert all(r["ok"] for r in transfer.open().values())
    transfer.assign()
    until(lambda: transfer.status()["b"]["bytes"] > 0, "the first bytes")
    if how == "write":
        with (folder / "a" / "weights.bin").open("r+b") as file:
            file.write(b"other")
    elif how == "replace":
        (folder / "a" / "deep" / "new").write_bytes(b"small")
        (folder / "a" / "deep" / "new").rename(folder / "a" / "deep" / "small")
    elif how == "add":
        (folder / "a" / "one more").touch()
    else:
        (folder / "run").chmod(0o700)
    transfer.client.wait(lambda: transfer.client.event("failed", "a"), "the source's end")
    event = transfer.client.event("failed", "a")
    assert event and event["code"] == "changed", event
    assert not Path(transfer.dest["b"]).exists()


def test_what_a_directory_may_not_have(net: Net, tmp_path: Path) -> None:
    def odd(name: str) -> Path:
        (tmp_path / name).mkdir()
        return tmp_path / name

    (odd("out") / "link").symlink_to("../../etc")
    (odd("absolute") / "link").symlink_to("/etc/passwd")
    os.mkfifo(odd("fifo") / "pipe")
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(str(odd("sock") / "s"))
    codes = {"out": "bad_bundle", "absolute": "bad_bundle", "fifo": "denied", "sock": "denied"}
    for name, code in codes.items():
        answer = ask(net, tmp_path / name)
        assert answer["code"] == code and name in answer["error"], answer
    sock.close()


def test_a_file_that_the_agent_may_not_read_is_named_before_anything_is_sent(make_net, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """It was taken for one that had changed when its bytes were to be sent."""
    net, program, model = join_pair(make_net()), tmp_path / "bounded", tmp_path / "model"
    program.write_text(f'#!/bin/sh\nexec setpriv --bounding-set=-dac_override,-dac_read_search {PLAIN} "$@"\n')
    program.chmod(0o755)
    net.start("a", program=program)
    (model / "keys").mkdir(parents=True)
    for name in ("mine", "theirs"):
        (model / "keys" / name).write_bytes(b"x")
    stat = "stat", net.member("a", {"path": str(model)}), {}, "g-0"
    assert net.client("a").request(*stat)["a"]["ok"]
    (model / "keys" / "theirs").chmod(0)
    answer = net.client("a").request(*stat)["a"]
    assert answer["code"] == "denied" and "keys/theirs: Permission denied" in answer["error"]


def test_a_refusal_is_told_whatever_bytes_the_name_at_fault_has(net: Net, tmp_path: Path) -> None:
    """JSON has letters only: a refusal that could not be written would never come."""
    for number, name in enumerate([b"caf\xe9", b"x" + "\N{PACKAGE}".encode() * 62]):  # Latin-1; cut off within a letter
        folder = tmp_path / str(number)
        folder.mkdir()
        os.symlink(b"/etc/passwd", os.fsencode(folder) + b"/" + name)
        answer = ask(net, folder)
        assert answer["code"] == "bad_bundle" and "may lead outside" in answer["error"], answer
        os.unlink(os.fsencode(folder) + b"/" + name)
        os.mkfifo(os.fsencode(folder) + b"/" + name)
        assert ask(net, folder)["code"] == "denied"
    for before in ("", "x"):
        missing = net.member("a", {"path": f"{tmp_path}/{before}{'/'.join(['é' * 100] * 5)}"})
        assert net.client("a").request("stat", missing)["a"]["code"] == "not_found"


def attributes(*named: tuple[bytes, bytes]) -> bytes:
    rows = b"".join(bytes([len(name)]) + name + struct.pack(">I", len(value)) + value for name, value in named)
    return struct.pack(">I", len(rows)) + rows


def manifest(*entries: tuple[int, int, int, bytes, bytes], tail: bytes = b"") -> bytes:
    """`tail`: what follows the names of the last one."""
    rows = b"".join(
        struct.pack(">BHQH", kind, mode, size, len(name)) + name + struct.pack(">H", len(target)) + target
        for kind, mode, size, name, target in entries
    )
    rows += tail
    return b"dcbundl1" + struct.pack(">II", len(entries), 16 + len(rows)) + rows


ATTACKS = {
    "up": manifest((2, 0o644, 3, b"../evil", b"")) + b"abc",
    "root": manifest((2, 0o644, 3, b"/tmp/evil", b"")) + b"abc",
    "through a link": manifest((3, 0o777, 0, b"a", b"b"), (2, 0o644, 3, b"a/evil", b"")) + b"abc",
    "another name of what lies outside": manifest((4, 0o644, 0, b"a", b"../src")),
    "another name of a link": manifest((3, 0o777, 0, b"a", b"b"), (4, 0o644, 0, b"b", b"a")),
    "another name of what comes later": manifest((4, 0o644, 0, b"a", b"b"), (2, 0o644, 3, b"b", b"")) + b"abc",
    "times cut off": manifest((0x42, 0o644, 3, b"a", b"")) + b"abc",
    "owners cut off": manifest((0x22, 0o644, 3, b"a", b"")) + b"abc",
    "attributes cut off": manifest((0x12, 0o644, 3, b"a", b"")) + b"abc",
    "attributes of a link": manifest((0x13, 0o777, 0, b"a", b"b"), tail=attributes((b"x", b"1"))),
    "attributes in no order": manifest((0x12, 0o644, 3, b"a", b""), tail=attributes((b"x", b""), (b"w", b""))) + b"abc",
    "the agent's own mark": manifest((0x12, 0o644, 3, b"a", b""), tail=attributes((b"datacast", b"1"))) + b"abc",
    "a link out": manifest((3, 0o777, 0, b"a", b"../..")),
    "rights of root": manifest((2, 0o4755, 3, b"su", b"")) + b"abc",
    "longer than the stream": manifest((2, 0o644, 1 << 40, b"a", b"")),
    "shorter than the stream": manifest((2, 0o644, 1, b"a", b"")) + b"abc",
    "nothing of the kind": b"just some file's bytes, which are no directory",
    "cut off": manifest((2, 0o644, 3, b"a", b""))[:20],
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_stream_that_leads_outside_makes_nothing(net: Net, tmp_path: Path, attack: str) -> None:
    """The source sends a file whose bytes are the attack, and says that it is a directory."""
    path = tmp_path / "stream"
    path.write_bytes(ATTACKS[attack])
    transfer = begin(net, path)
    before = {p for p in tmp_path.rglob("*") if "evil" in p.name}
    assert all(r["ok"] for r in transfer.open().values())
    transfer.assign()
    ended = transfer.wait_ended()["b"]
    assert ended["event"] == "failed" and ended["code"] == "bad_bundle", ended
    assert not Path(transfer.dest["b"]).exists() and not Path("/tmp/evil").exists()
    assert {p for p in tmp_path.rglob("*") if "evil" in p.name} == before
    assert net.agents["b"].leftovers() == []


def stream(net: Net, host: str, **what: str) -> tuple[Message, bytes]:
    known, data = read(net, host, 0, 0, **what)[0], b""
    while len(data) < known["size"]:
        answer, part = read(net, host, len(data), min(300_000, known["size"] - len(data)), **what)
        assert (answer["type"], answer["size"], answer["mtime_ns"]) == ("bytes", known["size"], known["mtime_ns"])
        data += part
    return known, data


def test_a_directory_is_read_as_the_same_stream_at_its_source_and_where_it_arrived(net: Net, folder: Path) -> None:
    """So a site that has received it gives it to another one."""
    transfer = begin(net, folder)
    assert all(r["ok"] for r in transfer.open().values())
    transfer.assign()
    assert transfer.wait_ended()["b"]["event"] == "done"
    known, data = stream(net, "a", path=str(folder))
    assert known["bundle"] == len(seen(folder)) and known["size"] == ask(net, folder)["size"] == len(data)
    assert known["mtime_ns"] == ask(net, folder)["mtime_ns"]
    there, same = stream(net, "b", dest=transfer.dest["b"])
    assert same == data and there["bundle"] == known["bundle"]
    # Another one when anything in it is another: no mixture is read.
    (folder / "a" / "deep" / "small").write_bytes(b"SMALL")
    answer, _ = read(net, "a", 0, 100, path=str(folder))
    assert answer["mtime_ns"] != known["mtime_ns"]
    small = folder / "a" / "deep" / "small"
    before = small.stat()
    small.write_bytes(b"LLAMS")
    os.utime(small, ns=(before.st_atime_ns, before.st_mtime_ns))  # of one size and time, and yet another
    assert read(net, "a", 0, 100, path=str(folder))[0]["mtime_ns"] != answer["mtime_ns"]
    (folder / "new").touch()
    assert read(net, "a", 0, 0, path=str(folder))[0]["bundle"] == known["bundle"] + 1
    (folder / "pipe").symlink_to("/etc/passwd")
    assert read(net, "a", 0, 0, path=str(folder))[0]["code"] == "bad_bundle"
    assert read(net, "a", 0, 0, path=str(folder / "a" / "way"))[0]["bundle"] == 2  # a link is followed, as to a file


def test_a_controller_that_reads_many_directories_keeps_few_of_them_open(net: Net, tmp_path: Path) -> None:
    for n in range(20):
        (tmp_path / f"d{n}").mkdir()
        (tmp_path / f"d{n}" / "f").write_bytes(bytes([n]) * 1000)
    data = [stream(net, "a", path=str(tmp_path / f"d{n}"))[1] for n in range(20)]
    assert [one[-1] for one in data] == list(range(20))
    opened = {os.readlink(fd) for fd in Path(f"/proc/{net.agents['a'].process.pid}/fd").iterdir()}
    assert len([path for path in opened if path.startswith(str(tmp_path / "d"))]) == 8
