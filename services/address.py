"""Addresses as options and messages have them: `host:port`, or a URL with one."""

from __future__ import annotations

from urllib.parse import urlsplit

from datacast.core.errors import DatacastError, UsageError


class ListenError(DatacastError):
    """An address cannot be listened on."""


class AddressError(ListenError, UsageError):
    """It is none."""


def host_and_port(address: str) -> tuple[str, int]:
    """Of `host:port`, an IPv6 address without its brackets. Raises AddressError."""
    host, _, port = address.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise AddressError(f"{address!r} is no address: give host:port or unix:/path", what=address)
    return named(host.strip("[]")), int(port)


def host_of(url: str) -> str:
    """Of http(s)://host or http(s)://host:port. Raises AddressError."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host:
        raise AddressError(f"{url!r} is no address: give http://host:port or https://host:port", what=url)
    return named(host)


def named(host: str) -> str:
    """As it is. Raises AddressError for what can be no host's name: who looks it up would raise UnicodeError, which
    nobody takes for a host that is not there."""
    try:
        host.encode("idna")
    except UnicodeError as error:
        text = f"{host!r} is no name of a host: between two dots are 1 to 63 letters"
        raise AddressError(text, what=host) from error
    return host
