"""What members tell of themselves unasked, as in docs/signalling.md: the forms, and the place where they are read."""

from __future__ import annotations

import msgspec

from datacast.services import framing

from .answers import Count


class Event(msgspec.Struct, frozen=True, gc=False, tag_field="event"):
    group: str
    n: str
    """The member."""


class First(Event, frozen=True, tag="first"):
    """Its first data packet: sent, or received."""

    t_ns: Count


class Progress(Event, frozen=True, tag="progress"):
    """A root has sent the numbers of a tree below `seq` for the first time."""

    tree: Count
    seq: Count


class Slowed(Event, frozen=True, tag="slowed"):
    tree: Count


class Digests(Event, frozen=True, tag="digests"):
    blocks: list[tuple[Count, str]]


class NotFetched(Event, frozen=True, tag="not_fetched"):
    block: Count | None = None
    code: str = "error"
    error: str = "not fetched"


class Done(Event, frozen=True, tag="done"):
    t_ns: Count | None = None


class Failed(Event, frozen=True, tag="failed"):
    code: str = "error"
    error: str = "failed"


class Resumed(Event, frozen=True, tag="resumed"):
    """The first new data over a route that was changed."""

    tree: Count
    t_ns: Count


class BadBlock(Event, frozen=True, tag="bad_block"):
    block: Count
    forgotten: Count = 0
    """Pieces that no tree is known to have carried."""


AnyEvent = First | Progress | Slowed | Digests | NotFetched | Done | Failed | Resumed | BadBlock
_reader: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)


def read(body: bytes) -> AnyEvent:
    """Raises FramingError: it is none of these, or not of its form."""
    return framing.read_json(_reader, body)
