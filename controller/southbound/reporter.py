"""Keeps the fabric manager informed: one signalling connection that speaks for every switch (docs/signalling.md)."""

from __future__ import annotations

import contextlib
import logging
import queue
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable

from datacast.controller.southbound.config import Tls
from datacast.controller.southbound.errors import SwitchError
from datacast.controller.southbound.told import Heartbeat, Registration, ToFabricManager
from datacast.services import framing
from datacast.services.tls import Identity, TlsError, explain

log = logging.getLogger("datacast.controller.reporter")

RETRY_S = 0.5
HEARTBEAT_S = 1.0
HANDSHAKE_S = 5.0


def client_context(tls: Tls) -> ssl.SSLContext:
    """Speaks to a fabric manager only. Raises SwitchError that names the file at fault."""
    try:
        return Identity(tls.ca, tls.cert, tls.key, "controller").client_for("fabric-manager")
    except TlsError as error:
        raise SwitchError("tls", error.message, what=error.what) from error


class Reporter:
    """A thread that sends what it is given, and everything again after the connection was lost.

    `registrations`: what to tell a fabric manager that knows nothing. `refused` gets its error messages. Raises
    SwitchError for certificates that cannot be used.
    """

    def __init__(self, address: str, registrations: Callable[[], list[Registration]],
                 refused: Callable[[str, str], None], tls: Tls | None = None) -> None:
        host, _, port = address.rpartition(":")
        self._address = (host.strip("[]"), int(port))
        self._registrations = registrations
        self._refused = refused
        self._context = client_context(tls) if tls else None
        self._queue: queue.SimpleQueue[ToFabricManager] = queue.SimpleQueue()
        self._wake, self._waker = socket.socketpair()
        self._waker.setblocking(False)  # one byte that waits there is enough, and who reports waits for nobody
        self._talks = False
        self._stopped = False
        self._last = ""
        self._thread = threading.Thread(target=self._run, name="reporter", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def send(self, message: ToFabricManager) -> None:
        """Queue a message. Nothing is kept while there is no connection: the registrations say it all then."""
        if self._talks:
            self._queue.put(message)
            self._poke()

    def _poke(self) -> None:
        with contextlib.suppress(OSError):
            self._waker.send(b"x")

    def stop(self) -> None:
        self._stopped = True
        self._poke()
        self._thread.join(2.0)
        self._wake.close()
        self._waker.close()

    def _run(self) -> None:
        while not self._stopped:
            try:
                with self._connect() as sock:
                    self._last, self._talks = "", True
                    self._talk(sock)
            except (OSError, framing.FramingError) as error:
                text = explain(error)
                if text != self._last:
                    log.warning("no connection to the fabric manager at %s:%s: %s", *self._address, text)
                self._last = text
            self._talks = False
            if not self._stopped:
                time.sleep(RETRY_S)

    def _connect(self) -> socket.socket:
        sock = socket.create_connection(self._address, timeout=HANDSHAKE_S)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock if self._context is None else self._context.wrap_socket(sock)
        except BaseException:
            sock.close()
            raise

    def _talk(self, sock: socket.socket) -> None:
        while not self._queue.empty():
            self._queue.get()
        for message in self._registrations():
            sock.sendall(framing.encode(message))
        decoder = framing.Decoder()
        poll = select.poll()  # select() takes no descriptor beyond 1,023
        for one in (sock, self._wake):
            poll.register(one, select.POLLIN)
        beat = time.monotonic() + HEARTBEAT_S
        while not self._stopped:
            ready = {fd for fd, _ in poll.poll(max(0.0, beat - time.monotonic()) * 1000)}
            if self._wake.fileno() in ready:
                self._wake.recv(4096)
            while not self._queue.empty():
                sock.sendall(framing.encode(self._queue.get()))
            if sock.fileno() in ready:
                self._hear(sock, decoder)
            if time.monotonic() >= beat:
                sock.sendall(framing.encode(Heartbeat()))
                beat = time.monotonic() + HEARTBEAT_S

    def _hear(self, sock: socket.socket, decoder: framing.Decoder) -> None:
        more = True
        while more:
            data = sock.recv(1 << 16)
            if not data:
                raise OSError("closed by the fabric manager")
            for message in decoder.feed(data):
                if message["type"] == "error":
                    self._refused(str(message.get("node") or ""), str(message.get("error")))
            more = isinstance(sock, ssl.SSLSocket) and sock.pending() > 0
