"""Ports for programs that must be told theirs before they listen.

Not the kernel's own choice: what it gave once it may give again to whoever asks next, and tests run side by side. It
never gives one of these to anybody who did not name it."""

from __future__ import annotations

import contextlib
import random
import socket

LOW, HIGH = 20_000, 32_000
"""Below what Linux hands out by itself (net.ipv4.ip_local_port_range)."""
_random = random.SystemRandom()


def free_ports(count: int) -> list[int]:
    """So many ports of 127.0.0.1 that nobody listens on."""
    found: list[int] = []
    for _ in range(HIGH - LOW):
        if len(found) == count:
            return found
        port = _random.randrange(LOW, HIGH)
        if port not in found:
            with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
                found.append(port)
    raise OSError(f"only {len(found)} free ports between {LOW} and {HIGH}")
