"""The management network: TCP that delays, stands still between machines that are cut off from each other, and breaks.

TCP loses nothing and reorders nothing within a connection; a lost segment is a pause of it. What crosses a cut waits,
and goes on when it is healed. So each connection is a queue for each direction, and messages of different ones overtake
each other.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections import deque
from collections.abc import Callable
from typing import Any

from .virtual import Process, VirtualLoop, here

CONNECT_S = 20.0
"""A connection across a cut is given up after so long, if nobody gave up before."""


class Network:
    def __init__(self, loop: VirtualLoop, rng: random.Random, chatty: bool = False) -> None:
        self.loop, self.rng = loop, rng
        loop.network = self
        self.listeners: dict[str, Listener] = {}
        self.apps: dict[str, tuple[Process, Any]] = {}
        """HTTP servers, by host:port."""
        self.links: dict[End, None] = {}
        self.requests: list[Any] = []
        self._cuts: set[frozenset[str]] = set()
        self._healed = asyncio.Event()
        self.slow = 0.0
        """Probability that a segment is lost once, and comes a retransmission later."""
        self.late: dict[tuple[Process, str], float] = {}
        """How long an answer takes at least, by who asked and the path."""
        self._digest = hashlib.blake2b(digest_size=8)
        self.chatty = chatty
        self.sent = 0
        self._ports = 20_000
        """The last one that was given to who asked for any."""

    # ---- what happened ----
    def note(self, *what: object) -> None:
        """One line of the run's history: two runs of a seed have the same."""
        line = f"{self.loop.now:.6f} {' '.join(map(str, what))}"
        self._digest.update(line.encode())
        if self.chatty:
            print(line[:300])

    @property
    def history(self) -> str:
        return self._digest.hexdigest()

    # ---- time and cuts ----
    def delay(self) -> float:
        late = 0.2 * (1 + self.rng.random()) if self.slow and self.rng.random() < self.slow else 0.0
        return 0.0002 + 0.0006 * self.rng.random() + late

    def cut(self, a: str, b: str) -> None:
        self._cuts.add(frozenset((a, b)))

    def heal(self, a: str | None = None, b: str | None = None) -> None:
        if a is None or b is None:
            self._cuts.clear()
        else:
            self._cuts.discard(frozenset((a, b)))
        self._healed.set()
        self._healed = asyncio.Event()
        for end in tuple(self.links):
            end.pump()
        for request in tuple(self.requests):
            request.pump()

    def blocked(self, a: Process, b: Process) -> bool:
        return bool(self._cuts) and frozenset((a.machine, b.machine)) in self._cuts

    async def passage(self, a: Process, b: Process) -> None:
        """Until a message from a to b has arrived."""
        await asyncio.sleep(self.delay())
        while self.blocked(a, b):
            await self._healed.wait()
            await asyncio.sleep(self.delay())

    # ---- connections ----
    async def connect(self, factory: Callable[[], asyncio.BaseProtocol], address: str) -> Any:
        me = here()
        if not me.alive:
            raise ConnectionResetError("this process was killed")
        listener = self.listeners.get(address)
        if listener is None:
            await asyncio.sleep(self.delay())
            listener = self.listeners.get(address)
            if listener is None:
                raise ConnectionRefusedError(111, f"nobody listens at {address}")
        try:
            async with asyncio.timeout(CONNECT_S):
                await self.passage(me, listener.process)
        except TimeoutError:
            raise TimeoutError(110, f"{address} does not answer") from None
        if self.listeners.get(address) is not listener or not me.alive:
            raise ConnectionRefusedError(111, f"nobody listens at {address}")
        near, far = End(self, me), End(self, listener.process)
        near.peer, far.peer = far, near
        protocol = factory()
        near.adopt(protocol)
        listener.arrived(far)
        return near, protocol

    def listen(self, address: str) -> Listener:
        host, _, port = address.rpartition(":")
        if port == "0":
            self._ports += 1
            address = f"{host}:{self._ports}"
        if address in self.listeners:
            raise OSError(98, "Address already in use")
        listener = self.listeners[address] = Listener(self, here(), address)
        listener.process.on_death.append(listener.close)
        return listener

    def serve(self, factory: Any, address: str) -> Listener:
        listener = self.listen(address)
        listener.factory = factory
        return listener


class Listener:
    """Plays a listening socket, and asyncio's Server."""

    family = 0

    def __init__(self, network: Network, process: Process, address: str) -> None:
        self.network, self.process, self.address = network, process, address
        self.factory: Any = None
        self._waiting: deque[End] = deque()
        self._came = asyncio.Event()

    def arrived(self, end: End) -> None:
        if self.factory is not None:
            end.hand_to(self.factory)
        else:
            self._waiting.append(end)
            self._came.set()

    async def accept(self) -> tuple[End, tuple[str, int]]:
        while not self._waiting:
            self._came.clear()
            await self._came.wait()
        return self._waiting.popleft(), ("127.0.0.1", 1)

    def close(self) -> None:
        if self.network.listeners.get(self.address) is self:
            del self.network.listeners[self.address]
        for end in self._waiting:
            end.abort()
        self._waiting.clear()

    @property
    def sockets(self) -> tuple[Listener]:
        return (self,)

    def setblocking(self, flag: bool) -> None:
        pass

    def getsockname(self) -> tuple[str, int]:
        host, _, port = self.address.rpartition(":")
        return host, int(port)

    async def wait_closed(self) -> None:
        pass


class End(asyncio.Transport):
    """One side of a connection."""

    def __init__(self, network: Network, process: Process) -> None:
        super().__init__()
        self.network, self.process = network, process
        self.peer: End
        self.protocol: Any = None
        self._held: list[bytes] = []
        """Came before anybody took the connection."""
        self._out: deque[bytes | None] = deque()
        """On the way to the peer; None: the end."""
        self._next = 0.0
        self._closing = self._lost = self._moving = False
        network.links[self] = None
        process.on_death.append(self._died)

    # ---- a transport ----
    def write(self, data: Any) -> None:
        if self._closing or not self.process.alive:
            return
        self._out.append(bytes(data))
        self.pump()

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if self._closing or self.network.loop.is_closed():  # a task of a world that is over, collected late
            return
        self._closing = True
        self._out.append(None)
        self.pump()
        self.network.loop.call_soon(self._lose, None)

    def abort(self) -> None:
        self.close()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else default

    def get_protocol(self) -> Any:
        return self.protocol

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol

    def set_write_buffer_limits(self, high: Any = None, low: Any = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def can_write_eof(self) -> bool:
        return False

    def pause_reading(self) -> None:
        raise NotImplementedError

    def resume_reading(self) -> None:
        pass

    # ---- taken by its process ----
    def adopt(self, protocol: Any) -> End:
        self.protocol = protocol
        protocol.connection_made(self)
        for data in self._held:
            protocol.data_received(data)
        self._held.clear()
        if self._lost:
            protocol.connection_lost(None)
        return self

    def hand_to(self, factory: Any) -> None:
        """In its own process."""

        async def take() -> None:
            self.adopt(factory())

        if self.process.alive:
            self.network.loop.launch(self.process, take())

    # ---- the way ----
    def pump(self) -> None:
        """Send on what waits, in order."""
        if self._moving or not self._out or self.network.blocked(self.process, self.peer.process):
            return
        self._moving = True
        loop = self.network.loop
        self._next = max(self._next, loop.now + self.network.delay())
        loop.call_at(self._next, self._arrive)

    def _arrive(self) -> None:
        self._moving = False
        if self.network.blocked(self.process, self.peer.process):
            return
        data = b"".join(part for part in self._out if part is not None)
        ended = None in self._out
        self._out.clear()
        if self._lost:
            self.network.links.pop(self, None)
        self.network.sent += 1
        self.network.note(self.process.name, "->", self.peer.process.name, len(data), "end" if ended else "")
        if data:
            self.peer._received(data)
        if ended:
            self.peer._peer_ended()

    def _received(self, data: bytes) -> None:
        if self._closing or not self.process.alive:
            self.peer._reset()
        elif self.protocol is None:
            self._held.append(data)
        else:
            self.protocol.data_received(data)

    def _peer_ended(self) -> None:
        """The other side has closed: nobody here goes on talking to it."""
        if self.protocol is not None and not self._lost and not self._closing:
            self.protocol.eof_received()
        if not self._closing:
            self._closing = True
            self.network.loop.call_soon(self._lose, None)

    def _reset(self) -> None:
        if not self._closing:
            self._closing = True
            self.network.loop.call_soon(self._lose, ConnectionResetError(104, "connection reset by peer"))

    def break_off(self) -> None:
        """Somebody in between has forgotten the connection."""
        self._reset()
        self.peer._reset()

    def _died(self) -> None:
        if not self._closing:
            self._closing = True
            self._out.append(None)
            self.pump()
            self._lost = True

    def _lose(self, error: Exception | None) -> None:
        if self._lost:
            return
        self._lost = True
        if not self._out:
            self.network.links.pop(self, None)
        self.process.on_death.remove(self._died)
        if self.protocol is not None:
            self.protocol.connection_lost(error)
