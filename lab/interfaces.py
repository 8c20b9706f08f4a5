"""Interfaces of other namespaces, set up and down with one system call each: the moment of a failure is known."""

from __future__ import annotations

import fcntl
import socket
import struct

from datacast.lab.errors import LabError
from datacast.lab.namespace import inside

SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1


def interface_there(ifname: str) -> bool:
    """In this process's namespace; /sys may show another one's."""
    try:
        socket.if_nametoindex(ifname)
    except OSError:
        return False
    return True


class Interfaces:
    """Sockets in the namespaces of processes, kept until `close`."""

    def __init__(self) -> None:
        self._sockets: dict[int, socket.socket] = {}

    def prepare(self, pid: int) -> None:
        """Have a socket inside the namespace of a process. Raises LabError."""
        if pid not in self._sockets:
            self._sockets[pid] = inside(f"/proc/{pid}/ns/net", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))

    def set(self, pid: int, ifname: str, up: bool) -> None:
        """Raises LabError."""
        self.prepare(pid)
        try:
            request = struct.pack("16sH22x", ifname.encode(), 0)
            flags = struct.unpack_from("H", fcntl.ioctl(self._sockets[pid], SIOCGIFFLAGS, request), 16)[0]
            flags = flags | IFF_UP if up else flags & ~IFF_UP
            fcntl.ioctl(self._sockets[pid], SIOCSIFFLAGS, struct.pack("16sH22x", ifname.encode(), flags))
        except OSError as error:
            raise LabError(f"interface {ifname}: {error.strerror}", what=ifname) from error

    def close(self) -> None:
        for sock in self._sockets.values():
            sock.close()
        self._sockets.clear()
