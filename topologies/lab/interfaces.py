"""Interfaces of other namespaces, set up and down with one system call each: the moment of a failure is known."""

from __future__ import annotations

import ctypes
import fcntl
import socket
import struct
import threading

from datacast.topologies.lab.errors import LabError

CLONE_NEWNET = 0x40000000
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
_libc = ctypes.CDLL(None, use_errno=True)


class Interfaces:
    """Sockets in the namespaces of processes, kept until `close`."""

    def __init__(self) -> None:
        self._sockets: dict[int, socket.socket] = {}

    def prepare(self, pid: int) -> None:
        """Have a socket inside the namespace of a process. Raises LabError."""

        def enter() -> None:
            with open(f"/proc/{pid}/ns/net") as namespace:
                if _libc.setns(namespace.fileno(), CLONE_NEWNET) == 0:
                    self._sockets[pid] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

        if pid not in self._sockets:
            thread = threading.Thread(target=enter)  # its namespace ends with it
            thread.start()
            thread.join()
        if pid not in self._sockets:
            raise LabError(f"cannot enter the namespace of process {pid}", what=str(pid), remedy="run as root")

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
