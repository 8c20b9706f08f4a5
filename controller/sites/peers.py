"""Other sites' controllers: who they are, and asking them, over TLS 1.3 with both sides' certificates."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
import ssl
import time
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from pydantic import ValidationError

from datacast.services.asking import FAILED, Params, ask, cause_of, patience, session
from datacast.services.problems import Problem
from datacast.services.sites_file import SiteError
from datacast.services.tls import Identity, TlsError, explain, https_context
from datacast.services.validation import first_error

from .directory import Directory
from .patience import Patience
from .records import Failure, Held, Orders, Progress

log = logging.getLogger("datacast.sites")

CONNECT_S, HEAD_S = 2.0, 4.0
"""A connection that takes longer is given up for another: after a cut that is sooner than TCP's own timers."""
JSON_S = 60.0
"""For an answer, from its head on: one that trickles is never silent."""
ORDERS_WAIT_S, HELD_WAIT_S = 20.0, 1.0
"""The second is often enough that a site which waits for bytes itself is known to be there (patience.py)."""
JSON_MAX = 8 << 20
CONNECTIONS = 24
"""To one site: for bytes, and as many for questions, some of which wait long for their answers."""
OPEN = 8
"""Of those for bytes, before there is an order: a group's first bytes need not wait for TCP's and TLS's round trips."""
AWAY_S, REST_MOST_S = 60.0, 60.0
NO_FAULT = (ssl.SSLWantReadError, ssl.SSLWantWriteError, ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
"""What TLS says of a connection that waits or has ended: not that somebody is another one than was thought."""


@dataclass
class Peer:
    """What is known of a site now."""

    name: str
    url: str | None
    ca: str
    key: str | None = None
    """What its authority is known by (directory.py)."""
    heard: float | None = None
    """When it last asked us, or answered; of this machine's clock that only runs on."""
    asked: float | None = None
    """When it last asked for orders, or does. It may be heard and not ask: where it does not know our URL."""
    problem: str = ""
    shut: str = ""
    """Why no new connection to it could be opened last; those that are open may go on."""
    other: bool = False
    """By its certificate it is another one than was thought."""
    http: aiohttp.ClientSession | None = None
    data: aiohttp.ClientSession | None = None
    """Connections for bytes."""
    opening: asyncio.Task[None] | None = None
    rests: float = 0.0
    """It has asked to be left alone until then (Retry-After)."""
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    """There is something for it to do."""
    patience: Patience = field(default_factory=Patience)

    def hear(self) -> None:
        self.heard, self.problem, self.other = time.monotonic(), "", False
        self.patience.heard()

    def asks(self) -> None:
        self.hear()
        self.asked = self.heard

    @property
    def there(self) -> bool:
        return self.heard is not None and time.monotonic() - self.heard < AWAY_S

    @property
    def takes_orders(self) -> bool:
        return self.asked is not None and time.monotonic() - self.asked < AWAY_S


class Peers:
    """`directory` says who they are. Server and client contexts trust each peer's authority for that peer alone."""

    def __init__(self, directory: Directory, identity: Identity) -> None:
        self.directory, self._identity = directory, identity
        self._context: ssl.SSLContext | None = None
        self.all: dict[str, Peer] = {}
        self.follow()

    def server(self, cert: str, key: str) -> ssl.SSLContext:
        """For the REST port: who has a certificate of a known authority may show it, nobody must. Raises TlsError."""
        context = https_context(cert, key)
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(self._identity.files[0])
        self._context = context
        self._trust()
        return context

    def _trust(self) -> None:
        for site in self.directory.sites.sites.values():
            if self._context is not None:
                self._context.load_verify_locations(site.ca)

    def follow(self) -> None:
        """What the directory says now. A site that was taken out is refused by `whose` from now on."""
        known = self.directory.sites.sites
        for name in [name for name in self.all if name not in known or self._changed(name)]:
            peer = self.all.pop(name)
            for one in filter(None, (peer.http, peer.data)):
                asyncio.get_running_loop().create_task(one.close())
        for name, site in known.items():
            if name not in self.all:
                self.all[name] = Peer(name, site.url, site.ca, self.directory.key(name))
        self._trust()

    def _changed(self, name: str) -> bool:
        peer, site = self.all[name], self.directory.sites.sites[name]
        return (peer.url, peer.ca, peer.key) != (site.url, site.ca, self.directory.key(name))

    def get(self, name: str) -> Peer:
        """Raises SiteError."""
        if name not in self.all:
            raise SiteError(
                f"no site {name} is known here", name, "unknown_site", "`datacast sites add` makes it known"
            )
        return self.all[name]

    # ---- asking ----
    def _http(self, peer: Peer) -> aiohttp.ClientSession:
        """For questions."""
        if peer.http is None:
            peer.http = self._connections(peer)
        return peer.http

    def _data(self, peer: Peer) -> aiohttp.ClientSession:
        if peer.data is None:
            peer.data = self._connections(peer)
        return peer.data

    def _connections(self, peer: Peer) -> aiohttp.ClientSession:
        if peer.url is None:
            raise SiteError(f"site {peer.name} has no URL here: it comes to us", peer.name, "no_url")
        try:
            verify = self._identity.client_for("controller", peer.ca)
        except TlsError as error:
            raise SiteError(error.message, error.what, "certificate") from error
        return session(verify, connections=CONNECTIONS, kept_s=60.0)

    def _failed(self, peer: Peer, error: BaseException) -> SiteError:
        text, wrong = self._why(peer, error)
        if peer.problem != text:
            log.warning("%s", text)
        peer.problem, peer.other = text, wrong
        return SiteError(text, peer.name, "certificate" if wrong else "site_away")

    def _why(self, peer: Peer, error: BaseException) -> tuple[str, bool]:
        """And whether it is its certificate."""
        error = cause_of(error)
        cause: BaseException | None = error
        while cause is not None and (not isinstance(cause, ssl.SSLError) or isinstance(cause, NO_FAULT)):
            cause = cause.__cause__ or cause.__context__
        why = explain(cause) if cause is not None else (str(error) or "it does not answer")
        if not isinstance(error, ConnectionRefusedError):
            why = self._identity.ended or why
        return f"site {peer.name} at {peer.url}: {why}", cause is not None

    async def ask(
        self, name: str, method: str, path: str, body: Any = None, *, wait: float = 0.0, params: Params | None = None
    ) -> Any:
        """JSON, bounded. Raises SiteError; Problem when the other site refuses."""
        peer = self.get(name)
        http = self._http(peer)
        content = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"} if content is not None else {}
        data = bytearray()
        try:
            answer = await ask(
                http, method, f"{peer.url}{path}", patience(CONNECT_S, HEAD_S + wait), content, params, headers
            )
            try:
                async with asyncio.timeout(JSON_S):
                    async for chunk in answer.content.iter_any():
                        data += chunk
                        if len(data) > JSON_MAX:
                            raise SiteError(f"site {name} answers {method} {path} with too much", name, "bad_answer")
            finally:
                answer.close()
        except FAILED as error:
            raise self._failed(peer, error) from error
        peer.hear()
        try:
            told = json.loads(bytes(data)) if data else None
        except (ValueError, RecursionError) as error:
            raise SiteError(f"site {name} answers {method} {path} with no JSON", name, "bad_answer") from error
        if answer.status >= 400:
            raise Problem.from_json(answer.status, told, f"site {name}")
        return told

    async def orders(self, name: str) -> Orders:
        """Waits for some; meanwhile connections for bytes are opened, or kept open, unless its certificate is wrong.
        Raises as `ask`."""
        peer = self.get(name)
        if not peer.other and (peer.opening is None or peer.opening.done()):
            peer.opening = asyncio.create_task(self._open(peer))
        told = await self.ask(name, "GET", "/site/orders", wait=ORDERS_WAIT_S, params={"wait": ORDERS_WAIT_S})
        try:
            return Orders.model_validate(told)
        except ValidationError as error:
            text = f"site {name} orders what cannot be read: {first_error(error)[1]}"
            raise SiteError(text, name, "bad_answer") from error

    async def _open(self, peer: Peer) -> None:
        """Whatever it answers, and whether it does: the question itself is what fails where something is wrong. That
        may have an old connection, so one of these is always new."""

        async def one(data: aiohttp.ClientSession, headers: Mapping[str, str] | None = None) -> str:
            try:
                answer = await ask(data, "GET", f"{peer.url}/site/here", patience(CONNECT_S, HEAD_S), headers=headers)
                await answer.read()
            except FAILED as error:
                return self._why(peer, error)[0]
            except RuntimeError:  # it was closed
                pass
            return ""

        with contextlib.suppress(SiteError):
            if peer.data is not None:
                await one(peer.data, {"connection": "close"})
            shut = await asyncio.gather(*(one(self._data(peer)) for _ in range(OPEN)))
            peer.shut = next(filter(None, shut), "")

    async def tell(self, name: str, group: str, progress: Progress) -> tuple[bool, Failure | None]:
        """How a part is doing; whether it is to end, and why where it has failed. Raises as `ask`."""
        told = await self.ask(name, "POST", f"/site/groups/{group}/progress", progress.model_dump(mode="json"))
        try:
            why = Failure.model_validate(told["why"]) if told["why"] else None
        except (ValidationError, LookupError, TypeError):
            why = None
        return isinstance(told, dict) and told.get("cancel") is True, why

    async def held(self, name: str, group: str, version: int) -> Held:
        """What it has of an object; waits until that is another version. Raises as `ask`."""
        params = {"version": version, "wait": HELD_WAIT_S}
        told = await self.ask(name, "GET", f"/site/groups/{group}/held", wait=HELD_WAIT_S, params=params)
        try:
            return Held.model_validate(told)
        except ValidationError as error:
            text = f"site {name} tells what cannot be read: {first_error(error)[1]}"
            raise SiteError(text, name, "bad_answer") from error

    async def stream(self, name: str, group: str, first: int, last: int, etag: str) -> AsyncGenerator[bytes, None]:
        """Bytes of an object, as they come. Raises SiteError: `not_yet` (it has not got them either), `changed`,
        `site_away` and others; what came before that was right."""
        peer = self.get(name)
        if peer.rests > time.monotonic():
            raise SiteError(f"site {name} has asked to be left alone for a while", name, "not_yet")
        headers = {"range": f"bytes={first}-{last}", "if-match": etag}
        url, trust, got = f"{peer.url}/site/objects/{group}", peer.patience, 0
        try:
            async with contextlib.AsyncExitStack() as stack:
                asking = ask(self._data(peer), "GET", url, patience(CONNECT_S, None), headers=headers)
                answer = await trust.of(asking)
                stack.callback(answer.close)
                peer.hear()
                expected = f"bytes {first}-{last}/"
                if answer.status != 206:
                    if answer.status in (429, 503):
                        peer.rests = time.monotonic() + _rest_s(answer.headers.get("retry-after", ""))
                    raise _refusal(name, answer.status)
                if (
                    not answer.headers.get("content-range", "").startswith(expected)
                    or answer.headers.get("etag") != etag
                ):
                    raise SiteError(f"site {name} sends other bytes than those asked for", name, "bad_answer")
                while chunk := await trust.of(answer.content.readany()):
                    got += len(chunk)
                    if got > last - first + 1:
                        raise SiteError(f"site {name} sends more bytes than those asked for", name, "bad_answer")
                    peer.hear()
                    yield chunk
        except FAILED as error:
            raise self._failed(peer, error) from error
        if got < last - first + 1:
            raise SiteError(f"the answer of site {name} breaks off", name, "site_away")

    async def close(self) -> None:
        for peer in self.all.values():
            if peer.opening is not None:
                peer.opening.cancel()
            for one in filter(None, (peer.http, peer.data)):
                await one.close()


def _rest_s(told: str) -> float:
    """Seconds of a Retry-After; its other form, a time of day, is none of a controller's."""
    return min(REST_MOST_S, float(told)) if re.fullmatch("[0-9]{1,9}", told) else 0.0


def _refusal(name: str, status: int) -> SiteError:
    if status == 503:
        return SiteError(f"site {name} has not got that yet", name, "not_yet")
    if status == 429:
        return SiteError(f"site {name} is asked for too much at once", name, "not_yet")
    if status in (412, 416):
        return SiteError(f"the object has changed at site {name}", name, "changed")
    if status in (401, 403, 404):
        return SiteError(f"site {name} does not offer this object to us ({status})", name, "origin_denied")
    return SiteError(f"site {name} answers {status}", name, "site_away" if status >= 500 else "bad_answer")
