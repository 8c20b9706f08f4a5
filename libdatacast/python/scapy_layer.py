"""The Datacast header and its routes as scapy layers, under EtherType 0x88B5 and under the MPLS stack of a segment.

    >>> from datacast.core.scapy_layer import Datacast, Stop, stack
    >>> frame = stack(1025, 1000) / Datacast(type="interest", tree=0xa1, seq=7, path=[
    ...     Stop(flags="store", ret=[2, 3], fwd=[0, 5]), Stop(flags="ret_local", ret=[1, 4])])
    >>> Ether(bytes(frame)).show()

Independent of the C core on purpose: the tests hold one against the other. Lengths and counts are filled in when they
are left out.
"""

from __future__ import annotations

import struct
from typing import Any

from scapy.contrib.mpls import MPLS
from scapy.fields import (
    BitEnumField,
    BitField,
    ByteField,
    ConditionalField,
    FieldLenField,
    FieldListField,
    FlagsField,
    IntField,
    PacketListField,
    ShortField,
    XIntField,
)
from scapy.layers.l2 import Ether
from scapy.packet import Packet, bind_layers

from . import constants as c

TYPES = {c.TYPE_INTEREST: "interest", c.TYPE_DATA: "data", c.TYPE_HELLO: "hello"}


class Stop(Packet):
    """One stop of a route: the ports back to the stop below, the ports on to the next."""

    name = "Datacast stop"
    fields_desc = [  # noqa: RUF012 (scapy's way)
        FlagsField("flags", 0, 8, ["store", "fwd_local", "ret_local"]),
        FieldLenField("n_ret", None, fmt="B", count_of="ret"),
        FieldLenField("n_fwd", None, fmt="B", count_of="fwd"),
        ByteField("reserved", 0),
        FieldListField("ret", [], ShortField("port", 0), count_from=lambda p: p.n_ret),
        FieldListField("fwd", [], ShortField("port", 0), count_from=lambda p: p.n_fwd),
    ]

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        return b"", s


class Datacast(Packet):
    """The 16-byte header, and under an interest its route (`path`: scapy's packets have a method named route)."""

    name = "Datacast"
    fields_desc = [  # noqa: RUF012
        BitField("version", c.VERSION, 4),
        BitEnumField("type", c.TYPE_DATA, 4, TYPES),
        FlagsField("flags", 0, 8, ["RETX", "DUP", "NOCACHE", "LAST", "path1", "path2", "path4", "path8"]),
        ShortField("length", None),
        XIntField("tree", 0),
        IntField("seq", 0),
        ByteField("stops", None),
        ByteField("lag", 0),
        ByteField("cache", 0),
        ByteField("more", 0),
        ConditionalField(
            PacketListField("path", [], Stop, length_from=lambda p: p.length),
            lambda p: p.type == c.TYPE_INTEREST,
        ),
    ]

    def post_build(self, header: bytes, payload: bytes) -> bytes:
        if self.length is None:
            length = len(header) - c.HEADER_LEN + (len(payload) if self.type != c.TYPE_INTEREST else 0)
            header = header[:2] + struct.pack("!H", length) + header[4:]
        if self.stops is None:
            stops = len(self.path) if self.type == c.TYPE_INTEREST else 0
            header = header[:12] + bytes([stops]) + header[13:]
        return header + payload

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        own = 0 if self.type == c.TYPE_INTEREST else self.length
        return s[:own], s[own:]


bind_layers(Ether, Datacast, type=c.ETHERTYPE_DATACAST)
bind_layers(Ether, Datacast, type=c.ETHERTYPE_HELLO)

_guess = MPLS.guess_payload_class


def _guess_under_mpls(self: Any, payload: bytes) -> Any:
    """Under the bottom label scapy guesses by the first half-byte, and 2 is nothing it knows: Datacast's version is 2,
    and its labels lie apart from those in common use."""
    ours = self.label == c.LABEL_LOCAL or c.LABEL_ADJ <= self.label <= c.LABEL_ADJ + 65534
    if self.s and ours and payload and payload[0] >> 4 == c.VERSION and payload[0] & 15 in TYPES:
        return Datacast
    return _guess(self, payload)


MPLS.guess_payload_class = _guess_under_mpls


def stack(*labels: int, dst: str = "ff:ff:ff:ff:ff:ff", src: str = "00:00:00:00:00:00", hello: bool = False) -> Packet:
    """Ethernet and a label stack, TTL 255, the last label marked as the bottom; without labels EtherType 0x88B5, for a
    hello 0x88B6."""
    bare = c.ETHERTYPE_HELLO if hello else c.ETHERTYPE_DATACAST
    frame: Packet = Ether(dst=dst, src=src, type=c.ETHERTYPE_MPLS if labels else bare)
    for i, label in enumerate(labels):
        frame = frame / MPLS(label=label, s=int(i + 1 == len(labels)), ttl=c.LABEL_TTL)
    return frame


def segment(ports: list[int], local: bool = False, **addresses: str) -> Packet:
    """What stands in front of a frame that leaves over these ports, the sender's own first."""
    return stack(*[c.LABEL_ADJ + port for port in ports[1:]], *([c.LABEL_LOCAL] if local else []), **addresses)
