"""The signalling server: agents and switches register, send heartbeats and report links (docs/signalling.md)."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from datacast.core.lists import few
from datacast.services import framing
from datacast.services.acceptor import Acceptor
from datacast.services.ticks import Ticks
from datacast.services.tls import PLAIN, Peer, Security, StrangerError, check_peer, explain

from .api.topology import Change, LinkChange
from .fabric import Fabric
from .rights import REPORTERS, may_register
from .told import NAME_MAX, FabricError, Heartbeat, LinkReport, Registration, away_ms

log = logging.getLogger("datacast.fabric_manager")

CONNECTIONS_MAX = 16384
SILENCE_TICKS = 20
"""A connection's silence is counted in so many parts (services/ticks.py)."""
HEARD_EVERY = 3
"""Of a connection's heartbeats so many have one answer: whoever hears none knows that nobody is there."""
UNHEARD_BEATS = 7
"""Heartbeats without an answer after which a node looks for another fabric manager. By then one has followed
(leadership.LEASE_S), and it does not wait for long (main.EXPECT_S)."""
NAMED_MAX = 16
"""Nodes of one connection that a line of the log names."""


@dataclass
class _Open:
    """A connection. `quiet`: ticks since something came; `limit`: of what is waited for; `beats`: heartbeats; `names`:
    of the nodes that it has registered."""

    writer: asyncio.StreamWriter
    names: list[str] = field(default_factory=list)
    quiet: int = 0
    beats: int = 0
    limit: asyncio.Timeout | None = None


class Registry:
    """`publish` gets every change of the fabric. A connection that is silent for `patience` heartbeats is closed."""

    def __init__(
        self,
        fabric: Fabric,
        publish: Callable[[Change], None],
        *,
        heartbeat_ms: int = 1000,
        patience: float = 5.0,
        security: Security = PLAIN,
    ) -> None:
        self.fabric = fabric
        self.publish = publish
        self.heartbeat_ms = heartbeat_ms
        self.silence_s = patience * heartbeat_ms / 1000
        self._sessions = itertools.count(1)
        self._security = security
        self._acceptor: Acceptor | None = None
        self._open: dict[int, _Open] = {}
        """By session."""
        self._ticks = Ticks(self._tick)
        self.reports = {"register": 0, "heartbeat": 0, "link": 0, "refused": 0, "bad_frame": 0, "silent": 0}

    @property
    def certificate_until(self) -> float | None:
        """When the first of our own certificate and those of registered nodes ends."""
        nodes = (node.certificate_until for node in self.fabric.nodes.values() if node.registered)
        return min((end for end in (self._security.until, *nodes) if end is not None), default=None)

    async def start(self, sock: Any) -> None:
        def protocol() -> asyncio.StreamReaderProtocol:
            return asyncio.StreamReaderProtocol(asyncio.StreamReader(), self._serve)

        self._acceptor = Acceptor(
            sock, protocol, lambda: len(self._open), limit=CONNECTIONS_MAX, context=self._security.server, log=log
        )
        self._acceptor.start()
        self._ticks.start(self.silence_s / SILENCE_TICKS)

    async def stop(self) -> None:
        self._ticks.stop()
        if self._acceptor:
            await self._acceptor.stop()
        for there in tuple(self._open.values()):
            there.writer.close()

    def _announce(self, changes: list[Change]) -> None:
        for change in changes:
            self.publish(change)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = writer.get_extra_info("peername")
        silent = False
        session = next(self._sessions)
        there = self._open[session] = _Open(writer)
        names = there.names
        try:
            who = check_peer(writer.get_extra_info("peercert"), REPORTERS) if self._security.identity else None
            while True:
                message = await self._message(reader, there)
                if message is None:
                    break
                self._handle(message, session, there, who)
        except TimeoutError:
            silent = True
            self.reports["silent"] += 1
            log.warning(
                "%s: silent for %.1f s, closed (nodes %s)", peer, self.silence_s, few(names, NAMED_MAX) or "none"
            )
            self._send(
                writer, {"type": "error", "code": "silent", "error": f"nothing heard for {self.silence_s:.1f} s"}
            )
        except framing.FramingError as error:
            self.reports["bad_frame"] += 1
            log.warning("%s: %s", peer, error)
            self._send(writer, {"type": "error", "code": error.code, "error": error.message})
        except StrangerError as error:
            self.reports["refused"] += 1
            log.warning("TLS with %s: %s", peer, error)
            self._send(writer, {"type": "error", "code": "denied", "error": str(error)})
        except OSError as error:
            log.info("%s: connection lost: %s", peer, explain(error))
        finally:
            del self._open[session]
            now_ns = time.time_ns()
            changes = self.fabric.disconnect(session, now_ns, silent)
            if away_ns := self.fabric.away_for(names, now_ns):
                asyncio.get_running_loop().call_later(away_ns / 1e9 + 0.01, self._give_up, names)
            elif names and changes:
                log.warning("lost %s", few(names, NAMED_MAX))
            self._announce(changes)
            writer.close()

    def _give_up(self, names: list[str]) -> None:
        if changes := self.fabric.expect_no_more(names, time.time_ns()):
            log.warning("lost %s: it did not come back", few(names, NAMED_MAX))
            self._announce(changes)

    @staticmethod
    def _send(writer: asyncio.StreamWriter, message: framing.Message) -> None:
        if not writer.is_closing():
            writer.write(framing.encode(message))

    @staticmethod
    async def _message(reader: asyncio.StreamReader, there: _Open) -> framing.Message | None:
        """Raises TimeoutError where none comes, or where nobody reads what was said before."""
        there.quiet = 0
        try:
            async with asyncio.timeout(None) as there.limit:
                await there.writer.drain()
                return await framing.read(reader)
        finally:
            there.limit = None

    def _tick(self) -> None:
        for there in self._open.values():
            there.quiet += 1
            if there.limit is not None and there.quiet == SILENCE_TICKS + 1:
                there.limit.reschedule(asyncio.get_running_loop().time())

    def _handle(self, message: framing.Message, session: int, there: _Open, who: Peer | None) -> None:
        kind, names, writer = message["type"], there.names, there.writer
        try:
            if kind == "register":
                told = Registration.read(message)
                may_register(who, told)
                before = self.fabric.speaker(told.node)
                changes = self.fabric.register(told, session, time.time_ns(), who.until if who else None)
                self.reports["register"] += 1
                if before is not None and before != session:
                    self._followed(told.node, self._open[before])
                if told.node not in names:
                    names.append(told.node)
                answer: dict[str, Any] = {"type": "registered", "node": told.node}
                answer |= {"heartbeat_ms": self.heartbeat_ms, "silence_beats": UNHEARD_BEATS}
                if tunnels := self.fabric.tunnels(told.node):
                    answer["tunnels"] = [asdict(tunnel) for tunnel in tunnels]
                self._send(writer, answer)
                log.info("registered %s %s%s", told.kind, told.node, f" at {told.addr}" if told.addr else "")
                self._announce(changes)
            elif kind == "heartbeat":
                self.reports["heartbeat"] += 1
                self.fabric.heartbeat(names, Heartbeat.read(message, names), time.time_ns())
                there.beats += 1
                if there.beats % HEARD_EVERY == 0:
                    self._send(writer, {"type": "heard"})
            elif kind == "away":
                self.fabric.away(names, for_ms := away_ms(message), time.time_ns())
                log.info("%s: away for at most %d ms", few(names, NAMED_MAX), for_ms)
            elif kind == "link":
                self._link(LinkReport.read(message), names, writer)
            else:
                kind = kind[:NAME_MAX]
                raise FabricError("bad_request", f"unknown type {kind!r}", kind)
        except FabricError as error:
            self.reports["refused"] += 1
            log.warning("refused a %s: %s", kind, error.message)
            self._send(
                writer, {"type": "error", "code": error.code, "error": error.message, "node": message.get("node")}
            )

    def _followed(self, node: str, before: _Open) -> None:
        """Another controller speaks for a switch now: the one before hears it, and says so where it knows better."""
        before.names.remove(node)
        text = f"another controller speaks for {node} now"
        self._send(before.writer, {"type": "error", "code": "followed", "error": text, "node": node})

    def _link(self, told: LinkReport, names: list[str], writer: asyncio.StreamWriter) -> None:
        # A process with several nodes says which one; an agent has one only.
        name = names[0] if told.node is None and len(names) == 1 else told.node
        if name not in names:
            raise FabricError("bad_request", f"a link report of {name!r}, which is not registered here", str(name))
        self.reports["link"] += 1
        try:
            t_ns = time.time_ns() if told.t_ns is None else told.t_ns
            changes = self.fabric.link_report(name, told.port, told.up, told.n, t_ns, told.reason)
        finally:
            self._send(writer, {"type": "ok", "n": told.n})
        for change in changes:
            if isinstance(change, LinkChange):
                log.warning("link %s-%s is %s", change.u, change.v, "up" if change.up else "down")
        self._announce(changes)
