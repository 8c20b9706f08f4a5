"""`datacast-controller`: the REST API in front of the fabric manager."""

from __future__ import annotations

import argparse
import asyncio
import logging
import math
import os
import signal
import ssl
from pathlib import Path
from typing import TYPE_CHECKING

from datacast.fabric_manager.api import ENV_URL, FabricManagerClient
from datacast.services import config_file, daemon, privileges, tls
from datacast.services.address import host_and_port
from datacast.services.priority import PRIORITY_MAX, below, go_realtime
from datacast.services.service import HttpServer, listen
from datacast.services.tokens import TokenFile

from .api import DEFAULT_LISTEN
from .app import make_app
from .audit import Audit

if TYPE_CHECKING:
    from datacast.controller.sites.agents import Agents
    from datacast.controller.sites.coordinator import Coordinator
    from datacast.controller.sites.peers import Peers
    from datacast.controller.southbound.service import Switches


log = logging.getLogger("datacast.controller")

RATE, CONNECTIONS = 200.0, 1024
FABRIC_MANAGER_S = 8.0
"""A fabric manager that says nothing for so long hangs: less than who asks here waits (api.ControllerClient), who would
take this controller for gone. It holds some requests for five seconds."""


async def run(args: argparse.Namespace) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    go_realtime(args.realtime)
    privileges.drop(args.user, args.realtime)
    go_realtime(below(args.realtime))  # what loads is in no hurry
    tokens = TokenFile(Path(args.tokens)) if args.tokens else None
    peers: Peers | None = None
    context: ssl.SSLContext | None
    security = tls.from_options(args, "controller")
    if args.sites:
        peers, context = sites(args, security)
    else:
        context = https(args)
    check_open(args, tokens is not None, context is not None)
    audit = Audit(Path(args.audit)) if args.audit else None
    switches = load_switches(args.switches) if args.switches else None
    async with FabricManagerClient(args.fabric_manager, FABRIC_MANAGER_S, security) as client:
        coordinator = None
        if peers is not None:
            coordinator, agents = coordinate(client, security, peers)
            coordinator.start()
        app = make_app(client, switches, tokens, args.rate, audit, coordinator, rest_until(args))
        server = HttpServer(app, listen(args.listen), context, connections=args.connections)
        if switches is not None:
            switches.start()  # first: a controller that cannot drive its switches does not say that it is there
        go_realtime(args.realtime)
        await server.start()
        if tokens is None:
            log.warning("no --tokens: whoever reaches %s may order groups and read their state", server.address)
        print(
            f"datacast-controller: REST at {server.url} (its description at /docs and /openapi.json), "
            f"fabric manager at {client.url}",
            flush=True,
        )
        if switches is not None:
            print(f"datacast-controller: programs {len(switches.config.switches)} switches", flush=True)
        if coordinator is not None:
            print(
                f"datacast-controller: site {coordinator.name}, knows {len(coordinator.peers.all)} others", flush=True
            )
        await stop.wait()
        client.end_streams()  # first: a server waits for its answers, and then breaks them off
        await server.stop()
        if coordinator is not None:
            await coordinator.stop()
            agents.close()
        if switches is not None:
            switches.stop()


def sites(args: argparse.Namespace, security: tls.Security) -> tuple[Peers, ssl.SSLContext]:
    """The other sites, and what their controllers and this site's hosts find at the REST port. Raises TlsError,
    SiteError."""
    from datacast.controller.sites.directory import Directory
    from datacast.controller.sites.peers import Peers

    if security.identity is None:
        raise tls.TlsOptionError(
            "--sites needs --tls-ca, --tls-cert and --tls-key: sites know each other by their authorities"
        )
    ca, cert, key = security.identity.files
    if args.rest_cert:
        tls.Identity(ca, args.rest_cert, args.rest_key, "controller")  # it is what other sites are shown
        cert, key = args.rest_cert, args.rest_key
    peers = Peers(Directory(Path(args.sites), ca), security.identity)
    return peers, peers.server(cert, key)


def coordinate(client: FabricManagerClient, security: tls.Security, peers: Peers) -> tuple[Coordinator, Agents]:
    """What goes between sites, only where there are others: half of what a controller holds in memory comes with it."""
    from datacast.controller.sites.agents import Agents
    from datacast.controller.sites.coordinator import Coordinator
    from datacast.controller.sites.gateway import Gateway

    agents = Agents(client, security)
    return Coordinator(client, peers, Gateway(client, agents, peers)), agents


def https(args: argparse.Namespace) -> ssl.SSLContext | None:
    """Raises TlsError."""
    return tls.https_context(args.rest_cert, args.rest_key) if args.rest_cert else None


def rest_until(args: argparse.Namespace) -> float | None:
    """When the certificate ends that REST alone shows, in seconds since 1970; None: there is none. Raises
    AuthorityError."""
    if not args.rest_cert:
        return None
    from datacast.services.authority import end_of, read_certificate

    return end_of(read_certificate(Path(args.rest_cert))).timestamp()


def check_open(args: argparse.Namespace, tokens: bool, secure: bool) -> None:
    """Beyond this machine: tokens always, and no token in clear. Raises TlsError, and AddressError for what is none."""
    if tls.is_local(args.listen):
        return
    host_and_port(args.listen)
    if not tokens:
        raise tls.TlsOptionError(
            f"listening on {args.listen} without --tokens is refused: everybody there could order groups "
            "(`datacast token create` makes a file)",
            what=args.listen,
        )
    if not secure and not args.insecure:
        raise tls.TlsOptionError(
            f"listening on {args.listen} without https is refused: tokens would travel in clear; give --rest-cert and "
            "--rest-key, or --insecure where everybody on the network is trusted",
            what=args.listen,
        )


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
        help="default %(default)s; beyond loopback with --tokens and https only",
    )
    parser.add_argument(
        "--tokens",
        metavar="FILE",
        help="who may do what (`datacast token`); without it everybody who reaches the address may do everything",
    )
    parser.add_argument(
        "--audit", metavar="FILE", help="write a line of JSON there for every request that changes something"
    )
    parser.add_argument("--rest-cert", metavar="FILE", help="REST by https: the certificate, with its chain (PEM)")
    parser.add_argument(
        "--sites",
        metavar="FILE",
        help="YAML file of the sites that this one deals with (`datacast sites`, docs/sites.md); REST is https then, "
        "with this process's certificate unless --rest-cert names another of the same authority",
    )
    parser.add_argument("--rest-key", metavar="FILE", help="its key")
    parser.add_argument(
        "--rate",
        type=float,
        default=RATE,
        metavar="N",
        help="requests a second of one token, five seconds' worth at once (default %(default)s, 0: any number)",
    )
    parser.add_argument(
        "--connections", type=int, default=CONNECTIONS, metavar="N", help="REST connections at once (%(default)s)"
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
    parser.add_argument(
        "--realtime",
        type=int,
        default=0,
        metavar="PRIORITY",
        help="run at real-time priority 1 to 99 (SCHED_RR): requests are then answered on a busy machine, too; 0: no "
        "(default)",
    )
    privileges.add_option(parser)
    tls.add_options(parser, insecure="plain TCP also beyond the loopback interface")
    daemon.add_options(parser)
    args = config_file.parse_args(parser, argv)
    if bool(args.rest_cert) != bool(args.rest_key):
        parser.error("--rest-cert and --rest-key belong together")
    if not 0 <= args.rate < math.inf or not 1 <= args.connections <= 65536:
        parser.error("--rate must be a number from 0 up, --connections between 1 and 65536")
    if not 0 <= args.realtime <= PRIORITY_MAX:
        parser.error(f"--realtime {args.realtime}: must be between 0 and {PRIORITY_MAX}")
    daemon.run("datacast-controller", run(args), args.verbose)


if __name__ == "__main__":
    main()
