"""Made-up frames for a switch with a node, and the ledger that says what may come of them.

A frame out must be one of these: a frame that came under an adjacency, its label popped; ordinary Ethernet, as it came;
an interest that an interest for the same number asks for, over that one's own segment; data that came from where it was
asked for, over a return segment that an interest named. Everything else is a leak.

A switch reads its ports one after the other, so what was sent to two of them may be seen in the other order.
"""

from __future__ import annotations

import hashlib
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from datacast.core import constants as c
from datacast.core.wire import (
    Header,
    Segment,
    Stop,
    WireError,
    decode_frame,
    decode_header,
    encode_frame,
    encode_header,
    encode_stop,
)

LOCAL_AT = c.ETHER_LEN + c.LABEL_LEN
KEPT = 50_000
"""Frames that may still come out: those sent since so many, and as many before them."""
TREES, NUMBERS = 60, 40
LATE = 64
"""Frames sent after this one, to other ports, that the switch may see before it: a burst, and some count twice."""
VLAN = (b"\x81\x00", b"\x88\xa8")
TELLING = (0, 1, 2, 7, 8, 9, 15, 16, 32, 33, 63, 64, 127, 128, 254, 255)
"""Values at the edges of what fields may hold."""

Way = tuple[int, tuple[int, ...]]
"""A port and the labels behind it."""
Name = tuple[int, int]
"""Tree and number."""


def _mark(*parts: bytes) -> bytes:
    return hashlib.blake2b(b"".join(parts), digest_size=12).digest()


class Recent:
    """A set that forgets what was put in long ago."""

    def __init__(self) -> None:
        self._new: set[bytes] = set()
        self._old: set[bytes] = set()

    def add(self, mark: bytes) -> None:
        if len(self._new) >= KEPT:
            self._old, self._new = self._new, set()
        self._new.add(mark)

    def __contains__(self, mark: bytes) -> bool:
        return mark in self._new or mark in self._old


def _ports(raw: bytes) -> tuple[int, ...]:
    return tuple(int.from_bytes(raw[i : i + 2], "big") for i in range(0, len(raw), 2))


def _way(segment: Segment) -> Way | None:
    return (segment.ports[0], tuple(segment.labels())) if segment.ports else None


@dataclass
class Ledger:
    """What was sent to the switch, as far as something may come of it."""

    passing: Recent = field(default_factory=Recent)
    bridged: Recent = field(default_factory=Recent)
    back: dict[Name, set[Way]] = field(default_factory=dict)
    on: dict[Name, set[Way]] = field(default_factory=dict)
    bodies: dict[Name, set[bytes]] = field(default_factory=dict)
    unasked: deque[tuple[int, Name, int, bytes]] = field(default_factory=deque)
    """Data that nobody had asked for when it was sent: after how many frames, its name, port and body."""
    sent: int = 0

    def send(self, port: int, frame: bytes) -> None:
        """A frame goes in by `port`."""
        self.sent += 1
        while self.unasked and self.unasked[0][0] < self.sent - LATE:
            self.unasked.popleft()
        kind = frame[12:14]
        if kind != c.ETHERTYPE_MPLS.to_bytes(2, "big"):
            self.bridged.add(_mark(frame))
            if kind in VLAN:  # the kernel takes the tag off, for bmv2 or for who reads what it sends
                self.send(port, frame[:12] + frame[16:])
        elif len(frame) >= LOCAL_AT:
            label, bottom = int.from_bytes(frame[14:17], "big") >> 4, frame[16] & 1
            if label >= c.LABEL_ADJ:
                below = c.ETHERTYPE_DATACAST.to_bytes(2, "big") if bottom else kind
                if label - c.LABEL_ADJ != port:
                    self.passing.add(_mark(bytes([label - c.LABEL_ADJ & 255]), below, frame[LOCAL_AT:]))
            elif label == c.LABEL_LOCAL and bottom:
                self._local(port, frame[LOCAL_AT:])

    def _local(self, port: int, under: bytes) -> None:
        try:
            header, body = decode_header(under)
        except WireError:
            return
        if header.type == c.TYPE_DATA:
            name = (header.tree, header.seq)
            if any(first == port for first, _ in self.on.get(name, ())):
                self.bodies.setdefault(name, set()).add(_mark(body))
            else:
                self.unasked.append((self.sent, name, port, _mark(body)))
        elif header.type == c.TYPE_INTEREST and len(body) >= c.STOP_LEN:
            flags, n_ret, n_fwd, _ = body[: c.STOP_LEN]
            middle, end = c.STOP_LEN + 2 * n_ret, c.STOP_LEN + 2 * (n_ret + n_fwd)
            if len(body) < end:
                return
            back = _way(Segment(_ports(body[c.STOP_LEN : middle]), bool(flags & c.STOP_RET_LOCAL)))
            on = _way(Segment(_ports(body[middle:end]), bool(flags & c.STOP_FWD_LOCAL)))
            for seq in range(header.seq, header.seq + header.more + 1):
                if back and on:
                    self.back.setdefault((header.tree, seq), set()).add(back)
                    self.on.setdefault((header.tree, seq), set()).add(on)
                    self._asked_late((header.tree, seq), on[0], port)

    def _asked_late(self, name: Name, up: int, asker: int) -> None:
        """An interest was sent after data from where it asks: the switch may have seen it first, by another port."""
        for _, unasked, port, body in self.unasked:
            if unasked == name and port == up != asker:
                self.bodies.setdefault(name, set()).add(body)

    def leak(self, port: int, frame: bytes) -> str:
        """Why this frame, which came out of `port`, should not have; empty: it may."""
        if _mark(bytes([port]), frame[12:14], frame[14:]) in self.passing or _mark(frame) in self.bridged:
            return ""
        try:
            labels, under = decode_frame(frame)
            header, body = decode_header(under)
        except WireError as error:
            return f"nothing like it was sent: {error}"
        way = (port, tuple(labels))
        if header.type == c.TYPE_INTEREST:
            asked = [
                way in self.on.get((header.tree, seq), ()) for seq in range(header.seq, header.seq + header.more + 1)
            ]
            return "" if all(asked) else "an interest for what no interest over this segment asked for"
        name = (header.tree, header.seq)
        if way not in self.back.get(name, ()):
            return "data over a segment from which no interest asked for it"
        return "" if _mark(body) in self.bodies.get(name, ()) else "data that did not come from where it was asked for"


class Frames:
    """Frames that are right, and what one gets by changing them."""

    def __init__(self, rng: random.Random, seeds: Sequence[tuple[int, bytes]]) -> None:
        self.rng = rng
        self.seeds = seeds
        self._asked: list[tuple[int, int, int]] = [(0, 0, 0)]

    def _interest(self) -> tuple[int, bytes]:
        rng = self.rng
        port = rng.randrange(1, 8)
        tree, seq = rng.randrange(TREES), rng.randrange(NUMBERS)
        up = rng.choice([0, 0, 0, rng.randrange(8)])
        own = Stop(
            Segment((up, *self._behind())), Segment((port, *self._behind()), rng.random() < 0.3), rng.random() < 0.7
        )
        route = [
            own,
            *(
                Stop(Segment((rng.randrange(9),)), Segment((rng.randrange(9),), True))
                for _ in range(rng.choice([0, 0, 1, 3, 20]))
            ),
            Stop(Segment(), Segment((3,), True)),
        ]
        blob = b"".join(
            encode_stop(Stop(Segment(stop.fwd.ports, i + 2 < len(route)), stop.ret, stop.store))
            for i, stop in enumerate(route)
        )
        header = Header(
            c.TYPE_INTEREST,
            tree,
            seq,
            rng.choice([0, 0, c.FLAG_RETX, c.FLAG_NOCACHE]),
            len(blob),
            len(route),
            rng.choice([0, 0, 9, 255]),
            rng.choice([0, 0, 1, 0x10, 0x50, 0xFF]),
            rng.choice([0, 0, 0, 1, 7, 63]),
        )
        self._asked.append((tree, seq, up))
        del self._asked[:-64]
        return port, encode_frame([c.LABEL_LOCAL], encode_header(header) + blob)

    def _behind(self) -> tuple[int, ...]:
        """Ports of a segment after its first."""
        return tuple(self.rng.randrange(9) for _ in range(self.rng.choice([0, 0, 1, 7, 8])))

    def _data(self) -> tuple[int, bytes]:
        rng = self.rng
        tree, seq, port = rng.choice(self._asked)
        size = rng.choice([0, 1, 127, 128, 255, 256, 257, 511, 512, 513, 1400, 1400, 4095, 8900])
        header = Header(c.TYPE_DATA, tree, seq, rng.choice([0, 0, 0, c.FLAG_DUP, c.FLAG_LAST]), size)
        return port, encode_frame([c.LABEL_LOCAL], encode_header(header) + rng.randbytes(size))

    def _changed(self, frame: bytes) -> bytes:
        rng = self.rng
        what = bytearray(frame)
        front = min(len(what), 80)
        for _ in range(rng.choice([1, 1, 2, 6])):
            at = rng.randrange(12, front if rng.random() < 0.8 else len(what))
            what[at] = rng.choice([rng.choice(TELLING), rng.randrange(256), what[at] ^ 1 << rng.randrange(8)])
        kind = rng.random()
        if len(what) == 14:
            return bytes(what)
        if kind < 0.15:
            del what[rng.randrange(14, len(what)) :]
        elif kind < 0.2:
            what += rng.randbytes(rng.choice([1, 40, 600]))
        elif kind < 0.25:
            at = rng.randrange(14, len(what))
            label = rng.choice([c.LABEL_ADJ + 2, c.LABEL_LOCAL, c.LABEL_REPLICATE | 6, 3])
            what[at:at] = encode_frame([label], b"")[c.ETHER_LEN :]
        elif kind < 0.3:
            other = rng.choice(self.seeds)[1]
            at = rng.randrange(14, len(what))
            what[at:] = other[min(at, len(other)) :]
        return bytes(what[:9014])

    def __next__(self) -> tuple[int, bytes]:
        """A frame, and the port it goes in by."""
        kind = self.rng.random()
        port, frame = self.rng.choice(self.seeds) if kind < 0.2 else self._interest() if kind < 0.6 else self._data()
        if self.rng.random() < 0.5:
            frame = self._changed(frame)
        return (self.rng.randrange(8) if self.rng.random() < 0.1 else port), frame
