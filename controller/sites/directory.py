"""The file of `--sites`: this site's name, and the sites it knows, each by name, authority and URL.

    name: ams
    url: https://10.1.0.2:7580          where this site's own hosts reach the controller
    sites:
      sfo: {ca: /etc/datacast/sfo-ca.pem, url: https://sfo.example:7580}
      syd: {ca: /etc/datacast/syd-ca.pem}          no URL: it comes to us, from behind NAT

A site with a URL is asked for orders, and for what it has. One without only asks us. The file is read again when it
changes; one that cannot be used leaves what was known before.
"""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import yaml
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from datacast.services import durable

from .errors import SiteError

SITES_MAX = 256
NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,31}$"
FILE_MAX = 1 << 20
Name = Annotated[str, Field(pattern=NAME)]
Url = Annotated[str, Field(pattern=r"^https://[^/@\s]{1,255}$")]
log = logging.getLogger("datacast.sites")


class Site(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    ca: Annotated[str, Field(min_length=1, max_length=4096)]
    """PEM file with the certificate of its authority."""
    url: Url | None = None
    """https://HOST:PORT of its controller."""


class Sites(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Name
    url: Url
    sites: Annotated[dict[Name, Site], Field(max_length=SITES_MAX)] = {}


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
        self._seen: tuple[int, int] | None = None
        self._load()

    def _load(self) -> None:
        sites = read(self.path)
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
        self._seen, self.sites, self.authorities = _stamp(self.path), sites, found

    def look(self) -> bool:
        """Read the file again if it has changed; whether it says anything new."""
        if _stamp(self.path) == self._seen:
            return False
        before = self.sites
        try:
            self._load()
        except SiteError as error:
            self._seen = _stamp(self.path)
            log.error("%s; what was known before stays", error)
        return self.sites != before

    @property
    def name(self) -> str:
        return self.sites.name

    def whose(self, certificate: bytes) -> str | None:
        """The site whose authority has issued a certificate (DER) that TLS accepted; "" is this one, None nobody."""
        shown = x509.load_der_x509_certificate(certificate)
        if issued_by(shown, self.own):
            return ""
        return next((name for name, one in self.authorities.items() if issued_by(shown, one)), None)


def _key(certificate: x509.Certificate) -> bytes:
    key = certificate.public_key()
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino


def _certificate(path: str) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(Path(path).read_bytes())
    except OSError as error:
        raise SiteError(f"cannot read {path}: {error.strerror}", path, "no_authority") from error
    except ValueError as error:
        raise SiteError(f"{path} holds no certificate of an authority", path, "no_authority") from error


def read(path: Path) -> Sites:
    """Raises SiteError: no such file, no YAML, a key that is none, a name twice."""
    try:
        text = path.read_text()
        if len(text) > FILE_MAX:
            raise SiteError(f"{path} is longer than {FILE_MAX} bytes", str(path))
        sites = Sites.model_validate(yaml.load(text, _Strict))
    except OSError as error:
        raise SiteError(
            f"cannot read {path}: {error.strerror}", str(path), remedy="`datacast sites init` makes one"
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SiteError(f"{path} is no YAML: {error}", str(path)) from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise SiteError(f"{path}: {where}: {first['msg']}", where) from error
    if sites.name in sites.sites:
        raise SiteError(
            f"{path}: two sites of the name {sites.name}: this one, and one that it knows", sites.name, "two_of_a_name",
            "sites that deal with each other need names of their own",
        )  # fmt: skip
    return sites


def write(path: Path, sites: Sites) -> None:
    """Raises SiteError."""
    try:
        durable.write(
            path, yaml.safe_dump(sites.model_dump(exclude_none=True), sort_keys=False).encode(), 0o644, replace=True
        )
    except OSError as error:
        raise SiteError(f"cannot write {path}: {error.strerror}", str(path)) from error


class _Strict(yaml.SafeLoader):
    """YAML lets a key stand twice; a site must not."""


def _mapping(loader: _Strict, node: yaml.MappingNode) -> dict[object, object]:
    keys = [loader.construct_object(key) for key, _ in node.value]
    for key in keys:
        if keys.count(key) > 1:
            raise yaml.YAMLError(f"{key} stands there twice")
    return {loader.construct_object(k): loader.construct_object(v, deep=True) for k, v in node.value}


_Strict.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def host_port(url: str) -> str:
    """The part of a controller's URL that stands in site://…"""
    parts = urlsplit(url)
    return parts.netloc if parts.port else f"{parts.netloc}:443"


def is_name(text: str) -> bool:
    return re.match(NAME, text) is not None
