"""Keeps the fabric manager that leads informed: one signalling connection that speaks for every switch
(docs/signalling.md)."""

from __future__ import annotations

import contextlib
import logging
import queue
import select
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable

from datacast.controller.southbound.config import Tls
from datacast.controller.southbound.errors import SwitchError
from datacast.controller.southbound.told import Heartbeat, Registration, ToFabricManager
from datacast.services import framing
from datacast.services.address import host_and_port
from datacast.services.tls import Identity, TlsError, explain

log = logging.getLogger("datacast.controller.reporter")

RETRY_S = 0.5
HEARTBEAT_S = 1.0
HANDSHAKE_S = 5.0
AGAIN_MOST_S = 60.0


def client_context(tls: Tls) -> ssl.SSLContext:
    """Speaks to a fabric manager only. Raises SwitchError that names the file at fault."""
    try:
        return Identity(tls.ca, tls.cert, tls.key, "controller").client_for("fabric-manager")
    except TlsError as error:
        raise SwitchError("tls", error.message, what=error.what) from error


class Reporter:
    """A thread that sends what it is given, and everything again after the connection was lost.

    `addresses`: of all fabric managers, divided by commas. `registrations`: what to tell one that knows nothing. A node
    of which it says that something is wrong is registered again with a heartbeat, the next one first and then ever more
    seldom, until it is right: another controller spoke for it, or it is new there. `refused` gets each such message
    once, and "" when all is well again. Raises SwitchError for certificates that cannot be used.
    """

    def __init__(self, addresses: str, registrations: Callable[[], list[Registration]],
                 refused: Callable[[str, str], None], tls: Tls | None = None) -> None:
        self._addresses = deque(map(host_and_port, addresses.split(",")))
        """The one that is asked now first."""
        self._registrations = registrations
        self._refused = refused
        self._context = client_context(tls) if tls else None
        self._queue: queue.SimpleQueue[ToFabricManager] = queue.SimpleQueue()
        self._wake, self._waker = socket.socketpair()
        self._waker.setblocking(False)  # one byte that waits there is enough, and who reports waits for nobody
        self._talks = False
        self._stopped = False
        self._unheard = self._silence = 0
        """Heartbeats since something came; how many say that nobody is there."""
        self._said: dict[tuple[str, int], str] = {}
        """Why there is none, by address, since there was one."""
        self._wrong: dict[str, tuple[str, int]] = {}
        """What is wrong, by node, and how often it was said."""
        self._again: dict[str, float] = {}
        """When a node is to be registered once more."""
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
                    self._talks = True
                    self._talk(sock)
            except (OSError, framing.FramingError) as error:
                text = explain(error)
                if text != self._said.get(asked := self._addresses[0]):
                    log.warning("no connection to the fabric manager at %s:%s: %s", *asked, text)
                self._said[asked] = text
                self._addresses.rotate(-1)
            self._talks = False
            if not self._stopped:
                time.sleep(RETRY_S)

    def _connect(self) -> socket.socket:
        sock = socket.create_connection(self._addresses[0], timeout=HANDSHAKE_S)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock if self._context is None else self._context.wrap_socket(sock)
        except BaseException:
            sock.close()
            raise

    def _talk(self, sock: socket.socket) -> None:
        while not self._queue.empty():
            self._queue.get()
        self._again.clear()
        for message in self._registrations():
            sock.sendall(framing.encode(message))
        decoder = framing.Decoder()
        poll = select.poll()  # select() takes no descriptor beyond 1,023
        for one in (sock, self._wake):
            poll.register(one, select.POLLIN)
        beat = time.monotonic() + HEARTBEAT_S
        self._unheard = self._silence = 0
        while not self._stopped:
            ready = {fd for fd, _ in poll.poll(max(0.0, beat - time.monotonic()) * 1000)}
            if self._wake.fileno() in ready:
                self._wake.recv(4096)
            while not self._queue.empty():
                sock.sendall(framing.encode(self._queue.get()))
            if sock.fileno() in ready:
                self._hear(sock, decoder)
            if time.monotonic() >= beat:
                if self._silence and self._unheard >= self._silence:  # a machine that is gone ends no connection
                    raise OSError("it says nothing any more")
                self._unheard += 1
                due = {node for node, at in self._again.items() if at <= beat}
                for told in self._registrations() if due else ():
                    if told.node in due:
                        sock.sendall(framing.encode(told))
                for node in due:
                    del self._again[node]
                sock.sendall(framing.encode(Heartbeat()))
                beat = time.monotonic() + HEARTBEAT_S

    def _hear(self, sock: socket.socket, decoder: framing.Decoder) -> None:
        more = True
        while more:
            data = sock.recv(1 << 16)
            if not data:
                raise OSError("closed by the fabric manager")
            self._unheard = 0
            for message in decoder.feed(data):
                node = str(message.get("node") or "")
                if message["type"] == "error":
                    self._is_wrong(node, str(message.get("error")))
                elif message["type"] == "registered":
                    if self._wrong.pop(node, None) is not None:
                        self._refused(node, "")
                    self._said.clear()
                    beats = message.get("silence_beats")
                    self._silence = beats if isinstance(beats, int) and beats > 0 else 0
            more = isinstance(sock, ssl.SSLSocket) and sock.pending() > 0

    def _is_wrong(self, node: str, text: str) -> None:
        before, times = self._wrong.get(node, ("", 0))
        if text != before:
            times = 0
            self._refused(node, text)
        self._wrong[node] = text, times + 1
        self._again[node] = time.monotonic() + min(AGAIN_MOST_S, HEARTBEAT_S * (2**min(times, 16) - 1))
