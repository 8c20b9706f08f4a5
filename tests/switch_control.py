"""A switch's control socket, as tests ask it (dpdk_cache/README.md)."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

PATIENCE_S = 60.0


def ask_switch(control: Path | str, op: str, **arguments: Any) -> dict[str, Any]:
    """One request, and its answer."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(PATIENCE_S)
        sock.connect(str(control))
        sock.sendall(json.dumps({"op": op, **arguments}).encode() + b"\n")
        data = b""
        while not data.endswith(b"\n"):
            more = sock.recv(1 << 20)
            assert more, "the switch closed the control connection"
            data += more
    return json.loads(data)
