"""Agents as small models: the real messages, epochs, numbers, leases and trees of docs/signalling.md, as host_agent/
keeps them; pieces instead of files. What is on a host's disk outlives its agent's process.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from datacast.services import framing

from .peers import Message, Peer
from .plane import Plane, Sending, ones
from .virtual import Process

PATIENCE_S = 0.1
"""A child that has not answered for so long is gone around."""
AGAIN_S = 0.4
LEASES_KEPT = 10
"""host_agent/agent_limits.h."""
EXTENTS_MAX = 256
"""DC_EXTENTS_MAX: of a tree, at a receiver."""


@dataclass
class Host:
    """What outlives the agent. `verified`: by group, the cut of the file and the blocks that were right."""

    name: str
    address: str
    verified: dict[str, tuple[tuple[int, int, int], set[int]]] = field(default_factory=dict)
    files: dict[str, int] = field(default_factory=dict)
    """By group: bytes of the file that was renamed into place."""
    down: set[int] = field(default_factory=set)
    """Ports whose link does not work."""
    runs: int = 0


@dataclass
class Taking:
    """A tree at a receiver."""

    credits: int
    extents: list[tuple[int, int, int]] = field(default_factory=list)
    end: int = 0
    pieces: int = 0

    def count(self) -> None:
        self.pieces = 0
        for _, piece, count in self.extents:
            self.pieces |= ones(count, piece)

    def has_room(self, held: int) -> bool:
        """What has come need not be remembered when there is more."""
        while len(self.extents) >= EXTENTS_MAX and not ones(self.extents[0][2], self.extents[0][1]) & ~held:
            self.extents.pop(0)
        return len(self.extents) < EXTENTS_MAX

    def low(self, held: int) -> int:
        """It lacks nothing below that number."""
        at = 0
        for first, piece, count in self.extents:
            missing = ~(held >> piece) & ones(count)
            if missing:
                return first + (missing & -missing).bit_length() - 1
            at = first + count
        return at

    def told(self, held: int) -> Message:
        low = self.low(held)
        asked = min(self.end, low + self.credits)
        return {
            "data": 0, "duplicates": 0, "interests": 0, "retransmitted": 0, "credits": self.credits,
            "seq": asked, "low": low,
        }  # fmt: skip


@dataclass
class Role:
    """A part in a group."""

    group: str
    kind: str
    cut: tuple[int, int, int]
    lease_s: float
    heard: float
    routes: dict[str, str] = field(default_factory=dict)
    sending: dict[int, Sending] = field(default_factory=dict)
    taking: dict[int, Taking] = field(default_factory=dict)
    rows: int = 0
    """Of the order that came last and was refused for want of room, those that were taken."""
    rerouted: set[int] = field(default_factory=set)
    held: int = 0
    blocks: set[int] = field(default_factory=set)
    digests: set[int] = field(default_factory=set)
    state: str = "running"
    had_n: int = 0
    rates_n: int = 0
    parent: Any = None
    t_first_ns: int | None = None
    t_done_ns: int | None = None

    @property
    def pieces(self) -> int:
        size, piece, _ = self.cut
        return -(-size // piece)

    @property
    def n_blocks(self) -> int:
        return -(-self.pieces // self.cut[2])


class Agent:
    """A run of a host's agent: `await run()` in a process of its own."""

    def __init__(self, host: Host, plane: Plane, process: Process, managers: list[str], sizes: dict[str, int]) -> None:
        self.host, self.name, self.plane, self.process = host, host.name, plane, process
        self.managers, self.sizes = managers, sizes
        self.roles: dict[str, Role] = {}
        self.epochs: dict[str, int] = {}
        self.routed: dict[str, int] = {}
        """By group, in its epoch: the number of the last `open` or `reroute` that was carried out."""
        host.runs += 1
        self.instance = f"{host.name}-{host.runs}"
        self._writers: set[asyncio.StreamWriter] = set()
        self._peers: dict[str, Peer] = {}
        self._manager: asyncio.StreamWriter | None = None
        self._reports = 0
        self._unsaid: list[Message] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self.next_id = 1

    async def run(self) -> None:
        host, _, port = self.host.address.rpartition(":")
        await asyncio.start_server(self._serve, host, int(port))
        self.plane.agents[self.name] = self
        self.process.on_death.append(self._died)
        self.spawn(self._expire())
        at = 0
        while True:
            with contextlib.suppress(OSError, framing.FramingError):
                await self._register(self.managers[at % len(self.managers)])
            self._manager = None
            at += 1
            await asyncio.sleep(AGAIN_S / len(self.managers))

    def _died(self) -> None:
        self.plane.agents.pop(self.name, None)

    def spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ---- the fabric manager ----
    async def _register(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        async with asyncio.timeout(2.0):
            reader, writer = await asyncio.open_connection(host, int(port))
        try:
            ports = sorted(p for (name, p) in self.plane._at if name == self.name)
            told: Message = {
                "type": "register", "node": self.name, "kind": "host", "addr": self.host.address, "pid": 1,
                "instance": self.instance, "version": "0", "dest_roots": ["/srv"], "source_roots": ["/"],
                "ports": [{"port": port, "up": port not in self.host.down} for port in ports],
            }  # fmt: skip
            if self._reports:
                told["n"] = self._reports
            writer.write(framing.encode(told))
            async with asyncio.timeout(2.0):
                answer = await framing.read(reader)
            if answer is None or answer["type"] != "registered":
                return
            self._manager = writer
            beats = asyncio.create_task(self._beat(writer, answer["heartbeat_ms"] / 1000))
            try:
                while await framing.read(reader) is not None:
                    pass
            finally:
                beats.cancel()
        finally:
            writer.close()

    async def _beat(self, writer: asyncio.StreamWriter, every: float) -> None:
        while True:
            await asyncio.sleep(every)
            writer.write(framing.encode({"type": "heartbeat"}))

    def link(self, port: int, up: bool) -> None:
        """One of its ports has changed."""
        self._reports += 1
        if self._manager is not None:
            told = {"type": "link", "port": port, "up": up, "n": self._reports, "t_ns": time.time_ns()}
            self._manager.write(framing.encode(told))

    # ---- requests ----
    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while (message := await framing.read(reader)) is not None:
                tree, results = message["tree"], {}
                result = results[self.name] = self._own(message, tree.get("b"), writer)
                told = [message["op"], message["group"], message.get("epoch"), result.get("code", "ok")]
                self.plane.note(self.name, *told, message.get("all", {}).get("n", ""))
                limit = self.plane.loop.now + message["timeout_ms"] / 1000
                calls = [self._contact(message, child, limit, results) for child in tree.get("c", ())]
                self.spawn(self._answer(writer, message, results, calls))
        except (OSError, framing.FramingError):
            pass
        finally:
            self._writers.discard(writer)
            for role in self.roles.values():
                if role.parent is writer:
                    role.parent = None
            writer.close()

    async def _answer(self, writer: asyncio.StreamWriter, message: Message, results: Message, calls: list[Any]) -> None:
        if calls:
            await asyncio.gather(*calls)
        writer.write(framing.encode({"type": "ack", "id": message["id"], "results": results}))

    def _contact(self, message: Message, tree: Message, limit: float, results: Message) -> Any:
        """Written at once, so that requests keep their order; the answer comes later."""
        left = limit - self.plane.loop.now
        if left <= 0.01:
            return self._around(message, tree, limit, results, "no time was left")
        peer = self._peers.get(tree["a"])
        if peer is None or peer.lost:
            peer = self._peers[tree["a"]] = Peer(self, tree["a"])
        theirs = left * 0.75
        future = peer.ask({**message, "tree": tree, "timeout_ms": max(1, int(theirs * 1000))})
        return self._wait(message, tree, limit, results, future, theirs)

    async def _wait(
        self, message: Message, tree: Message, limit: float, results: Message, future: Any, theirs: float
    ) -> None:
        children, passed = tree.get("c", ()), []
        first = min(PATIENCE_S, theirs) if children else theirs
        done, _ = await asyncio.wait((future,), timeout=first)
        if not done and children:
            passed = [self._contact(message, child, limit, results) for child in children]
            both = asyncio.gather(*passed)
            await asyncio.wait((future,), timeout=max(0.0, theirs - first))
            await both
        if future.done() and future.exception() is None:
            for name, result in future.result().items():
                self._note(results, name, result)
            return
        why = str(future.exception()) if future.done() else "no answer in time"
        if passed:
            self._note(results, tree["n"], {"ok": False, "code": "unreachable", "error": f"{tree['n']}: {why}"})
        else:
            await self._around(message, tree, limit, results, why)

    async def _around(self, message: Message, tree: Message, limit: float, results: Message, why: str) -> None:
        self._note(results, tree["n"], {"ok": False, "code": "unreachable", "error": f"{tree['n']}: {why}"})
        if limit - self.plane.loop.now <= 0.01:
            for child in tree.get("c", ()):
                await self._around(message, child, limit, results, why)
            return
        await asyncio.gather(*(self._contact(message, child, limit, results) for child in tree.get("c", ())))

    @staticmethod
    def _note(results: Message, name: str, result: Message) -> None:
        if not results.get(name, {}).get("ok"):
            results[name] = result

    # ---- events ----
    def emit(self, role: Role, event: str, **fields: Any) -> None:
        self.relay({"type": "event", "group": role.group, "n": self.name, "event": event, **fields})

    def relay(self, message: Message) -> None:
        role = self.roles.get(message["group"])
        if role is not None and role.parent is not None:
            role.parent.write(framing.encode(message))

    def first(self, role: Role) -> None:
        role.t_first_ns = time.time_ns()
        self.emit(role, "first", t_ns=role.t_first_ns)

    def progress(self, role: Role, tree: Sending) -> None:
        for first, _, count in tree.extents:
            for whole, mark in ((False, first + (count + 1) // 2), (True, first + count)):
                if tree.sent >= mark and (first, whole) not in tree.marked:
                    tree.marked.add((first, whole))
                    self.emit(role, "progress", tree=tree.id, seq=mark)

    def _repeat(self, role: Role) -> None:
        """Whoever opens again may not know what was told before."""
        if role.kind == "source":
            self.tell_digests(role, range(role.n_blocks))
        if role.t_first_ns is not None:
            self.emit(role, "first", t_ns=role.t_first_ns)
        if role.state == "done":
            self._tell_done(role)

    def tell_digests(self, role: Role, blocks: Iterable[int]) -> None:
        rows = [[block, f"{block:064x}"] for block in blocks]
        for at in range(0, len(rows), 512):
            self.emit(role, "digests", blocks=rows[at : at + 512])

    def _tell_done(self, role: Role) -> None:
        self.emit(role, "done", t_ns=role.t_done_ns, bytes=role.cut[0], blocks_ok=len(role.blocks))

    # ---- data ----
    def take(self, role: Role, tree: int, new: int) -> None:
        """Pieces have arrived."""
        self.plane.watch.fetched(role.group, self.name, new)
        role.held |= new
        if role.t_first_ns is None:
            self.first(role)
        if tree in role.rerouted:
            role.rerouted.discard(tree)
            self.emit(role, "resumed", tree=tree, t_ns=time.time_ns())
        per = role.cut[2]
        touched = range(((new & -new).bit_length() - 1) // per, (new.bit_length() - 1) // per + 1)
        self._verify(role, role.digests.intersection(touched))

    def _verify(self, role: Role, blocks: set[int] | None = None) -> None:
        """`blocks`: these only, as no other one can have become whole."""
        if role.state != "running":
            return
        per = role.cut[2]
        for block in (role.digests if blocks is None else blocks) - role.blocks:
            whole = ones(min(per, role.pieces - block * per), block * per)
            if role.held & whole == whole:
                role.blocks.add(block)
                self.host.verified.setdefault(role.group, (role.cut, set()))[1].add(block)
                self.plane.watch.verified(role.group, self.name, whole)
        if len(role.blocks) == role.n_blocks:
            role.state, role.t_done_ns = "done", time.time_ns()
            self.host.files[role.group] = role.cut[0]
            self.host.verified.pop(role.group, None)
            self._tell_done(role)

    async def _expire(self) -> None:
        while True:
            await asyncio.sleep(0.25)
            for role in tuple(self.roles.values()):
                kept = LEASES_KEPT if role.kind == "receiver" and role.state != "failed" else 0
                if self.plane.loop.now - role.heard > role.lease_s * (1 + kept):
                    self._close(role, keep=False, lease=True)

    # ---- the own part ----
    def _own(self, message: Message, part: Message | None, writer: asyncio.StreamWriter) -> Message:
        op, group, body = message["op"], message["group"], message.get("all", {})
        if message["tree"]["n"] != self.name:
            return _refused("bad_request", f"the agent at this address is {self.name}")
        if op == "ping" or (op in ("stat", "open", "reroute") and part is None):
            return {"ok": True}
        if op == "stat":
            assert part is not None
            if _worker_of(writer):  # and not an agent, that may have stood still meanwhile
                self.plane.watch.begun(self.name, group, message.get("epoch", 0), "is asked")
            return self._stat(group, part)
        role, epoch = self.roles.get(group), message.get("epoch", 0)
        self.plane.watch.asked(self.name, group, epoch, op, writer, epoch >= self.epochs.get(group, 0))
        if epoch < self.epochs.get(group, 0):
            return _refused("stale", f"epoch {epoch} of group {group} is over")
        if epoch > self.epochs.get(group, 0):
            self.routed.pop(group, None)
            if role is not None:
                role.had_n = role.rates_n = role.rows = 0
        self.epochs[group] = epoch
        if op == "open":
            assert part is not None
            if body["n"] < (least := self.routed.get(group, 0) + (role is None)):
                return _refused("overtaken", f"number {body['n']} came, after {least} had been carried out")
            if role is None and body.get("again"):
                return _refused("no_group", f"group {group} is not open on this host")
            if role is None:
                self.plane.watch.begun(self.name, group, epoch, "takes part")
            answer = self._open(group, part, body, writer)
            if answer["ok"]:
                self.routed[group] = body["n"]
            return answer
        if op == "close":
            self.plane.watch.told_of_its_end(self.name, group, epoch)
            if role is not None:
                self._close(role, keep=body.get("keep", False))
            self.routed[group] = max(self.routed.get(group, 0), body["n"])
            return {"ok": True}
        if role is None:
            return _refused("no_group", f"group {group} is not open on this host")
        role.heard = self.plane.loop.now
        if role.parent is None:
            role.parent = writer
            self._repeat(role)
        if op in ("assign", "cut", "digest"):
            answer = self._order(role, op, body)
            return self._status(role) if answer["ok"] and body.get("status") else answer
        if op == "status":
            return self._status(role)
        if op == "reroute":
            assert part is not None
            if body["n"] < (last := self.routed.get(group, 0)):
                return _refused("overtaken", f"number {body['n']} came, after {last} had been carried out")
            if role.kind == "receiver":
                self.routed[group] = body["n"]
                return self._routes(role, part.get("routes", {}))
            return {"ok": True}
        if op == "rates":
            if role.sending and body["n"] >= role.rates_n:
                role.rates_n = body["n"]
                for name, bound in body["rates"].items():
                    if int(name) in role.sending:
                        role.sending[int(name)].bound = bound
            return {"ok": True}
        if op == "fetch":
            return {"ok": True} if part is None else self._fetch(role, part)
        return _refused("bad_request", f"op {op} is not known")

    def _fetch(self, role: Role, part: Message) -> Message:
        return _refused("bad_request", f"{self.name} does not fetch for the group")

    def _stat(self, group: str, part: Message) -> Message:
        if "path" not in part:
            told = {"ok": True, "dest": part["dest"]}
            if kept := self.host.verified.get(group):
                told |= {"piece": kept[0][1], "per_block": kept[0][2]}
            return told
        size = self.sizes.get(part["path"])
        if size is None:
            return _refused("not_found", f"{part['path']}: no such file")
        return {"ok": True, "size": size, "mtime_ns": 1, "inode": 1}

    def _open(self, group: str, part: Message, body: Message, writer: asyncio.StreamWriter) -> Message:
        role = self.roles.get(group)
        cut = (body["size"], body["piece"], body["per_block"])
        fresh = role is None
        if role is None:
            role = self.roles[group] = Role(group, part["role"], cut, body["lease_ms"] / 1000, self.plane.loop.now)
            if role.kind == "receiver":
                self._resume(role)
        elif role.kind != part["role"] or role.cut != cut:
            return _refused("bad_request", "the group is open with another size or another cut into pieces")
        role.parent, role.lease_s, role.heard = writer, body["lease_ms"] / 1000, self.plane.loop.now
        trees = {tree["id"]: tree for tree in body["trees"]}
        self.plane.watch.opened(group, trees)
        own = trees.keys() & part.get("roots", trees if role.kind == "source" else ())
        role.sending = {
            number: role.sending.get(number)
            or Sending(number, tree["rate_max_bps"], tree.get("packet_bytes") or cut[1])
            for number, tree in trees.items()
            if number in own
        }
        if role.kind == "receiver":
            role.taking = {
                number: role.taking.get(number) or Taking(tree["credits"])
                for number, tree in trees.items()
                if number not in own
            }
            answer = self._routes(role, part.get("routes", {}))
            if not answer["ok"]:
                return answer
        if not fresh:
            self._repeat(role)
        elif role.kind == "source" or role.state == "done":
            asyncio.get_running_loop().call_soon(self._repeat, role)
        else:
            self._verify(role)
        return {"ok": True}

    def _resume(self, role: Role) -> None:
        if self.host.files.get(role.group) == role.cut[0]:  # it says itself whose it is
            role.held, role.blocks = ones(role.pieces), set(range(role.n_blocks))
            role.state, role.t_done_ns = "done", time.time_ns()
            return
        cut, blocks = self.host.verified.get(role.group, (role.cut, set()))
        if cut != role.cut:
            self.host.verified.pop(role.group, None)
            self.plane.watch.dropped(role.group, self.name, f"it was cut as {cut}, now {role.cut}")
            return
        per = role.cut[2]
        for block in blocks:
            role.held |= ones(min(per, role.pieces - block * per), block * per)
        role.blocks = set(blocks)

    def _routes(self, role: Role, routes: dict[str, str]) -> Message:
        for number, blob in routes.items():
            if int(number) not in role.taking:
                return _refused("bad_request", f"routes: tree {number} is not of this group")
            if self.plane.way(self.name, blob) is None:
                return _refused("bad_request", f"the route of tree {number} leads nowhere")
            if role.routes.get(number, blob) != blob:
                role.rerouted.add(int(number))
            role.routes[number] = blob
        return {"ok": True}

    def _order(self, role: Role, op: str, body: Message) -> Message:
        number = body["n"]
        if number <= role.had_n:
            return {"ok": True}
        if number > role.had_n + 1:
            return {**_refused("gap", f"the last one here was {role.had_n}"), "n": role.had_n}
        if op == "assign":
            for row, (tree, seq, piece, count) in enumerate(body["extents"]):
                if row < role.rows or not count:  # it was taken; or taken back by a later cut
                    continue
                known = role.sending.get(tree) or role.taking.get(tree)
                if known is None:
                    return _refused("no_tree", f"tree {tree} is not of this group")
                if role.kind == "receiver" and tree in role.sending and ones(count, piece) & ~role.held:
                    return _refused("bad_request", f"the pieces from {piece} on are not all on this host")
                if isinstance(known, Taking) and not known.has_room(role.held):
                    role.rows = row
                    return _refused("limit", f"tree {tree} has too many extents that are not received yet")
                if seq < known.end:
                    return _refused("bad_request", f"the extent at {seq} does not follow the last one")
                self.plane.watch.named(tree, seq, piece, count)
                known.extents.append((seq, piece, count))
                known.end = seq + count
                if isinstance(known, Taking):
                    known.pieces |= ones(count, piece)
        elif op == "cut":
            for tree, seq in body["trees"]:
                known = role.sending.get(tree) or role.taking.get(tree)
                if known is None:
                    continue
                known.extents = [(n, p, min(c, seq - n)) for n, p, c in known.extents if n < seq]
                if isinstance(known, Taking):
                    known.count()
                elif known.sent > seq:
                    self.plane.watch.late_cut(role.group, tree, known.sent, seq)
        else:
            role.digests |= {block for block, _ in body["blocks"]}
            if role.kind == "receiver":
                self._verify(role)
        role.had_n, role.rows = number, 0
        return {"ok": True}

    def _status(self, role: Role) -> Message:
        told: Message = {"ok": True, "role": role.kind, "state": role.state, "n": role.had_n}
        sends: Message = {}
        for number, tree in role.sending.items():
            bps = round(tree.rate * 8 * tree.packet)
            sends[str(number)] = {
                "rate_bps": bps, "new_packets": tree.numbers, "dup_packets": 0, "interests": tree.numbers,
                "merged": 0, "duplicates": 0, "seq": tree.sent, "numbers": tree.numbers, "queued": 0,
            }  # fmt: skip
        if role.kind == "source":
            return {**told, "trees": sends}
        if sends:
            told["sends"] = sends
        size, piece, _ = role.cut
        trees = {str(number): taking.told(role.held) for number, taking in role.taking.items()}
        return {
            **told, "bytes": min(size, role.held.bit_count() * piece), "pieces": role.held.bit_count(),
            "blocks_ok": len(role.blocks), "bad_blocks": 0, "t_first_ns": role.t_first_ns,
            "t_done_ns": role.t_done_ns, "trees": trees,
        }  # fmt: skip

    def _close(self, role: Role, *, keep: bool, lease: bool = False) -> None:
        self.roles.pop(role.group, None)
        if not keep and role.kind == "receiver" and self.host.verified.pop(role.group, None):
            if lease:
                self.plane.watch.unheard(role.group, self.name)
            else:
                self.plane.watch.dropped(role.group, self.name, "it was told to keep nothing")


def _worker_of(writer: asyncio.StreamWriter) -> str | None:
    """Who asks, if it is one."""
    name: str = writer.transport.peer.process.name  # type: ignore[attr-defined]
    return name if name.startswith("worker") else None


def _refused(code: str, error: str) -> Message:
    return {"ok": False, "code": code, "error": error}
