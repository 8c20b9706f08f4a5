"""Discovery frames (IEEE 802.1AB): written and read, nothing else. Pure.

Chassis: the switch's name (subtype 7, locally assigned). Port: the Datacast port's number as text (subtype 7). A
private TLV marks frames of this system and seals them: when the frame was made, and a keyed hash of all it says. The
key is this process's own, so nobody else can make one, and an old one says nothing any more. What a seal cannot prevent
is a frame that is carried to another port as it is; ports to hosts therefore get none, and none is believed there.
"""

from __future__ import annotations

import hashlib
import hmac
import struct

MULTICAST = bytes.fromhex("0180c200000e")
ETHERTYPE = 0x88CC
_OUI = bytes.fromhex("02dc00")
"""Locally administered; subtype 1 is ours."""
_MARK = _OUI + b"\x01datacast"
_COPIES = _OUI + b"\x02"
"""Subtype 2, to a cache appliance: so many of its switch's ports have a bit in a REPLICATE label; 0: no copies."""
TTL_S = 6
NAME_MAX = 255
"""Bytes of a switch's name (a chassis's id)."""
APPLIANCE = 65535
"""In place of a port (the highest is 65534): a probe that the switch's cache appliance sends back."""


def _tlv(kind: int, value: bytes) -> bytes:
    return struct.pack("!H", kind << 9 | len(value)) + value


SEAL_LEN = 16


def _seal(key: bytes, switch: bytes, port: bytes, made: bytes) -> bytes:
    return hmac.digest(key, bytes([len(switch)]) + switch + port + made, hashlib.sha256)[:SEAL_LEN]


def encode(switch: str, port: int, mac: str, key: bytes = b"", now: float = 0.0, copies: int | None = None) -> bytes:
    """A frame to leave by `port` of `switch`. `now`: seconds of the clock by which `decode` asks for its age.

    `copies`, in a probe: what the switch's appliance may use of REPLICATE. It is not sealed: whoever can change this
    frame on that cable can change all others there."""
    name, number, made = switch.encode(), str(port).encode(), struct.pack("!I", int(now) & 0xFFFFFFFF)
    body = (_tlv(1, b"\x07" + name) + _tlv(2, b"\x07" + number) + _tlv(3, struct.pack("!H", TTL_S))
            + _tlv(127, _MARK + made + _seal(key, name, number, made))
            + (b"" if copies is None else _tlv(127, _COPIES + bytes([copies]))) + _tlv(0, b""))
    return MULTICAST + bytes.fromhex(mac.replace(":", "")) + struct.pack("!H", ETHERTYPE) + body


def decode(frame: bytes, key: bytes = b"", now: float = 0.0) -> tuple[str, int] | None:
    """(switch, port) a frame of ours was sent from; None when it is not ours, too old or broken."""
    if len(frame) < 14 or frame[12:14] != struct.pack("!H", ETHERTYPE):
        return None
    at, switch, port, mark = 14, b"", b"", b""
    while at + 2 <= len(frame):
        (head,) = struct.unpack_from("!H", frame, at)
        kind, length = head >> 9, head & 0x1FF
        value = frame[at + 2:at + 2 + length]
        if len(value) < length:
            return None
        if kind == 0:
            break
        if kind == 127 and value.startswith(_MARK):
            mark = value[len(_MARK):]
        elif kind == 1 and value[:1] == b"\x07":
            switch = value[1:]
        elif kind == 2 and value[:1] == b"\x07":
            port = value[1:]
        at += 2 + length
    made, seal = mark[:4], mark[4:]
    if not switch or not port.isdigit() or len(port) > 5 or len(switch) > NAME_MAX or len(made) < 4:
        return None
    age = (int(now) - struct.unpack("!I", made)[0]) & 0xFFFFFFFF
    if age > TTL_S or not hmac.compare_digest(seal, _seal(key, switch, port, made)):
        return None
    try:
        return switch.decode(), int(port)
    except UnicodeDecodeError:
        return None
