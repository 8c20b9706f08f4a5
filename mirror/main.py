"""`datacast-mirror`: the layers that groups have brought to this host, for its containerd."""

from __future__ import annotations

import argparse
import asyncio
import math
import signal
from pathlib import Path

from datacast.controller.api import ControllerClient, GroupSpec
from datacast.services import config_file, daemon, privileges
from datacast.services.address import host_and_port
from datacast.services.problems import Problem
from datacast.services.service import HttpServer, listen
from datacast.services.tls import TlsOptionError, is_local

from .app import make_app
from .ondemand import OnDemand, Wish
from .store import Store

DEFAULT_LISTEN = "127.0.0.1:7588"
CONNECTIONS = 256


async def run(args: argparse.Namespace) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    privileges.drop(args.user, 0)
    if not is_local(args.listen) and not args.insecure:
        host_and_port(args.listen)
        raise TlsOptionError(
            f"listening on {args.listen} is refused: everybody there could read the images of this host; "
            "--insecure where that is meant",
            what=args.listen,
        )
    store = Store(Path(args.store))
    on_demand = _on_demand(args, store) if args.controller else None
    server = HttpServer(make_app(store, on_demand), listen(args.listen), connections=CONNECTIONS)
    await server.start()
    print(f"datacast-mirror: {server.url} answers what is in {args.store}", flush=True)
    await stop.wait()
    await server.stop()


def _on_demand(args: argparse.Namespace, store: Store) -> OnDemand:
    def client() -> ControllerClient:
        try:
            token = Path(args.token_file).read_text().strip() if args.token_file else None
        except (OSError, UnicodeDecodeError) as error:  # perhaps it is just being written anew
            raise Problem(503, "bad_token_file", f"cannot read {args.token_file}: {error}") from error
        return ControllerClient(args.controller, token=token)

    to: str = args.to
    receivers = (
        GroupSpec(receiver_set=to[1:])
        if to.startswith("@")
        else GroupSpec(receivers="all" if to == "all" else to.split(","))
    )
    return OnDemand(client, store, Wish(receivers, frozenset(args.registry), args.dest, args.patience))


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="datacast-mirror", description="A registry mirror of the images that groups have brought to this host."
    )
    parser.add_argument("--listen", default=DEFAULT_LISTEN, metavar="HOST:PORT", help="default %(default)s")
    parser.add_argument("--insecure", action="store_true", help="listen beyond loopback: everybody there may read")
    parser.add_argument(
        "--store",
        required=True,
        metavar="FOLDER",
        help="beneath the agent's --dest-root: where images and blobs are put",
    )
    demand = parser.add_argument_group("layers that are not there", "without --controller they are 404")
    demand.add_argument("--controller", metavar="URL", help="start a group for them here")
    demand.add_argument("--token-file", metavar="FILE", help="a token that may order groups")
    demand.add_argument("--to", default="all", metavar="all|@SET|HOST,…", help="to whom (default %(default)s)")
    demand.add_argument(
        "--registry", action="append", default=[], metavar="HOST[:PORT]", help="of this registry; repeat"
    )
    demand.add_argument("--dest", default="mirror", metavar="PATH", help="what agents call --store (%(default)s)")
    demand.add_argument("--patience", type=float, default=600.0, metavar="S", help="wait so long (%(default)s)")
    privileges.add_option(parser)
    daemon.add_options(parser)
    args = config_file.parse_args(parser, argv)
    if args.controller and not args.registry:
        parser.error("--controller is wanted with --registry: whose layers may be asked for")
    if not 0 <= args.patience < math.inf:
        parser.error(f"--patience {args.patience:g}: must be a number of seconds from 0 up")
    daemon.run("datacast-mirror", run(args), args.verbose)


if __name__ == "__main__":
    main()
