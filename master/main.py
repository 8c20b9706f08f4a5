"""`datacast-master`: runs one group, then ends.

It has loaded everything and follows the topology before its group is known; the order comes as one JSON line on the
standard input. When that ends without an order, the master ends as well.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import signal
import sys
import time
from dataclasses import asdict
from typing import Any

import networkx  # noqa: F401  (loaded ahead: a group must not wait for it)

from datacast.core.errors import DatacastError
from datacast.fabric_manager.api import FabricManagerClient, StartOrder
from datacast.services import eventloop, tls
from datacast.services.priority import go_realtime

from .group import Group
from .view import View

log = logging.getLogger("datacast.master")

EXIT_CODES = {"done": 0, "partial": 1, "failed": 1, "cancelled": 3}


class OrderError(DatacastError):
    """What came on the standard input is no order."""


async def read_order() -> dict[str, Any] | None:
    """One line of standard input; None when it ends first. Raises OrderError."""
    reader = asyncio.StreamReader(limit=16 << 20)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    line = await reader.readline()
    transport.close()
    if not line.strip():
        return None
    try:
        return asdict(StartOrder(**json.loads(line)))
    except (ValueError, TypeError) as error:
        raise OrderError(f"the order on the standard input cannot be read: {error}") from error


async def run(args: argparse.Namespace) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    client = FabricManagerClient(args.fabric_manager, security=tls.from_options(args, "master"))
    view = View(client)
    following = asyncio.create_task(view.follow())
    stopped = asyncio.create_task(stop.wait())
    try:
        waiting = asyncio.create_task(read_order())
        await asyncio.wait((waiting, stopped), return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            waiting.cancel()
            return 0
        order = waiting.result()
        if order is None:
            return 0
        client.key = order["key"]
        gc.freeze()
        go_realtime(args.realtime)
        group = Group(order, view, client, received_ns=time.time_ns())
        running = asyncio.create_task(group.run())
        await asyncio.wait((running, stopped), return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            group.cancel("the master was told to stop")
        state = await running
        log.info("group %s: %s", group.id, state)
        return EXIT_CODES[state]
    finally:
        following.cancel()
        stopped.cancel()
        await asyncio.gather(following, stopped, return_exceptions=True)
        await client.close()


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="datacast-master",
        description="Delivers one group, then ends. The fabric manager starts masters ahead of their use and gives "
        "each its order as a JSON line on the standard input (fabric_manager.api.StartOrder); without one it ends "
        "as well.",
    )
    parser.add_argument(
        "--fabric-manager",
        metavar="URL",
        help="http://host:port, https://host:port or unix:/path (default: port 7501 of loopback)",
    )
    tls.add_options(parser)
    parser.add_argument(
        "--realtime", type=int, default=0, metavar="PRIORITY", help="of SCHED_RR, as soon as there is a group; 0: none"
    )
    parser.add_argument("-v", "--verbose", action="store_true")
    args = parser.parse_args(argv)
    logging.basicConfig(
        level=logging.INFO if args.verbose else logging.WARNING,
        stream=sys.stderr,
        format="%(asctime)s %(name)s %(levelname)s %(message)s",
    )
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        sys.exit(eventloop.run(run(args)))
    except DatacastError as error:
        print(f"datacast-master: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
