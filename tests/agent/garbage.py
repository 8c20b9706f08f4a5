"""Frames that are wrong in every way, from a seed; and a way to put them on a cable."""

from __future__ import annotations

import random
import socket
import struct

from agent_harness import inside, path_direct

from datacast.core import constants as c
from datacast.core import wire
from datacast.core.wire import Header, Segment

ETHER = b"\xff" * 6 + b"\x02" + bytes(5)
MPLS = ETHER + struct.pack("!H", c.ETHERTYPE_MPLS)
DATACAST = ETHER + struct.pack("!H", c.ETHERTYPE_DATACAST)


def _label(value: int, bottom: bool) -> bytes:
    return struct.pack("!I", value << 12 | bottom << 8 | 255)


LOCAL = _label(c.LABEL_LOCAL, True)


def header(
    version: int = c.VERSION,
    kind: int = c.TYPE_DATA,
    flags: int = 0,
    length: int = 0,
    tree: int = 1,
    seq: int = 0,
    stops: int = 0,
    lag: int = 0,
    cache: int = 0,
    more: int = 0,
) -> bytes:
    return struct.pack("!BBHIIBBBB", version << 4 | kind, flags, length, tree, seq, stops, lag, cache, more)


def garbage_frames(seed: int, count: int, tree: int) -> list[bytes]:
    """One of every kind first, then `count` mutations of good frames. None is a valid data packet of `tree`."""
    print(f"garbage of seed {seed}")
    pick = random.Random(seed)
    other = tree ^ 0xFFFF
    interest = wire.encode_interest(path_direct(), Header(c.TYPE_INTEREST, other, 5))
    data = wire.encode_data(Segment((0,), True), Header(c.TYPE_DATA, other, 5), b"x" * 500)
    frames = [
        ETHER + b"\x08\x00" + bytes(46),  # filtered out
        MPLS,
        MPLS + b"\0\0",
        MPLS + LOCAL,  # no header
        MPLS + LOCAL + header()[:10],
        MPLS + LOCAL + header(version=1),
        MPLS + LOCAL + header(kind=9),
        MPLS + LOCAL + header(kind=c.TYPE_HELLO),
        MPLS + LOCAL + header(flags=0x80),
        MPLS + LOCAL + header(more=1),
        MPLS + LOCAL + header(kind=c.TYPE_INTEREST, stops=2, length=8, more=64) + bytes(8),
        MPLS + LOCAL + header(stops=1),
        MPLS + LOCAL + header(length=4000),
        MPLS + LOCAL + header(tree=other),
        MPLS + LOCAL + header(kind=c.TYPE_INTEREST, stops=2, length=0),
        MPLS + LOCAL + header(kind=c.TYPE_INTEREST, stops=2, length=8) + b"\xff" * 8,
        MPLS + LOCAL + header(kind=c.TYPE_INTEREST, stops=60, length=1024) + bytes(1024),
        MPLS + _label(c.LABEL_LOCAL, False) + _label(c.LABEL_ADJ, True) + header(),  # labels below LOCAL
        MPLS + _label(7, True) + header(),
        MPLS + _label(c.LABEL_ADJ + 200, True) + header(),
        MPLS + _label(c.LABEL_ADJ, False) * 80 + header(),  # no bottom in sight
        DATACAST + header(tree=other, length=10) + bytes(10),
        DATACAST + header(kind=c.TYPE_INTEREST, tree=tree, stops=3, length=12) + bytes(12),
        DATACAST + header(kind=c.TYPE_INTEREST, tree=tree, stops=1, length=8) + b"\0\x01\0\0\0\x63\0\0",
        DATACAST + header(tree=tree, seq=0, length=3) + b"abc",  # not the piece's length
        DATACAST + header(tree=tree, seq=0xFFFFFFFF, length=3) + b"abc",
        DATACAST,
    ]
    for _ in range(count):
        frame = bytearray(pick.choice([interest, data, *frames]))
        for _ in range(pick.randrange(1, 6)):
            at = pick.randrange(12, len(frame)) if len(frame) > 12 else 0
            frame[at] = pick.randrange(256)
        if pick.random() < 0.3:
            del frame[pick.randrange(14, len(frame) + 1) :]
        if pick.random() < 0.1:
            frame += pick.randbytes(pick.randrange(1500))
        if bytes(struct.pack("!I", tree)) in bytes(frame):
            continue  # a mutation must not answer for the source
        frames.append(bytes(frame))
    return frames


def send_frames(namespace: str, ifname: str, frames: list[bytes]) -> None:
    sock = inside(namespace, lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
    try:
        sock.bind((ifname, 0))
        for frame in frames:
            sock.send(frame.ljust(14, b"\0"))
    finally:
        sock.close()
