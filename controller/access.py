"""Who may ask for what over REST, and how much: in front of every route, so that none can be forgotten."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from datacast.services.problems import Problem
from datacast.services.service import problem_response
from datacast.services.tls import is_local
from datacast.services.tokens import TokenFile

from .audit import Audit
from .console import cookie_of
from .sites import rest as sites_rest

if TYPE_CHECKING:
    from .sites.coordinator import Coordinator

BODY_MAX = 2 << 20
"""A group of 8,192 receivers with long names takes 1.1 MB."""
OPEN_BODY_MAX = 8 << 10
"""Of who shows no token: a sign-in is less, and there may be many."""
BODY_S = 15.0
OPEN = ("/healthz", "/openapi.json", "/docs")
"""For everybody, but only to be read."""
SESSION = "/console/session"
"""For everybody who comes from the console's own page: it takes the token in the body."""

BUCKETS_MAX = 4096
SITES_TIMES = 5
"""A site asks for ranges and tells its progress: so many times what one token may ask."""
WHO, TOKEN, HOLDS = "datacast.who", "datacast.token", "datacast.holds"
"""In a request's scope: the name of the token it came with, its id, and whether it is good yet, for answers without
end."""

Receive = Callable[[], Any]
Send = Callable[[Any], Any]


ADMINS = ("/sets/", "/hosts/", "/topology/", "/caps/", "/switches/")
"""What only an administrator changes."""


def needed(method: str, path: str) -> str | None:
    """The role a request takes; None: no token."""
    if method in ("GET", "HEAD", "OPTIONS"):
        page = path == "/" or (path.startswith("/console/") and path != "/console/layout")
        return None if page or path in OPEN else "viewer"
    if path == "/plan":
        return "viewer"
    return "admin" if path == "/sets" or path.startswith(ADMINS) else "operator"


class Bucket:
    """`rate` requests a second, `burst` at once; 0: as many as come."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate, self.burst, self._clock = rate, burst, clock
        self._full, self._at = burst, clock()

    def take(self) -> float:
        """0 when it may go on, else seconds to wait."""
        if self.rate <= 0:
            return 0.0
        now = self._clock()
        self._full = min(self.burst, self._full + (now - self._at) * self.rate)
        self._at = now
        if self._full < 1:
            return (1 - self._full) / self.rate
        self._full -= 1
        return 0.0


class Access:
    """ASGI middleware. `tokens` None: everybody who reaches the address may do everything, but no web page. `rate`:
    requests a second of one token, with as many as come in five seconds at once."""

    def __init__(
        self,
        app: Any,
        tokens: TokenFile | None = None,
        rate: float = 0,
        audit: Audit | None = None,
        sites: Coordinator | None = None,
    ) -> None:
        """`sites`: of a controller that knows others: they, and this site's hosts, show certificates for /site/…"""
        self.app, self.tokens, self.rate, self.audit, self.sites = app, tokens, rate, audit, sites
        self._buckets: dict[str, Bucket] = {}

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        told = scope["path"].startswith(sites_rest.PREFIX)  # between controllers, all the time
        if self.audit is None or told or scope["method"] in ("GET", "HEAD", "OPTIONS"):
            return await self._answer(scope, receive, send)
        return await self._audited(self.audit, scope, receive, send)

    async def _answer(self, scope: Any, receive: Receive, send: Send) -> None:
        try:
            headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in scope["headers"]}
            who = self._authorize(scope, headers)
            self._hurry(who)
            body = await _whole_body(headers, receive, OPEN_BODY_MAX if who.startswith("open ") else BODY_MAX)
        except Problem as problem:
            response = problem_response(problem)
            if problem.status == 401:
                response.headers["www-authenticate"] = 'Bearer realm="datacast"'
            if problem.status == 429:
                response.headers["retry-after"] = "1"
            if problem.status in (408, 413):
                response.headers["connection"] = "close"
            return await response(scope, receive, send)
        if scope["method"] == "HEAD":  # as GET: the server leaves the body out
            scope = {**scope, "method": "GET"}
        return await self.app(scope, body, send)

    async def _audited(self, audit: Audit, scope: Any, receive: Receive, send: Send) -> None:
        """Writes the line when the answer begins; or there is none, though what was asked for may be done. Who shows no
        good token and asks too often leaves no more lines: they have no bound."""
        written = False

        def write(status: int) -> None:
            nonlocal written
            written = True
            who, token = scope.get(WHO, ""), scope.get(TOKEN, "")
            if status == 429 and not who and self.tokens is not None:
                return
            audit.write(who, token, _client(scope), scope["method"], scope["path"], status)

        async def told(message: Any) -> None:
            if message["type"] == "http.response.start":
                write(message["status"])
            await send(message)

        try:
            await self._answer(scope, receive, told)
        finally:
            if not written:
                write(500)

    def _authorize(self, scope: Any, headers: dict[str, str]) -> str:
        """Returns whose request it is. Raises Problem."""
        method, path = scope["method"], scope["path"]
        if path.startswith(sites_rest.PREFIX):
            try:
                return sites_rest.admit(self.sites, scope)
            except Problem:
                self._hurry(f"refused {_client(scope)}")
                raise
        if self.tokens is None:
            _check_local(headers, scope.get("server"))
            return ""
        role = needed(method, path)
        kind, _, secret = headers.get("authorization", "").partition(" ")
        if path == SESSION:
            _check_origin(headers)
            return f"open {_client(scope)}"
        if role is None and not secret:
            return f"open {_client(scope)}"
        if not secret and (cookie := cookie_of(headers)):
            if method not in ("GET", "HEAD", "OPTIONS"):
                _check_origin(headers)
            kind, secret = "bearer", cookie
        tokens, secret = self.tokens, secret.strip()
        token = tokens.find(secret) if kind.lower() == "bearer" else None
        if token is None:
            given = "this token is not known, revoked or expired" if secret else "no token was given"
            self._hurry(f"refused {_client(scope)}")
            raise Problem(
                401,
                "unauthorized",
                f"{method} {path}: {given}",
                what=path,
                remedy="send `Authorization: Bearer TOKEN`; `datacast` takes --token-file or $DATACAST_TOKEN, "
                "`datacast token create` makes one",
            )
        scope[WHO], scope[TOKEN] = token.name or token.id, token.id
        scope[HOLDS] = lambda: tokens.find(secret) is not None
        if role is not None and not token.may(role):
            raise Problem(
                403,
                "forbidden",
                f"{method} {path} takes the role {role}; token {token.id} ({token.name}) has the role {token.role}",
                what=path,
                remedy=f"use a token of role {role}",
            )
        return token.id

    def _hurry(self, who: str) -> None:
        """Whoever is refused, or asks for what is open to all, takes nothing from anybody's rate. Raises Problem."""
        rate = self.rate * (SITES_TIMES if who.startswith(("site ", "host ")) else 1)
        bucket = self._buckets.pop(who, None) or Bucket(rate, max(1.0, 5 * rate))
        self._buckets[who] = bucket
        if len(self._buckets) > BUCKETS_MAX:  # tokens and addresses come and go: the one that asked longest ago
            del self._buckets[next(iter(self._buckets))]
        if bucket.take() > 0:
            raise Problem(
                429, "too_many_requests", f"more than {rate:g} requests a second", remedy="wait, then ask again"
            )


def check_token(scope: Any) -> None:
    """Raises Problem where the token that a request came with was revoked since, or has expired."""
    if HOLDS in scope and not scope[HOLDS]():
        raise Problem(401, "unauthorized", "this token is revoked or expired", what=scope["path"])


def _client(scope: Any) -> str:
    """The address a request comes from."""
    client = scope.get("client")
    return str(client[0]) if client else "a Unix socket"


def _check_local(headers: dict[str, str], server: Any) -> None:
    """Without tokens a page in some browser on this machine must not give orders. Raises Problem."""
    if server is None or server[1] is None:  # a Unix socket
        return
    for name in ("host", "origin"):
        value = headers.get(name)
        where = value if name == "host" or value is None else _netloc(value)
        if value is not None and not is_local(where or ""):
            raise Problem(
                403,
                "forbidden",
                f"a request for {name} {value!r} without tokens",
                what=value,
                remedy="ask for 127.0.0.1 or localhost, or start the controller with --tokens",
            )


def _netloc(url: str) -> str:
    """Empty: it is none."""
    try:
        return urlsplit(url).netloc
    except ValueError:
        return ""


def _check_origin(headers: dict[str, str]) -> None:
    """A browser sends the cookie by itself, so what changes something must come from the console's own pages. Raises
    Problem."""
    origin = headers.get("origin", "")
    if _netloc(origin) != headers.get("host"):
        raise Problem(
            403,
            "forbidden",
            f"a request by cookie from {origin or 'nowhere'!r}",
            what="origin",
            remedy="use the console of this controller, or send the token as `Authorization: Bearer`",
        )


async def _whole_body(headers: dict[str, str], receive: Receive, most: int) -> Receive:
    """The body, read whole and bounded before anybody looks into it. Raises Problem."""
    too_large = Problem(413, "too_large", f"a body of more than {most} bytes", what="body")
    if headers.get("content-length", "0").isdigit() and int(headers.get("content-length", "0")) > most:
        raise too_large
    content = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            while True:
                message = await receive()
                if message["type"] != "http.request":  # what is there of it is not what was asked for
                    raise Problem(400, "broken_off", "the connection ended before the request was whole", what="body")
                content += message.get("body", b"")
                if len(content) > most:
                    raise too_large
                if not message.get("more_body"):
                    break
    except TimeoutError:
        raise Problem(408, "timeout", f"the body did not come within {BODY_S:g} s", what="body") from None
    first = True

    async def again() -> Any:
        nonlocal first
        if first:
            first = False
            return {"type": "http.request", "body": bytes(content), "more_body": False}
        return await receive()

    return again
