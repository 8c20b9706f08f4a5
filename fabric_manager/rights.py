"""Who may say what to the fabric manager (docs/signalling.md, "Who may speak"). Without TLS nobody is told apart."""

from __future__ import annotations

from typing import Any

from fastapi import Depends, Request

from datacast.services.connection import PEER
from datacast.services.problems import Problem
from datacast.services.tls import Peer

from .told import FabricError, Registration

REPORTERS = "agent switch controller"
"""Roles that may register."""
LEASE_HEADER = "x-datacast-lease"
"""What a worker has made up when it started: whoever shows it speaks for its groups, and for no others."""


def may_register(peer: Peer | None, told: Registration) -> None:
    """An agent registers the host, a switch process the switches that its certificate names; a controller any switch
    it speaks for. `peer` None: a plain connection. Raises FabricError."""
    if peer is None:
        return
    node, kind, proxy = told.node, told.kind, told.proxy
    if peer.role == "controller":
        fits = kind == "switch" and proxy
    else:
        fits = kind == {"agent": "host", "switch": "switch"}.get(peer.role) and node in peer.names and not proxy
    if not fits:
        raise FabricError("denied", f"{peer} may not register {kind} {node}{' by proxy' if proxy else ''}", node)


def only(*roles: str) -> Any:
    """A dependency for routes: who comes by TLS must have one of these roles."""

    async def check(request: Request) -> None:  # not in a thread: on a busy machine a request would wait for its turn
        peer = request.scope.get(PEER, roles)
        if peer is not roles and (peer is None or peer.role not in roles):
            who = str(peer) if peer else "a certificate that names no role"
            raise Problem(
                403,
                "denied",
                f"{who} may not ask for {request.method} {request.url.path}",
                what=who,
                remedy=f"this is for {' and '.join(roles)} (docs/signalling.md)",
            )

    return Depends(check)
