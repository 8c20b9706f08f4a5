"""What is one driver's own: SQLite's file, thread and full disk; etcd's members that come and go."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import sqlite3
import ssl
import subprocess
import sys
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from unittest.mock import AsyncMock

import pytest
from answering import answering
from authority import Authority
from etcd import Etcd

from datacast.services.store import Conflict, Entry, Lost, StoreError, open_store
from datacast.services.store import etcd as driver
from datacast.services.store.base import own
from datacast.services.store.etcd import TIMEOUT_S, EtcdStore
from datacast.services.store.etcd_answers import Left, Renewed
from datacast.services.store.sqlite import VERSION, SqliteStore
from datacast.services.tls import Security


async def test_what_was_answered_is_there_after_a_kill(tmp_path: Path) -> None:
    path = str(tmp_path / "d.sqlite")
    code = (
        "import asyncio, os, sys; from datacast.services.store import open_store\n"
        "async def main():\n"
        "  s = open_store(sys.argv[1]); print(await s.put('a', '1', 0), flush=True); os.kill(os.getpid(), 9)\n"
        "asyncio.run(main())"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, timeout=90)
    assert done.returncode == -9 and done.stdout == "1\n", done.stderr
    store = open_store(path)
    found = await store.get("a")
    assert found and found.value == "1"
    await store.close()


@pytest.mark.parametrize("version", [3, VERSION + 1])
def test_a_database_of_another_version_is_left_alone(tmp_path: Path, version: int) -> None:
    path = tmp_path / "d.sqlite"
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version = {version}")
    with pytest.raises(StoreError, match=f"is of version {version}"):
        open_store(str(path))


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "d.sqlite"
    path.write_text("this is no database, whatever its name says" * 50)
    with pytest.raises(StoreError, match=str(path)):
        open_store(str(path))


@pytest.fixture
def small_disk(tmp_path: Path):
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "datacast-test", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.root
async def test_a_full_disk_is_an_error_to_the_caller_and_nothing_is_half_written(small_disk: Path) -> None:
    store = open_store(str(small_disk / "d.sqlite"))
    written, refused = {}, []
    for i in range(40):
        value = f"{i}" + "x" * 20_000
        try:
            written[f"k{i:02}"] = (await store.put(f"k{i:02}", value, 0), value)
        except StoreError as error:
            refused.append(error)
    assert refused and written and "full" in refused[0].message
    there = {entry.key: (entry.revision, entry.value) for entry in await store.list("k")}
    assert there == written, "what was answered is there, what was refused is not"
    await store.close()


async def test_writes_that_wait_together_are_synced_together(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "d.sqlite"))
    commits = 0

    def trace(statement: str) -> None:
        nonlocal commits
        commits += statement == "COMMIT"

    await store._do(lambda db: db.set_trace_callback(trace))
    await asyncio.gather(*(store.put(f"k{i}", "x", 0) for i in range(200)))
    await store.close()
    assert commits < 20


async def test_one_conflict_in_a_batch_is_no_other_writers_business(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "d.sqlite"))
    answers = await asyncio.gather(*(store.put("same", str(i), 0) for i in range(5)), return_exceptions=True)
    assert [type(a) for a in answers] == [int] + [Conflict] * 4
    await store.close()


@pytest.mark.slow
async def test_an_etcd_member_that_dies_is_passed_over_and_no_majority_is_an_error(tmp_path: Path) -> None:
    with Etcd(tmp_path, 3) as cluster:
        store = open_store(cluster.url)
        revision = await store.put("a", "1", 0)
        cluster.kill(0)
        revision = await store.put("a", "2", revision)
        cluster.kill(1)
        with pytest.raises(StoreError, match="does not answer"):
            await store.put("a", "3", revision)
        cluster.start(0)
        for _ in range(3):  # a majority again, as soon as it has elected
            try:
                found = await store.get("a")
                break
            except StoreError:
                await asyncio.sleep(0.5)
        assert found and found.value in ("2", "3"), "what was answered survives; what was not may have happened"
        await store.close()


@pytest.mark.slow
async def test_a_member_that_is_cut_off_from_the_others_ends_a_watch(tmp_path: Path) -> None:
    """It hears of nothing any more: a fabric manager that follows would wait for ever for the leader's end."""
    with Etcd(tmp_path, 3) as cluster:
        store = open_store(f"etcd://127.0.0.1:{cluster.clients[0]}")
        await store.put("a", "1", 0)
        watch = store.watch("a")
        assert (await anext(watch)).value == "1"
        cluster.kill(1)
        cluster.kill(2)
        with pytest.raises(StoreError, match="no leader"):
            await asyncio.wait_for(anext(watch), 60)
        await store.close()


async def test_a_watch_of_a_member_that_is_silent_goes_on_at_the_next(
    etcd: Etcd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its machine is gone, and nobody ends the connection. Nothing that changes meanwhile is missed, or told twice."""
    monkeypatch.setattr(driver, "QUIET_S", 0.3)
    watches = 0

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal watches
        asked = await reader.readuntil(b"\r\n\r\n")
        watches += asked.startswith(b"POST /v3/watch ")
        await reader.read()  # until the store gives it up
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    other = open_store(etcd.url)
    revision = await other.put("quiet", "1", 0)
    store = open_store(f"etcd://127.0.0.1:{server.sockets[0].getsockname()[1]},{etcd.url.removeprefix('etcd://')}")
    seen: list[str | None] = []

    async def look() -> None:
        async for change in store.watch("quiet"):
            seen.append(change.value)
            if change.value == "3":
                return

    looking = asyncio.create_task(look())
    for value in ("2", "3"):
        before = watches
        while watches < before + 2:  # all ways are silent but one, and it is asked in turn
            await asyncio.sleep(0.01)
        revision = await other.put("quiet", value, revision)
    await asyncio.wait_for(looking, 60)
    await store.close()
    await other.close()
    server.close()
    assert seen == ["1", "2", "3"] and watches >= 3


@pytest.mark.parametrize(
    ("refusal", "why"),
    [({"message": "a"}, "a"), ({"message": "a", "error": "b"}, "a"), ({"error": "b"}, "b"), ({}, "400")],
)
async def test_an_etcd_that_refuses_is_quoted_with_all_it_says(refusal: dict[str, object], why: str) -> None:
    with answering(400, json.dumps({"code": 3, **refusal})) as url:
        store = open_store(url.replace("http://", "etcd://"))
        with pytest.raises(StoreError, match=f": {why}$"):
            await store.get("a")
        await store.close()


@pytest.mark.parametrize("where", ["etcd://", "etcd://nonsense", "etcd://192.0.2.1:2379"])
def test_an_etcd_that_cannot_be_meant(where: str) -> None:
    with pytest.raises(StoreError):
        open_store(where)
    for none in ("a..b:2379", "192.0.2.1:99999"):
        with pytest.raises(StoreError, match="give etcd://host:port"):
            open_store(f"etcd://{none}", Security(insecure=True))


async def test_a_renewal_waits_for_no_disk_and_every_other_write_does(tmp_path: Path, monkeypatch) -> None:
    """Leases last two seconds, which a sync may take beside builds; after a loss of power they mean nothing."""
    commits: list[tuple[bool, int]] = []
    carry_out = SqliteStore._carry_out

    def watched(self, db, batch):
        db.set_trace_callback(
            lambda text: (
                (text == "COMMIT" and commits.append((batch[0][3], levels[-1])))
                or (text.startswith("PRAGMA synchronous = ") and levels.append(text.split()[-1]))
            )
        )
        return carry_out(self, db, batch)

    levels = ["FULL"]
    monkeypatch.setattr(SqliteStore, "_carry_out", watched)
    store = open_store(str(tmp_path / "d.sqlite"))
    lease = await store.grant(10.0)
    await store.put("a", "1", 0, lease=lease)
    await store.renew(lease)
    await store.put("b", "1", 0)
    await asyncio.gather(store.renew(lease), store.put("c", "1", 0))
    await store.close()
    assert (False, "NORMAL") in commits and levels[-1] == "FULL"
    assert [level for durable, level in commits if durable] == ["FULL"] * sum(durable for durable, _ in commits)
    assert len(commits) >= 4


async def test_members_that_are_slow_to_answer_are_given_more_time() -> None:
    """They wait for a processor. Whoever asks again and again with the same patience never hears them."""
    async def member(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(re.search(rb"(?i)content-length: (\d+)", head)[1]))
        await asyncio.sleep(1.5 * TIMEOUT_S)
        row = {"key": base64.b64encode(b"/datacast/a").decode(), "value": "MQ==", "mod_revision": "7"}
        body = json.dumps({"kvs": [row]}).encode()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
        await writer.drain()

    servers = [await asyncio.start_server(member, "127.0.0.1", 0) for _ in range(2)]
    ports = [server.sockets[0].getsockname()[1] for server in servers]
    store = open_store("etcd://" + ",".join(f"127.0.0.1:{port}" for port in ports))
    found = await store.get("a")
    await store.close()
    for server in servers:
        server.close()
    assert found == Entry("a", "1", 7)


async def test_members_are_asked_in_turn_until_one_answers_and_then_that_one_first() -> None:
    asked: list[int] = []

    async def member(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):  # the store closes its connections
            while head := await reader.readuntil(b"\r\n\r\n"):
                await reader.readexactly(int(re.search(rb"(?i)content-length: (\d+)", head)[1]))
                asked.append(number)
                if number < 2:
                    writer.close()
                    return
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n" + b'{"kvs": []}')

    servers = [await asyncio.start_server(partial(member, number), "127.0.0.1", 0) for number in range(3)]
    ports = [server.sockets[0].getsockname()[1] for server in servers]
    store = open_store("etcd://" + ",".join(f"127.0.0.1:{port}" for port in ports))
    assert await store.get("a") is None and await store.get("a") is None
    await store.close()
    for server in servers:
        server.close()
    assert asked == [0, 1, 2, 2]


@pytest.mark.parametrize("at_once", [1, 2, 3, 5])
async def test_a_member_that_hangs_is_waited_for_once_however_much_is_asked_meanwhile(at_once: int) -> None:
    """A leader writes for many groups at a time. Passed over by each of three, it would be the first again."""
    asked: list[int] = []

    async def member(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):  # the store closes its connections
            while head := await reader.readuntil(b"\r\n\r\n"):
                await reader.readexactly(int(re.search(rb"(?i)content-length: (\d+)", head)[1]))
                asked.append(number)
                if number:  # the first one hears, and says nothing
                    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n" + b'{"kvs": []}')

    servers = [await asyncio.start_server(partial(member, number), "127.0.0.1", 0) for number in range(3)]
    ports = [server.sockets[0].getsockname()[1] for server in servers]
    store = open_store("etcd://" + ",".join(f"127.0.0.1:{port}" for port in ports))
    for _ in range(2):
        assert await asyncio.gather(*(store.get("a") for _ in range(at_once))) == [None] * at_once
    await store.close()
    for server in servers:
        server.close()
    assert asked == [0] * at_once + [1] * 2 * at_once


async def test_what_another_has_written_since_an_answer_was_lost_is_a_conflict() -> None:
    """Each member carries nothing out, says nothing the first time, and then that another value stands there."""
    said = []
    for there, value in (("another", "mine"), (None, "mine"), ("another", None)):
        tries = 0

        async def member(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, there=there) -> None:
            nonlocal tries
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(re.search(rb"(?i)content-length: (\d+)", head)[1]))
            tries += 1
            if tries > 1:
                row = {"key": "L2RhdGFjYXN0L2E=", "mod_revision": "9"}
                rows = [row | {"value": base64.b64encode(there.encode()).decode()}] if there else []
                told = {"header": {"revision": "9"}, "responses": [{"response_range": {"kvs": rows}}]}
                body = json.dumps(told).encode()
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
                await writer.drain()
            writer.close()

        server = await asyncio.start_server(member, "127.0.0.1", 0)
        store = open_store(f"etcd://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        with pytest.raises(Conflict) as refused:
            await (store.put("a", value, 7) if value else store.delete("a", 7))
        said.append(refused.value.message)
        await store.close()
        server.close()
    assert said == [f"a has revision {n}, not 7" for n in (9, 0, 9)]


def test_the_same_value_that_stood_there_before_is_no_write_that_happened() -> None:
    """Of a leader that was deposed before the key was written: it took the key `led`, which it had written once, for
    its own, and led beside another."""
    refused = Lost("leader is another's now")
    with pytest.raises(Lost):
        own(Entry("led", "me", 7), "me", 7, refused)
    assert own(Entry("led", "me", 9), "me", 7, refused) == 9
    assert own(None, None, 7, refused) == 0
    with pytest.raises(Lost):
        own(None, None, 0, refused)


@pytest.mark.parametrize("body", ["[]", "{}", '{"header": {}}', '{"header": {"revision": "many"}}', '{"kvs": 7}', "no"])
async def test_an_answer_of_another_form_is_no_answer(body: str) -> None:
    async def member(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(re.search(rb"(?i)content-length: (\d+)", head)[1]))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body.encode()))
        writer.close()

    server = await asyncio.start_server(member, "127.0.0.1", 0)
    store = open_store(f"etcd://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    with pytest.raises(StoreError, match="does not answer"):
        await store.put("a", "mine", 7)
    await store.close()
    server.close()


async def test_what_nobody_foresaw_in_the_thread_of_a_store_is_told_and_the_store_goes_on() -> None:
    store = SqliteStore(":memory:")
    first = store.put("a", "1", 0)
    broken = store._do(lambda db: [db.execute("DELETE FROM entries"), 1 / 0])
    with pytest.raises(StoreError, match="cannot use the database :memory:: division by zero"):
        await asyncio.wait_for(asyncio.gather(first, broken), 60)
    await store.put("b", "2", 0)
    entry = await store.get("b")
    await store.close()
    found = entry
    assert found and found.value == "2"


def test_members_of_etcd_are_asked_by_https_and_believed_by_their_names_where_there_are_certificates(
    tmp_path: Path,
) -> None:
    store = EtcdStore(["etcd.example:2379"], Authority(tmp_path).security("fabric-manager/main"))
    assert store._members == ["https://etcd.example:2379/v3/"]
    assert store._context and store._context.check_hostname and store._context.verify_mode is ssl.CERT_REQUIRED


@pytest.mark.parametrize(
    ("lease", "failed", "raised"),
    [
        (5, StoreError("etcdserver: requested lease not found"), Lost),
        (5, Conflict("it was written meanwhile"), Conflict),
        (None, Conflict("it was written meanwhile"), Conflict),
    ],
)
async def test_a_lease_has_ended_only_where_etcd_says_so(
    monkeypatch: pytest.MonkeyPatch, lease: int | None, failed: StoreError, raised: type[StoreError]
) -> None:
    store = EtcdStore(["127.0.0.1:1"])
    monkeypatch.setattr(store, "_write", AsyncMock(side_effect=failed))
    with pytest.raises(StoreError) as told:
        await store.put("key", "value", 0, lease=lease)
    assert type(told.value) is raised


@pytest.mark.parametrize(
    ("told", "lives"),
    [(Renewed(Left(5)), True), (Renewed(Left(1)), True), (Renewed(Left(0)), False), (Renewed(), False)],
)
async def test_a_lease_that_is_renewed_lives_for_as_long_as_etcd_says(
    monkeypatch: pytest.MonkeyPatch, told: Renewed, lives: bool
) -> None:
    store = EtcdStore(["127.0.0.1:1"])
    monkeypatch.setattr(store, "_ask", AsyncMock(return_value=told))
    with nullcontext() if lives else pytest.raises(Lost, match="lease 5 has ended"):
        await store.renew(5)
