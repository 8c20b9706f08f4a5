"""Joining a site: a token lets one machine, once and for some minutes, have a key of its own certified.

    dcj-HASH-SECRET     HASH: SHA-256 of the authority's certificate, by which the machine knows whom it speaks to

Tokens live in the memory of the process that gave them out (`datacast admit`), as hashes: when it ends they are gone.
"""

from __future__ import annotations

import asyncio
import hmac
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

from cryptography.hazmat.primitives import hashes
from fastapi import FastAPI, Request, Response

from datacast.core.errors import DatacastError

from .authority import Authority, AuthorityError, Identity
from .problems import Problem
from .service import install_problem_handlers
from .tokens import digest

TOKEN = re.compile(r"dcj-(?P<hash>[0-9a-f]{64})-(?P<secret>[0-9a-f]{48})")
REQUEST_MAX = 8 << 10
REQUEST_S = 10.0
ADMISSIONS_MAX = 10_000


@dataclass
class Admission:
    """One token: for whom, and until when (on the clock that `now` is of)."""

    identity: Identity
    sha256: str
    ends: float
    used: bool = False


class Enrolment:
    """`pack` makes what a machine gets from who it is and its certificate."""

    def __init__(self, authority: Authority, pack: Callable[[Identity, bytes], bytes], days: float = 365) -> None:
        self.authority, self._pack, self._days = authority, pack, days
        self._admissions: list[Admission] = []

    def admit(self, identity: Identity, now: float, seconds: float) -> str:
        """A token for one machine. Raises DatacastError."""
        if len(self._admissions) >= ADMISSIONS_MAX:
            raise DatacastError(f"{ADMISSIONS_MAX} tokens are out, that is the most", what=str(identity))
        secret = secrets.token_hex(24)
        self._admissions.append(Admission(identity, digest(secret), now + seconds))
        return f"dcj-{self.authority.certificate.fingerprint(hashes.SHA256()).hex()}-{secret}"

    def waits(self, now: float) -> list[Identity]:
        """Who may still come."""
        return [one.identity for one in self._admissions if not one.used and one.ends > now]

    def join(self, secret: str, request: bytes, now: float, joined: Callable[[Identity, bytes], None]) -> bytes:
        """What it gets, once `joined` has who it is and its certificate. What fails leaves the token as it was: also
        where that finds no room (OSError). Raises Problem. Looks at all tokens, whichever it is."""
        wanted, found = digest(secret), None
        for one in self._admissions:
            if hmac.compare_digest(one.sha256, wanted):
                found = one
        remedy = "have `datacast admit` give out another"
        if found is None:
            raise Problem(401, "unauthorized", "this token is not known here", what="token", remedy=remedy)
        if found.used:
            raise Problem(
                409, "used", f"this token was used already: {found.identity} has joined", what="token", remedy=remedy
            )
        if found.ends <= now:
            raise Problem(401, "expired", "this token has expired", what="token", remedy=remedy)
        try:
            certificate = self.authority.sign(found.identity, request, days=self._days)
        except AuthorityError as error:
            raise Problem(422, "invalid", str(error), what="body", remedy=error.remedy) from error
        packed = self._pack(found.identity, certificate)
        try:
            joined(found.identity, certificate)
        except OSError as error:
            text = f"what joins cannot be written down: {error.strerror or error}"
            raise Problem(507, "not_kept", text, what=str(found.identity), remedy="the token counts still") from error
        found.used = True
        return packed


def make_app(
    enrolment: Enrolment,
    joined: Callable[[Identity, bytes, str], None],
    refused: Callable[[str, str], None],
    clock: Callable[[], float] = time.monotonic,
) -> FastAPI:
    """`joined` writes down who came with which certificate from where, `refused` hears why somebody was not let in."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    install_problem_handlers(app)

    @app.get("/ca.pem")
    async def authority() -> Response:
        return Response(enrolment.authority.ca.read_bytes(), media_type="application/x-pem-file")

    @app.post("/join")
    async def join(request: Request) -> Response:
        where = request.client.host if request.client else "?"
        kind, _, secret = request.headers.get("authorization", "").partition(" ")
        try:
            body = await _bounded(request)
            token = secret if kind.lower() == "bearer" else ""
            packed = enrolment.join(token, body, clock(), lambda who, certificate: joined(who, certificate, where))
        except Problem as problem:
            refused(where, problem.message)
            raise
        return Response(packed, media_type="application/gzip", headers={"cache-control": "no-store"})

    return app


async def _bounded(request: Request) -> bytes:
    """The body. Raises Problem."""
    body = bytearray()
    try:
        async with asyncio.timeout(REQUEST_S):
            async for part in request.stream():
                body += part
                if len(body) > REQUEST_MAX:
                    raise Problem(413, "too_large", f"a request of more than {REQUEST_MAX} bytes", what="body")
    except TimeoutError:
        raise Problem(408, "timeout", f"the request did not come within {REQUEST_S:g} s", what="body") from None
    return bytes(body)
