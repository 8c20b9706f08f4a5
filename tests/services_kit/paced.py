"""An origin that gives each client so many bytes a second, and counts to the byte what it gave to whom."""

from __future__ import annotations

import re
import socket
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

CHUNK = 8 << 10


@dataclass
class Given:
    """Bytes [first, end) that were asked for; `sent` of them were given."""

    client: str
    first: int
    end: int
    sent: int = 0


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers["Range"])
        assert found
        paced, client = self.server.paced, self.client_address[0]
        given = Given(client, int(found[1]), min(int(found[2]) + 1, len(paced.data)))
        paced.given.append(given)
        time.sleep(paced.late_s)
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {given.first}-{given.end - 1}/{len(paced.data)}")
        self.send_header("Content-Length", str(given.end - given.first))
        self.send_header("ETag", '"one"')
        self.end_headers()
        for at in range(given.first, given.end, CHUNK):
            some = paced.data[at : min(at + CHUNK, given.end)]
            if not paced.may(client, len(some)):
                return
            paced.wait(client, len(some))
            self.wfile.write(some)
            given.sent += len(some)

    def log_message(self, *_: object) -> None: ...


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], paced: Paced) -> None:
        self.paced = paced
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, CHUNK)
        super().server_bind()

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is nothing to be told of."""


class Paced:
    """`rate`: bytes a second to each client; `late_s`: before the first byte of an answer, as from far away."""

    def __init__(self, address: str, port: int, data: bytes, rate: int, late_s: float = 0.0) -> None:
        self.data, self._rate, self.late_s = data, rate, late_s
        self.given: list[Given] = []
        self.most: dict[str, int] = {}
        """So many bytes a client is given."""
        self.stuck: set[str] = set()
        """Who has been given them, and has asked for more."""
        self._ended = threading.Event()
        self._lock, self._free = threading.Lock(), dict[str, float]()
        self.url = f"http://{address}:{port}/object"
        self._server = _Server((address, port), self)

    def may(self, client: str, count: int) -> bool:
        """False, when all is over, of what is more than it is given."""
        sent = sum(one.sent for one in self.given if one.client == client)
        if sent + count <= self.most.get(client, sent + count):
            return True
        self.stuck.add(client)
        self._ended.wait()
        return False

    def wait(self, client: str, count: int) -> None:
        """Until its turn has come."""
        with self._lock:
            now = time.monotonic()
            self._free[client] = free = max(now, self._free.get(client, 0.0)) + count / self._rate
        time.sleep(free - now)

    def asked_by(self, *clients: str) -> list[Given]:
        """What these asked for, the probes' single bytes left out."""
        return [one for one in self.given if one.client in clients and one.end - one.first > 1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()
