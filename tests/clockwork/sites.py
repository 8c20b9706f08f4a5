"""Sites that exchange pieces, in simulated time: the controllers' own Exchanges, Gateway, Sharing; links with a rate,
a delay and a queue; TCP's start and windows; hosts that ask as agents do.

    PYTHONPATH=tests PYTHONHASHSEED=0 .venv/bin/python -m clockwork.sites chain 64M 40 50
    PYTHONPATH=tests PYTHONHASHSEED=0 .venv/bin/python -m clockwork.sites robber 128M slow-fast

What crosses a link is counted where it enters it: bytes that nobody waits for any more count as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import itertools
import json
import sys
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
from services_kit import made_records

from datacast.controller.sites.agents import Bytes, What
from datacast.controller.sites.exchanges import Exchanges
from datacast.controller.sites.gateway import Gateway
from datacast.controller.sites.patience import Patience
from datacast.controller.sites.peers import CONNECT_S, CONNECTIONS, HEAD_S, HELD_WAIT_S, OPEN
from datacast.controller.sites.records import Held, Mark, Part, Progress, SiteGroup
from datacast.fabric_manager.api import GroupSpec
from datacast.fabric_manager.api.records import GroupRecord
from datacast.origins.exchange import packed
from datacast.origins.ranges import piece_bytes
from datacast.services.sites_file import SiteError
from datacast.simulation.experiments.robber import scenario

from .virtual import Process, VirtualLoop, world

ID = "s-0123456789abcdef"
KERNEL = contextvars.Context()
"""What goes on while the process that began it stands still."""
SEGMENT, FIRST_WINDOW, WINDOW_MOST = 8 << 10, 14 << 10, 2 << 20
QUEUE = 150 << 10
"""In front of a link; beyond that a segment would be lost."""
SOCKET = 256 << 10
"""What a socket takes from who sends, and keeps for who reads."""
RTO_S = 0.3
PAYLOAD = 0.956
"""Of a packet's bytes on the wire."""
HEAD = 300
"""Of an answer."""
HOSTS_LATE_S = 0.05
"""From a host's request to its first byte and back, and what a master adds."""
ASKING = 8
TELL_S = 0.2
"""A master tells of what its hosts have so late."""


class Link:
    """One way between two sites."""

    def __init__(self, loop: VirtualLoop, rate: float, delay: float) -> None:
        self.loop, self.rate, self.delay = loop, rate, delay
        self.free, self.crossed = 0.0, 0
        self.down: tuple[float, float] = (-1.0, -1.0)

    def send(self, n: int, then: Callable[[], None]) -> None:
        start, end = self.down
        if start <= self.loop.now < end:  # lost, and sent again when it is up
            self.loop.call_at(end + RTO_S, self.send, n, then, context=KERNEL)
            return
        self.crossed += n
        self.free = max(self.free, self.loop.now) + n / self.rate
        at = self.free + self.delay
        if self.free < end and at > start:
            self.loop.call_at(end + RTO_S, self.send, n, then, context=KERNEL)
        else:
            self.loop.call_at(at, then, context=KERNEL)

    async def passage(self) -> None:
        """Of something small."""
        start, end = self.down
        at = self.loop.now if not start <= self.loop.now < end else end + RTO_S
        await asyncio.sleep(at - self.loop.now + self.delay)


class Connection:
    """What a server sends over one TCP connection; its window grows from answer to answer."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.window, self.flying, self.starts = float(FIRST_WINDOW), 0, True
        self._less_at = self._sent_at = -1.0
        self._out: deque[bytes | Exception | None] = deque()
        self._in: deque[bytes | Exception | None] = deque()
        self._queued = self._unread = 0
        self.closed = False
        self._room, self._there = asyncio.Event(), asyncio.Event()

    async def put(self, data: bytes | Exception | None) -> None:
        while self._queued > SOCKET and not self.closed:
            self._room.clear()
            await self._room.wait()
        if self.closed:
            raise ConnectionResetError
        for at in range(0, len(data), SEGMENT) if isinstance(data, bytes) else [0]:
            one = data[at : at + SEGMENT] if isinstance(data, bytes) else data
            self._out.append(one)
            self._queued += len(one) if isinstance(one, bytes) else 0
        self._pump()

    def _pump(self) -> None:
        while self._out and not self.closed and self.flying < self.window and self._unread < SOCKET:
            if not self.flying and self.link.loop.now > self._sent_at + RTO_S:  # as Linux: it begins again
                self.window, self.starts = min(self.window, FIRST_WINDOW), True
            one = self._out.popleft()
            n = len(one) if isinstance(one, bytes) else HEAD
            self._queued -= n if isinstance(one, bytes) else 0
            self.flying += n
            self._sent_at = self.link.loop.now
            self.link.send(n, lambda one=one, n=n: self._arrived(one, n))
        self._room.set()

    def _arrived(self, one: bytes | Exception | None, n: int) -> None:
        self._in.append(one)
        self._unread += n if isinstance(one, bytes) else 0
        self._there.set()
        self.link.loop.call_later(self.link.delay, self._acknowledged, n, context=KERNEL)

    def _acknowledged(self, n: int) -> None:
        self.flying -= n
        if (self.link.free - self.link.loop.now) * self.link.rate > QUEUE:
            if self.link.loop.now > self._less_at + 2 * self.link.delay:
                self._less_at = self.link.loop.now
                self.starts, self.window = False, max(FIRST_WINDOW, 0.7 * self.window)
        else:
            more = n if self.starts else n * SEGMENT / self.window
            self.window = min(WINDOW_MOST, self.window + more)
        self._pump()

    async def get(self) -> bytes | Exception | None:
        while not self._in:
            self._there.clear()
            await self._there.wait()
        one = self._in.popleft()
        self._unread -= len(one) if isinstance(one, bytes) else 0
        self.link.loop.call_soon(self._pump, context=KERNEL)
        return one

    def close(self) -> None:
        """By who reads: the other side hears of it, and sends until then."""

        def heard() -> None:
            self.closed = True
            self._room.set()

        self.link.loop.call_later(self.link.delay, heard, context=KERNEL)


@dataclass
class Site:
    """One site's controller, and its hosts."""

    name: str
    world: World
    process: Process
    record: SiteGroup
    gateway: Gateway = field(init=False)
    exchanges: Exchanges = field(init=False)
    got: np.ndarray = field(init=False)
    told: list[tuple[float, np.ndarray]] = field(default_factory=list)
    wanted: deque[int] = field(default_factory=deque)
    offered: set[int] = field(default_factory=set)
    idle: dict[str, list[Connection]] = field(default_factory=dict)
    room: dict[str, asyncio.Semaphore] = field(default_factory=dict)
    done_s: float | None = None
    wrong: int = 0
    host_rate: float = 12.5e6
    """Bytes in a second that its hosts take."""

    def __post_init__(self) -> None:
        total = -(-self.record.size // piece_bytes(self.record.size))
        self.got = np.ones(total, bool) if self.record.parent is None else np.zeros(total, bool)
        self.directory = SimpleNamespace(name=self.name)
        self.more = asyncio.Event()
        self.patience: defaultdict[str, Patience] = defaultdict(Patience)
        self.gateway = Gateway(self, self, self)  # type: ignore[arg-type]
        self.groups: dict[str, SiteGroup] = {}
        self.exchanges = Exchanges(self, self, self.groups, self.gateway.sharing)  # type: ignore[arg-type]

    # ---- the other sites, as peers.py asks them ----
    @property
    def all(self) -> dict[str, Any]:
        return {name: SimpleNamespace(url=name) for name in self.world.sites if (name, self.name) in self.world.links}

    async def held(self, site: str, group: str, version: int) -> Held:
        other, there, back = self.world.sites[site], self._link(site, out=True), self._link(site)
        try:
            async with asyncio.timeout(HEAD_S + HELD_WAIT_S):
                await there.passage()
                if ID not in other.groups:
                    raise SiteError(f"{site} has no such group", site, "origin_denied")
                work = other.exchanges.held(lambda: other.groups[ID], self.name, version, HELD_WAIT_S)
                told = await self.world.loop.launch(other.process, work)
                await back.passage()
                self.patience[site].heard()
                return told
        except TimeoutError as error:
            raise SiteError(f"{site} does not answer", site, "site_away") from error

    def _link(self, site: str, out: bool = False) -> Link:
        return self.world.links[(self.name, site) if out else (site, self.name)]

    async def stream(self, name: str, group: str, first: int, last: int, etag: str) -> AsyncIterator[bytes]:
        link, there = self._link(name), self._link(name, out=True)
        self.world.asked.append((self.name, name, first, last))
        async with self.room.setdefault(name, asyncio.Semaphore(CONNECTIONS)):
            idle = self.idle.setdefault(name, [Connection(link) for _ in range(OPEN)])
            connection, fresh = (idle.pop(), False) if idle else (Connection(link), True)
            serving: asyncio.Task[None] | None = None
            whole, got = False, 0
            try:
                async with asyncio.timeout(CONNECT_S):
                    if fresh:  # TCP, then TLS
                        for _ in range(2):
                            await there.passage()
                            await link.passage()
                    await there.passage()
                other = self.world.sites[name]
                serving = self.world.loop.launch(other.process, other.serve(connection, self.name, first, last))
                while True:
                    one = await self.patience[name].of(connection.get())
                    if isinstance(one, Exception):
                        raise one
                    if one is None:
                        whole = True
                        break
                    got += len(one)
                    yield one
            except TimeoutError as error:
                raise SiteError(f"{name} does not answer", name, "site_away") from error
            finally:
                if whole:
                    idle.append(connection)
                else:
                    connection.close()
                if serving is not None and not whole:
                    self.world.loop.call_later(link.delay, serving.cancel)

    async def serve(self, connection: Connection, site: str, first: int, last: int) -> None:
        """As rest.py answers."""
        group, began = self.groups[ID], False
        with contextlib.suppress(ConnectionResetError):
            try:
                async with contextlib.aclosing(self.gateway.to_site(group, first, last)) as source:
                    async for chunk in source:
                        began = True
                        await connection.put(chunk)
                await connection.put(None)
            except SiteError as error:
                code = "site_away" if began else error.code
                await connection.put(SiteError(error.message, self.name, code))

    # ---- its own hosts, as the fabric manager and the agents tell of them ----
    async def offer(self, local: str, offers: list[tuple[int, int]]) -> None:
        for first, count in offers:
            for piece in range(first, first + count):
                if piece not in self.offered:
                    self.offered.add(piece)
                    self.wanted.append(piece)
        self.more.set()

    async def fetched(self, local: str) -> str:
        now = self.world.loop.now
        while len(self.told) > 1 and self.told[1][0] <= now - TELL_S:
            self.told.pop(0)
        if not self.told or self.told[0][0] > now - TELL_S:
            return packed(np.zeros(len(self.got), bool))
        return packed(self.told[0][1])

    async def group(self, local: str) -> GroupRecord:
        return made_records.group(id=local, receivers={"h0": {"state": "running"}})

    async def addresses(self) -> dict[str, str]:
        return {"h0": "h0"}

    async def read(self, host: str, what: What, off: int, length: int) -> Bytes:
        await asyncio.sleep(0.002)
        mark = self.record.file or Mark(mtime_ns=0, inode=0)
        data = self.world.data[off : off + length]
        if self.record.parent is not None:
            piece = piece_bytes(self.record.size)
            end = off
            while end < off + length and self.got[end // piece]:
                end = (end // piece + 1) * piece
            data = data[: max(0, end - off)]
        return Bytes(data, self.record.size, mark.mtime_ns, mark.inode, False)

    async def host(self) -> None:
        """Asks for what is offered, one piece after another."""
        piece = piece_bytes(self.record.size)
        while True:
            while not self.wanted:
                self.more.clear()
                await self.more.wait()
            number = self.wanted.popleft()
            at, last = number * piece, min(self.record.size, (number + 1) * piece) - 1
            await asyncio.sleep(HOSTS_LATE_S)
            while at <= last:
                try:
                    async with contextlib.aclosing(self.gateway.to_host(self.groups[ID], at, last)) as source:
                        async for chunk in source:
                            self.wrong += chunk != self.world.data[at : at + len(chunk)]
                            at += len(chunk)
                            await asyncio.sleep(ASKING * len(chunk) / self.host_rate)
                except SiteError:
                    await asyncio.sleep(0.2)
            self.got[number] = True
            self.told.append((self.world.loop.now, self.got.copy()))
            if self.got.all():
                self.done_s = self.world.loop.now

    async def run(self, ordered_s: float, ready_s: float) -> None:
        """The order comes, its hosts are made ready, and it goes on until all is over."""
        await asyncio.sleep(ordered_s)
        self.groups[ID] = self.record
        if self.record.parent is None:
            return
        with self.exchanges.starting(self.record):
            await asyncio.sleep(ready_s)
        self.groups[ID] = self.record.model_copy(update={"local": "g-1"})
        self.told.append((self.world.loop.now, self.got.copy()))
        for _ in range(ASKING):
            self.world.loop.launch(self.process, self.host())
        while True:
            self.exchanges.keep()
            if self.done_s is not None and self.groups[ID].finished_ns is None:
                await asyncio.sleep(TELL_S)
                own = Progress(state="done", fraction=1.0)
                self.groups[ID] = self.groups[ID].model_copy(update={"own": own, "finished_ns": 1})
            await asyncio.sleep(0.25)


class World:
    """`links`: Mbit/s and ms by pair; both ways."""

    def __init__(
        self,
        loop: VirtualLoop,
        size: int,
        paths: dict[str, list[str]],
        links: dict[tuple[str, str], tuple[float, float]],
    ) -> None:
        self.loop, self.size = loop, size
        self.data = np.random.default_rng(1).bytes(size)
        self.links: dict[tuple[str, str], Link] = {}
        self.asked: list[tuple[str, str, int, int]] = []
        for (a, b), (mbit, ms) in links.items():
            for way in ((a, b), (b, a)):
                self.links[way] = Link(loop, mbit * 1e6 / 8 * PAYLOAD, ms / 1000)
        self.sites: dict[str, Site] = {}
        for name, path in paths.items():
            parts = {other: Part(receivers=["all"]) for other, p in paths.items() if p and p[-1] == name}
            others = [other for other, p in paths.items() if p == path and other != name and p]
            spec = GroupSpec(source="h0", source_path="/f", receivers=["all"], dest_path="f")
            group = SiteGroup(
                id=ID, path=path, spec=spec, size=size, file=None if path else Mark(mtime_ns=0, inode=0),
                local=None, others=others, parts=parts,
            )  # fmt: skip
            self.sites[name] = Site(name, self, Process(name, name), group)

    def run(self, until_s: float, ready_s: float = 0.2) -> dict[str, Any]:
        for site in self.sites.values():
            ordered, path = 0.0, [*site.record.path, site.name]
            for a, b in itertools.pairwise(path):
                ordered += 0.05 + self.links[a, b].delay
            self.loop.launch(site.process, site.run(ordered, ready_s))
        ends = [site for site in self.sites.values() if site.record.parent is not None]

        async def wait() -> None:
            while self.loop.now < until_s and not all(site.done_s for site in ends):
                await asyncio.sleep(0.1)

        self.loop.run_until_complete(wait())
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        for site in self.sites.values():
            self.loop.resume(site.process)
        self.loop.run_until_complete(asyncio.sleep(0))
        return {
            "done_s": {site.name: site.done_s for site in ends},
            "wrong": sum(site.wrong for site in ends),
            "crossed": {f"{a}-{b}": link.crossed / self.size for (a, b), link in self.links.items() if link.crossed},
        }


def chain(loop: VirtualLoop, size: int, mbit: float, ms: float) -> World:
    links = {("ams", "sfo"): (mbit, ms), ("sfo", "syd"): (mbit, ms)}
    return World(loop, size, {"ams": [], "sfo": ["ams"], "syd": ["ams", "sfo"]}, links)


def triangle(loop: VirtualLoop, size: int, mbit: float, ms: float) -> World:
    links = {("ams", "sfo"): (mbit, ms), ("sfo", "syd"): (mbit, ms), ("ams", "syd"): (mbit, ms)}
    return World(loop, size, {"ams": [], "sfo": ["ams"], "syd": ["ams"]}, links)


def robber(loop: VirtualLoop, size: int, name: str) -> World:
    """A scenario of Robber's as bench/lab/robber.py has it: four sites, rates a quarter of the paper's."""
    network, names, divide = scenario(name, size, 1), "abcd", 4.0
    paths: dict[str, list[str]] = {"a": [], "b": ["a"], "c": ["a"], "d": ["a"]}
    links = {(names[a], names[b]): (rate * 8e-6 / divide, 10.0) for (a, b), rate in network.links.items() if a < b}
    made = World(loop, size, paths, links)

    def change(link: Link, rate: float) -> None:
        link.rate = rate  # what is in front of it already goes as before, and arrives in its order

    for one in network.changes:
        for (a, b), rate in one.links.items():
            link = made.links[names[a], names[b]]
            loop.call_at(one.at * divide, change, link, rate / divide * PAYLOAD, context=KERNEL)
    return made


def best_s(size: int, mbit: float, ms: float) -> float:
    """Over one link."""
    return size * 8 / (mbit * 1e6 * PAYLOAD) + ms / 1000


def stalls(world: World, every_s: float, for_s: float) -> None:
    """A machine whose processors are full: each controller stands still again and again."""

    async def run(site: Site, at: float) -> None:
        await asyncio.sleep(at)
        while True:
            world.loop.pause(site.process)
            await asyncio.sleep(for_s)
            world.loop.resume(site.process)
            await asyncio.sleep(every_s - for_s)

    for number, site in enumerate(world.sites.values()):
        world.loop.create_task(run(site, 1.0 + 0.37 * number))


def main(words: list[str]) -> None:
    kind, size, *given = words
    bytes_ = int(size[:-1]) << 20
    if kind == "robber":
        with world(1) as (loop, _):
            print(json.dumps(robber(loop, bytes_, *given).run(900.0)))
        return
    mbit, ms, *more = given
    with world(1) as (loop, _):
        one = {"chain": chain, "triangle": triangle}[kind](loop, bytes_, float(mbit), float(ms))
        for what in more:
            name, *rest = what.split(":")
            if name == "cut":
                a, b, at, end = rest
                for way in ((a, b), (b, a)):
                    one.links[way].down = (float(at), float(end))
            elif name == "stall":
                stalls(one, *map(float, rest))
            elif name == "slow":
                one.sites[rest[0]].host_rate = float(rest[1])
        told = one.run(600.0)
        best = best_s(bytes_ // (2 if kind == "triangle" else 1), float(mbit), float(ms))
        told["over"] = {name: round(at / best, 3) if at else None for name, at in told["done_s"].items()}
        told["asked"] = len(one.asked)
        print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1:])
