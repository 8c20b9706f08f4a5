"""Accepting connections: a limit, handshakes under a deadline, and a line in the log that says why one failed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import socket
import ssl
import time
from collections.abc import Callable

from .tls import HANDSHAKE_S, explain

RETRY_S = 0.1
"""After an accept that failed: most likely there are no file descriptors left."""
BROKEN_OFF = (ConnectionError, EOFError, ssl.SSLEOFError, ssl.SSLZeroReturnError)
BROKEN_OFF_WORDS = "it broke off the handshake: if it refuses our certificate, its own log says why"
AGAIN_S, FAILURES_MAX = 60.0, 1024
"""Handshakes that fail for the same reason are told once in so long, of so many machines."""
QUIET_S = 1.0
"""At most one line in so long about connections turned away."""


class Acceptor:
    """Takes what arrives at `sock` from `start()` on. `factory` makes a connection's protocol; `count` says how many
    connections live, at most `limit` with those that still shake hands."""

    def __init__(
        self,
        sock: socket.socket,
        factory: Callable[[], asyncio.BaseProtocol],
        count: Callable[[], int],
        *,
        limit: int,
        context: ssl.SSLContext | None,
        log: logging.Logger,
    ) -> None:
        sock.setblocking(False)
        self._sock, self._factory, self._count = sock, factory, count
        self._limit, self._context, self._log = limit, context, log
        self._shaking: set[asyncio.Task[None]] = set()
        self._task: asyncio.Task[None] | None = None
        self._said = 0.0
        self._failures: dict[tuple[str, str], tuple[float, int]] = {}
        """By machine and reason: when it was told, and how often it came since."""
        self.refused = 0
        """Connections turned away or whose handshake failed."""

    def start(self) -> None:
        self._task = asyncio.create_task(self._accept())

    async def stop(self) -> None:
        """Stops listening; connections live on."""
        tasks = [task for task in (self._task, *self._shaking) if task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._sock.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, peer = await loop.sock_accept(self._sock)
            except OSError as error:
                self._turn_away(f"cannot accept a connection: {error.strerror}")
                await asyncio.sleep(RETRY_S)
                continue
            if self._count() + len(self._shaking) >= self._limit:
                connection.close()
                self._turn_away(f"more than {self._limit} connections: one from {_where(peer)} is turned away")
                continue
            task = asyncio.create_task(self._shake_hands(connection, _where(peer)))
            self._shaking.add(task)
            task.add_done_callback(self._shaking.discard)

    def _turn_away(self, text: str) -> None:
        self.refused += 1
        if time.monotonic() - self._said > QUIET_S:
            self._said = time.monotonic()
            self._log.warning("%s", text)

    async def _shake_hands(self, connection: socket.socket, peer: str) -> None:
        deadline = HANDSHAKE_S if self._context else None
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._factory, connection, ssl=self._context, ssl_handshake_timeout=deadline
            )
        except (OSError, EOFError) as error:
            self.refused += 1
            # Who refuses our certificate may end so: asyncio throws away the alert that would tell why.
            broken = isinstance(error, BROKEN_OFF) and not isinstance(error, ConnectionAbortedError)
            self._failed(peer, BROKEN_OFF_WORDS if broken else explain(error))
            with contextlib.suppress(OSError):
                connection.close()

    def _failed(self, peer: str, why: str) -> None:
        """A line, and no more of them for a while for the same machine and reason: most are tried again at once."""
        key, now = (peer.rpartition(":")[0], why), time.monotonic()
        said, more = self._failures.get(key, (-math.inf, 0))
        if now - said < AGAIN_S:
            self._failures[key] = (said, more + 1)
            return
        more_of_it = f" ({more} times more since it was last told)" if more else ""
        self._log.warning("TLS with %s: %s%s", peer, why, more_of_it)
        if len(self._failures) >= FAILURES_MAX:
            self._failures.clear()
        self._failures[key] = (now, 0)


def _where(peer: object) -> str:
    return f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else "a Unix socket"
