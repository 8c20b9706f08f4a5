"""The lab of lab.py on the clock of tests/clockwork: who waits, waits for nothing, and a busy machine changes nothing.

The services and the agents that are played are the same; sockets, HTTP, the store and the clock are simulated. One
process has them all, so nothing can be killed here but as the kit does it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any
from unittest import mock

from clockwork.exchange import Server, client_for
from clockwork.keeping import Disk, SimulatedStore
from clockwork.network import Network
from clockwork.virtual import Process, world


def run(work: Coroutine[Any, Any, Any], timeout: float = 600.0, seed: int = 1) -> Any:
    """`timeout`: of simulated seconds."""
    with world(seed) as (loop, rng):
        network = Network(loop, rng)
        disk = Disk(network)
        with (
            mock.patch("datacast.fabric_manager.main.listen", lambda address, security=None: network.listen(address)),
            mock.patch("datacast.fabric_manager.main.HttpServer", Server),
            mock.patch("datacast.fabric_manager.main.open_store", lambda *_: SimulatedStore(disk)),
            mock.patch("datacast.services.problems.http_client", partial(client_for, network)),
        ):
            return loop.run_until_complete(loop.launch(Process("test", "test"), asyncio.wait_for(work, timeout)))
