"""What members are asked, as in docs/signalling.md: the operations, and the forms of what they take.

What has its default is not sent.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from datacast.services.ranges import Rows

from .answers import A, Answer, FetchAnswer, Reader, StatAnswer, StatusAnswer


class Form(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What all members of a request are told (`all`), or one of them (`b`)."""


# ---- stat ----
class SourceFile(Form, frozen=True):
    path: str
    unfinished: str = ""
    """Of a group that broke off."""


class Destination(Form, frozen=True):
    dest: str
    urls: tuple[str, ...] = ()
    """That it is to fetch."""


# ---- open ----
class Transport(Form, frozen=True, omit_defaults=False):
    """A tree's parameters."""

    cc: str
    rate_init_bps: int
    rate_max_bps: int
    delta_bps: int
    interval_us: int
    burst: int
    credits: int
    batch: int
    rto_min_ms: int
    cache_bytes: int
    packet_bytes: int
    patience_ms: int
    id: int = 0
    """Once it has one."""

    def of(self, tree: int) -> Transport:
        return replace(self, id=tree)


class Fetched(Form, frozen=True):
    """An object of an origin, or its bytes in base64."""

    url: str = ""
    etag: str = ""
    data: str = ""


class Origin(Form, frozen=True):
    objects: tuple[Fetched, ...]
    manifest: str = ""
    """Of a folder's files, in base64."""


class Opening(Form, frozen=True):
    size: int
    piece: int
    per_block: int
    source: str
    lease_ms: int
    trees: tuple[Transport, ...]
    n: int = 0
    """One count with `reroute`: which of them was sent last."""
    again: bool = False
    """Whoever does not have the group open says so (`no_group`)."""
    bundle: bool = False
    sha256: str = ""
    stamp: str = ""
    origin: Origin | None = None


class SourcePart(Form, frozen=True, tag_field="role", tag="source"):
    path: str
    roots: list[int]
    mtime_ns: int | None = None
    inode: int | None = None
    unfinished: str = ""
    wants: Rows | None = None


class ReceiverPart(Form, frozen=True, tag_field="role", tag="receiver"):
    dest: str
    routes: dict[str, str]
    wants: Rows | None = None
    roots: list[int] = []
    fetches: bool = False


# ---- the numbered log ----
class Assign(Form, frozen=True):
    extents: tuple[tuple[int, int, int, int], ...]
    """Tree, number, first piece, count."""
    n: int = 0
    """Its place in the log, from 1."""


class Cut(Form, frozen=True):
    trees: tuple[tuple[int, int], ...]
    """Nothing from the number on comes over the tree."""
    n: int = 0


class Digest(Form, frozen=True):
    blocks: tuple[tuple[int, str], ...]
    n: int = 0
    status: bool = False
    """Answered with the status as well."""


Entry = Assign | Cut | Digest


def asking(entry: Digest, n: int) -> Digest:
    """That entry of the log, told with the question how its members are: who has it says so in its status."""
    return replace(entry, n=n, status=True)


# ---- others ----
class Reroute(Form, frozen=True):
    n: int


class Routes(Form, frozen=True):
    routes: dict[str, str]
    leave: list[int] = []


class Rates(Form, frozen=True):
    n: int
    rates: dict[str, int | None]


class Fetch(Form, frozen=True):
    """Blocks to fetch, or not to fetch any more."""

    blocks: Rows = []
    leave: Rows = []


class Close(Form, frozen=True):
    reason: str
    keep: bool
    n: int
    """Of the last `open` or `reroute`: one that is on its way yet opens nothing."""


B = TypeVar("B", bound=Form | None)
P = TypeVar("P", bound=Form | None)


class Op(Generic[B, P, A]):
    """What all are told, what each is told, and what it answers."""

    def __init__(self, name: str, answer: type[A]) -> None:
        self.name, self.answers = name, Reader(answer)


PING: Op[None, None, Answer] = Op("ping", Answer)
STAT: Op[None, SourceFile | Destination, StatAnswer] = Op("stat", StatAnswer)
OPEN: Op[Opening, SourcePart | ReceiverPart, Answer] = Op("open", Answer)
STATUS: Op[None, None, StatusAnswer] = Op("status", StatusAnswer)
ASSIGN: Op[Assign, None, Answer] = Op("assign", Answer)
CUT: Op[Cut, None, Answer] = Op("cut", Answer)
DIGEST: Op[Digest, None, Answer] = Op("digest", Answer)
DIGEST_STATUS: Op[Digest, None, StatusAnswer] = Op("digest", StatusAnswer)
REROUTE: Op[Reroute, Routes, Answer] = Op("reroute", Answer)
RATES: Op[Rates, None, Answer] = Op("rates", Answer)
FETCH: Op[None, Fetch, FetchAnswer] = Op("fetch", FetchAnswer)
CLOSE: Op[Close, None, Answer] = Op("close", Answer)

_OF: dict[type[Entry], Op[Any, None, Answer]] = {Assign: ASSIGN, Cut: CUT, Digest: DIGEST}


def op_of(entry: Entry) -> Op[Any, None, Answer]:
    return _OF[type(entry)]
