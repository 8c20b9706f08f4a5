"""Keeps the fabric manager informed: one signalling connection that speaks for every switch (docs/signalling.md)."""

from __future__ import annotations

import logging
import queue
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from datacast.core import framing

log = logging.getLogger("datacast.controller.reporter")

RETRY_S = 0.5
HEARTBEAT_S = 1.0


class Reporter:
    """A thread that sends what it is given, and everything again after the connection was lost.

    `registrations`: what to tell a fabric manager that knows nothing. `refused` gets its error messages.
    """

    def __init__(self, address: str, registrations: Callable[[], list[dict[str, Any]]],
                 refused: Callable[[str, str], None]) -> None:
        host, _, port = address.rpartition(":")
        self._address = (host.strip("[]"), int(port))
        self._registrations = registrations
        self._refused = refused
        self._queue: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reporter", daemon=True)
        self.connected = False

    def start(self) -> None:
        self._thread.start()

    def send(self, message: dict[str, Any]) -> None:
        """Queue a message; what is queued while there is no connection is covered by the registrations then."""
        self._queue.put(message)

    def stop(self) -> None:
        self._stopped.set()
        self._queue.put(None)
        self._thread.join(2.0)

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                with socket.create_connection(self._address, timeout=5.0) as sock:
                    self._talk(sock)
            except (OSError, framing.FramingError) as error:
                if self.connected:
                    log.warning("connection to the fabric manager at %s:%s lost: %s", *self._address, error)
                else:
                    log.debug("no fabric manager at %s:%s: %s", *self._address, error)
            self.connected = False
            self._stopped.wait(RETRY_S)

    def _talk(self, sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while not self._queue.empty():
            self._queue.get_nowait()
        ended = threading.Event()
        reader = threading.Thread(target=self._read, args=(sock, ended), name="reporter answers", daemon=True)
        reader.start()
        self.connected = True
        for message in self._registrations():
            sock.sendall(framing.encode(message))
        beat = time.monotonic() + HEARTBEAT_S
        while not self._stopped.is_set() and not ended.is_set():
            try:
                message = self._queue.get(timeout=max(0.0, min(beat - time.monotonic(), 0.25)))
            except queue.Empty:
                message = None
            if message is not None:
                sock.sendall(framing.encode(message))
            if time.monotonic() >= beat:
                sock.sendall(framing.encode({"type": "heartbeat"}))
                beat = time.monotonic() + HEARTBEAT_S
        if not ended.is_set():
            sock.shutdown(socket.SHUT_RDWR)
        elif not self._stopped.is_set():
            raise OSError("closed by the fabric manager")

    def _read(self, sock: socket.socket, ended: threading.Event) -> None:
        decoder = framing.Decoder()
        try:
            sock.settimeout(None)
            while data := sock.recv(1 << 16):
                for message in decoder.feed(data):
                    if message["type"] == "error":
                        self._refused(str(message.get("node") or ""), str(message.get("error")))
        except (OSError, framing.FramingError):
            pass
        ended.set()
