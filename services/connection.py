"""One connection of an HTTP server: uvicorn's, by the parser in C (httptools), with the limits that it does not set."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from .problems import Problem
from .tls import peer_of

SILENCE_S = 15.0
"""A new connection has to ask for something within so long."""
STUCK_S = 60.0
"""Who reads nothing of an answer for so long hangs, and its kernel keeps the connection."""
HEAD_MAX = 16 << 10
"""Bytes of a request's line and headers, of a chunk's line, of what follows the last chunk: the parser would keep any
number. What comes in one piece (256 KB at most) may be longer."""
WAITING_MAX = 16
"""Requests on one connection that were sent before the answer to an earlier one: 256 KB hold 14,000."""
PEER = "datacast.peer"
"""In a request's scope behind TLS: whose certificate it came with (tls.Peer), None for one that names nobody. Absent
without TLS."""
CERTIFICATE = "datacast.certificate"
"""Likewise: the certificate itself (DER)."""


class Connection(HttpToolsProtocol):
    """Lets requests know whose certificate the connection has shown, and ends one on which none comes, or whose other
    end reads nothing: what it asked for has its place among what is answered at once."""

    _unread = 0
    """Bytes since something of a request was complete."""
    _stuck: asyncio.TimerHandle | None = None
    """Until somebody reads what waits."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.loop.call_later(SILENCE_S, self._look, transport)
        if transport.get_extra_info("sslcontext") is None:
            return
        peer, app = peer_of(transport.get_extra_info("peercert")), self.app
        shown = transport.get_extra_info("ssl_object").getpeercert(True)

        async def known(scope: Any, receive: Any, send: Any) -> None:
            scope[PEER], scope[CERTIFICATE] = peer, shown
            await app(scope, receive, send)

        self.app = known

    def _look(self, transport: asyncio.Transport) -> None:
        if self.cycle is None:
            transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stuck = self.loop.call_later(STUCK_S, self.transport.abort)

    def resume_writing(self) -> None:
        self._moves()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._moves()
        super().connection_lost(exc)

    def _moves(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._unread += len(data)
        kept = self.timeout_keep_alive_task
        super().data_received(data)
        if kept is not None and self.cycle.response_complete:  # a part of a request is none: it keeps nothing
            self.timeout_keep_alive_task = self.loop.call_at(kept.when(), self.timeout_keep_alive_handler)
        if self._unread > HEAD_MAX and not self.transport.is_closing():
            self.send_400_response(f"more than {HEAD_MAX} bytes of headers")

    def on_headers_complete(self) -> None:
        self._unread = 0
        super().on_headers_complete()
        if len(self.pipeline) > WAITING_MAX:
            raise ValueError(f"more than {WAITING_MAX} requests before an answer")

    def on_body(self, body: bytes) -> None:
        self._unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unread = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """A problem, as all errors are; nothing in the midst of another answer."""
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            problem = Problem(400, "malformed_request", msg, what="request", remedy="send HTTP/1.1")
            text = json.dumps(problem.to_json()).encode()
            head = f"content-type: application/problem+json\r\ncontent-length: {len(text)}\r\nconnection: close\r\n\r\n"
            self.transport.write(STATUS_LINE[400] + head.encode() + text)
        self.transport.close()
