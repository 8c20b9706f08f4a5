"""Where services keep what must outlive them: keys with revisions, written by compare-and-swap only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .base import VALUE_MAX, Change, Conflict, Entry, Guard, Lost, Store, StoreError, TooLong

if TYPE_CHECKING:
    from datacast.services.tls import Security

__all__ = [
    "VALUE_MAX", "Change", "Conflict", "Entry", "Guard", "Lost", "Store", "StoreError", "TooLong", "open_store",
]  # fmt: skip

ETCD = "etcd://"


def open_store(where: str, security: Security | None = None) -> Store:
    """`etcd://host:port,host:port…`, a file for SQLite, or ":memory:". Raises StoreError."""
    if where.startswith(ETCD):
        from .etcd import EtcdStore

        return EtcdStore([part for part in where[len(ETCD) :].split(",") if part], security)
    from .sqlite import SqliteStore

    return SqliteStore(where)
