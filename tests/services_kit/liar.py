"""An origin that does not do what it should."""

from __future__ import annotations

import gzip
import re
import socket
import struct
import threading
import time
from collections import Counter
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self
from urllib.parse import quote, unquote


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        liar, name = self.server.liar, unquote(self.path[1:])
        liar.asked[name] += 1
        liar.proofs.append(self.headers.get("Authorization", ""))
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers["Range"])
        assert found
        first, last, data = int(found[1]), int(found[2]), liar.data
        how = liar.how if name == "x" else name
        if liar.healed or first < liar.true_to:
            how = "good"
        if found := re.fullmatch(r"(.+) (?:once|(\d+) times)", how):
            how = found[1] if liar.asked[name] <= int(found[2] or 1) else "good"
        if how == "says nothing":
            liar.released.wait(60)
            self.close_connection = True
            return
        body, status, total = data[first : last + 1], 206, len(data)
        headers, chunked = {"ETag": '"one"'}, False
        if how == "other bytes":
            first, last = first + 1, last + 1
        elif how == "other size":
            total += 1
        elif how == "other etag":
            headers["ETag"] = '"two"'
        elif how == "wrong content":
            body = bytes(len(body))
        elif how == "whole":
            status, body = 200, data
        elif how == "busy":
            status, body, headers["Retry-After"] = 503, b"later", "1"
        elif how == "no time" or (how == "no time for a while" and liar.refuses()):
            status, body, headers["Retry-After"] = 429, b"", liar.retry_after
        elif how in ("busy for a while", "busy until") and liar.busy():
            until = formatdate(time.time() + liar.busy_s + 1, usegmt=True)
            status, body = 503, b"<Error><Code>SlowDown</Code></Error>"
            headers["Retry-After"] = until if how == "busy until" else f"{liar.busy_s:g}"
        elif how in ("403", "404", "410", "412", "416", "500"):
            status, body = int(how), b"no"
        elif how == "skewed":
            status, body = 403, b"<Error><Code>RequestTimeTooSkewed</Code></Error>"
        elif how == "gives back":
            shown = re.split("[=/]", self.headers["Authorization"])[1]
            status, body = 403, f"<Error><Code>{shown}</Code>".encode()
        elif how == "breaks off":
            headers["Content-Length"], body = str(len(body)), body[:100]
            self.close_connection = True
        elif how == "redirects":
            status, body, headers["Location"] = 302, b"", "file:///etc/hostname"
        elif how == "circle":
            status, body, headers["Location"] = 302, b"", self.path
        elif how == "no range":
            total = -1
        elif how == "too much":
            body += b"and more"
        elif how == "too little":
            body = body[:-1]
        elif how == "gzip":
            headers["Content-Encoding"], body = "gzip", gzip.compress(body)
        elif how == "stored as gzip":
            headers["Content-Encoding"] = "gzip"
        elif how == "chunks":
            chunked = True
        elif how == "cuts":
            headers["Content-Length"], body = str(len(body)), body[: liar.cut]
            self.close_connection = True
        elif how in ("stands still", "resets"):
            headers["Content-Length"], body = str(len(body)), body[:100]
        elif how == "complains for ever":
            status, headers["Connection"], body = 503, "close", b"no" * 5000
        self.send_response(status)
        if status == 206 and total >= 0:
            self.send_header("Content-Range", f"bytes {first}-{last}/{total}")
        if chunked:
            headers["Transfer-Encoding"] = "chunked"
            parts = [body[at : at + 999] for at in range(0, len(body), 999)]
            body = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in [*parts, b""])
        elif how != "complains for ever":
            headers.setdefault("Content-Length", str(len(body)))
        for header, value in headers.items():
            self.send_header(header, value)
        self.end_headers()
        self.wfile.write(body)
        liar.given[name] += len(body) if status == 206 and last > first else 0
        while how == "complains for ever" and not liar.released.is_set():
            self.wfile.write(body)
        if how == "resets":
            self.wfile.flush()
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            self.close_connection = True
        if how == "stands still":
            self.wfile.flush()
            liar.released.wait(60)
            self.close_connection = True

    def log_message(self, *_: object) -> None: ...


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, listening: socket.socket, liar: Liar) -> None:
        super().__init__(listening.getsockname()[:2], _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket, self.liar = listening, liar

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is nothing to be told of."""


class Liar:
    """What its name says `url` does; `x` does what `how` says, all others the truth up to byte `true_to`. A name that
    ends with "once", or "N times", is like that the first times."""

    def __init__(self, listening: socket.socket, data: bytes) -> None:
        self.data, self.how, self.true_to, self.healed = data, "good", 0, False
        self.retry_after, self.cut, self.last = "1", 7000, 0
        self.asked, self.given = Counter[str](), Counter[str]()
        """Requests, and bytes of ranges of more than one, by name."""
        self.proofs: list[str] = []
        self.busy_s, self._free_at = 2.0, 0.0
        self.released = threading.Event()
        host, port = listening.getsockname()[:2]
        self.place = f"http://{host}:{port}/"
        self._server = _Server(listening, self)

    def url(self, name: str = "x") -> str:
        return self.place + quote(name)

    def refuses(self) -> bool:
        """So many times."""
        self.last -= 1
        return self.last >= 0

    def busy(self) -> bool:
        """For so many seconds from when it was first asked."""
        self._free_at = self._free_at or time.monotonic() + self.busy_s
        return time.monotonic() < self._free_at

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
