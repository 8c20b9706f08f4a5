"""Errors that cross HTTP, and the client side of Datacast's HTTP services."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import quote

import msgspec

from datacast.core.errors import DatacastError, UsageError

from .address import AddressError, host_of
from .tls import PLAIN, RENEW, Security, TlsError, explain, remedy

if TYPE_CHECKING:
    from aiohttp import ClientResponse

    from .asking import HttpClient, Params

T = TypeVar("T")


class Problem(DatacastError):
    """An error that crosses HTTP (RFC 9457): status, code for machines, what it is about, and the remedy."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        what: str = "",
        remedy: str = "",
        fields: list[dict[str, str]] | None = None,
    ) -> None:
        super().__init__(message, what=what)
        self.status = status
        self.code = code
        self.remedy = remedy
        self.fields = fields or []

    def to_json(self) -> dict[str, object]:
        body: dict[str, object] = {
            "type": f"urn:datacast:problem:{self.code}",
            "title": self.code.replace("_", " "),
            "status": self.status,
            "detail": self.message,
            "code": self.code,
            "what": self.what,
            "remedy": self.remedy,
        }
        if self.fields:
            body["fields"] = self.fields
        return body

    @classmethod
    def from_json(cls, status: int, body: Any, who: str) -> Problem:
        """`body`: what `who` has answered. A 404 of a proxy, or of another service, says nothing of a group."""
        if not isinstance(body, dict) or "code" not in body:
            text = f"{who} answers HTTP {status}, and not as Datacast does"
            return cls(502, "bad_answer", text, what=who, remedy="is that the address?")
        return cls(
            status,
            str(body["code"]),
            str(body.get("detail", f"HTTP {status}")),
            str(body.get("what", "")),
            str(body.get("remedy", "")),
            body.get("fields") or [],
        )


class UrlError(Problem, UsageError):
    """The address of a service is none, or cannot be used with the certificates that were given."""


class Unreachable(Problem):
    """The service does not answer. `refused`: its machine does, and says that nobody listens."""

    refused = False
    asked = False
    """What was asked for may have been carried out all the same."""


def http_client(url: str, *, timeout: float, service: str, security: Security, role: str) -> HttpClient:
    """For `http(s)://host:port` or `unix:/path`; `role`: who must answer https. Raises UrlError when the URL is none,
    or when plain HTTP would leave this machine."""
    from .asking import HttpClient

    if url.startswith("unix:"):
        return HttpClient(url, timeout)
    try:
        if not url.startswith(("http://", "https://")):
            raise AddressError(url)
        host_of(url)
    except AddressError as error:
        raise UrlError(
            400,
            "bad_url",
            f"{url!r} is no address of a {service}",
            what=url,
            remedy="give http://host:port or unix:/path",
        ) from error
    if url.startswith("https:"):
        if security.identity is None:
            raise UrlError(
                400,
                "tls",
                f"{url} needs a certificate",
                what=url,
                remedy="give --tls-ca, --tls-cert and --tls-key (made by `datacast certs`)",
            )
        return HttpClient(url, timeout, security.identity.client_for(role))
    try:
        security.check(url.removeprefix("http://").partition("/")[0], "connecting to")
    except TlsError as error:
        raise UrlError(400, "tls", error.message, what=url) from error
    return HttpClient(url, timeout)


def decoded(status: int, content: bytes, who: str) -> Any:
    """The JSON that `who` has answered, None without any; raises Problem for an error status."""
    try:
        body = json.loads(content) if content else None
    except ValueError:
        body = None
    if status >= 400:
        raise Problem.from_json(status, body, who)
    return body


_FORMS = threading.Lock()
"""msgspec 0.22 reads a form that another thread is just finding out, for the first time, and the process dies of it."""


def formed(answer: Any, form: type[T], who: str) -> T:
    """What somebody has answered, in its form. Raises Problem."""
    try:
        with _FORMS:
            return msgspec.convert(answer, form)
    except msgspec.ValidationError as error:
        text = f"the {who} answers what is not understood: {error}"
        raise Problem(502, "bad_answer", text, what=who, remedy="both want the same version of Datacast") from error


SILENCE_S = 7.0
"""Of a stream, on which something comes every two seconds; more is none that works: a machine that is gone, or a
service that hangs, ends no connection. Somebody else leads by then."""
NO_LEADER = "no_leader"
"""The code of a problem: another one is to be asked, or the same in a moment. Nothing was done."""


class JsonClient:
    """JSON over HTTP with this project's problems as exceptions."""

    service = "service"
    role = ""
    """In the certificate of whoever answers https."""
    remedy = ""

    def __init__(self, url: str, timeout: float = 10.0, security: Security = PLAIN) -> None:
        """`url`: several, divided by commas, where one of them leads at a time."""
        self._urls = [part.strip() for part in url.split(",") if part.strip()] or [url]
        self._at = 0
        self.security = security
        self._clients = [
            http_client(one, timeout=timeout, service=self.service, security=security, role=self.role)
            for one in self._urls
        ]
        self._streams: set[ClientResponse] = set()
        self._ends = False

    @property
    def url(self) -> str:
        """The one that is asked now."""
        return self._urls[self._at]

    def _leave(self, at: int, location: str = "") -> None:
        """Ask another than this one: the one that `location` names when it is known. Where several were asked of it at
        once, the first one that hears moves on: were each to, they would pass the leader by, and come back."""
        if self._at == at:
            known = [number for number, url in enumerate(self._urls) if location.startswith(url)]
            self._at = known[-1] if known else (at + 1) % len(self._urls)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    def end_streams(self) -> None:
        """Whoever reads one hears that it has ended: before a service stops that passes them on."""
        self._ends = True
        for stream in self._streams:
            stream.close()

    async def close(self) -> None:
        for client in self._clients:
            await client.close()

    def _unreachable(self, error: BaseException, at: int) -> Unreachable:
        from .asking import cause_of

        causes: list[BaseException] = [cause_of(error)]
        while after := causes[-1].__cause__ or causes[-1].__context__:
            causes.append(after)
        why = next((cause for cause in causes if isinstance(cause, ssl.SSLError)), causes[0])
        refused = any(isinstance(cause, ConnectionRefusedError) for cause in causes)
        said, helps = explain(why), remedy(why) if isinstance(why, ssl.SSLError) else self.remedy
        if not refused and self.security.identity is not None and self.security.identity.ended:
            said, helps = self.security.identity.ended, RENEW
        text = f"no {self.service} at {self._urls[at]}: {said}"
        problem = Unreachable(503, "unreachable", text, what=self._urls[at], remedy=helps)
        problem.refused = refused
        return problem

    async def _answer(
        self,
        method: str,
        path: str,
        content: bytes | None,
        params: Params | None,
        headers: dict[str, str] | None,
        silence: float | None = None,
    ) -> tuple[ClientResponse, int]:
        """Its head, from the first one that does not send on to another, and which one that is. Who says nothing is
        waited for once. Raises Unreachable."""
        from .asking import FAILED, NOT_CONNECTED

        failure: Unreachable | None = None
        hang = set[int]()
        for _ in range(len(self._urls) + 1):
            at, location = self._at, ""
            if at in hang:
                break
            try:
                answer = await self._clients[at].ask(method, path, content, params, headers, silence)
                if answer.status != 307:
                    return answer, at
                await answer.read()  # the connection is kept
                location = answer.headers.get("location", "")
                failure = self._unreachable(OSError("it follows another"), at)
            except FAILED as error:
                failure = self._unreachable(error, at)
                if isinstance(error, TimeoutError):
                    hang.add(at)
                if method != "GET" and not isinstance(error, NOT_CONNECTED):
                    self._leave(at)
                    raise failure from error  # it may have been carried out
            self._leave(at, location)
        assert failure
        raise failure

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        params: Params | None = None,
        headers: dict[str, str] | None = None,
    ) -> Any:
        """The decoded answer; raises Problem for an error status and Unreachable when nobody answers. `body`: bytes are
        JSON already."""
        from .asking import FAILED

        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        headers = {**({"content-type": "application/json"} if body is not None else {}), **(headers or {})}
        failure: Unreachable | None = None
        for _ in range(len(self._urls) + 1):
            answer, at = await self._answer(method, path, content, params, headers)
            try:
                return decoded(answer.status, await answer.read(), self._urls[at])
            except FAILED as error:
                failure = self._unreachable(error, at)
                if method != "GET":
                    self._leave(at)
                    raise failure from error  # it may have been carried out
            except Problem as problem:
                if problem.code != NO_LEADER:
                    raise
                failure = self._unreachable(OSError(problem.message), at)  # nothing was done
            self._leave(at)
        assert failure
        raise failure

    async def told(
        self,
        form: type[T],
        method: str,
        path: str,
        body: Any = None,
        params: Params | None = None,
        headers: dict[str, str] | None = None,
    ) -> T:
        """The answer in its form; raises Problem as `request` does, and where it has another one."""
        return formed(await self.request(method, path, body, params, headers), form, f"{self.service} at {self.url}")

    async def texts(
        self, path: str, params: Params | None = None, headers: dict[str, str] | None = None
    ) -> AsyncIterator[str]:
        """Lines of a long-lived stream. Ends when the service ends it; no silence beyond SILENCE_S is accepted."""
        from .asking import FAILED, lines

        answer, at = await self._answer("GET", path, None, params, headers, SILENCE_S)
        self._streams.add(answer)
        try:
            if answer.status >= 400:
                decoded(answer.status, await answer.read(), self._urls[at])
            async for line in lines(answer):
                yield line
        except FAILED as error:
            if self._ends:
                return
            self._leave(at)
            raise self._unreachable(error, at) from error
        except Problem as problem:
            if problem.code == NO_LEADER:
                self._leave(at)
            raise
        finally:
            self._streams.discard(answer)
            answer.close()


def segment(text: str) -> str:
    """A text as one segment of a URL's path. What is no Unicode (of a command line) is the name of nothing. Raises
    Problem: it is empty or has a slash (which servers read as two segments), and would be another address."""
    if not text:
        raise Problem(400, "no_name", "a name is empty", remedy="give the name that is meant")
    if "/" in text:
        remedy = "give a name of this site; of a host of another site ask its own controller"
        raise Problem(400, "no_name", f"{text!r} has a slash, which no name here has", what=text, remedy=remedy)
    return quote(text, safe="", errors="replace")
