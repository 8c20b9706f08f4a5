"""Agents that play the signalling only (docs/signalling.md), over real TCP: they register, split and relay requests,
aggregate acknowledgements, and emit events as their extents are "sent" at a rate the test sets. No file, no data
packet.

The checks a real fabric would make are made here: a sequence number never names two pieces, not even one that was cut
off and never sent; extents of a tree go on where the last one ever told ended. A violation is kept in
`World.violations`; tests assert that it is empty.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from datacast.services import framing
from datacast.services.tls import PLAIN, Security

STEP_S = 0.004
STOOD_STILL_S = 0.5


@dataclass
class FakeTree:
    id: int
    rate: float
    most: float = float("inf")
    """Pieces/s that the master lets it send."""
    extents: list[list[int]] = field(default_factory=list)
    sent: float = 0.0
    """One past the newest number sent. After a cut there is a gap below."""
    runs: list[list[int]] = field(default_factory=list)
    """[from, to) of the numbers that were really sent, in order."""
    new_packets: int = 0
    reported: set[tuple[int, str]] = field(default_factory=set)


@dataclass
class Role:
    """A member's part in a group."""

    kind: str
    part: dict[str, Any]
    body: dict[str, Any]
    had_n: int = 0
    held: set[int] = field(default_factory=set)
    budget: float = 1e9
    """Pieces that it can take now."""
    extents: dict[int, list[list[int]]] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    """By tree: one past the last number it was ever told of."""
    taken: dict[tuple[int, int], int] = field(default_factory=dict)
    """By extent (tree, first number): up to which number it has looked for what was sent."""
    blocks: set[int] = field(default_factory=set)
    state: str = "running"
    t_first_ns: int | None = None
    t_done_ns: int | None = None
    opens: int = 0
    heard: float = 0.0


class World:
    """What all agents of one fake fabric share. `rates`: pieces/s by the tree's position in its group (the last one
    repeats); change it while a transfer runs. `sizes`: bytes by source path.

    `pace`: pieces/s that a receiver can take. A slow one holds its trees up as real ones are: they go on while it is
    less than CACHE pieces behind; and trees then keep to the master's rates."""

    CACHE = 12

    def __init__(
        self, rates: list[float] | None = None, security: Callable[[str], Security] = lambda identity: PLAIN
    ) -> None:
        """`security`: by ROLE/NAME."""
        self.rates = rates or [20_000.0]
        self.security = security
        self.sizes: dict[str, int] = {}
        self.pace: dict[str, float] = {}
        self.agents: dict[str, FakeAgent] = {}
        self.trees: dict[str, dict[int, FakeTree]] = {}
        self.violations: list[str] = []
        self.sent_pieces: dict[str, list[int]] = {}
        self.named: dict[tuple[int, int], int] = {}
        self.requests: list[tuple[str, str, dict[str, Any]]] = []
        self._runner: asyncio.Task[None] | None = None

    async def add(self, names: list[str], signalling: str | None = None) -> None:
        for name in names:
            agent = self.agents[name] = FakeAgent(name, self)
            await agent.start()
            if signalling:
                await agent.register(signalling)
        if self._runner is None:
            self._runner = asyncio.create_task(self._run())

    async def stop(self) -> None:
        if self._runner:
            self._runner.cancel()
            await asyncio.gather(self._runner, return_exceptions=True)
        for agent in self.agents.values():
            await agent.die()
        if self._runner and not self._runner.cancelled():
            raise RuntimeError("the fake fabric broke down and sent nothing any more") from self._runner.exception()

    def ops(self, op: str) -> list[tuple[str, dict[str, Any]]]:
        """(member, request) of every request of this kind that a member carried out."""
        return [(name, message) for kind, name, message in self.requests if kind == op]

    async def _run(self) -> None:
        last = time.monotonic()
        while True:
            await asyncio.sleep(STEP_S)
            now = time.monotonic()
            elapsed, last = now - last, now
            if elapsed > STOOD_STILL_S:  # so did whoever would have been heard
                for agent in self.agents.values():
                    for role in agent.roles.values():
                        role.heard += elapsed
            for agent in list(self.agents.values()):
                for group, role in list(agent.roles.items()):
                    if role.kind == "source" and role.state == "running" and not agent.paused:
                        self._send(agent, group, role, elapsed)
            for agent in list(self.agents.values()):
                for group, role in list(agent.roles.items()):
                    if role.kind == "receiver" and role.state == "running" and not agent.paused:
                        pace = self.pace.get(agent.name)
                        role.budget = (
                            1e9 if pace is None else min(max(32.0, pace * elapsed), role.budget + pace * elapsed)
                        )
                        self._receive(agent, group, role)
                    if now - role.heard > role.body["lease_ms"] / 1000:
                        agent.expired.append(group)
                        del agent.roles[group]

    def _send(self, agent: FakeAgent, group: str, role: Role, elapsed: float) -> None:
        trees = self.trees[group]
        for at, tree in enumerate(trees.values()):
            if tree.id not in role.part.get("roots", trees):
                continue
            tree.rate = self.rates[min(at, len(self.rates) - 1)]
            before, most = tree.new_packets, min(tree.rate, tree.most if self.pace else tree.rate) * elapsed
            most = max(0.0, min(most, self.CACHE - self._behind(group, tree))) if self.pace else most
            for _, first, piece, count in tree.extents:
                at, end = max(tree.sent, first), first + count
                if at >= end or most <= 0:
                    continue
                tree.sent = min(end, at + most)  # a gap in front of it takes no time
                most -= tree.sent - at
                self._sent(group, tree, int(at), int(tree.sent), piece - first)
                self._must_have(agent, role, int(at) + piece - first, int(tree.sent) + piece - first)
                if tree.sent < end:
                    break  # not by the rounding of `most`: the next one may lie behind a gap
            if tree.new_packets > before and role.t_first_ns is None:
                role.t_first_ns = time.time_ns()
                agent.emit(group, {"event": "first", "t_ns": role.t_first_ns})
            for extent in tree.extents:
                half, whole = extent[1] + (extent[3] + 1) // 2, extent[1] + extent[3]
                for mark, name in ((half, "half"), (whole, "whole")):
                    if tree.sent >= mark and (extent[1], name) not in tree.reported:
                        tree.reported.add((extent[1], name))
                        agent.emit(group, {"event": "progress", "tree": tree.id, "seq": mark})

    def _must_have(self, agent: FakeAgent, role: Role, start: int, stop: int) -> None:
        """A source sends only what it has."""
        rows, per = agent.rows(role.part), role.body["per_block"]
        if rows is not None and start < stop:
            has = {b for first, count in rows for b in range(first, first + count)}
            if lacks := {piece // per for piece in range(start, stop)} - has:
                self.violations.append(f"{agent.name} sends blocks {sorted(lacks)}, which it has not")

    def _behind(self, group: str, tree: FakeTree) -> int:
        """Pieces of a tree that the slowest of those with a pace still lacks."""
        behind = 0
        for name in self.pace:
            role = self.agents[name].roles.get(group)
            if role is None or role.state != "running":
                continue
            left = 0
            for _, first, _, count in role.extents.get(tree.id, ()):
                left += max(0, min(int(tree.sent), first + count) - role.taken.get((tree.id, first), first))
            if str(tree.id) in role.part.get("routes", {}):
                behind = max(behind, left)
        return behind

    def _sent(self, group: str, tree: FakeTree, start: int, stop: int, shift: int) -> None:
        """These numbers of a tree went out; each carries the piece `shift` further on."""
        if start >= stop:
            return
        for seq in range(start, stop):
            if self.named.setdefault((tree.id, seq), seq + shift) != seq + shift:
                self.violations.append(f"tree {tree.id} seq {seq} names two pieces")
        self.sent_pieces.setdefault(group, []).extend(range(start + shift, stop + shift))
        tree.new_packets += stop - start
        if tree.runs and tree.runs[-1][1] == start:
            tree.runs[-1][1] = stop
        else:
            tree.runs.append([start, stop])

    def _receive(self, agent: FakeAgent, group: str, role: Role) -> None:
        body = role.body
        for tree in self.trees.get(group, {}).values():
            if str(tree.id) not in role.part["routes"]:
                continue
            for _, first, piece, count in role.extents.get(tree.id, ()):
                taken, ready = role.taken.get((tree.id, first), first), min(int(tree.sent), first + count)
                ready = min(ready, taken + int(role.budget))
                if ready <= taken:
                    continue
                role.budget -= ready - taken
                role.taken[tree.id, first] = ready
                for start, stop in tree.runs:
                    role.held.update(range(max(taken, start) + piece - first, min(ready, stop) + piece - first))
                if role.held and role.t_first_ns is None:
                    role.t_first_ns = time.time_ns()
                    agent.emit(group, {"event": "first", "t_ns": role.t_first_ns})
        pieces = -(-body["size"] // body["piece"])
        blocks = -(-pieces // body["per_block"])
        if len(role.held) == pieces and len(role.blocks) == blocks and not agent.stall_done:
            role.state, role.t_done_ns = "done", time.time_ns()
            agent.emit(group, {"event": "done", "t_ns": role.t_done_ns, "bytes": body["size"], "blocks_ok": blocks})


class FakeAgent:
    """`fail`: {op: (code, error)} for this member's own part. `paused`: hears nothing and says nothing, as under
    SIGSTOP."""

    def __init__(self, name: str, world: World) -> None:
        self.name, self.world = name, world
        self.addr = ""
        self.roles: dict[str, Role] = {}
        self.fail: dict[str, tuple[str, str]] = {}
        self.epochs: dict[str, int] = {}
        self.routed: dict[str, int] = {}
        """By group: the number of the last `open` or `reroute`."""
        self.mute_events = False
        self.stall_done = False
        self.other_bytes = 0
        """Not 0: as a source its file has other bytes than that of others."""
        self.left: dict[str, dict[str, Any]] = {}
        """By group that broke off: what `stat` says of what is left of it (size, piece, per_block, held)."""
        self.expired: list[str] = []
        self.paused = False
        self._resume = asyncio.Event()
        self._resume.set()
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._up: dict[str, asyncio.StreamWriter] = {}
        self._children: dict[str, tuple[asyncio.StreamWriter, dict[int, asyncio.Future]]] = {}
        self._next = 1
        self._tasks: set[asyncio.Task] = set()
        self._manager: asyncio.StreamWriter | None = None
        self.security = world.security(f"agent/{name}")
        self.manager_says: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self.security.server)
        self.addr = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def register(self, signalling: str, ports: list[dict[str, Any]] | None = None, pid: int = 4711) -> None:
        """Register and keep the connection with heartbeats."""
        reader, self._manager = await self.security.connect(signalling, "fabric-manager")
        self.tell_manager(
            {
                "type": "register",
                "node": self.name,
                "kind": "host",
                "addr": self.addr,
                "pid": pid,
                "instance": f"{pid:032x}",
                "version": "0.1.0",
                "ports": ports or [],
                "dest_roots": ["/srv"],
                "source_roots": ["/"],
            }
        )
        answer = await framing.read(reader)
        assert answer is not None and answer["type"] == "registered", answer
        self._spawn(self._follow_manager(reader, answer["heartbeat_ms"] / 1000))

    def tell_manager(self, message: dict[str, Any]) -> None:
        assert self._manager
        self._manager.write(framing.encode(message))

    async def _follow_manager(self, reader: asyncio.StreamReader, heartbeat_s: float) -> None:
        async def beat() -> None:
            while True:
                await asyncio.sleep(heartbeat_s)
                if not self.paused:
                    self.tell_manager({"type": "heartbeat"})

        self._spawn(beat())
        while (message := await framing.read(reader)) is not None:
            self.manager_says.put_nowait(message)

    def pause(self) -> None:
        self.paused = True
        self._resume.clear()

    def resume(self) -> None:
        self.paused = False
        self._resume.set()

    async def die(self) -> None:
        """As a killed process: every connection is gone."""
        if self._server:
            self._server.close()
        for writer in (
            *self._writers,
            *(w for w, _ in self._children.values()),
            *([self._manager] if self._manager else []),
        ):
            writer.close()
        self.roles.clear()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._children.clear()

    # ---- requests ----
    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while (message := await framing.read(reader)) is not None:
                await self._resume.wait()
                results: dict[str, Any] = {}
                # The own part and the frames to the children in order; the acknowledgements whenever they come.
                tree = message["tree"]
                assert tree["n"] == self.name, f"{self.name} got the part of {tree['n']}"
                if message["op"] == "open":
                    self._up[message["group"]] = writer
                results[self.name] = self._own(message, tree.get("b", {}))
                waiting = [await self._forward(message, child) for child in tree.get("c", ())]
                self._spawn(self._acknowledge(writer, message, results, waiting))
        except (OSError, framing.FramingError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _acknowledge(self, writer, message, results, waiting) -> None:
        for child, future in waiting:
            try:
                results.update(await asyncio.wait_for(future, message["timeout_ms"] / 1000 * 0.8))
            except (TimeoutError, OSError) as error:
                results[child["n"]] = {"ok": False, "code": "unreachable", "error": f"{child['n']}: {error!r}"}
                for grandchild in child.get("c", ()):
                    await self._acknowledge_orphan(message, grandchild, results)
        await self._resume.wait()
        with contextlib.suppress(OSError):
            writer.write(framing.encode({"type": "ack", "id": message["id"], "results": results}))

    async def _acknowledge_orphan(self, message, child, results) -> None:
        _, future = await self._forward(message, child)
        try:
            results.update(await asyncio.wait_for(future, 0.3))
        except (TimeoutError, OSError) as error:
            results[child["n"]] = {"ok": False, "code": "unreachable", "error": f"{child['n']}: {error!r}"}

    async def _forward(self, message, child):
        future: asyncio.Future = asyncio.get_running_loop().create_future()
        try:
            writer, waiting = await self._child(child["a"])
            number, self._next = self._next, self._next + 1
            waiting[number] = future
            writer.write(
                framing.encode({**message, "id": number, "tree": child, "timeout_ms": int(message["timeout_ms"] * 0.8)})
            )
        except OSError as error:
            future.set_exception(error)
        return child, future

    async def _child(self, addr: str):
        if addr not in self._children:
            reader, writer = await self.security.connect(addr, "agent")
            self._children[addr] = (writer, {})
            self._spawn(self._relay(addr, reader))
        return self._children[addr]

    async def _relay(self, addr: str, reader: asyncio.StreamReader) -> None:
        _, waiting = self._children[addr]
        try:
            while (message := await framing.read(reader)) is not None:
                if message["type"] == "ack":
                    future = waiting.pop(message["id"], None)
                    if future and not future.done():
                        future.set_result(message["results"])
                elif message["type"] == "event":
                    await self._resume.wait()
                    self._pass_up(message)
        except (OSError, framing.FramingError):
            pass
        finally:
            self._children.pop(addr, None)
            for future in waiting.values():
                if not future.done():
                    future.set_exception(ConnectionResetError("child is gone"))

    def emit(self, group: str, event: dict[str, Any]) -> None:
        if not self.mute_events:
            self._pass_up({"type": "event", "group": group, "n": self.name, "t_ns": time.time_ns(), **event})

    def _pass_up(self, message: dict[str, Any]) -> None:
        writer = self._up.get(message["group"])
        if writer and not writer.is_closing():
            writer.write(framing.encode(message))

    # ---- the own part ----
    def _own(self, message: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
        op, group, body = message["op"], message["group"], message.get("all", {})
        self.world.requests.append((op, self.name, message))
        epoch, last = message.get("epoch", 0), self.epochs.get(group, 0)
        if epoch < last:
            return {"ok": False, "code": "stale", "error": f"epoch {epoch} of group {group} is over"}
        self.epochs[group] = epoch
        if epoch > last:
            self.routed.pop(group, None)
            if group in self.roles:
                self.roles[group].had_n = 0
        if op in self.fail:
            code, error = self.fail[op]
            return {"ok": False, "code": code, "error": error}
        if op in ("open", "reroute"):
            if body["n"] < self.routed.get(group, 0):
                return {"ok": False, "code": "overtaken", "error": f"after {self.routed[group]} had come"}
            self.routed[group] = body["n"]
        if op == "stat":
            if "unfinished" in part:
                return {"ok": True, "mtime_ns": 1, **self.left[part["unfinished"]]}
            if "path" in part:
                size = self.world.sizes.get(part["path"])
                if size is None:
                    return {"ok": False, "code": "not_found", "error": f"{part['path']}: no such file"}
                return {"ok": True, "size": size, "mtime_ns": 1, "inode": 2}
            return {"ok": True}
        if op == "open":
            return self._open(group, part, body)
        role = self.roles.get(group)
        if role is None:
            return {"ok": False, "code": "no_group", "error": f"{self.name} has no group {group}"}
        role.heard = time.monotonic()
        if op in ("assign", "cut", "digest"):
            if body["n"] > role.had_n + 1:
                return {"ok": False, "code": "gap", "error": f"had {role.had_n}", "n": role.had_n}
            if body["n"] > role.had_n:
                role.had_n = body["n"]
                getattr(self, f"_{op}")(group, role, body)
            return self._status(group, role) if body.get("status") else {"ok": True}
        if op == "status":
            return self._status(group, role)
        if op == "reroute":
            role.part = {**role.part, "routes": {**role.part.get("routes", {}), **part.get("routes", {})}}
            for tree in part.get("routes", {}):
                self.emit(group, {"event": "resumed", "tree": int(tree), "t_ns": time.time_ns()})
            return {"ok": True}
        if op == "close":
            del self.roles[group]
            return {"ok": True}
        return {"ok": False, "code": "bad_request", "error": f"unknown op {op}"}

    def _open(self, group: str, part: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
        role = self.roles.get(group)
        if role is None and body.get("again"):
            return {"ok": False, "code": "no_group", "error": f"{self.name} has no group {group}"}
        if role is None:
            role = self.roles[group] = Role(part["role"], part, body)
        role.opens += 1
        role.part, role.body = {**role.part, **part}, body
        if role.kind == "source":  # trees that are not named any more are dropped
            known, rate = self.world.trees.get(group, {}), self.world.rates[0]
            self.world.trees[group] = {
                t["id"]: known.get(t["id"]) or FakeTree(t["id"], rate, t["rate_max_bps"] / 8 / t["packet_bytes"])
                for t in body["trees"]
            }
        role.heard = time.monotonic()
        if role.kind == "source" and body["size"]:
            pieces = -(-body["size"] // body["piece"])
            rows = self.rows(role.part) or [[0, -(-pieces // body["per_block"])]]
            blocks = [[i, f"{i + self.other_bytes:064x}"] for first, n in rows for i in range(first, first + n)]
            asyncio.get_running_loop().call_soon(self.emit, group, {"event": "digests", "blocks": blocks})
        return {"ok": True}

    def rows(self, part: dict[str, Any]) -> list[list[int]] | None:
        """Blocks that it has as a source; None: all."""
        left = part.get("unfinished")
        return part.get("wants") if left is None else self.left[left]["held"]

    def _assign(self, group: str, role: Role, body: dict[str, Any]) -> None:
        for extent in body["extents"]:
            tree = self.world.trees[group][extent[0]]
            mine = tree.extents if role.kind == "source" else role.extents.setdefault(extent[0], [])
            end = role.ends.get(extent[0], extent[1])
            if not extent[3]:
                continue  # taken back
            if extent[1] < end:
                self.world.violations.append(f"{self.name}: extent {extent} does not continue at {end}")
            mine.append(list(extent))
            role.ends[extent[0]] = extent[1] + extent[3]

    def _cut(self, group: str, role: Role, body: dict[str, Any]) -> None:
        for tree_id, seq in body["trees"]:
            tree = self.world.trees[group][tree_id]
            extents = tree.extents if role.kind == "source" else role.extents.get(tree_id, [])
            extents[:] = [[e[0], e[1], e[2], min(e[3], seq - e[1])] for e in extents if e[1] < seq]
            # A cut that comes late, behind what was sent, costs duplicates: nothing sent is named anew.

    def _digest(self, group: str, role: Role, body: dict[str, Any]) -> None:
        role.blocks |= {block for block, _ in body["blocks"]}

    def _status(self, group: str, role: Role) -> dict[str, Any]:
        if role.kind == "source":
            trees = {
                str(t.id): {
                    "rate_bps": 1,
                    "new_packets": t.new_packets,
                    "dup_packets": 0,
                    "interests": t.new_packets,
                    "merged": 0,
                    "duplicates": 0,
                    "seq": int(t.sent),
                    "numbers": t.new_packets,
                    "queued": 0,
                }
                for t in self.world.trees[group].values()
            }
            return {"ok": True, "role": "source", "state": "running", "n": role.had_n, "trees": trees}
        held = min(len(role.held) * role.body["piece"], role.body["size"])
        trees = {
            str(t): {
                "data": 0,
                "duplicates": 0,
                "interests": 0,
                "retransmitted": 0,
                "srtt_us": 1,
                "credits": 1,
                "seq": 0,
                "bytes": held,
            }
            for t in role.extents
        }
        return {
            "ok": True,
            "role": "receiver",
            "n": role.had_n,
            "state": role.state,
            "bytes": held,
            "pieces": len(role.held),
            "blocks_ok": len(role.blocks),
            "bad_blocks": 0,
            "t_first_ns": role.t_first_ns,
            "t_done_ns": role.t_done_ns,
            "trees": trees,
        }
