"""HTTP from one service to another: aiohttp's client, set up as all of them use it. Nothing is asked again here: that
is for who asks to decide."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any
from urllib.parse import quote, urlencode

import aiohttp
from aiohttp.client_proto import ResponseHandler
from yarl import URL

KEPT_S = 5.0
"""A connection that was not used for longer is not used again."""
CONNECT_S = 5.0
"""For a connection, at most: a machine that is gone refuses none, and there may be another address to ask."""
CONNECTIONS_MAX = 1000
"""At once, of one client; more requests wait their turn."""
_PATH = "/%:@!$&'()*+,;=~"

FAILED = (aiohttp.ClientError, OSError)
"""Whatever keeps an answer away."""
NOT_CONNECTED = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
"""Of these: nothing was asked. After any other it may have been carried out."""

Params = Mapping[str, str | int | float | list[str]]


class _Connection(ResponseHandler):
    """An answer's head comes within the time that silence may last: one that trickles would be waited for without end.

    It ends at once. As a TLS connection usually ends, whoever gives up an answer reads on, and throws away, until the
    other side has sent all that it had begun to send: after a cut of a link each such answer comes once for nothing."""

    _in_head = True

    def set_response_params(self, **more: Any) -> None:
        self._in_head = True  # of the next answer
        super().set_response_params(**more)

    def feed_data(self, data: Any, size: int = 0) -> None:
        if data[0].code >= 200:  # 1xx: another head follows
            self._in_head = False
            self._reschedule_timeout()
        super().feed_data(data, size)

    def _reschedule_timeout(self) -> None:
        if not self._in_head or self._read_timeout_handle is None:
            super()._reschedule_timeout()

    def close(self) -> None:
        self.abort()


def session(
    context: ssl.SSLContext | None = None,
    *,
    unix: str = "",
    connections: int = CONNECTIONS_MAX,
    kept_s: float = KEPT_S,
) -> aiohttp.ClientSession:
    """`context`: for https. No proxy of the environment is asked, no cookie kept, no redirect followed (`ask`). A
    running loop is needed."""
    connector: aiohttp.BaseConnector
    if unix:
        connector = aiohttp.UnixConnector(unix, limit=connections, keepalive_timeout=kept_s)
    else:
        connector = aiohttp.TCPConnector(
            ssl=True if context is None else context, limit=connections, keepalive_timeout=kept_s
        )
    # aiohttp has no public way to choose it.
    connector._factory = partial(_Connection, loop=connector._loop)  # type: ignore[assignment]
    made = aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        skip_auto_headers=("Accept-Encoding", "User-Agent"),
    )
    # It would send PUT and DELETE a second time where a kept connection ends, though they may have been carried out.
    made._retry_connection = False
    return made


def patience(connect_s: float | None, read_s: float | None) -> aiohttp.ClientTimeout:
    """`read_s`: of silence; None: as long as it takes."""
    return aiohttp.ClientTimeout(total=None, sock_connect=connect_s, sock_read=read_s)


async def ask(
    http: aiohttp.ClientSession,
    method: str,
    url: str,
    timeout: aiohttp.ClientTimeout,
    content: bytes | None = None,
    params: Params | None = None,
    headers: Mapping[str, str] | None = None,
) -> aiohttp.ClientResponse:
    """The answer's head; it is to be closed, or read to its end. Raises FAILED, and ValueError for a header that is
    none."""
    where = quote(url, safe=_PATH) + ("?" + urlencode(params, doseq=True) if params else "")
    return await http.request(
        method, URL(where, encoded=True), data=content, headers=headers, timeout=timeout, allow_redirects=False
    )


async def lines(answer: aiohttp.ClientResponse) -> AsyncIterator[str]:
    """Those of a stream that are not empty, of any length (aiohttp's own reading of lines has a limit)."""
    begun: list[bytes] = []
    async for part in answer.content.iter_any():
        first, *more = part.split(b"\n")
        begun.append(first)
        for after in more:
            line, begun = b"".join(begun), [after]
            if line:
                yield line.decode()
    if line := b"".join(begun):
        yield line.decode()


def cause_of(error: BaseException) -> BaseException:
    """Why nobody was reached, without aiohttp's own words around it."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return error.certificate_error
    return error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error


class HttpClient:
    """Asks one service. Made without a loop, as its session cannot be."""

    def __init__(self, url: str, timeout: float, context: ssl.SSLContext | None = None) -> None:
        """`http(s)://host:port` or `unix:/path`. `timeout`: between what comes; a connection has CONNECT_S at most."""
        self._unix = url.removeprefix("unix:") if url.startswith("unix:") else ""
        self._base = "http://unix" if self._unix else url.rstrip("/")
        self._timeout, self._context = timeout, context
        self._session: aiohttp.ClientSession | None = None

    async def ask(
        self,
        method: str,
        path: str,
        content: bytes | None = None,
        params: Params | None = None,
        headers: Mapping[str, str] | None = None,
        silence: float | None = None,
    ) -> aiohttp.ClientResponse:
        """As the function. `silence`: another one than `timeout`."""
        if self._session is None:
            self._session = session(self._context, unix=self._unix)
        timeout = patience(min(self._timeout, CONNECT_S), self._timeout if silence is None else silence)
        return await ask(self._session, method, self._base + path, timeout, content, params, headers)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
