"""Addresses as options and messages have them: `host:port`."""

from __future__ import annotations

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
    return host.strip("[]"), int(port)
