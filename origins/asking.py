"""How names are asked about: by HTTP, whole answers, none too long, within one place."""

from __future__ import annotations

import io
import json
import re
import time
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.error import URLError
from urllib.parse import urljoin, urlsplit
from urllib.request import HTTPHandler, HTTPSHandler, OpenerDirector, ProxyHandler, Request, UnknownHandler

from .parts import OriginError

TEXT_MAX = 4 << 20
"""Bytes of a manifest, or of what a hub says of a repository."""
REDIRECTS = 3
TIMEOUT_S, WHOLE_S = 20.0, 60.0
"""Of silence; of an answer."""
PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Answer:
    url: str
    status: int
    headers: Message
    body: bytes

    @property
    def kind(self) -> str:
        """Media type."""
        return str(self.headers.get("content-type", "")).partition(";")[0].strip()

    @property
    def location(self) -> str:
        """Where a redirect leads; "": it is none."""
        to = self.headers.get("location") if 300 <= self.status < 400 else None
        return urljoin(self.url, to) if to else ""

    def check(self, name: str) -> None:
        """Raises OriginError for what is no success."""
        host, status = place(self.url)[1], self.status
        if status in (401, 403):
            raise OriginError("origin_denied", f"{name}: {host} refuses ({status}): $HF_TOKEN, or `docker login`")
        if status in (404, 410):
            raise OriginError("not_found", f"{name}: {host} has no such thing ({status})")
        if status == 429:
            told = self.headers.get("retry-after", "")  # or a time of day, or anything
            later = f"{told} s" if re.fullmatch("[0-9]{1,9}", told) else "a while"
            raise OriginError("throttled", f"{name}: {host} has no time (429); ask again after {later}")
        if status >= 400:
            raise OriginError("origin_failed", f"{name}: {host} answers {status}")

    def json(self, name: str) -> dict[str, Any]:
        """Raises OriginError for what is no object."""
        try:
            value = json.loads(self.body)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise OriginError("bad_answer", f"{name}: what {self.url} answers is no JSON object")
        return value


def place(url: str) -> tuple[str, str, int]:
    """Scheme, host and port. Raises OriginError."""
    try:
        parts = urlsplit(url)
        return parts.scheme, parts.hostname or "", parts.port or PORTS.get(parts.scheme, 0)
    except ValueError as error:
        raise OriginError("bad_answer", f"{url}: {error}") from None


class _Bytes(io.RawIOBase):
    """What comes over a connection, until the answer should be whole."""

    def __init__(self, raw: io.RawIOBase) -> None:
        self._raw, self._end = raw, time.monotonic() + WHOLE_S

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int | None:
        if time.monotonic() > self._end:
            raise OSError(f"the answer is not whole after {WHOLE_S:g} s")
        return self._raw.readinto(room)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Response(HTTPResponse):
    """With its head, which trickles as well as a body may."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fp: io.BufferedReader = io.BufferedReader(_Bytes(self.fp.detach()))


class _Http(HTTPConnection):
    response_class = _Response


class _Https(HTTPSConnection):
    response_class = _Response


class _HttpHandler(HTTPHandler):
    def http_open(self, req: Request) -> HTTPResponse:
        return self.do_open(_Http, req)


class _HttpsHandler(HTTPSHandler):
    def https_open(self, req: Request) -> HTTPResponse:
        return self.do_open(_Https, req)


def _opener() -> OpenerDirector:
    """Whatever is answered is an answer, redirects too; HTTP and nothing else, by the environment's proxies."""
    made = OpenerDirector()
    for handler in (ProxyHandler(), _HttpHandler(), _HttpsHandler(), UnknownHandler()):
        made.add_handler(handler)
    made.addheaders = [("User-Agent", "datacast")]
    return made


def _reason(error: Exception) -> str:
    """What the system said, without the number and without what urllib writes around it."""
    inner = error.reason if isinstance(error, URLError) else error
    return (isinstance(inner, OSError) and inner.strerror) or str(inner)


def ask(method: str, url: str, name: str, headers: dict[str, str] | None = None) -> Answer:
    """The answer, whatever its status. Redirects within the same place are followed. Raises OriginError."""
    for _ in range(REDIRECTS + 1):
        body = bytearray()
        try:
            told: HTTPResponse
            with _opener().open(Request(url, headers=headers or {}, method=method), timeout=TIMEOUT_S) as told:
                while piece := told.read1(1 << 16):
                    body += piece
                    if len(body) > TEXT_MAX:
                        raise OriginError("bad_answer", f"{name}: {url} answers more than {TEXT_MAX >> 20} MiB")
                if told.length:
                    raise OSError("the answer breaks off")
                answer = Answer(url, told.status, told.headers, bytes(body))
        except (OSError, HTTPException, ValueError) as error:
            text = f"{name}: {url}: {_reason(error)}"
            if "CERTIFICATE_VERIFY_FAILED" in text:
                raise OriginError("certificate", f"{text}: $SSL_CERT_FILE names another authority") from None
            raise OriginError("origin_unreachable", text) from None
        to = answer.location
        if not to or place(to) != place(url):
            return answer
        url = to
    raise OriginError("bad_answer", f"{name}: too many redirects")
