"""HTTP for who has no event loop and waits for each answer, as the command does: Python's own client, which is there at
once. A connection for each question."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

if TYPE_CHECKING:
    from .asking import Params

FAILED = (http.client.HTTPException, OSError)
"""Whatever keeps an answer away."""
WHOLE_S = 60.0
"""For an answer, from its head on; a stream has no end."""


class NotConnectedError(OSError):
    """Nothing was asked."""


def reason(error: BaseException) -> str:
    """Why there was no answer, in words."""
    if type(error) is http.client.BadStatusLine:  # and not that nothing came
        return f"{error.args[0].strip()!r} is not HTTP"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


class _Unix(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("unix", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


@contextmanager
def _within(seconds: float, sock: socket.socket, what: str) -> Iterator[None]:
    """What is read meanwhile: where it trickles it is never silent, and is given up all the same. Raises TimeoutError,
    also where that passes for a whole one, as a head does that ends anywhere."""
    late = threading.Event()

    def give_up() -> None:
        late.set()
        with suppress(OSError):
            socket.socket.shutdown(sock, socket.SHUT_RDWR)  # past TLS, which the other thread is in

    limit = threading.Timer(seconds, give_up)
    limit.daemon = True
    limit.start()
    try:
        yield
    except FAILED:
        if not late.is_set():
            raise
    finally:
        limit.cancel()
    if late.is_set():
        raise TimeoutError(f"{what} within {seconds:g} s")


class BlockingClient:
    """Asks one service, at `http(s)://host:port` or `unix:/path`."""

    def __init__(
        self, url: str, timeout: float, context: ssl.SSLContext | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        """`context`: for https. `headers`: with every question. Raises ValueError for what is no address."""
        self._url, self._timeout, self._context, self._headers = urlsplit(url), timeout, context, dict(headers or {})
        if self._url.scheme not in ("http", "https", "unix") or not (self._url.path or self._url.hostname):
            raise ValueError(url)
        self._port = self._url.port
        if self._url.hostname:
            self._url.hostname.encode("idna")  # as whoever connects does, where it is too late to say so
        self._open: set[http.client.HTTPConnection] = set()

    def close(self) -> None:
        """Ends streams that nobody reads any more."""
        for connection in self._open:
            connection.close()

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        host = self._url.hostname or ""
        if self._url.scheme == "unix":
            return _Unix(self._url.path, timeout)
        if self._url.scheme == "https":
            return http.client.HTTPSConnection(host, self._port, timeout=timeout, context=self._context)
        return http.client.HTTPConnection(host, self._port, timeout=timeout)

    @contextmanager
    def ask(
        self,
        method: str,
        path: str,
        content: bytes | None = None,
        params: Params | None = None,
        headers: Mapping[str, str] | None = None,
        silence: float | None = None,
    ) -> Iterator[http.client.HTTPResponse]:
        """The answer, to be read meanwhile. `silence`: of a stream. Raises FAILED; so does reading."""
        connection = self._connection(self._timeout)
        base = "" if self._url.scheme == "unix" else self._url.path.rstrip("/")
        where = base + path + ("?" + urlencode(params, doseq=True, errors="replace") if params else "")
        self._open.add(connection)
        try:
            try:
                connection.connect()
            except OSError as error:
                raise NotConnectedError(*error.args) from error
            if silence is not None:
                connection.sock.settimeout(silence)
            connection.request(method, where, content, {**self._headers, **(headers or {})})
            sock = connection.sock
            with _within(self._timeout if silence is None else silence, sock, "no answer"):
                answer = connection.getresponse()
            with answer, nullcontext() if silence is not None else _within(WHOLE_S, sock, "no whole answer"):
                yield answer
        finally:
            connection.close()
            self._open.discard(connection)
