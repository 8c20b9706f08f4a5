"""What members answer to requests, as in docs/signalling.md: the forms, and the one place where they are read.

What an answer has beside is passed over. One that is not of its form is taken for the refusal `malformed`, of the
member that gave it and of nobody else.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Annotated, Generic, TypeVar

import msgspec
from msgspec import Meta

from datacast.services import framing

log = logging.getLogger("datacast.master")

Count = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Row = tuple[Count, Count]
"""First, count."""
ROWS_MAX, RUNS_MAX = 4096, 64


class Answer(msgspec.Struct, frozen=True, gc=False):
    """Of one member; `ok` false: it refuses, and `code` and `error` say why."""

    ok: bool = False
    code: Annotated[str, Meta(max_length=64)] = ""
    error: Annotated[str, Meta(max_length=8000)] = ""
    n: Count | None = None
    """Orders of the log that it has had."""

    @property
    def why(self) -> str:
        return self.error or self.code or "refused"


class Refused(msgspec.Struct, frozen=True, gc=False):
    """An object that cannot be had."""

    code: str = "bad_answer"
    error: str = "no size"
    later_s: Count = 0
    """When it may be asked for again; 0: nobody says."""


class StatAnswer(Answer, frozen=True):
    """A source: what it has. A host that fetches: of each URL the size and the ETag."""

    size: Count | None = None
    mtime_ns: int | None = None
    inode: int | None = None
    bundle: bool | Count | None = None
    """It is a directory, of so many entries."""
    piece: Count | None = None
    per_block: Count | None = None
    held: Annotated[list[Row], Meta(max_length=ROWS_MAX)] | None = None
    objects: list[tuple[Count, str | None] | Refused] | None = None

    @property
    def file(self) -> dict[str, int]:
        """What tells the file from another."""
        told = {"mtime_ns": self.mtime_ns, "inode": self.inode}
        return {key: value for key, value in told.items() if value is not None}


class TreeCounts(msgspec.Struct, frozen=True, gc=False):
    """What a member counts of a tree, since it was opened: one that receives, and (the second half) its root."""

    seq: Count
    """A receiver: the next number that it will ask for; a root: that it will send."""
    interests: Count = 0
    duplicates: Count = 0
    data: Count = 0
    retransmitted: Count = 0
    srtt_us: Count = 0
    credits: Count = 0
    low: Count = 0
    """It lacks nothing below."""
    bytes: Annotated[int, Meta(ge=-1, le=(1 << 63) - 1)] = -1
    """-1: it has not told."""

    rate_bps: Count = 0
    new_packets: Count = 0
    dup_packets: Count = 0
    merged: Count = 0
    numbers: Count | None = None
    """That it has sent."""


Trees = Annotated[dict[Annotated[str, Meta(max_length=10)], TreeCounts], Meta(max_length=64)]
"""By tree id. A group has 32 trees at most (GROUP_TREES_MAX of the agents)."""


class StatusAnswer(Answer, frozen=True):
    role: str = ""
    state: str = ""
    trees: Trees = {}
    sends: Trees = {}
    """Of a receiver's `trees`, those that begin at it."""
    bytes: Count = 0
    unwritten: Count = 0
    blocks: Annotated[str, Meta(max_length=RUNS_MAX)] | Count = ""
    """A receiver: which it has, of so many runs of them. A source: how many there are."""
    blocks_ok: Count = 0
    resuming: Count = 0
    """Blocks held from before that are yet to be hashed again; what it holds besides it has told."""
    bad_blocks: Count = 0
    t_first_ns: Count | None = None
    t_done_ns: Count | None = None
    origin: Refused | None = None
    """What it fetches from refuses, and is asked again."""


class FetchAnswer(Answer, frozen=True):
    left: list[Count] = []


A = TypeVar("A", bound=Answer)


class Results(dict[str, A]):
    """By member. What of nobody came is not in it."""

    def __init__(self, told: Mapping[str, A], none: A) -> None:
        super().__init__(told)
        self._none = none

    def of(self, member: str) -> A:
        """What it answered; `unreachable` where nothing of it came."""
        return self.get(member, self._none)


_apart = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Reader(Generic[A]):
    """Of one operation's answers."""

    def __init__(self, form: type[A]) -> None:
        self._form, self._none = form, form(code="unreachable", error="no answer")
        self._all: msgspec.json.Decoder[dict[str, A]] = msgspec.json.Decoder(dict[str, form])  # type: ignore[valid-type]
        self._one = msgspec.json.Decoder(form)

    def read(self, *texts: msgspec.Raw) -> Results[A]:
        """Of several messages the first says most of who was in all of them. What cannot be read says nothing."""
        results = Results[A]({}, self._none)
        for text in reversed(texts):
            try:
                results |= self._read(text)
            except framing.FramingError as error:
                log.warning("answers that make no sense: %s", error)
        return results

    def _read(self, text: msgspec.Raw) -> dict[str, A]:
        try:
            return framing.read_json(self._all, text)
        except framing.FramingError:
            return {name: self._own(name, own) for name, own in framing.read_json(_apart, text).items()}

    def _own(self, member: str, text: msgspec.Raw) -> A:
        try:
            return framing.read_json(self._one, text)
        except framing.FramingError as error:
            log.warning("%.100s: an answer that makes no sense: %s: %.200s", member, error, bytes(text))
            return self._form(code="malformed", error=f"an answer that makes no sense: {error}")
