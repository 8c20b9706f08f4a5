"""`datacast-controller`: the REST API in front of the fabric manager."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
from typing import TYPE_CHECKING

from datacast.core import tls
from datacast.core.errors import DatacastError
from datacast.core.service import HttpServer, listen
from datacast.fabric_manager.api import ENV_URL, FabricManagerClient

from .api import DEFAULT_LISTEN
from .app import make_app

if TYPE_CHECKING:
    from datacast.controller.southbound.service import Switches


async def run(args: argparse.Namespace) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    switches = load_switches(args.switches) if args.switches else None
    async with FabricManagerClient(args.fabric_manager, security=tls.from_options(args, "controller")) as client:
        server = HttpServer(make_app(client, switches), listen(args.listen))
        if switches is not None:
            switches.start()  # first: a controller that cannot drive its switches does not say that it is there
        await server.start()
        print(
            f"datacast-controller: REST at {server.url} (its description at /docs and /openapi.json), "
            f"fabric manager at {client.url}",
            flush=True,
        )
        if switches is not None:
            print(f"datacast-controller: programs {len(switches.config.switches)} switches", flush=True)
        await stop.wait()
        await server.stop()
        if switches is not None:
            switches.stop()


def load_switches(path: str) -> Switches:
    """The SDN side, only where it is needed. Raises SwitchError."""
    from datacast.controller.southbound import config, service

    return service.Switches(config.load(path))


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="datacast-controller", description="REST API through which groups are started."
    )
    parser.add_argument(
        "--listen",
        default=DEFAULT_LISTEN,
        metavar="HOST:PORT|unix:PATH",
        help="default %(default)s; there is no authentication, so think before you leave loopback",
    )
    parser.add_argument(
        "--fabric-manager",
        default=os.environ.get(ENV_URL),
        metavar="URL",
        help=f"http://host:port, https://host:port or unix:/path (${ENV_URL}; default: port 7501 of loopback)",
    )
    parser.add_argument(
        "--switches",
        metavar="FILE",
        help="YAML file of the OpenFlow and P4Runtime switches to program (docs/dataplanes.md)",
    )
    tls.add_options(parser, insecure="plain HTTP to the fabric manager also beyond the loopback interface")
    parser.add_argument("-v", "--verbose", action="store_true")
    args = parser.parse_args(argv)
    logging.basicConfig(
        level=logging.INFO if args.verbose else logging.WARNING,
        stream=sys.stderr,
        format="%(asctime)s %(name)s %(levelname)s %(message)s",
    )
    try:
        asyncio.run(run(args))
    except DatacastError as error:
        print(f"datacast-controller: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
