"""Signalling to the members (paper, section 3): the tree of members inside one message, acknowledgements aggregated.

`Connection` is one TCP connection to an agent: requests with their acknowledgements, events.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from datacast.core.errors import DatacastError
from datacast.services import framing
from datacast.services.tls import PLAIN, Security, explain
from datacast.services.turns import Turns

from . import events
from .answers import A, Reader, Results
from .events import AnyEvent
from .requests import B, Op, P

log = logging.getLogger("datacast.master")

GRACE_S = 0.5
"""How much longer than the time given to the members an acknowledgement is waited for."""
TURNS = 64
"""Of the loop, once an answer is late: it may be this process that was, and the answer is there and not read yet."""

CHUNK = 1 << 16


class _Head(msgspec.Struct, frozen=True, gc=False):
    """Of a message, what says what it is. Members' answers are read by who asked."""

    type: str
    id: Any = None
    results: msgspec.Raw = msgspec.Raw(b"{}")
    error: Any = None


_heads: msgspec.json.Decoder[_Head] = msgspec.json.Decoder(_Head)


def _read(body: bytes) -> _Head | AnyEvent:
    """Raises FramingError."""
    head = framing.read_json(_heads, body)
    if head.type != "event":
        return head
    try:
        return events.read(body)
    except framing.FramingError as error:
        log.warning("an event that makes no sense (%s): %.200s", error, body.decode(errors="replace"))
        return head


class Said(Generic[A]):
    """Members' answers, as they came: read, those of a group are several times as large, and many may wait."""

    __slots__ = ("_parts", "_reader")

    def __init__(self, reader: Reader[A], *parts: msgspec.Raw) -> None:
        """Of several messages, the first of which says most of who had all of them."""
        self._reader, self._parts = reader, parts

    @classmethod
    def together(cls, said: Sequence[Said[A]]) -> Said[A]:
        return cls(said[0]._reader, *(part for one in said for part in one._parts))

    def read(self) -> Results[A]:
        return self._reader.read(*self._parts)


class Named(Protocol):
    @property
    def name(self) -> str: ...


M = TypeVar("M", bound=Named)
WALKING_S, WALK_S = 0.1, 600.0
"""So often one that walks is asked, and so long at most: of one that never gets through the group hears why."""

async def until_walked(members: list[M], ask: Callable[[list[M]], Awaitable[Results[A]]]) -> Results[A]:
    """One that looks through a large directory says so (`walking`) after half a second, and is asked again; not for
    ever."""
    results, end = await ask(members), time.monotonic() + WALK_S
    while (waits := [m for m in members if results.of(m.name).code == "walking"]) and time.monotonic() < end:
        await asyncio.sleep(WALKING_S)
        more = await ask(waits)
        results |= {m.name: more.of(m.name) for m in waits}
    return results


def parts_of(members: list[M], parts: Mapping[str, P] | None) -> Mapping[str, P] | None:
    return parts and {m.name: parts[m.name] for m in members if m.name in parts}


class SignallingError(DatacastError):
    """A member cannot be reached, or what it says cannot be understood."""

    @property
    def silent(self) -> bool:
        """It said nothing in time."""
        return isinstance(self.__cause__, TimeoutError)


class Branch(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The tree of members inside a request: name, address, own part, children."""

    n: str
    a: str
    b: Any = None
    c: list[Branch] = []


def tree_message(
    children: Mapping[str, Sequence[str]],
    root: str,
    addresses: Mapping[str, str],
    parts: Mapping[str, Any] | None = None,
) -> Branch:
    # Not a function in this one that calls itself: all parts, with their routes, would wait for a look for garbage.
    below = [tree_message(children, child, addresses, parts) for child in children.get(root, ())]
    return Branch(root, addresses[root], parts.get(root) if parts else None, below)


class _Request(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="type", tag="request"):
    id: int
    op: str
    group: str
    epoch: int
    timeout_ms: int
    tree: Branch | msgspec.Raw
    all: Any = None


class Connection:
    """To the agent of host `name`. `on_event` gets every event; `on_close` is called once when the connection is lost
    or closed."""

    def __init__(
        self,
        address: str,
        on_event: Callable[[AnyEvent], None],
        on_close: Callable[[], None] | None = None,
        *,
        name: str,
        security: Security = PLAIN,
        epoch: int = 0,
        turns: Turns | None = None,
    ) -> None:
        """`epoch`: of the master that asks; agents refuse an earlier one's requests. `turns`: of many connections, of
        which a few are read at once."""
        self.address, self.name, self._security = address, name, security
        self._epoch, self._turns = epoch, turns
        self._on_event, self._on_close = on_event, on_close
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[msgspec.Raw]] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self.error = ""

    async def connect(self, timeout: float) -> None:
        """Raises SignallingError."""
        try:
            async with asyncio.timeout(timeout):  # not wait_for: in Python 3.11 it may forget that it was cancelled
                reader, self._writer = await self._security.connect(self.address, "agent", self.name)
        except (OSError, ValueError, TimeoutError, DatacastError) as error:
            reason = f"no answer within {timeout:g} s" if isinstance(error, TimeoutError) else explain(error)
            raise SignallingError(f"no agent at {self.address}: {reason}", what=self.address) from error
        self._reading = asyncio.create_task(self._read(reader))

    @property
    def alive(self) -> bool:
        return self._writer is not None and self._reading is not None and not self._reading.done()

    def _take(self, message: _Head | AnyEvent) -> None:
        """Raises SignallingError."""
        if not isinstance(message, _Head):
            self._on_event(message)
        elif message.type == "ack":
            future = self._waiting.pop(message.id, None) if isinstance(message.id, int) else None
            if future and not future.done():
                future.set_result(message.results)
        elif message.type == "error":
            raise SignallingError(f"{self.address}: {message.error}", what=self.address)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            decoder = framing.Cutter(_read)
            while not reader.at_eof():
                chunk = await reader.read(CHUNK)
                if self._turns is not None:
                    await self._turns.next()
                for message in decoder.feed(chunk):
                    self._take(message)
                    del message  # or an idle connection would keep the status of a whole group
                del chunk  # and the bytes of it
            decoder.end()
            self.error = "closed by the agent"
        except (OSError, DatacastError) as error:
            self.error = explain(error)
        finally:
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(
                        SignallingError(f"connection to {self.address} lost: {self.error}", what=self.address)
                    )
            self._waiting.clear()
            if self._writer:
                self._writer.close()
            if self._on_close:
                self._on_close()

    async def ask(
        self,
        op: Op[B, P, A],
        group: str,
        tree: Branch | msgspec.Raw,
        everyone: B | None = None,
        timeout: float = 2.0,
        patience: float = 0.0,
        epoch: int | None = None,
    ) -> Said[A]:
        """`tree`: perhaps as framing.text already. Send a request and wait for the aggregated acknowledgement. Raises
        SignallingError when the connection is gone or nothing comes in time. The request is written before the first
        suspension, so requests are carried out in the order of the calls. `patience`: how much longer the first agent
        itself is waited for. `epoch`: of the group's master, where it is not the connection's."""
        if not self.alive or self._writer is None:
            raise SignallingError(f"connection to {self.address} lost: {self.error}", what=self.address)
        number = next(self._ids)
        future: asyncio.Future[msgspec.Raw] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        epoch = self._epoch if epoch is None else epoch
        message = _Request(number, op.name, group, epoch, int(timeout * 1000), tree, everyone)
        try:
            self._writer.write(framing.encode(message))
            await asyncio.wait([future], timeout=timeout + patience + GRACE_S)
            for _ in range(TURNS):
                if future.done():
                    break
                await asyncio.sleep(0)
            if not future.done():
                raise SignallingError(
                    f"{self.address} did not acknowledge {op.name} within {timeout + patience + GRACE_S:g} s",
                    what=self.address,
                )
            return Said(op.answers, future.result())
        finally:
            future.cancel()
            self._waiting.pop(number, None)

    async def close(self) -> None:
        self._on_close = None
        if self._writer:
            self._writer.close()
        if self._reading:
            self._reading.cancel()
            await asyncio.wait([self._reading])  # whoever is cancelled here is, not only what is waited for


@dataclass(frozen=True)
class Visit:
    """A connection that a group has for itself."""

    connection: Connection
    group: str

    async def ask(self, op: Op[B, P, A], tree: Branch, everyone: B | None = None, timeout: float = 2.0) -> Said[A]:
        """As Connection.ask."""
        return await self.connection.ask(op, self.group, tree, everyone, timeout)
