"""How names are asked about: by HTTP, whole answers, none too long, within one place."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import httpx

from .parts import OriginError

TEXT_MAX = 4 << 20
"""Bytes of a manifest, or of what a hub says of a repository."""
REDIRECTS = 3


@dataclass(frozen=True)
class Answer:
    url: httpx.URL
    status: int
    headers: httpx.Headers
    body: bytes

    @property
    def kind(self) -> str:
        """Media type."""
        return str(self.headers.get("content-type", "")).partition(";")[0].strip()

    def check(self, name: str) -> None:
        """Raises OriginError for what is no success."""
        host, status = self.url.host, self.status
        if status in (401, 403):
            raise OriginError("origin_denied", f"{name}: {host} refuses ({status}): $HF_TOKEN, or `docker login`")
        if status in (404, 410):
            raise OriginError("not_found", f"{name}: {host} has no such thing ({status})")
        if status == 429:
            later = self.headers.get("retry-after", "a while")
            raise OriginError("throttled", f"{name}: {host} has no time (429); ask again after {later} s")
        if status >= 400:
            raise OriginError("origin_failed", f"{name}: {host} answers {status}")

    def json(self, name: str) -> dict[str, Any]:
        """Raises OriginError for what is no object."""
        try:
            value = json.loads(self.body)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise OriginError("bad_answer", f"{name}: what {self.url} answers is no JSON object")
        return value


def place(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def ask(client: httpx.Client, method: str, url: str, name: str, headers: dict[str, str] | None = None) -> Answer:
    """The answer, whatever its status. Redirects within the same place are followed. Raises OriginError."""
    for _ in range(REDIRECTS + 1):
        try:
            with client.stream(method, url, headers=headers) as told:
                body = bytearray()
                for piece in told.iter_bytes():
                    body += piece
                    if len(body) > TEXT_MAX:
                        raise OriginError("bad_answer", f"{name}: {url} answers more than {TEXT_MAX >> 20} MiB")
                answer = Answer(told.url, told.status_code, told.headers, bytes(body))
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            text = f"{name}: {url}: {error}"
            if "CERTIFICATE_VERIFY_FAILED" in text:
                raise OriginError("certificate", f"{text}: $SSL_CERT_FILE names another authority") from None
            raise OriginError("origin_unreachable", text) from None
        location = answer.headers.get("location") if 300 <= answer.status < 400 else None
        to = answer.url.join(location) if location else None
        if to is None or place(to) != place(answer.url):
            return answer
        url = str(to)
    raise OriginError("bad_answer", f"{name}: too many redirects")
