"""Who may speak (docs/signalling.md): TLS 1.3, both sides authenticated, for signalling and the services' HTTP.

A process has one certificate of the fabric's own authority (`datacast certs`). Its subject alternative names say who it
is: datacast://ROLE/NAME; several of one role for a process that speaks for several nodes. Without certificates plain
TCP is used over loopback addresses and Unix sockets, and beyond them only where `--insecure` allows it.
"""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from datacast.core.errors import DatacastError, UsageError

from .address import host_and_port

SCHEME = "datacast://"
ROLES = ("agent", "switch", "master", "fabric-manager", "controller")
HANDSHAKE_S = 5.0
_OPTIONS = ("tls_ca", "tls_cert", "tls_key")

# The words of datapath/tls.c, by OpenSSL's reason.
_REASONS = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it shows no certificate",
    "WRONG_VERSION_NUMBER": "it does not speak TLS",
    "HTTP_REQUEST": "it does not speak TLS",
    "PACKET_LENGTH_TOO_LONG": "it does not speak TLS",
    "UNEXPECTED_MESSAGE": "it does not speak TLS",
    "RECORD_LAYER_FAILURE": "it does not speak TLS",
    "UNSUPPORTED_PROTOCOL": "it does not speak TLS 1.3",
    "TLSV1_ALERT_PROTOCOL_VERSION": "it does not speak TLS 1.3",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "it refuses our certificate: expired",
    "TLSV1_ALERT_UNKNOWN_CA": "it refuses our certificate: of another authority",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it refuses us: we show no certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it refuses our certificate",
}
_EXPIRED, _NOT_YET = 10, 9
"""X509_V_ERR_CERT_HAS_EXPIRED, X509_V_ERR_CERT_NOT_YET_VALID."""


class TlsError(DatacastError):
    """Certificates that cannot be used."""


class TlsOptionError(TlsError, UsageError):
    """Options that do not go together, or that would have plain TCP where it is not allowed."""


class StrangerError(ssl.SSLError):
    """The session stands, but the other side is not whom we expect. An OSError, as all that breaks a connection."""

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True)
class Peer:
    """Who a certificate says it is."""

    role: str
    names: tuple[str, ...]
    until: float | None = field(default=None, compare=False)
    """When its certificate ends, in seconds since 1970."""

    def __str__(self) -> str:
        return f"{self.role}/{','.join(self.names)}"


def peer_of(certificate: Mapping[str, Any] | None) -> Peer | None:
    """From what `getpeercert()` gives; None when it names nobody, or several roles."""
    found = []
    for kind, name in (certificate or {}).get("subjectAltName", ()):
        if kind == "URI" and name.startswith(SCHEME):
            role, slash, rest = name.removeprefix(SCHEME).partition("/")
            if not (role and slash and rest) or "/" in rest:
                return None
            found.append((role, rest))
    if len({role for role, _ in found}) != 1:
        return None
    ends = (certificate or {}).get("notAfter")
    return Peer(found[0][0], tuple(name for _, name in found), ssl.cert_time_to_seconds(ends) if ends else None)


def explain(error: BaseException) -> str:
    """Why a handshake or a connection broke, in the words of docs/signalling.md."""
    if isinstance(error, StrangerError):
        return str(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code == _EXPIRED:
            return "its certificate has expired"
        if error.verify_code == _NOT_YET:
            return "its certificate is not valid yet (are the clocks right?)"
        return "its certificate is of another authority"
    if isinstance(error, ssl.SSLError):
        return _REASONS.get(error.reason or "", f"TLS: {error.reason or error}")
    if isinstance(error, TimeoutError):
        return "no TLS handshake in time"
    if isinstance(error, ConnectionAbortedError) and "handshake" in str(error):
        return f"no TLS handshake within {HANDSHAKE_S:g} s"
    return str(error) or type(error).__name__


RENEW = "`datacast certs renew DIR` makes it anew; then start the process again"


def remedy(error: ssl.SSLError) -> str:
    """What is to be done about it, by who asks."""
    if isinstance(error, StrangerError):
        return "give the address, and that process the certificate, of the one that is meant"
    if "certificate" in explain(error):
        return (
            "`datacast certs show DIR` says which of both certificates is at fault; `datacast certs renew DIR` makes "
            "anew what has ended"
        )
    return "give both certificates (`datacast certs`) and https://, or neither"


def is_local(address: str) -> bool:
    """A loopback `host:port` (or host), or `unix:/path`."""
    if address.startswith("unix:"):
        return True
    host, _, port = address.rpartition(":")
    return _is_loopback(address) or (not port.strip("0123456789") and _is_loopback(host))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def check_peer(certificate: Mapping[str, Any] | None, roles: str, name: str | None = None) -> Peer:
    """`roles`: "agent" or "master agent". Raises StrangerError."""
    peer = peer_of(certificate)
    if peer is None:
        raise StrangerError(f"its certificate names no role ({SCHEME}ROLE/NAME)")
    if peer.role not in roles.split() or (name is not None and peer.names[0] != name):
        raise StrangerError(f"it is {peer}, expected is {roles}{'' if name is None else '/' + name}")
    return peer


def _context(server: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # names and addresses of hosts are not looked at: the role is
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    if server:
        context.num_tickets = 0
    return context


def load_pair(context: ssl.SSLContext, cert: str, key: str) -> None:
    """Certificate and key into a context. Raises TlsError that names the file at fault."""
    for path in (cert, key):
        try:
            with open(path, "rb"):
                pass
        except OSError as error:
            raise TlsError(f"cannot read {path}: {error.strerror}", what=path) from error
    try:
        context.load_cert_chain(cert, key, password="")
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise TlsError(f"{key} is not the private key of {cert}", what=key) from error
        raise TlsError(f"{cert} or {key} is no PEM file of a certificate and its key: {error.reason}", cert) from error


def https_context(cert: str, key: str) -> ssl.SSLContext:
    """For a server whose clients show tokens, no certificates. Raises TlsError."""
    context = _context(True)
    load_pair(context, cert, key)
    return context


class Identity:
    """A process's own certificate and its authority's. `server` and `client` are contexts that ask the other side for
    a certificate of the same authority; its role is checked when the session stands."""

    def __init__(self, ca: str, cert: str, key: str, role: str) -> None:
        """PEM files. Raises TlsError: files that cannot be used, a certificate that is not `role`'s or has expired."""
        self.files = (ca, cert, key)
        self.server, self.client = self._make(True), self._make(False)
        self.own = self._shake_hands(role)

    def _make(self, server: bool, authority: str | None = None) -> ssl.SSLContext:
        ca, cert, key = self.files
        ca = authority or ca
        context = _context(server)
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_verify_locations(ca)
        except (OSError, ssl.SSLError) as error:
            raise TlsError(f"{ca} holds no certificate of an authority: {error.strerror or error}", what=ca) from error
        load_pair(context, cert, key)
        return context

    def _shake_hands(self, role: str) -> Peer:
        """With itself: what others would refuse shows here."""
        ca, cert, _ = self.files
        there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = self.client.wrap_bio(back, there, server_side=False)
        server = self.server.wrap_bio(there, back, server_side=True)
        waiting = [client, server]
        try:
            while waiting:
                for side in tuple(waiting):
                    try:
                        side.do_handshake()
                    except ssl.SSLWantReadError:
                        continue
                    waiting.remove(side)
        except ssl.SSLCertVerificationError as error:
            if error.verify_code == _EXPIRED:
                raise TlsError(f"{cert} has expired; make a new one with `datacast certs`", what=cert) from error
            raise TlsError(f"{cert} does not hold before {ca}: {error.verify_message}", what=cert) from error
        except ssl.SSLError as error:
            raise TlsError(f"{cert} cannot be used: {error.reason}", what=cert) from error
        peer = peer_of(client.getpeercert())
        if peer is None:
            raise TlsError(
                f"{cert} names nobody: its subject alternative name must be the URI {SCHEME}{role}/NAME", what=cert
            )
        if peer.role != role:
            raise TlsError(f"{cert} is the certificate of {peer}; this is {role}/…", what=cert)
        return peer

    @property
    def ended(self) -> str:
        """That its own certificate has expired since it was loaded; "": it has not. A service in Python that is shown
        it ends the connection and does not say why."""
        late = self.own.until is not None and self.own.until < time.time()
        return f"our own certificate {self.files[1]} has expired" if late else ""

    def client_for(self, roles: str, authority: str | None = None) -> ssl.SSLContext:
        """A client context whose handshake fails when somebody else answers, for libraries that give no chance to look
        before they speak. `authority`: the other side's (PEM file), when it is not ours."""
        context = self._make(False, authority)

        class Checked(ssl.SSLObject):
            def do_handshake(self) -> None:
                super().do_handshake()
                check_peer(self.getpeercert(), roles)

        class CheckedSocket(ssl.SSLSocket):
            def do_handshake(self, block: bool = False) -> None:
                super().do_handshake(block)
                check_peer(self.getpeercert(), roles)

        context.sslobject_class, context.sslsocket_class = Checked, CheckedSocket
        return context


@dataclass(frozen=True)
class Security:
    """What a process may do: TLS with an identity; else plain TCP over loopback, or anywhere when `insecure`."""

    identity: Identity | None = None
    insecure: bool = False

    def check(self, address: str, what: str) -> None:
        """Raises TlsError where `what` ("listening on", "connecting to") would be plain TCP beyond loopback."""
        if self.identity is None and not self.insecure and not is_local(address):
            raise TlsOptionError(
                f"{what} {address} without TLS is refused: give --tls-ca, --tls-cert and --tls-key (made by "
                "`datacast certs`), or --insecure where everybody on the network is trusted",
                what=address,
            )

    @property
    def until(self) -> float | None:
        """When its certificate ends, in seconds since 1970; None: it has none."""
        return self.identity.own.until if self.identity else None

    @property
    def server(self) -> ssl.SSLContext | None:
        return self.identity.server if self.identity else None

    @property
    def options(self) -> list[str]:
        """For a process of the same role."""
        if self.identity is None:
            return ["--insecure"] if self.insecure else []
        ca, cert, key = self.identity.files
        return ["--tls-ca", ca, "--tls-cert", cert, "--tls-key", key]

    async def connect(
        self, address: str, roles: str, name: str | None = None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """To `host:port`; nothing is said to anybody else. Raises TlsError, AddressError or OSError (see `explain`)."""
        host, port = host_and_port(address)
        self.check(address, "connecting to")
        if self.identity is None:
            return await asyncio.open_connection(host, port)
        reader, writer = await asyncio.open_connection(
            host, port, ssl=self.identity.client, ssl_handshake_timeout=HANDSHAKE_S
        )
        try:
            check_peer(writer.get_extra_info("peercert"), roles, name)
        except StrangerError:
            writer.close()
            raise
        return reader, writer


PLAIN = Security()


def add_options(
    parser: argparse.ArgumentParser, *, insecure: str = "plain TCP also beyond the loopback interface"
) -> None:
    """--tls-ca, --tls-cert, --tls-key and --insecure."""
    for option, what in (
        ("--tls-ca", "certificate of the fabric's authority"),
        ("--tls-cert", "this process's certificate"),
        ("--tls-key", "its key"),
    ):
        parser.add_argument(option, metavar="FILE", help=f"{what} (PEM, made by `datacast certs`): TLS 1.3 both sides")
    parser.add_argument("--insecure", action="store_true", help=insecure)


def from_options(args: argparse.Namespace, role: str) -> Security:
    """Raises TlsError."""
    given: list[str] = [getattr(args, option) for option in _OPTIONS]
    if not any(given):
        return Security(insecure=args.insecure)
    if not all(given):
        raise TlsOptionError("--tls-ca, --tls-cert and --tls-key belong together")
    if args.insecure:
        raise TlsOptionError("--insecure and --tls-ca exclude each other")
    return Security(Identity(given[0], given[1], given[2], role))
