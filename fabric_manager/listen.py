"""Listening sockets with errors a person can use; shared by this service's two servers."""

from __future__ import annotations

import os
import socket
import stat

from datacast.core.errors import DatacastError


class ListenError(DatacastError):
    """An address cannot be listened on."""


def listen(address: str) -> socket.socket:
    """A bound, listening socket for `host:port` or `unix:/path`. Raises ListenError."""
    try:
        if address.startswith("unix:"):
            return _listen_unix(address[len("unix:"):])
        host, _, port = address.rpartition(":")
        if not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
            raise ListenError(f"{address!r} is no address: give host:port or unix:/path", what=address)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((host.strip("[]"), int(port)))
            sock.listen(1024)
        except OSError:
            sock.close()
            raise
        return sock
    except OSError as error:
        remedy = "another process listens there: stop it or choose another address" if error.errno == 98 else "choose another"
        raise ListenError(f"cannot listen on {address}: {error.strerror or error} ({remedy})", what=address) from error


def _listen_unix(path: str) -> socket.socket:
    if os.path.exists(path) and stat.S_ISSOCK(os.stat(path).st_mode):
        probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            probe.connect(path)
        except OSError:
            os.unlink(path)  # left behind by a process that was killed
        finally:
            probe.close()
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(path)
        os.chmod(path, 0o600)
        sock.listen(1024)
    except OSError:
        sock.close()
        raise
    return sock


def address_of(sock: socket.socket) -> str:
    """host:port as bound (port 0 resolved), or unix:/path."""
    name = sock.getsockname()
    return f"unix:{name}" if isinstance(name, str) else f"{name[0]}:{name[1]}"
