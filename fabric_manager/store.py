"""Groups, sets and tree ids across restarts: one SQLite file, one table per noun.

Every method is one transaction, committed with a full sync (WAL): what was answered is on the disk. Progress is not
written here but in memory; the store keeps a group's last state, progress at changes of state, and its report.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

from datacast.core.errors import DatacastError

from .api import FINAL_STATES

MIGRATIONS = (
    """
    CREATE TABLE groups (
        id TEXT PRIMARY KEY,
        state TEXT NOT NULL,
        spec TEXT NOT NULL,
        created_ns INTEGER NOT NULL,
        updated_ns INTEGER NOT NULL,
        progress TEXT NOT NULL DEFAULT '{}'
    ) STRICT;
    CREATE INDEX groups_by_time ON groups (created_ns);
    CREATE TABLE sets (name TEXT PRIMARY KEY, hosts TEXT NOT NULL) STRICT;
    CREATE TABLE tree_ids (next INTEGER NOT NULL) STRICT;
    INSERT INTO tree_ids VALUES (1);
    """,
    """
    ALTER TABLE groups ADD COLUMN adopt TEXT;
    """,
    """
    ALTER TABLE groups ADD COLUMN master TEXT;
    """,
)

TREE_ID_MAX = 0xFFFFFFFF


class StoreError(DatacastError):
    """The database cannot be opened, read or written."""


class Store:
    """`path` is a file or ":memory:". Raises StoreError when it cannot be opened or is from a newer version."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            if path != ":memory:":
                Path(path).parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(path, isolation_level=None)
            self._db.execute("PRAGMA busy_timeout = 2000")
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._migrate()
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"cannot use the database {path}: {error}", what=path) from error

    def _migrate(self) -> None:
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        if version > len(MIGRATIONS):
            raise StoreError(
                f"the database {self.path} is of version {version}, this program knows {len(MIGRATIONS)}: "
                "use a newer program or another file",
                what=self.path,
            )
        for number in range(version, len(MIGRATIONS)):
            script = f"BEGIN IMMEDIATE; {MIGRATIONS[number]}; PRAGMA user_version = {number + 1}; COMMIT;"
            self._db.executescript(script)

    def close(self) -> None:
        self._db.close()

    # ---- groups ----
    def add_group(self, group: str, spec: dict[str, Any], state: str, now_ns: int) -> None:
        self._db.execute(
            "INSERT INTO groups (id, state, spec, created_ns, updated_ns) VALUES (?, ?, ?, ?, ?)",
            (group, state, json.dumps(spec), now_ns, now_ns),
        )

    def save_group(self, group: str, state: str, progress: dict[str, Any], now_ns: int) -> None:
        self._db.execute(
            "UPDATE groups SET state = ?, progress = ?, updated_ns = ? WHERE id = ?",
            (state, json.dumps(progress), now_ns, group),
        )

    def save_spec(self, group: str, spec: dict[str, Any]) -> None:
        self._db.execute("UPDATE groups SET spec = ? WHERE id = ?", (json.dumps(spec), group))

    def save_adopt(self, group: str, adopt: dict[str, Any]) -> None:
        """What another master would need to take the group over."""
        self._db.execute("UPDATE groups SET adopt = ? WHERE id = ?", (json.dumps(adopt), group))

    def save_master(self, group: str, master: dict[str, Any] | None) -> None:
        """Which process runs the group (masters.identity_of)."""
        self._db.execute("UPDATE groups SET master = ? WHERE id = ?", (json.dumps(master), group))

    def groups(self) -> list[dict[str, Any]]:
        """All groups, oldest first."""
        rows = self._db.execute(
            "SELECT id, state, spec, created_ns, updated_ns, progress, adopt, master FROM groups "
            "ORDER BY created_ns, id"
        )
        return [
            {
                "id": r[0],
                "state": r[1],
                "spec": json.loads(r[2]),
                "created_ns": r[3],
                "updated_ns": r[4],
                "progress": json.loads(r[5]),
                "adopt": json.loads(r[6]) if r[6] else None,
                "master": json.loads(r[7]) if r[7] else None,
            }
            for r in rows
        ]

    def forget_groups(self, keep: int) -> list[str]:
        """Delete the oldest finished groups beyond `keep`; returns their ids."""
        marks = ",".join("?" * len(FINAL_STATES))
        rows = self._db.execute(
            f"DELETE FROM groups WHERE id IN (SELECT id FROM groups WHERE state IN ({marks}) "
            "ORDER BY created_ns DESC LIMIT -1 OFFSET ?) RETURNING id",
            (*FINAL_STATES, keep),
        )
        return [row[0] for row in rows.fetchall()]

    # ---- sets ----
    def sets(self) -> dict[str, list[str]]:
        return {r[0]: json.loads(r[1]) for r in self._db.execute("SELECT name, hosts FROM sets ORDER BY name")}

    def put_set(self, name: str, hosts: list[str]) -> None:
        self._db.execute(
            "INSERT INTO sets VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET hosts = excluded.hosts",
            (name, json.dumps(hosts)),
        )

    def delete_set(self, name: str) -> bool:
        return self._db.execute("DELETE FROM sets WHERE name = ?", (name,)).rowcount > 0

    # ---- tree ids ----
    def take_tree_ids(self, count: int) -> list[int]:
        """`count` ids that were never given out, also not before a restart. After 2**32 - 1 they start again at 1."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            first = self._db.execute("SELECT next FROM tree_ids").fetchone()[0]
            if first + count - 1 > TREE_ID_MAX:
                first = 1
            self._db.execute("UPDATE tree_ids SET next = ?", (first + count,))
            self._db.execute("COMMIT")
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        return list(range(first, first + count))
