"""A fabric's own authority: a folder with its certificate and key, and those of every process (`datacast certs`).

    ca.pem, ca.key                     the authority; the key stays where it was made
    agent-00.pem, agent-00.key …       one pair per process, for its machine alone

Keys are ECDSA P-256. Files are written beside their place, synced and moved there; a key is readable by its owner only.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from datacast.core.errors import DatacastError, UsageError

from . import durable
from .tls import ROLES, SCHEME, peer_of

CA_DAYS, DAYS = 3650, 365
EARLY = datetime.timedelta(hours=1)
"""Certificates hold from before they were made: clocks differ."""
NAME_MAX = 100
"""TLS_IDENTITY_MAX of the C daemons, with the role."""


class AuthorityError(DatacastError):
    """A certificate cannot be made, read or written."""

    def __init__(self, message: str, what: str = "", remedy: str = "") -> None:
        super().__init__(message, what=what)
        self.remedy = remedy


class IdentityError(AuthorityError, UsageError):
    """Nobody can be called so."""


@dataclass(frozen=True)
class Identity:
    """ROLE/NAME, or ROLE/NAME,NAME… of a process that speaks for several nodes."""

    role: str
    names: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Identity:
        """Raises IdentityError."""
        role, _, rest = text.partition("/")
        names = tuple(rest.split(","))
        if role not in ROLES:
            raise IdentityError(f"{text!r}: there is no role {role!r}", text, f"roles are {', '.join(ROLES)}")
        for name in names:
            if not re.fullmatch(r"[!-.0-~]+", name) or len(name) > NAME_MAX:
                raise IdentityError(
                    f"{text!r}: {name!r} is no name for a certificate",
                    text,
                    f"give ROLE/NAME, the name with 1 to {NAME_MAX} ASCII characters, without spaces and slashes",
                )
        return cls(role, names)

    def __str__(self) -> str:
        return f"{self.role}/{','.join(self.names)}"

    @property
    def stem(self) -> str:
        """Of its files."""
        return f"{self.role}-{quote(self.names[0], safe='!$()+=@[]^_{}~')}"


class Authority:
    """`create` and `open` give one. `sync`: wait for the disk."""

    def __init__(self, folder: Path, certificate: x509.Certificate, key: Any, *, sync: bool = True) -> None:
        self.folder, self.certificate, self._key, self._sync = folder, certificate, key, sync

    @property
    def ca(self) -> Path:
        return self.folder / "ca.pem"

    @classmethod
    def create(cls, folder: Path, *, name: str = "datacast", days: float = CA_DAYS, sync: bool = True) -> Authority:
        """Raises AuthorityError when there is one in the folder already."""
        for path in (folder / "ca.pem", folder / "ca.key"):
            if os.path.lexists(path):
                raise AuthorityError(
                    f"{path} exists: there is an authority in {folder}", str(path), "use it, or give another folder"
                )
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise AuthorityError(f"cannot make {folder}: {error.strerror}", str(folder)) from error
        now, key = _now(), ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _short(name))])
        own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        certificate = (
            _builder(subject, subject, key.public_key(), now - EARLY, now + datetime.timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(cert_sign=True), critical=True)
            .add_extension(own, critical=False)
            .sign(key, hashes.SHA256())
        )
        made = cls(folder, certificate, key, sync=sync)
        made._write(folder / "ca.pem", certificate, folder / "ca.key", key, False)
        return made

    @classmethod
    def open(cls, folder: Path, *, sync: bool = True) -> Authority:
        """Raises AuthorityError."""
        certificate = read_certificate(folder / "ca.pem", "make an authority with `datacast certs init`")
        path = folder / "ca.key"
        try:
            key: Any = serialization.load_pem_private_key(path.read_bytes(), None)
        except OSError as error:
            raise AuthorityError(
                f"cannot read {path}: {error.strerror}", str(path), "certificates are made where the authority's key is"
            ) from error
        except (ValueError, TypeError) as error:
            raise AuthorityError(f"{path} is no private key without a password", str(path)) from error
        if _public(key.public_key()) != _public(certificate.public_key()):
            raise AuthorityError(f"{path} is not the private key of {folder / 'ca.pem'}", str(path))
        return cls(folder, certificate, key, sync=sync)

    def paths(self, identity: Identity) -> tuple[Path, Path]:
        """Certificate and key."""
        return self.folder / f"{identity.stem}.pem", self.folder / f"{identity.stem}.key"

    def issue(
        self,
        identity: Identity,
        *,
        days: float = DAYS,
        dns: Sequence[str] = (),
        ip: Sequence[str] = (),
        replace: bool = False,
        begin: datetime.datetime | None = None,
        uris: Sequence[str] | None = None,
        stem: Path | None = None,
    ) -> tuple[Path, Path]:
        """A certificate and its key; `dns` and `ip`: names under which a browser or curl may find it. `begin`, `uris`
        and `stem` are for what is unusual. Never outlives the authority. Raises AuthorityError, without `replace` also
        when there is one already."""
        paths = self.paths(identity) if stem is None else (Path(f"{stem}.pem"), Path(f"{stem}.key"))
        for path in paths:
            if not replace and os.path.lexists(path):
                raise AuthorityError(f"{path} exists", str(path), "give --replace to make it anew")
        now = _now()
        ends = min(now + datetime.timedelta(days=days), end_of(self.certificate))
        start = min(begin or now - EARLY, ends - datetime.timedelta(seconds=1))
        if begin is None and ends <= now and days > 0:
            raise AuthorityError(
                f"the authority in {self.folder} has expired",
                str(self.ca),
                "make another with `datacast certs init`, and all certificates anew",
            )
        names: list[x509.GeneralName] = [
            x509.UniformResourceIdentifier(uri)
            for uri in (uris if uris is not None else [f"{SCHEME}{identity.role}/{n}" for n in identity.names])
        ]
        names += [_dns(name) for name in dns]
        names += [x509.IPAddress(_ip(text)) for text in ip]
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._certify(identity, key.public_key(), start, ends, names)
        self._write(paths[0], certificate, paths[1], key, replace)
        return paths

    def sign(self, identity: Identity, request: bytes, *, days: float = DAYS) -> bytes:
        """A certificate (PEM) for the key of a signing request (PEM, PKCS #10), whose owner has shown to be `identity`.
        The names in the request count for nothing. Raises AuthorityError."""
        try:
            asked = x509.load_pem_x509_csr(request)
            key, proven = asked.public_key(), asked.is_signature_valid
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise AuthorityError("this is no signing request in PEM", str(identity)) from error
        if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
            raise AuthorityError("the key is none of P-256", str(identity), "openssl ecparam -name prime256v1 -genkey")
        if not proven:
            raise AuthorityError("the request is not signed with its own key", str(identity))
        now, end = _now(), end_of(self.certificate)
        if end <= now:
            raise AuthorityError(f"the authority in {self.folder} has expired", str(self.ca))
        names = [x509.UniformResourceIdentifier(f"{SCHEME}{identity.role}/{name}") for name in identity.names]
        return _pem(self._certify(identity, key, now - EARLY, min(now + datetime.timedelta(days=days), end), names))

    def _certify(
        self,
        identity: Identity,
        key: ec.EllipticCurvePublicKey,
        start: datetime.datetime,
        end: datetime.datetime,
        names: Sequence[x509.GeneralName],
    ) -> x509.Certificate:
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, str(identity)[:64])])
        builder = (
            _builder(subject, self.certificate.subject, key, start, end)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(cert_sign=False), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self._key, hashes.SHA256())

    def issue_all(self, identities: Iterable[Identity], **options: Any) -> list[tuple[Path, Path]]:
        """Nothing is written when one of them exists and may not be replaced."""
        identities = list(identities)
        stems = [identity.stem for identity in identities]
        for identity in identities:
            if stems.count(identity.stem) > 1:
                raise AuthorityError(f"{identity.stem} is asked for twice", str(identity))
            for path in self.paths(identity):
                if not options.get("replace") and os.path.lexists(path):
                    raise AuthorityError(f"{path} exists", str(path), "give --replace to make it anew")
        return [self.issue(identity, **options) for identity in identities]

    def _write(self, path: Path, certificate: x509.Certificate, key_path: Path, key: Any, replace: bool) -> None:
        """Both or neither: a new key beside an old certificate would serve nobody."""
        files = [(key_path, _pem_key(key), 0o600), (path, _pem(certificate), 0o644)]
        try:
            durable.write_all(files, replace=replace, sync=self._sync)
        except FileExistsError as error:
            there = Path(error.filename2 or path)
            raise AuthorityError(f"{there} exists", str(there), "give --replace to make it anew") from error
        except OSError as error:
            raise AuthorityError(f"cannot write {path}: {error.strerror}", str(path)) from error


def read_certificate(path: Path, remedy: str = "") -> x509.Certificate:
    """Raises AuthorityError."""
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except OSError as error:
        raise AuthorityError(f"cannot read {path}: {error.strerror}", str(path), remedy) from error
    except ValueError as error:
        raise AuthorityError(f"{path} is no certificate in PEM", str(path)) from error


@dataclass(frozen=True, kw_only=True)
class CertificateTold:
    """What a certificate says."""

    file: str
    identity: str | None
    authority: bool
    """It is one's own."""
    serial: str
    not_before: str
    not_after: str
    days_left: float
    dns: list[str]
    ip: list[str]
    sha256: str
    state: str
    """ok, expires_soon, expired, not_yet, other_authority."""


def describe(path: Path, authority: x509.Certificate | None = None, soon_days: float = 30) -> CertificateTold:
    """Raises AuthorityError."""
    certificate = read_certificate(path)
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        names = x509.SubjectAlternativeName([])
    uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    peer = peer_of({"subjectAltName": [("URI", uri) for uri in uris]})
    now, start, end = _now(), start_of(certificate), end_of(certificate)
    left = (end - now).total_seconds() / 86400
    state = "expired" if end < now else "not_yet" if start > now else "expires_soon" if left < soon_days else "ok"
    if authority is not None and not _signed_by(certificate, authority):
        state = "other_authority"
    return CertificateTold(
        file=str(path),
        identity=str(peer) if peer else None,
        authority=certificate.issuer == certificate.subject,
        serial=f"{certificate.serial_number:x}",
        not_before=start.isoformat(),
        not_after=end.isoformat(),
        days_left=round(left, 2),
        dns=names.get_values_for_type(x509.DNSName),
        ip=[str(ip) for ip in names.get_values_for_type(x509.IPAddress)],
        sha256=certificate.fingerprint(hashes.SHA256()).hex(),
        state=state,
    )


def start_of(certificate: x509.Certificate) -> datetime.datetime:
    return _utc(certificate, "not_valid_before")


def end_of(certificate: x509.Certificate) -> datetime.datetime:
    return _utc(certificate, "not_valid_after")


def _utc(certificate: x509.Certificate, name: str) -> datetime.datetime:
    # cryptography 42 gave these times a zone under another name; Debian 12 has 38.
    aware = getattr(certificate, f"{name}_utc", None)
    return aware or getattr(certificate, name).replace(tzinfo=datetime.UTC)


def _signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    key: Any = authority.public_key()
    try:
        key.verify(certificate.signature, certificate.tbs_certificate_bytes, ec.ECDSA(hashes.SHA256()))
    except (InvalidSignature, TypeError, ValueError):
        return False
    return certificate.issuer == authority.subject


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: Any, start: datetime.datetime, end: datetime.datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
    )


def _usage(*, cert_sign: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not cert_sign,
        key_cert_sign=cert_sign,
        crl_sign=cert_sign,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _short(name: str) -> str:
    """What a certificate takes of it: 64 bytes."""
    return name.encode(errors="replace")[:64].decode(errors="ignore")


def _dns(text: str) -> x509.DNSName:
    try:
        if not text:
            raise ValueError(text)
        return x509.DNSName(text)
    except ValueError as error:
        raise AuthorityError(
            f"{text!r} is no host name for a certificate", text, "write it in ASCII, as DNS has it (xn--…)"
        ) from error


def _ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    try:
        return ipaddress.ip_address(text)
    except ValueError as error:
        raise AuthorityError(f"{text!r} is no IP address", text) from error


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _pem_key(key: Any) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _public(key: Any) -> bytes:
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
