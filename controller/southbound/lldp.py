"""Discovery frames (IEEE 802.1AB): written and read, nothing else. Pure.

Chassis: the switch's name (subtype 7, locally assigned). Port: the Datacast port's number as text (subtype 7). A
private TLV marks frames of this system, so that another controller's or a host's LLDP is not taken for a link of ours.
"""

from __future__ import annotations

import struct

MULTICAST = bytes.fromhex("0180c200000e")
ETHERTYPE = 0x88CC
_OUI = bytes.fromhex("02dc00")
"""Locally administered; subtype 1 is ours."""
_MARK = _OUI + b"\x01datacast"
TTL_S = 6
APPLIANCE = 65535
"""In place of a port (the highest is 65534): a probe that the switch's cache appliance sends back."""


def _tlv(kind: int, value: bytes) -> bytes:
    return struct.pack("!H", kind << 9 | len(value)) + value


def encode(switch: str, port: int, mac: str) -> bytes:
    """A frame to leave by `port` of `switch`."""
    body = (_tlv(1, b"\x07" + switch.encode()) + _tlv(2, b"\x07" + str(port).encode())
            + _tlv(3, struct.pack("!H", TTL_S)) + _tlv(127, _MARK) + _tlv(0, b""))
    return MULTICAST + bytes.fromhex(mac.replace(":", "")) + struct.pack("!H", ETHERTYPE) + body


def decode(frame: bytes) -> tuple[str, int] | None:
    """(switch, port) a frame of ours was sent from; None when it is not ours or broken."""
    if len(frame) < 14 or frame[12:14] != struct.pack("!H", ETHERTYPE):
        return None
    at, switch, port, ours = 14, None, None, False
    while at + 2 <= len(frame):
        (head,) = struct.unpack_from("!H", frame, at)
        kind, length = head >> 9, head & 0x1FF
        value = frame[at + 2:at + 2 + length]
        if len(value) < length:
            return None
        if kind == 0:
            break
        if kind == 127:
            ours = ours or value == _MARK
        elif kind in (1, 2) and value[:1] == b"\x07":
            try:
                text = value[1:].decode()
            except UnicodeDecodeError:
                return None
            if kind == 1:
                switch = text
            elif text.isascii() and text.isdigit() and len(text) <= 5:
                port = int(text)
        at += 2 + length
    return (switch, port) if ours and switch is not None and port is not None else None
