"""An authority for tests, with certificates that are as wrong as a test wants them."""

from __future__ import annotations

import datetime
import ssl
from pathlib import Path
from typing import Any

from datacast.services import authority, tls


class Authority:
    """An authority, and certificates of it."""

    def __init__(self, folder: Path) -> None:
        self._authority = authority.Authority.create(folder, days=30, sync=False)
        self.folder, self.ca, self.serial = folder, self._authority.ca, 0

    def issue(
        self,
        identity: str,
        uri: str | None = None,
        days: tuple[int, int] = (-1, 30),
        uris: list[str] | None = None,
    ) -> tuple[str, str]:
        """Certificate and key of ROLE/NAME."""
        self.serial += 1
        cert, key = self._authority.issue(
            authority.Identity.parse(identity),
            begin=datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days[0]),
            days=days[1],
            uris=[uri] if uri else uris,
            stem=self.folder / f"{self.serial}-{identity.replace('/', '-')}",
        )
        return str(cert), str(key)

    def options(self, identity: str, **more: Any) -> list[str]:
        cert, key = self.issue(identity, **more)
        return ["--tls-ca", str(self.ca), "--tls-cert", cert, "--tls-key", key]

    def security(self, identity: str) -> tls.Security:
        """What a service of ours speaks with."""
        return tls.Security(tls.Identity(str(self.ca), *self.issue(identity), identity.partition("/")[0]))

    def context(self, identity: str, server: bool = False, **more: Any) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(self.ca)
        context.load_cert_chain(*self.issue(identity, **more))
        return context


def stranger(maker: Authority, other: Authority, kind: str, good: str, wrong: str) -> ssl.SSLContext | None:
    """A client that must not get in, by kind; None: one that speaks no TLS."""
    if kind == "plain":
        return None
    if kind == "no-certificate":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.load_verify_locations(maker.ca)
        return context
    if kind == "another-authority":
        context = other.context(good)
        context.load_verify_locations(maker.ca)
        return context
    if kind == "expired":
        return maker.context(good, days=(-9, -1))
    if kind == "not-yet":
        return maker.context(good, days=(2, 9))
    if kind == "no-identity":
        return maker.context(good, uri=f"https://example.org/{good}")
    context = maker.context(wrong if kind == "wrong-role" else good)
    if kind == "tls-1.2":
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    return context
