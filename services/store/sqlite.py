"""The embedded store: one SQLite file, one thread that owns it.

What waits when the thread is free goes into one transaction, committed with a full sync: a hundred groups that change
at once cost one sync, not a hundred. The callers get their answers when it is on the disk. A transaction that fails (a
full disk) is rolled back, and is an error to all whose writes were in it.

Several processes of one machine may use the file. Leases run on the machine's boot clock, and end with it: a renewal
alone is committed without a sync, so a busy disk costs nobody its lease.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeVar

from .base import Change, Conflict, Entry, Guard, Lost, Store, StoreError, checked, watch_by_looking

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], Any]
Waiting = tuple[Work, asyncio.Future[Any], asyncio.AbstractEventLoop, bool]

VERSION = 10
"""Of the tables. Lower ones were tables of groups, before there were records."""
SCHEMA = """
    CREATE TABLE entries (key TEXT PRIMARY KEY, value TEXT NOT NULL, revision INTEGER NOT NULL, lease INTEGER) STRICT;
    CREATE INDEX entries_of_lease ON entries (lease) WHERE lease IS NOT NULL;
    CREATE TABLE revisions (last INTEGER NOT NULL) STRICT;
    INSERT INTO revisions VALUES (0);
    CREATE TABLE leases (
        id INTEGER PRIMARY KEY, ttl_ns INTEGER NOT NULL, ends_ns INTEGER NOT NULL, boot TEXT NOT NULL
    ) STRICT;
"""
BATCH_MAX = 1024


class SqliteStore(Store):
    """`path` is a file or ":memory:". Raises StoreError when it cannot be opened or is from another version."""

    embedded = True

    def __init__(self, path: str) -> None:
        self.where = self.path = path
        self._queue: queue.SimpleQueue[Waiting | None] = queue.SimpleQueue()
        self._boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        opened: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, args=(opened,), name="store", daemon=True)
        self._thread.start()
        if (error := opened.get()) is not None:
            raise error if isinstance(error, StoreError) else self._error(error) from error

    def _error(self, error: Exception) -> StoreError:
        return StoreError(f"cannot use the database {self.path}: {error}", what=self.path)

    # ---- the thread ----
    def _run(self, opened: queue.SimpleQueue[Exception | None]) -> None:
        try:
            db = self._open()
        except (sqlite3.Error, OSError, StoreError) as error:
            opened.put(error)
            return
        opened.put(None)
        while (batch := self._batch()) is not None:
            self._answer(batch, self._carry_out(db, batch))
        db.close()

    def _open(self) -> sqlite3.Connection:
        if self.path != ":memory:":
            Path(self.path).parent.mkdir(parents=True, exist_ok=True)
        db = sqlite3.connect(self.path, isolation_level=None)
        db.execute("PRAGMA busy_timeout = 2000")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("BEGIN IMMEDIATE")
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, VERSION):
            raise StoreError(
                f"the database {self.path} is of version {version}, this program knows {VERSION}: use another file, or "
                f"{'a newer program' if version > VERSION else 'move it out of the way (its groups have ended)'}",
                what=self.path,
            )
        if version == 0:
            for statement in SCHEMA.split(";"):
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {VERSION}")
        db.execute("COMMIT")
        return db

    def _batch(self) -> list[Waiting] | None:
        """What waits, at least one; None at the end."""
        first = self._queue.get()
        if first is None:
            return None
        batch = [first]
        while len(batch) < BATCH_MAX:
            try:
                more = self._queue.get_nowait()
            except queue.Empty:
                break
            if more is None:
                self._queue.put(None)
                break
            batch.append(more)
        return batch

    def _carry_out(self, db: sqlite3.Connection, batch: list[Waiting]) -> list[Any]:
        """An answer or an exception for each."""
        answers: list[Any] = []
        sync = any(durable for *_, durable in batch)
        try:
            if not sync:
                db.execute("PRAGMA synchronous = NORMAL")
            db.execute("BEGIN IMMEDIATE")
            for work, *_ in batch:
                try:
                    answers.append(work(db))
                except StoreError as error:  # looked at first, wrote nothing
                    answers.append(error)
            db.execute("COMMIT")
        except Exception as error:  # also what nobody foresaw: without its thread all askers would wait for ever
            if db.in_transaction:
                db.execute("ROLLBACK")
            return [self._error(error)] * len(batch)
        finally:
            if not sync:
                db.execute("PRAGMA synchronous = FULL")
        return answers

    @staticmethod
    def _answer(batch: list[Waiting], answers: list[Any]) -> None:
        def tell(future: asyncio.Future[Any], answer: Any) -> None:
            if future.done():
                return
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)

        for (_, future, loop, _), answer in zip(batch, answers, strict=True):
            try:
                loop.call_soon_threadsafe(tell, future, answer)
            except RuntimeError:  # the loop has ended
                continue

    async def _do(self, work: Callable[[sqlite3.Connection], T], durable: bool = True) -> T:
        if not self._thread.is_alive():
            raise StoreError(f"the database {self.path} is closed", what=self.path)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._queue.put((work, future, loop, durable))
        return await future

    # ---- in the thread ----
    def _end_leases(self, db: sqlite3.Connection) -> None:
        gone = "SELECT id FROM leases WHERE boot != ? OR ends_ns <= ?"
        now = self._boot, time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        if db.execute(gone, now).fetchone():
            db.execute(f"DELETE FROM entries WHERE lease IN ({gone})", now)
            db.execute("DELETE FROM leases WHERE boot != ? OR ends_ns <= ?", now)

    def _check(self, db: sqlite3.Connection, key: str, expected: int, guard: Guard | None, lease: int | None) -> None:
        self._end_leases(db)

        def revision(of: str) -> int:
            row = db.execute("SELECT revision FROM entries WHERE key = ?", (of,)).fetchone()
            return row[0] if row else 0

        if guard is not None and revision(guard.key) != guard.revision:
            raise Lost(f"{guard.key} is another's now", what=guard.key)
        if lease is not None and not db.execute("SELECT 1 FROM leases WHERE id = ?", (lease,)).fetchone():
            raise Lost(f"lease {lease} has ended", what=key)
        if (there := revision(key)) != expected:
            raise Conflict(f"{key} has revision {there}, not {expected}", what=key)

    # ---- the interface ----
    async def get(self, key: str) -> Entry | None:
        def work(db: sqlite3.Connection) -> Entry | None:
            self._end_leases(db)
            row = db.execute("SELECT key, value, revision FROM entries WHERE key = ?", (key,)).fetchone()
            return Entry(*row) if row else None

        return await self._do(work)

    async def list(self, prefix: str, since: int = 0) -> list[Entry]:
        def work(db: sqlite3.Connection) -> list[Entry]:
            self._end_leases(db)
            rows = db.execute(
                "SELECT key, value, revision FROM entries WHERE key >= ? AND key < ? AND revision >= ? ORDER BY key",
                (prefix, prefix + chr(0x10FFFF), since),
            )
            return [Entry(*row) for row in rows]

        return await self._do(work)

    async def revisions(self, prefix: str) -> dict[str, int]:
        def work(db: sqlite3.Connection) -> dict[str, int]:
            self._end_leases(db)
            rows = "SELECT key, revision FROM entries WHERE key >= ? AND key < ? ORDER BY key"
            return dict(db.execute(rows, (prefix, prefix + chr(0x10FFFF))))

        return await self._do(work)

    async def put(
        self, key: str, value: str, expected: int, *, lease: int | None = None, guard: Guard | None = None
    ) -> int:
        checked(value)

        def work(db: sqlite3.Connection) -> int:
            self._check(db, key, expected, guard, lease)
            (revision,) = db.execute("UPDATE revisions SET last = last + 1 RETURNING last").fetchone()
            db.execute("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?)", (key, value, revision, lease))
            return revision

        return await self._do(work)

    async def delete(self, key: str, expected: int, *, guard: Guard | None = None) -> None:
        def work(db: sqlite3.Connection) -> None:
            self._check(db, key, expected, guard, None)
            db.execute("DELETE FROM entries WHERE key = ?", (key,))

        await self._do(work)

    async def grant(self, ttl_s: float) -> int:
        ttl = int(ttl_s * 1e9)

        def work(db: sqlite3.Connection) -> int:
            (number,) = db.execute("UPDATE revisions SET last = last + 1 RETURNING last").fetchone()
            ends = time.clock_gettime_ns(time.CLOCK_BOOTTIME) + ttl
            db.execute("INSERT INTO leases VALUES (?, ?, ?, ?)", (number, ttl, ends, self._boot))
            return number

        return await self._do(work)

    async def renew(self, lease: int) -> None:
        def work(db: sqlite3.Connection) -> None:
            self._end_leases(db)
            now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
            if not db.execute("UPDATE leases SET ends_ns = ttl_ns + ? WHERE id = ?", (now, lease)).rowcount:
                raise Lost(f"lease {lease} has ended", what=str(lease))

        await self._do(work, durable=False)

    async def revoke(self, lease: int) -> None:
        def work(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM entries WHERE lease = ?", (lease,))
            db.execute("DELETE FROM leases WHERE id = ?", (lease,))

        await self._do(work)

    def watch(self, prefix: str) -> AsyncIterator[Change]:
        return watch_by_looking(self, prefix)

    async def close(self) -> None:
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)
