"""`datacast-master`: a worker, which runs the masters of the groups that the fabric manager gives it (worker.py)."""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import re
import signal
import stat
import sys
from typing import Any

from datacast.fabric_manager.api import FabricManagerClient, child_name, machine_name
from datacast.services import daemon, tls
from datacast.services.priority import go_realtime

from .view import View
from .worker import Worker

# No group should wait for these to be loaded, and workers that are forked share them.
daemon.load_ahead("networkx", "datacast.services.asking")

ORPHAN_S = 60.0
"""Without groups, and without the fabric manager that has started it, a worker ends at once; with groups, so long after
it has found nobody to tell of the last one."""


async def parent_ended() -> None:
    """Until the standard input ends: a pipe of its parent. Whatever else it is, no parent holds it (and it cannot be
    waited for)."""
    mode = os.fstat(0).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    while await reader.read(1024):
        pass
    transport.close()


async def orphaned(worker: Worker) -> None:
    """Until the parent has ended and there is nothing left to do, or nobody to tell it."""
    await parent_ended()
    while not worker.idle.is_set():
        waiting = [asyncio.create_task(worker.idle.wait()), asyncio.create_task(asyncio.sleep(ORPHAN_S))]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()
        if all(running.ended for running in worker.groups.values()):
            return


async def run(args: argparse.Namespace) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    client = FabricManagerClient(args.fabric_manager, security=tls.from_options(args, "master"))
    view = View(client)
    worker = Worker(client, view, args.name or own_name(args.child))
    go_realtime(args.realtime)
    gc.freeze()
    tasks: list[asyncio.Task[None]] = [asyncio.create_task(view.follow()), asyncio.create_task(worker.run(os.getpid()))]
    ends: list[asyncio.Task[Any]] = [asyncio.create_task(stop.wait())]
    if args.child:
        ends.append(asyncio.create_task(orphaned(worker)))
    try:
        await asyncio.wait((*ends, *tasks), return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()
        await worker.leave()
    finally:
        for task in (*tasks, *ends):
            task.cancel()
        await asyncio.gather(*tasks, *ends, return_exceptions=True)
        await client.close()


def own_name(child: bool) -> str:
    """Nobody else's."""
    return f"{child_name() if child else machine_name() + '-'}{os.getpid()}"


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="datacast-master",
        description="A worker: runs the masters of the groups that the fabric manager gives it. The fabric manager "
        "starts some itself; more may run anywhere on the management network.",
    )
    parser.add_argument(
        "--fabric-manager",
        metavar="URL[,URL…]",
        help="http://host:port, https://host:port or unix:/path, of each fabric manager (default: port 7501 of "
        "loopback)",
    )
    parser.add_argument("--name", metavar="NAME", help="what it is called in answers and logs (default: host and pid)")
    parser.add_argument("--child", action="store_true", help="end with the process that has started it")
    tls.add_options(parser)
    parser.add_argument("--realtime", type=int, default=0, metavar="PRIORITY", help="of SCHED_RR; 0: none")
    daemon.add_options(parser)
    args = parser.parse_args(argv)
    if args.name is not None and not re.fullmatch("[A-Za-z0-9][A-Za-z0-9._-]{0,63}", args.name):
        parser.error(f"--name {args.name!r}: give letters, digits, dots and dashes, at most 64")
    daemon.run("datacast-master", run(args), args.verbose)


if __name__ == "__main__":
    main()
