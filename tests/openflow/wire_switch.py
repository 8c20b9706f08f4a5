"""An OpenFlow switch that speaks byte by byte, and a fabric manager that listens."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
import time
from pathlib import Path
from typing import Any

from datacast.controller.openflow.roles import LEASE_TABLE
from datacast.services import framing

HELLO, ERROR, ECHO_REQUEST, ECHO_REPLY, FEATURES_REQUEST, FEATURES_REPLY = 0, 1, 2, 3, 5, 6
PACKET_IN, PORT_STATUS, PACKET_OUT, FLOW_MOD, MULTIPART_REQUEST, MULTIPART_REPLY = 10, 12, 13, 14, 18, 19
BARRIER_REQUEST, BARRIER_REPLY, ROLE_REQUEST, ROLE_REPLY = 20, 21, 24, 25
FLOW, PORT_COUNTERS, PORT_DESC, MORE = 1, 4, 13, 1
LINK_DOWN = 1
APPLIANCE = 5
"""The port whose appliance sends probes back."""


class WireSwitch:
    """An OpenFlow switch of a few ports, from its TCP connection on. Keeps the cookies of its rules."""

    def __init__(self, address: str, dpid: int, ports: int = 3, version: int = 4,
                 cookies: set[int] | None = None) -> None:
        host, _, port = address.rpartition(":")
        self.dpid, self.ports, self.version = dpid, ports, version
        self.cookies: set[int] = set() if cookies is None else cookies
        self.mods = 0
        """Of rules that stay."""
        self.leases: set[int] = set()
        self.looks = 0
        """How often its rules were read."""
        self.errors: list[bytes] = []
        self.closed = threading.Event()
        self.connected_s = time.monotonic()
        self.barrier_s: float | None = None
        self.sock = socket.create_connection((host, int(port)))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.send(HELLO, b"", 1)
        threading.Thread(target=self._run, daemon=True).start()

    def send(self, kind: int, body: bytes, xid: int) -> None:
        self.sock.sendall(struct.pack("!BBHI", self.version, kind, 8 + len(body), xid) + body)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)  # a reader of its own would keep it open
        self.sock.close()

    @staticmethod
    def port(number: int, down: bool = False) -> bytes:
        return struct.pack("!I4x6s2x16sII24x", number, bytes([2, 0, 0, 0, 0, number & 255]), f"p{number}".encode(), 0,
                           LINK_DOWN if down else 0)

    def port_status(self, number: int, down: bool) -> None:
        self.send(PORT_STATUS, struct.pack("!B7x", 2) + self.port(number, down), 0)

    def packet_in(self, number: int, frame: bytes) -> None:
        match = struct.pack("!HHIIxxxx", 1, 12, 0x80000004, number)
        self.send(PACKET_IN, struct.pack("!IHBBQ", 0xFFFFFFFF, len(frame), 1, 0, 0) + match + b"\0\0" + frame, 0)

    def _run(self) -> None:
        data = b""
        try:
            while part := self.sock.recv(65536):
                data += part
                while len(data) >= 8 and len(data) >= (length := struct.unpack_from("!H", data, 2)[0]):
                    self._message(data[1], struct.unpack_from("!I", data, 4)[0], data[8:length])
                    data = data[length:]
        except OSError:
            pass
        self.closed.set()

    def _message(self, kind: int, xid: int, body: bytes) -> None:
        if kind == FEATURES_REQUEST:
            self.send(FEATURES_REPLY, struct.pack("!QIBBxxII", self.dpid, 0, 254, 0, 79, 0), xid)
        elif kind == ECHO_REQUEST:
            self.send(ECHO_REPLY, body, xid)
        elif kind == ERROR:
            self.errors.append(body)
        elif kind == PACKET_OUT:
            length, = struct.unpack_from("!H", body, 8)
            number, = struct.unpack_from("!I", body, 16 + 4)
            if number == APPLIANCE:
                self.packet_in(number, body[16 + length:])
        elif kind == BARRIER_REQUEST:
            self.send(BARRIER_REPLY, b"", xid)
            self.barrier_s = time.monotonic()
        elif kind == FLOW_MOD:
            cookie, _, table, command = struct.unpack_from("!QQBB", body)
            lease = table == LEASE_TABLE or cookie in self.leases
            self.mods += not lease
            cookies = self.leases if lease else self.cookies
            (cookies.add if command == 0 else cookies.discard)(cookie)
        elif kind == ROLE_REQUEST:
            role, generation = struct.unpack("!I4xQ", body)
            self.send(ROLE_REPLY, struct.pack("!I4xQ", role or 1, generation), xid)
        elif kind == MULTIPART_REQUEST:
            what = struct.unpack_from("!H", body)[0]
            if what == PORT_DESC:
                answer = b"".join(self.port(n) for n in range(1, self.ports + 1))
            elif what == FLOW:
                self.looks += 1
                answer = b"".join(struct.pack("!HBxIIHHHH4xQQQHH4x", 56, 0, 0, 0, 1, 0, 0, 0, cookie, 5, 500, 1, 4)
                                  for cookie in sorted(self.cookies | self.leases))
            elif what == PORT_COUNTERS:  # an answer in two parts
                one, two = (struct.pack("!I4x12QII", n, *[100 * n] * 12, 0, 0) for n in (1, 2))
                self.send(MULTIPART_REPLY, struct.pack("!HH4x", what, MORE) + one, xid)
                answer = two
            else:
                answer = b""
            self.send(MULTIPART_REPLY, struct.pack("!HH4x", what, 0) + answer, xid)


class FabricManager:
    """Listens as docs/signalling.md says; keeps what it hears with the time it came."""

    def __init__(self, ca: Path | None = None, identity: tuple[str, str] | None = None) -> None:
        self.heard: list[tuple[float, dict[str, Any]]] = []
        self.handshakes = 0
        self._context: ssl.SSLContext | None = None
        if ca and identity:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.minimum_version = ssl.TLSVersion.TLSv1_3
            self._context.verify_mode = ssl.CERT_REQUIRED
            self._context.load_verify_locations(ca)
            self._context.load_cert_chain(*identity)
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.socket.getsockname()[1]}"
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self.socket.accept()
            except OSError:
                return
            self._open.append(sock)
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        decoder = framing.Decoder()
        try:
            if self._context:
                sock = self._context.wrap_socket(sock, server_side=True)
                self.handshakes += 1
            while data := sock.recv(65536):
                for message in decoder.feed(data):
                    self.heard.append((time.monotonic(), message))
                    if message["type"] == "register":
                        answer = {"type": "registered", "node": message["node"], "heartbeat_ms": 1000}
                        sock.sendall(framing.encode(answer))
        except OSError:
            pass

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [m for _, m in list(self.heard) if m["type"] == kind]

    def drop_all(self) -> None:
        for sock in self._open:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        self._open.clear()

    def close(self) -> None:
        self.socket.close()
        self.drop_all()


def config(switches: int, manager: FabricManager) -> dict[str, Any]:
    return {"openflow_listen": "127.0.0.1:0", "fabric_manager": manager.address, "switches": [
        {"name": f"s{i}", "openflow": {"dpid": i + 1}, "appliance": {"number": 5},
         "ports": [{"port": p, "number": p + 1} for p in range(4)]} for i in range(switches)]}
