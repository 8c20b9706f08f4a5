"""What the file of `--sites` says now (services/sites_file.py), and whose certificate one is."""

from __future__ import annotations

import hashlib
import logging
import math
import time
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

from datacast.services.durable import stamp
from datacast.services.sites_file import SiteError, read

log = logging.getLogger("datacast.sites")

AGAIN_S = 2.0
KNOWN_MAX = 4096
"""Certificates whose authority is remembered."""


def issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Whether the authority's key has signed it."""
    if certificate.issuer != authority.subject:
        return False
    key, algorithm = authority.public_key(), certificate.signature_hash_algorithm
    signed, signature = certificate.tbs_certificate_bytes, certificate.signature
    try:
        if isinstance(key, ec.EllipticCurvePublicKey) and algorithm is not None:
            key.verify(signature, signed, ec.ECDSA(algorithm))
            return True
        if isinstance(key, rsa.RSAPublicKey) and algorithm is not None:
            key.verify(signature, signed, padding.PKCS1v15(), algorithm)
            return True
    except (InvalidSignature, UnsupportedAlgorithm):
        pass
    return False


class Directory:
    """What the file says now. `authority`: this site's own (PEM file); a peer's must be another one. Raises SiteError
    when the file cannot be used at all."""

    def __init__(self, path: Path, authority: str) -> None:
        self.path = path
        self.own = _certificate(authority)
        self._seen: list[tuple[int, ...] | None] = []
        """How the file looked, and those of the authorities that it names."""
        self._wrong, self._again = "", math.inf
        """What is wrong with them, and when they are read again for that."""
        self._whose: dict[bytes, str | None] = {}
        """By certificate: every request shows one, and to verify a signature costs more than the rest of it."""
        self._load()

    def _load(self) -> None:
        seen = [stamp(self.path)]
        sites = read(self.path)
        seen += [stamp(site.ca) for site in sites.sites.values()]
        found: dict[str, x509.Certificate] = {}
        for name, site in sites.sites.items():
            found[name] = _certificate(site.ca)
            for other, certificate in [("this site", self.own), *found.items()]:
                if other != name and _key(certificate) == _key(found[name]):
                    raise SiteError(
                        f"{self.path}: {name} and {other} have the same authority: they could not be told apart",
                        name,
                        "same_authority",
                        "every site is a fabric with an authority of its own (`datacast certs init`)",
                    )
        self.sites, self.authorities, self._seen = sites, found, seen
        self._whose.clear()

    def look(self) -> bool:
        """Read the file again if it or an authority has changed; whether it says anything new. One that cannot be used
        is read again and again: an authority that it names may be still to come."""
        now = [stamp(self.path), *(stamp(site.ca) for site in self.sites.sites.values())]
        if now == self._seen and time.monotonic() < self._again:
            return False
        before = self.sites, self.authorities
        try:
            self._load()
            self._wrong, self._again = "", math.inf
        except SiteError as error:
            self._seen, self._again = now, time.monotonic() + AGAIN_S
            if self._wrong != str(error):
                log.error("%s; what was known before stays", error)
            self._wrong = str(error)
        return (self.sites, self.authorities) != before

    @property
    def name(self) -> str:
        return self.sites.name

    def key(self, name: str) -> str | None:
        """What tells a site, this one too, from another one of its name: the digest of its authority's key."""
        certificate = self.own if name == self.name else self.authorities.get(name)
        return hashlib.sha256(_key(certificate)).hexdigest() if certificate is not None else None

    def whose(self, certificate: bytes) -> str | None:
        """The site whose authority has issued a certificate (DER) that TLS accepted; "" is this one, None nobody."""
        if certificate not in self._whose:
            if len(self._whose) >= KNOWN_MAX:
                self._whose.clear()
            self._whose[certificate] = self._issuer(x509.load_der_x509_certificate(certificate))
        return self._whose[certificate]

    def _issuer(self, shown: x509.Certificate) -> str | None:
        if issued_by(shown, self.own):
            return ""
        return next((name for name, one in self.authorities.items() if issued_by(shown, one)), None)


def _key(certificate: x509.Certificate) -> bytes:
    key = certificate.public_key()
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def _certificate(path: str) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(Path(path).read_bytes())
    except OSError as error:
        raise SiteError(f"cannot read {path}: {error.strerror}", path, "no_authority") from error
    except ValueError as error:
        raise SiteError(f"{path} holds no certificate of an authority", path, "no_authority") from error
