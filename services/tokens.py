"""Tokens for the REST API: random, kept as their SHA-256, each with a role, in one JSON file (`datacast token`).

{"tokens": [{"id": "t-1f3a", "name": "ci", "role": "operator", "sha256": "…", "created": "…", "expires": null}]}
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import hmac
import json
import logging
import os
import re
import secrets
import stat
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from datacast.core.errors import DatacastError

from . import durable

log = logging.getLogger("datacast.tokens")

ROLES = ("viewer", "operator", "admin")
"""Each may do what those before it may: look; order groups; change sets, cordons, caps and the topology."""
PREFIX = "dct_"
BYTES_MAX = 1 << 20
TOKENS_MAX = 1000


class TokenError(DatacastError):
    """A token file that cannot be used, or a token that is not there."""

    def __init__(self, message: str, what: str = "", remedy: str = "") -> None:
        super().__init__(message, what=what)
        self.remedy = remedy


@dataclass(frozen=True)
class Token:
    """One line of a token file; the token itself is nowhere."""

    id: str
    name: str
    role: str
    sha256: str
    created: str
    expires: str | None = None

    def may(self, role: str) -> bool:
        return ROLES.index(self.role) >= ROLES.index(role)

    @property
    def expired(self) -> bool:
        return self.expires is not None and datetime.datetime.fromisoformat(self.expires) <= _now()


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC).replace(microsecond=0)


def digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def _token(entry: Any) -> Token:
    token = Token(**entry)
    good = (
        all(isinstance(v, str) for v in (token.id, token.name, token.role, token.sha256, token.created))
        and token.role in ROLES
        and re.fullmatch(r"[0-9a-f]{64}", token.sha256)
    )
    if not good or (token.expires is not None and datetime.datetime.fromisoformat(token.expires).tzinfo is None):
        raise ValueError(f"token {token.id!r} is not one of `datacast token`")
    return token


def read(path: Path, *, service: bool = True) -> list[Token]:
    """`service`: it must be its own, or root's; else root may look after that of a service with a user of its own.
    Raises TokenError: not there, open for others to write, no token file."""
    try:
        with open(path, "rb") as file:
            info = os.fstat(file.fileno())
            content = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise TokenError(
            f"cannot read {path}: {error.strerror}", str(path), "make one with `datacast token create`"
        ) from error
    ours = info.st_uid in (0, os.geteuid()) or not (service or os.geteuid())
    if not stat.S_ISREG(info.st_mode) or info.st_mode & 0o022 or not ours:
        raise TokenError(
            f"{path} may be changed by others than its owner", str(path), f"chown it and `chmod 600 {path}`"
        )
    try:
        if len(content) > BYTES_MAX:
            raise ValueError(f"it is larger than {BYTES_MAX} bytes")
        body = json.loads(content)
        found = [_token(entry) for entry in body["tokens"]]
        if set(body) != {"tokens"} or len({t.id for t in found}) != len(found):
            raise ValueError("unknown keys, or an id twice")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise TokenError(f"{path} is no token file: {error}", str(path)) from error
    return found


@contextlib.contextmanager
def _changing(path: Path) -> Iterator[list[Token]]:
    """The tokens, to be changed in place; written when the block ends well. One writer at a time."""
    if path.is_dir():  # also "", where a variable of a shell was empty
        raise TokenError(f"{path} is a folder", str(path), "name a file in it")
    if path.is_symlink():  # a file would take its place, and whoever reads the other one hears of nothing
        raise TokenError(f"{path} is a link to {path.readlink()}", str(path), "name that file itself")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with durable.locked(path):
            tokens = read(path, service=False) if os.path.lexists(path) else []
            yield tokens
            body = json.dumps({"tokens": [asdict(token) for token in tokens]}, indent=1) + "\n"
            durable.write(path, body.encode(), 0o600, replace=True)
    except OSError as error:
        raise TokenError(f"cannot write {path}: {error.strerror}", str(path)) from error


def create(path: Path, name: str, role: str, days: float | None = None) -> tuple[Token, str]:
    """A new token in the file, which is made when it is not there: what the file says of it, and the token itself,
    which is never shown again. Raises TokenError."""
    if role not in ROLES:
        raise TokenError(f"there is no role {role!r}", role, f"roles are {', '.join(ROLES)}")
    secret = PREFIX + secrets.token_urlsafe(32)
    now = _now()
    expires = (now + datetime.timedelta(days=days)).isoformat() if days is not None else None
    with _changing(path) as tokens:
        if len(tokens) >= TOKENS_MAX:
            raise TokenError(f"{path} holds {TOKENS_MAX} tokens, that is the most", str(path), "revoke some")
        used = {token.id for token in tokens}
        while (number := f"t-{secrets.token_hex(3)}") in used:
            pass
        token = Token(number, name, role, digest(secret), now.isoformat(), expires)
        tokens.append(token)
    return token, secret


def revoke(path: Path, number: str) -> Token:
    """By id. Raises TokenError."""
    with _changing(path) as tokens:
        for token in tokens:
            if token.id == number:
                tokens.remove(token)
                return token
        raise TokenError(f"{path} holds no token {number!r}", number, "`datacast token list` shows them")


class TokenFile:
    """The tokens of a running service: a changed file is read again, a bad one changes nothing. Raises TokenError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen = durable.stamp(path)
        self._tokens = read(path)
        self._wrong = ""
        """What is wrong with the file as it is now."""

    def find(self, secret: str) -> Token | None:
        """Whose token this is; None: nobody's, or expired. Takes the same time whatever the token."""
        stamp = durable.stamp(self.path)
        if stamp != self._seen:
            self._seen = stamp
            try:
                self._tokens, self._wrong = read(self.path), ""
            except TokenError as error:
                if isinstance(error.__cause__, OSError):
                    self._seen = None  # that may be over with the next request
                if self._wrong != str(error):
                    log.error("%s; the tokens stay as they were", error)
                self._wrong = str(error)
        wanted, found = digest(secret), None
        for token in self._tokens:
            if hmac.compare_digest(token.sha256, wanted):
                found = token
        return found if found is not None and not found.expired else None
