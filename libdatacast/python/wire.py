"""The wire format in Python: the C codec behind dataclasses. Bytes in, values out; nothing here does I/O.

Routes are lists of stops from a receiver to the source (docs/wire.md): the master writes them with `route`, receivers
carry them. The paper's section 5.1, design.md section 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from . import constants as c
from ._core import ffi, lib
from .errors import DatacastError

ANY = b"\xff" * 6
NOBODY = bytes(6)


class WireError(DatacastError):
    """Bytes that are not the wire format, or values that it cannot carry. `reason` is the drop counter's name."""

    def __init__(self, message: str, reason: str = "route", what: str = "", where: str = "") -> None:
        super().__init__(message, what=what, where=where)
        self.reason = reason


@dataclass(frozen=True)
class Header:
    """The 16 bytes under the stack."""

    type: int
    tree: int
    seq: int
    flags: int = 0
    length: int = 0
    stops: int = 0
    lag: int = 0
    cache: int = 0
    more: int = 0
    """Of an interest: it asks for the numbers from `seq` to `seq + more`."""


@dataclass(frozen=True)
class Segment:
    """Ports from the sender on, its own first; `local`: it ends at a waypoint. No port: on the same machine."""

    ports: tuple[int, ...] = ()
    local: bool = False

    def labels(self) -> list[int]:
        """The stack of a frame that leaves over this segment."""
        return [c.LABEL_ADJ + port for port in self.ports[1:]] + ([c.LABEL_LOCAL] if self.local else [])


@dataclass(frozen=True)
class Stop:
    """A place on the way: `fwd` leads to the next stop, `ret` back to the one below; `store`: it keeps what passes."""

    fwd: Segment = field(default_factory=Segment)
    ret: Segment = field(default_factory=Segment)
    store: bool = False


def _check(name: str, value: int, top: int) -> int:
    if not 0 <= value <= top:
        raise WireError(f"{name} {value} is not within 0..{top}", reason="range", what=name)
    return value


def drop_name(why: int) -> str:
    """Name of a reason to drop, such as "truncated" (`enum dc_drop`)."""
    return ffi.string(lib.dc_drop_name(why)).decode()


def _header_struct(header: Header) -> Any:
    h = ffi.new("struct dc_header *")
    h.type = _check("type", header.type, 15)
    h.flags = _check("flags", header.flags, 255)
    h.length = _check("length", header.length, lib.DC_PAYLOAD_MAX)
    h.tree = _check("tree", header.tree, 0xFFFFFFFF)
    h.seq = _check("seq", header.seq, 0xFFFFFFFF)
    h.stops = _check("stops", header.stops, 255)
    h.lag = _check("lag", header.lag, 255)
    h.cache = _check("cache", header.cache, 255)
    h.more = _check("more", header.more, c.RANGE_MORE_MAX)
    return h


def _header(h: Any) -> Header:
    return Header(h.type, h.tree, h.seq, h.flags, h.length, h.stops, h.lag, h.cache, h.more)


def encode_header(header: Header) -> bytes:
    """The header's 16 bytes. Raises WireError when a field does not fit."""
    out = ffi.new("uint8_t[]", c.HEADER_LEN)
    lib.dc_header_write(out, _header_struct(header))
    return bytes(ffi.buffer(out))


def decode_header(data: bytes) -> tuple[Header, bytes]:
    """Header and the `length` bytes behind it. Raises WireError with the reason."""
    h = ffi.new("struct dc_header *")
    why = lib.dc_header_parse(ffi.from_buffer("uint8_t[]", data), len(data), h)
    if why != lib.DC_DROP_NONE:
        raise WireError(f"not a Datacast header: {drop_name(why)}", reason=drop_name(why))
    return _header(h), bytes(data[c.HEADER_LEN : c.HEADER_LEN + h.length])


def _fill_segment(s: Any, segment: Segment) -> None:
    if len(segment.ports) > lib.DC_SEG_MAX:
        raise WireError(f"a segment of {len(segment.ports)} ports is longer than {lib.DC_SEG_MAX}", what="segment")
    s.n, s.local = len(segment.ports), segment.local
    for i, port in enumerate(segment.ports):
        s.port[i] = _check("port", port, lib.DC_PORT_MAX)


def _segment(s: Any) -> Segment:
    return Segment(tuple(s.port[i] for i in range(s.n)), bool(s.local))


def encode_stop(stop: Stop) -> bytes:
    """One stop's bytes. Raises WireError."""
    s = ffi.new("struct dc_stop *")
    s.store = stop.store
    _fill_segment(s.ret, stop.ret)
    _fill_segment(s.fwd, stop.fwd)
    out = ffi.new("uint8_t[]", c.STOP_LEN + 4 * lib.DC_SEG_MAX)
    n = lib.dc_stop_write(out, len(out), s)
    return bytes(ffi.buffer(out, n))


def encode_route(stops: Sequence[Stop]) -> bytes:
    """Stops to bytes, checked as a whole: what leads where, and the limits. Raises WireError."""
    blob = b"".join(encode_stop(stop) for stop in stops)
    if len(blob) > lib.DC_ROUTE_MAX:
        raise WireError(f"a route of {len(blob)} bytes is longer than {lib.DC_ROUTE_MAX}: too many stops or ports")
    if lib.dc_route_check(ffi.from_buffer("uint8_t[]", blob), len(blob)) != len(stops) or not stops:
        raise WireError(f"a route of {len(stops)} stops that does not lead from one to the next and end at the source")
    return blob


def decode_route(blob: bytes) -> list[Stop]:
    """Bytes to stops. Raises WireError when they are no route."""
    data = ffi.from_buffer("uint8_t[]", blob)
    if lib.dc_route_check(data, len(blob)) == 0:
        raise WireError(f"{len(blob)} bytes that are no route")
    stops, at = [], 0
    s = ffi.new("struct dc_stop *")
    while at < len(blob):
        at += lib.dc_stop_parse(data + at, len(blob) - at, s)
        stops.append(Stop(_segment(s.fwd), _segment(s.ret), bool(s.store)))
    return stops


def check_path(blob: bytes) -> None:
    """Is this a whole route, as the master hands it to a receiver? Raises WireError."""
    if lib.dc_path_parse(ffi.new("struct dc_path *"), ffi.from_buffer("uint8_t[]", blob), len(blob)) != 0:
        raise WireError(f"{len(blob)} bytes that are no route from a receiver to the source")


def encode_frame(
    labels: Sequence[int], under: bytes, dst: bytes = ANY, src: bytes = NOBODY, *, hello: bool = False
) -> bytes:
    """Ethernet, the stack and what stands under it. A hello has no labels, and an EtherType of its own."""
    bare = c.ETHERTYPE_HELLO if hello else c.ETHERTYPE_DATACAST
    head = ffi.new("uint8_t[]", c.ETHER_LEN + c.LABEL_LEN * len(labels))
    lib.dc_ether_write(head, dst, src, c.ETHERTYPE_MPLS if labels else bare)
    for i, label in enumerate(labels):
        at = head + c.ETHER_LEN + c.LABEL_LEN * i
        lib.dc_label_write(at, _check("label", label, (1 << 20) - 1), i + 1 == len(labels))
    return bytes(ffi.buffer(head)) + under


def decode_frame(frame: bytes) -> tuple[list[int], bytes]:
    """Labels, and what stands under them. Raises WireError."""
    if len(frame) < c.ETHER_LEN:
        raise WireError("a frame shorter than Ethernet", reason="truncated")
    ethertype = int.from_bytes(frame[12:14], "big")
    if ethertype in (c.ETHERTYPE_DATACAST, c.ETHERTYPE_HELLO):
        return [], frame[c.ETHER_LEN :]
    if ethertype != c.ETHERTYPE_MPLS:
        raise WireError(f"EtherType 0x{ethertype:04x}", reason="ethertype")
    labels: list[int] = []
    at, bottom = c.ETHER_LEN, ffi.new("bool *")
    while not bottom[0]:
        if len(frame) < at + c.LABEL_LEN or len(labels) > lib.DC_SEG_MAX:
            raise WireError("a label stack without a bottom", reason="stack")
        labels.append(lib.dc_label_read(ffi.from_buffer("uint8_t[]", frame) + at, bottom))
        at += c.LABEL_LEN
    return labels, frame[at:]


def encode_interest(blob: bytes, header: Header, dst: bytes = ANY, src: bytes = NOBODY) -> bytes:
    """What a receiver with this route sends: a whole frame, or from the header on when it first asks its own host."""
    path = ffi.new("struct dc_path *")
    if lib.dc_path_parse(path, ffi.from_buffer("uint8_t[]", blob), len(blob)) != 0:
        raise WireError(f"{len(blob)} bytes that are no route from a receiver to the source")
    out = ffi.new("uint8_t[]", lib.DC_PREFIX_MAX + lib.DC_ROUTE_MAX)
    n = lib.dc_interest_write(out, len(out), path, _header_struct(header), dst, src)
    return bytes(ffi.buffer(out, n))


def encode_data(ret: Segment, header: Header, payload: bytes, dst: bytes = ANY, src: bytes = NOBODY) -> bytes:
    """What a source sends over `ret`: a whole frame, or from the header on when `ret` stays on its host."""
    seg = ffi.new("struct dc_segment *")
    _fill_segment(seg, ret)
    h = _header_struct(header)
    h.length = _check("length", len(payload), lib.DC_PAYLOAD_MAX)
    out = ffi.new("uint8_t[]", lib.DC_PREFIX_MAX)
    n = lib.dc_data_write(out, len(out), seg, h, dst, src)
    return bytes(ffi.buffer(out, n)) + payload


def cache_code(nbytes: int) -> int:
    """The header's byte for a content store of so many bytes (0: the node's default); rounded down by at most 1/17."""
    return int(lib.dc_cache_code(_check("cache", nbytes, (1 << 63) - 1)))


def cache_bytes(code: int) -> int:
    return int(lib.dc_cache_bytes(_check("cache code", code, 255)))
