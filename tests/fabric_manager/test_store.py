"""What must survive a restart, or a loss of power, does."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from datacast.fabric_manager.store import MIGRATIONS, TREE_ID_MAX, Store, StoreError

SPEC = {"source": "a", "receivers": ["b"], "source_path": "/f", "dest_path": "f", "options": {}}


def test_groups_sets_and_tree_ids_survive(tmp_path: Path) -> None:
    path = str(tmp_path / "deep" / "d.sqlite")
    store = Store(path)
    store.add_group("g-1", SPEC, "starting", 5)
    store.save_group("g-1", "running", {"size": 7}, 9)
    store.put_set("rack", ["a", "b"])
    store.put_set("rack", ["b"])
    first = store.take_tree_ids(16)
    store.close()
    store = Store(path)
    (group,) = store.groups()
    assert group["state"] == "running" and group["spec"] == SPEC and group["progress"] == {"size": 7}
    assert (group["created_ns"], group["updated_ns"]) == (5, 9)
    assert store.sets() == {"rack": ["b"]}
    assert not set(first) & set(store.take_tree_ids(16))
    assert store.delete_set("rack") and not store.delete_set("rack")


def test_what_was_answered_is_there_after_a_kill(tmp_path: Path) -> None:
    path = str(tmp_path / "d.sqlite")
    code = (
        "import os, sys; from datacast.fabric_manager.store import Store; s = Store(sys.argv[1]);"
        "s.add_group('g-1', {}, 'starting', 1); print(s.take_tree_ids(4), flush=True); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, timeout=30)
    assert done.returncode == -9 and done.stdout == "[1, 2, 3, 4]\n"
    store = Store(path)
    assert [g["id"] for g in store.groups()] == ["g-1"] and store.take_tree_ids(1) == [5]


def test_the_oldest_finished_groups_are_forgotten_and_no_others() -> None:
    store = Store(":memory:")
    for n in range(6):
        store.add_group(f"g-{n}", SPEC, "running" if n == 0 else "done", n)
    assert sorted(store.forget_groups(3)) == ["g-1", "g-2"]
    assert [g["id"] for g in store.groups()] == ["g-0", "g-3", "g-4", "g-5"]


def test_tree_ids_go_round_after_32_bits() -> None:
    store = Store(":memory:")
    store._db.execute("UPDATE tree_ids SET next = ?", (TREE_ID_MAX - 1,))
    assert store.take_tree_ids(2) == [TREE_ID_MAX - 1, TREE_ID_MAX]
    assert store.take_tree_ids(2) == [1, 2]


def test_a_database_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "d.sqlite"
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    with pytest.raises(StoreError, match=f"is of version {len(MIGRATIONS) + 1}"):
        Store(str(path))


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "d.sqlite"
    path.write_text("this is no database, whatever its name says" * 50)
    with pytest.raises(StoreError, match=str(path)):
        Store(str(path))
