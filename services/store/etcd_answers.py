"""What etcd's gateway answers, each in its form. Numbers come as text, keys and values in base64; what is empty is
left out."""

from __future__ import annotations

import base64
from typing import TypeVar

import msgspec

from .base import Change, Entry

PREFIX = "/datacast/"
"""Of all keys."""
T = TypeVar("T")


def plain(coded: str) -> str:
    return base64.b64decode(coded).decode()


class Header(msgspec.Struct):
    revision: int


class Row(msgspec.Struct):
    """A key as it stands, or as it went."""

    key: str
    mod_revision: int
    value: str = ""

    @property
    def name(self) -> str:
        return plain(self.key)[len(PREFIX) :]

    def entry(self) -> Entry:
        return Entry(self.name, plain(self.value), self.mod_revision)


class Rows(msgspec.Struct):
    kvs: list[Row] = []
    more: bool = False


class Range(Rows, kw_only=True):
    header: Header


class Look(msgspec.Struct):
    """One answer of a write: what stands under a key, or nothing of interest."""

    response_range: Rows = msgspec.field(default_factory=Rows)


class Written(msgspec.Struct):
    """`responses`: what stands there, when it did not succeed; when it did, what was done."""

    header: Header
    succeeded: bool = False
    responses: list[Look] = []


class Granted(msgspec.Struct):
    ID: int


class Left(msgspec.Struct):
    TTL: int = 0
    """Seconds of a lease; nothing when it has ended."""


class Renewed(msgspec.Struct):
    result: Left = msgspec.field(default_factory=Left)


class Done(msgspec.Struct):
    """Nothing of the answer is needed."""


class Refusal(msgspec.Struct):
    message: str = ""
    error: str = ""
    code: int = 0


class Event(msgspec.Struct):
    kv: Row
    type: str = "PUT"

    def change(self) -> Change:
        value = None if self.type == "DELETE" else plain(self.kv.value)
        return Change(self.kv.name, value, self.kv.mod_revision)


class Watched(msgspec.Struct):
    canceled: bool = False
    events: list[Event] = []


class Said(msgspec.Struct):
    result: Watched | None = None


def read(data: bytes | str, form: type[T]) -> T:
    """Raises msgspec.DecodeError."""
    return msgspec.json.decode(data, type=form, strict=False)
