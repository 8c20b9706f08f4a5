"""Counts the data packets that leave by an interface, for switches that do not count them (Open vSwitch, bmv2).

A raw socket with a filter that lets data packets through and a buffer so small that nearly all of them are dropped at
once: the kernel counts what passed the filter (PACKET_STATISTICS), which is all that is wanted. It sees frames as they
are sent, behind the port's queue.
"""

from __future__ import annotations

import ctypes
import socket
import struct

from datacast.core import constants as wire

SO_ATTACH_FILTER = 26
SOL_PACKET = 263
PACKET_STATISTICS = 6
ETH_P_ALL = 3
OUTGOING = 4
DEPTH_MAX = 8
"""Labels under which a data packet is recognized; a switch port sends three at most."""

LD_W, LD_H, LD_B = 0x20, 0x28, 0x30
JEQ, JSET, RET = 0x15, 0x45, 0x06
PKTTYPE = 0xFFFFF004


def data_filter() -> bytes:
    """A classic BPF program: outgoing data packets, under any stack of up to DEPTH_MAX labels."""
    data = wire.VERSION << 4 | wire.TYPE_DATA
    # (code, value, label if true, label if false); labels are resolved below, None: go on.
    lines: list[tuple[int, int, str | None, str | None]] = [
        (LD_W, PKTTYPE, None, None),
        (JEQ, OUTGOING, None, "no"),
        (LD_H, 12, None, None),
        (JEQ, wire.ETHERTYPE_DATACAST, "under 0", None),
        (JEQ, wire.ETHERTYPE_MPLS, None, "no"),
    ]
    for depth in range(1, DEPTH_MAX + 1):
        lines += [
            (LD_B, wire.ETHER_LEN + wire.LABEL_LEN * depth - 2, None, None),
            (JSET, 1, f"under {depth}", None),
        ]
    marks = {"no": len(lines)}
    lines.append((RET, 0, None, None))
    for depth in range(DEPTH_MAX + 1):
        marks[f"under {depth}"] = len(lines)
        lines += [
            (LD_B, wire.ETHER_LEN + wire.LABEL_LEN * depth, None, None),
            (JEQ, data, None, "back"),
            (RET, 1, None, None),
            (RET, 0, None, None),
        ]
    program = b""
    for at, (code, value, true, false) in enumerate(lines):
        jt = marks[true] - at - 1 if true else 0
        jf = 1 if false == "back" else marks[false] - at - 1 if false else 0
        program += struct.pack("HBBI", code, jt, jf, value)
    return program


class Tap:
    """One interface. `packets()` counts on from zero."""

    def __init__(self, ifname: str) -> None:
        """To be called inside the interface's namespace. Raises OSError."""
        program = data_filter()
        code = ctypes.create_string_buffer(program)
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
        self._socket.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, header)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 0)
        self._socket.bind((ifname, ETH_P_ALL))
        self._packets = 0

    def packets(self) -> int:
        """Data packets sent by this interface since the tap was made."""
        counted, _ = struct.unpack("II", self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
        self._packets += counted
        return self._packets

    def close(self) -> None:
        self._socket.close()
