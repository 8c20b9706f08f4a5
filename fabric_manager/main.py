"""`datacast-fabric-manager`: signalling server for agents and switches, HTTP API for masters and the controller."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import logging
import os
import signal
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from datacast.core.errors import DatacastError, UsageError
from datacast.core.quantities import parse_rate
from datacast.services import config_file, daemon, privileges, tls
from datacast.services.nursery import Nursery, adopt
from datacast.services.priority import PRIORITY_MAX, below, go_realtime
from datacast.services.service import HttpServer, address_of, listen
from datacast.services.store import StoreError, open_store

from .admission import GROUPS_MAX, HOST_MAX, Caps
from .api import DEFAULT_SIGNALLING, child_name
from .fabric import Fabric
from .groups import Groups
from .http import make_app
from .hub import Hub
from .keys import Kept
from .leadership import Front, Leadership
from .pool import Pool, make_nursery
from .registry import Registry
from .replica import Replica

if TYPE_CHECKING:
    import networkx as nx

# What the first request and the first division of links would load: whoever takes over has no time for it.
daemon.load_ahead("anyio._backends._asyncio", "numpy.ma")

log = logging.getLogger("datacast.fabric_manager")

SWEEP_S = 0.1
EXPECT_S = 8.0
"""After a restart with groups that run, hosts are taken to live for so long without having registered."""
SUCCESSOR_S = 5.0
"""A leader that is told to end leads on for so long at most while nobody follows."""


class LeadershipLost(DatacastError):
    """The lease has ended."""


def load_topology(text: str) -> nx.Graph:
    """A builder's spec such as bcube:4,1, or a GraphML or JSON file."""
    from datacast import topologies

    if os.path.exists(text):
        return topologies.from_file(text)
    return topologies.parse(text)


class FabricManager:
    """All parts in one event loop: `await start()`, at the end `await stop()`."""

    def __init__(
        self,
        graph: nx.Graph,
        *,
        spec: str = "",
        signalling: str = DEFAULT_SIGNALLING,
        http: str = "127.0.0.1:7501",
        store: str = ":memory:",
        rate_bps: int | None = None,
        mtu: int = 1500,
        queue_packets: int = 100,
        heartbeat_ms: int = 1000,
        workers: int = 2,
        security: tls.Security = tls.PLAIN,
        worker_options: Sequence[str] = (),
        addresses: str = "",
        caps: Caps | None = None,
        nursery: Nursery | None = None,
    ) -> None:
        """`workers`: how many are started here, from `nursery`; `security` is this process's, `worker_options` give
        them theirs, and `addresses` those of all fabric managers."""
        self._addresses = addresses
        self.security, self._worker_options = security, worker_options
        self.store = open_store(store, security)
        self.hub = Hub()
        self.fabric = Fabric(graph, spec=spec, rate_bps=rate_bps, mtu=mtu, queue_packets=queue_packets)
        self.registry = Registry(self.fabric, self.hub.publish, heartbeat_ms=heartbeat_ms, security=security)
        self.groups = Groups(self.fabric, Kept(self.store), self.hub.publish, caps)
        self.pool: Pool | None = None
        self._nursery = nursery or (make_nursery() if workers else None)
        self._signalling, self._http, self._count = signalling, http, workers
        self._tasks: list[asyncio.Task[None]] = []
        self._server: HttpServer | None = None
        self.leadership: Leadership | None = None
        self._front: Front | None = None
        self.signalling_address = self.url = ""

    async def start(self, loaded: Callable[[], None] = lambda: None) -> None:
        """Returns when this one leads; until then it sends those who ask to the leader. `loaded` is called when it has
        all that it needs to lead. Raises ListenError when an address is taken, TlsError when it may not be used without
        TLS, StoreError."""
        http_sock = listen(self._http, self.security)
        try:
            listen(self._signalling, self.security).close()  # not yet: agents look for the one that answers
        except DatacastError:
            http_sock.close()
            raise
        front = self._front = Front()
        # A Unix socket is its owner's alone, and needs no certificates.
        self._server = HttpServer(front, http_sock, None if self._http.startswith("unix:") else self.security.server)
        self.url = self._server.url
        self.leadership = front.leadership = Leadership(self.store, self.url, self.security)
        await self._server.start()
        # A tenth of a second of a processor, which nobody is to wait for when a leader is followed.
        app = make_app(self.fabric, self.groups, self.hub, self.registry)
        replica = Replica(self.store)
        with contextlib.suppress(StoreError):  # `campaign` tries for as long as it takes
            await replica.refresh()
        loaded()
        self.groups.kept.guard = await self.leadership.campaign(replica.follow)
        self.groups.kept.again = self.leadership.again
        await self.groups.begin(replica)
        signalling_sock = listen(self._signalling, self.security)
        self.signalling_address = address_of(signalling_sock)
        if self.groups.unfinished():
            self.fabric.expect_all()
            self._tasks.append(asyncio.create_task(self._end_of_patience()))
        front.app = app
        await self.registry.start(signalling_sock)
        self._tasks.append(asyncio.create_task(self._sweep()))
        if self._nursery:
            self.pool = Pool(
                self._nursery,
                self._addresses or self.url,
                self._count,
                self._left_here,
                lambda pid: any(worker.pid == pid for worker in self.groups.placing.workers.all()),
                self._worker_options,
                self.groups.placing.workers.died,
            )
            self.groups.placing.workers.watch = self.pool.watch
            self.pool.start()

    def _left_here(self) -> int:
        """Workers on this machine that another fabric manager has started, and that are here or come yet."""
        own, placing = self.pool.pids if self.pool else [], self.groups.placing
        there = {worker.name for worker in placing.workers.all() if worker.pid not in own}
        return sum(name.startswith(child_name()) for name in there | placing.coming())

    async def _end_of_patience(self) -> None:
        await asyncio.sleep(EXPECT_S)
        for change in self.fabric.expect_none(time.time_ns()):
            self.hub.publish(change)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            try:
                self.groups.placing.sweep()
            except Exception:  # without it nobody's lease would ever end again, and no group would begin
                log.exception("a look at groups and workers")

    async def successor(self) -> None:
        """Until another fabric manager follows, which leads when this one stops: that one may be starting yet. Not for
        long, and at once where this one has no others."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SUCCESSOR_S if "," in self._addresses else 0):
                await self.hub.followed.wait()

    async def stop(self) -> None:
        """Groups, workers and agents go on without it, and find the next one at the same addresses."""
        if self._front:  # first: who comes back to this one must not be told that its agents are gone
            self._front.end()
        if self.pool:
            await self.pool.stop()
        await self.groups.stop()
        self.hub.close()  # that agents lose this process is no news of the fabric
        if self.leadership:
            await self.leadership.resign()  # nothing is written any more: another may lead while this one tidies up
        await self.registry.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._server:
            await self._server.stop()
        await self.store.close()
        if self.pool:
            await self.pool.end()
        elif self._nursery:
            self._nursery.close()


def arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="datacast-fabric-manager",
        description="Keeps the view of the topology and the groups; starts workers, which run the groups' masters.",
    )
    parser.add_argument(
        "--topology",
        required=True,
        metavar="SPEC|FILE",
        help="bcube:4,1, fattree:4,3, torus:4,2 …, or a GraphML or JSON file",
    )
    parser.add_argument(
        "--signalling",
        default=DEFAULT_SIGNALLING,
        metavar="HOST:PORT",
        help="where agents and switches register (the management network; default %(default)s)",
    )
    parser.add_argument(
        "--http",
        default="127.0.0.1:7501",
        metavar="HOST:PORT|unix:PATH",
        help="where masters and the controller ask (default %(default)s)",
    )
    parser.add_argument(
        "--store",
        default="datacast.sqlite",
        metavar="FILE|etcd://HOST:PORT,…",
        help="where groups are kept: a file for SQLite, or the members of an etcd (default ./%(default)s)",
    )
    parser.add_argument("--link-rate", metavar="RATE", help="rate of links that do not say theirs, such as 100mbit")
    parser.add_argument(
        "--mtu", type=int, default=1500, help="MTU of links that do not say theirs (default %(default)s)"
    )
    parser.add_argument(
        "--queue-packets", type=int, default=100, help="packets a port's queue holds (default %(default)s)"
    )
    parser.add_argument(
        "--heartbeat-ms",
        type=int,
        default=1000,
        help="how often agents report; five missed ones mean gone (default %(default)s)",
    )
    parser.add_argument(
        "--workers",
        type=int,
        default=2,
        metavar="N",
        help="workers (datacast-master) to start here, some 40 MB each; others may come from anywhere (default "
        "%(default)s)",
    )
    parser.add_argument(
        "--addresses",
        default="",
        metavar="URL,URL…",
        help="HTTP addresses of all fabric managers that share the store, for the workers started here (default: this "
        "one's)",
    )
    parser.add_argument(
        "--groups",
        type=int,
        default=GROUPS_MAX,
        metavar="N",
        help="groups that run at once; others wait in the queue (default %(default)s)",
    )
    parser.add_argument(
        "--host-groups",
        type=int,
        default=HOST_MAX,
        metavar="N",
        help="groups that a host is a member of at once (default %(default)s; an agent takes 64 unless told otherwise)",
    )
    tls.add_options(parser)
    privileges.add_option(parser)
    parser.add_argument("--master-cert", metavar="FILE", help="certificate of master/NAME, for the workers it starts")
    parser.add_argument("--master-key", metavar="FILE", help="its key")
    parser.add_argument(
        "--realtime",
        type=int,
        default=0,
        metavar="PRIORITY",
        help="run at real-time priority 1 to 99 (SCHED_RR), and its workers at the one below (never 0): links that "
        "fail are then answered within milliseconds on a busy machine, too; 0: no (default)",
    )
    daemon.add_options(parser)
    args = config_file.parse_args(parser, argv)
    if not 256 <= args.mtu <= 65535:
        parser.error(f"--mtu {args.mtu}: must be between 256 and 65535")
    if args.queue_packets < 8:
        parser.error(f"--queue-packets {args.queue_packets}: must be at least 8")
    if not 1 <= args.groups <= 65_536:
        parser.error(f"--groups {args.groups}: must be between 1 and 65536")
    if not 1 <= args.host_groups <= 65_536:
        parser.error(f"--host-groups {args.host_groups}: must be between 1 and 65536")
    if not 0 <= args.workers <= 64:
        parser.error(f"--workers {args.workers}: must be between 0 and 64")
    if not 0 <= args.realtime <= PRIORITY_MAX:
        parser.error(f"--realtime {args.realtime}: must be between 0 and {PRIORITY_MAX}")
    if not 50 <= args.heartbeat_ms <= 60_000:
        parser.error(f"--heartbeat-ms {args.heartbeat_ms}: must be between 50 and 60000")
    return args


async def serve(
    manager: FabricManager, stop: asyncio.Event, on_start: Callable[[], None], loaded: Callable[[], None] = lambda: None
) -> bool:
    """Start it, which lasts until it leads, and stop it when it is told to or leads no more: then True."""
    starting = asyncio.create_task(manager.start(loaded))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        await manager.stop()
        return False
    starting.result()
    on_start()
    assert manager.leadership
    losing = asyncio.create_task(manager.leadership.lost.wait())
    await asyncio.wait((stopping, losing), return_when=asyncio.FIRST_COMPLETED)
    if not losing.done():
        following = asyncio.create_task(manager.successor())
        await asyncio.wait((following, losing), return_when=asyncio.FIRST_COMPLETED)
        following.cancel()
    await manager.stop()
    return manager.leadership.lost.is_set()


async def run(args: argparse.Namespace) -> None:
    go_realtime(args.realtime)
    privileges.drop(args.user, args.realtime)
    # What loads is in no hurry: at its own priority it would keep workers that look for a leader from the processors.
    go_realtime(below(args.realtime))
    nursery = make_nursery() if args.workers else None  # before there is anything that workers must not have
    adopt()
    security = tls.from_options(args, "fabric-manager")
    workers = security.options
    if security.identity and args.workers:
        if not (args.master_cert and args.master_key):
            raise UsageError(
                "give --master-cert and --master-key too: the workers need a certificate of master/NAME"
            )
        workers = tls.Security(tls.Identity(args.tls_ca, args.master_cert, args.master_key, "master")).options
    if args.realtime:
        workers = [*workers, "--realtime", str(below(args.realtime))]
    graph = load_topology(args.topology)
    manager = FabricManager(
        graph,
        spec=args.topology,
        signalling=args.signalling,
        http=args.http,
        store=args.store,
        rate_bps=parse_rate(args.link_rate) if args.link_rate else None,
        mtu=args.mtu,
        queue_packets=args.queue_packets,
        heartbeat_ms=args.heartbeat_ms,
        workers=args.workers,
        security=security,
        worker_options=workers,
        addresses=args.addresses,
        caps=Caps(args.groups, args.host_groups),
        nursery=nursery,
    )
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)

    def started() -> None:
        gc.freeze()  # what is there now stays: later collections pass it by
        print(
            f"datacast-fabric-manager: {args.topology}, agents register at {manager.signalling_address}, "
            f"HTTP at {manager.url}",
            flush=True,
        )

    if await serve(manager, stop, started, partial(go_realtime, args.realtime)):
        raise LeadershipLost("another fabric manager may lead now: this one ends, start it again to follow")


def main(argv: list[str] | None = None) -> None:
    args = arguments(argv)
    daemon.run("datacast-fabric-manager", run(args), args.verbose)


if __name__ == "__main__":
    main()
