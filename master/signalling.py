"""Signalling to the members (paper, section 3): the tree of members inside one message, acknowledgements aggregated.

`Connection` is one TCP connection to an agent: requests with their acknowledgements, events.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Protocol, TypeVar

import msgspec

from datacast.core.errors import DatacastError
from datacast.services import framing
from datacast.services.tls import PLAIN, Security, explain

log = logging.getLogger("datacast.master")

GRACE_S = 0.5
"""How much longer than the time given to the members an acknowledgement is waited for."""
TURNS = 64
"""Of the loop, once an answer is late: it may be this process that was, and the answer is there and not read yet."""

CHUNK = 1 << 16

Results = dict[str, dict[str, Any]]


class _Head(msgspec.Struct):
    """Of an acknowledgement, what says whose it is. Members' answers are read by who asked."""

    type: str
    id: Any = None
    results: msgspec.Raw = msgspec.Raw(b"{}")


_heads: msgspec.json.Decoder[_Head] = msgspec.json.Decoder(_Head)
_results = msgspec.json.Decoder(dict[str, Any])


def _read(body: bytes) -> _Head | framing.Message:
    """Raises FramingError."""
    head = framing.read_json(_heads, body)
    return head if head.type == "ack" else framing.whole(body)


class Said:
    """Members' answers, as they came: read, those of a group are five times as large. Many may wait for their turn."""

    __slots__ = ("_parts",)

    def __init__(self, *parts: msgspec.Raw) -> None:
        """Of several messages, the first of which says most of who had all of them."""
        self._parts = parts

    @classmethod
    def together(cls, said: Iterable[Said]) -> Said:
        return cls(*(part for one in said for part in one._parts))

    def read(self) -> Results:
        """By member. What is none is left out: nothing of it came."""
        results: Results = {}
        for part in reversed(self._parts):
            try:
                told = framing.read_json(_results, part)
                results |= {name: result for name, result in told.items() if isinstance(result, dict)}
            except framing.FramingError as error:
                log.warning("answers that make no sense: %s", error)
        return results


def answer_of(results: Results, member: str) -> dict[str, Any]:
    """What a member answered; `unreachable` where nothing of it came."""
    return results.get(member) or {"ok": False, "code": "unreachable"}


class Named(Protocol):
    @property
    def name(self) -> str: ...


M = TypeVar("M", bound=Named)
WALKING_S = 0.1


async def until_walked(members: list[M], ask: Callable[[list[M]], Awaitable[Results]]) -> Results:
    """One that looks through a large directory says so (`walking`) after half a second, and is asked again."""
    results = await ask(members)
    while waits := [m for m in members if answer_of(results, m.name).get("code") == "walking"]:
        await asyncio.sleep(WALKING_S)
        more = await ask(waits)
        results |= {m.name: answer_of(more, m.name) for m in waits}
    return results


def parts_of(members: list[M], parts: dict[str, dict[str, Any]] | None) -> dict[str, dict[str, Any]] | None:
    return parts and {m.name: parts[m.name] for m in members if m.name in parts}


class SignallingError(DatacastError):
    """A member cannot be reached, or what it says cannot be understood."""


def tree_message(
    children: dict[str, list[str]], root: str, addresses: dict[str, str], parts: dict[str, dict[str, Any]] | None = None
) -> dict[str, Any]:
    """The `tree` of a request: own parts and addresses put in."""
    entry: dict[str, Any] = {"n": root, "a": addresses[root]}
    if parts and root in parts:
        entry["b"] = parts[root]
    if children.get(root):
        # Not a function in this one that calls itself: all parts, with their routes, would wait for a look for garbage.
        entry["c"] = [tree_message(children, child, addresses, parts) for child in children[root]]
    return entry


class Connection:
    """To the agent of host `name`. `on_event` gets every event; `on_close` is called once when the connection is lost
    or closed."""

    def __init__(
        self,
        address: str,
        on_event: Callable[[dict[str, Any]], None],
        on_close: Callable[[], None] | None = None,
        *,
        name: str,
        security: Security = PLAIN,
        epoch: int = 0,
    ) -> None:
        """`epoch`: of the master that asks; agents refuse an earlier one's requests."""
        self.address, self.name, self._security = address, name, security
        self._epoch = epoch
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

    def _take(self, message: _Head | framing.Message) -> None:
        """Raises SignallingError."""
        if isinstance(message, _Head):
            future = self._waiting.pop(message.id, None) if isinstance(message.id, int) else None
            if future and not future.done():
                future.set_result(message.results)
        elif message["type"] == "event":
            try:
                self._on_event(message)
            except (KeyError, TypeError, ValueError) as error:
                log.warning("%s: an event that makes no sense (%r): %.200s", self.address, error, message)
        elif message["type"] == "error":
            raise SignallingError(f"{self.address}: {message.get('error')}", what=self.address)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            decoder = framing.Cutter(_read)
            while not reader.at_eof():
                for message in decoder.feed(await reader.read(CHUNK)):
                    self._take(message)
                    del message  # or an idle connection would keep the status of a whole group
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
        op: str,
        group: str,
        tree: dict[str, Any] | bytes,
        everyone: dict[str, Any] | None = None,
        timeout: float = 2.0,
        patience: float = 0.0,
        epoch: int | None = None,
    ) -> Said:
        """`tree`: a tree_message, perhaps as framing.text already. Send a request and wait for the aggregated
        acknowledgement, {member: result}. Raises SignallingError when the connection is gone or nothing comes in
        time. The request is written before the first suspension, so requests are carried out in the order of the
        calls. `patience`: how much longer the first agent itself is waited for. `epoch`: of the group's master, where
        it is not the connection's."""
        if not self.alive or self._writer is None:
            raise SignallingError(f"connection to {self.address} lost: {self.error}", what=self.address)
        number = next(self._ids)
        future: asyncio.Future[msgspec.Raw] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        message = {
            "type": "request",
            "id": number,
            "op": op,
            "group": group,
            "epoch": self._epoch if epoch is None else epoch,
            "timeout_ms": int(timeout * 1000),
        }
        if everyone:
            message["all"] = everyone
        try:
            self._writer.write(framing.encode(message, tree=tree if isinstance(tree, bytes) else framing.text(tree)))
            await asyncio.wait([future], timeout=timeout + patience + GRACE_S)
            for _ in range(TURNS):
                if future.done():
                    break
                await asyncio.sleep(0)
            if not future.done():
                raise SignallingError(
                    f"{self.address} did not acknowledge {op} within {timeout + patience + GRACE_S:g} s",
                    what=self.address,
                )
            return Said(future.result())
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
