"""Agents of a whole fabric simulated in one process, to measure the services: `agents.py FABRIC_MANAGER TOPOLOGY`.

All hosts register over one connection, with one address. What goes down and up the tree of members is worked out here;
a master sees what it would see of real agents: acknowledgements of all members, `first`, `progress`, `digests`, `done`,
status with every counter. A tree sends at its bound (`rates`), else at `--mbit`. Lines on standard input: `link A B
up|down`, answered on standard output with the time (ns) at which it was reported.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from dataclasses import dataclass, field
from typing import Any

from datacast import topologies
from datacast.services import framing

TICK_S = 0.1


@dataclass
class Tree:
    bound: float
    """Bit/s."""
    extents: list[list[int]] = field(default_factory=list)
    """[first number, first piece, count], and how many events it has had."""
    sent: float = 0.0
    pieces: float = 0.0


@dataclass
class Member:
    role: str
    had: int = 0


@dataclass
class Group:
    id: str
    body: dict[str, Any]
    source: str
    writer: asyncio.StreamWriter
    members: dict[str, Member] = field(default_factory=dict)
    trees: dict[int, Tree] = field(default_factory=dict)
    first_ns: int = 0
    hashed: int = 0
    done: bool = False
    heard: float = 0.0

    @property
    def pieces(self) -> int:
        return -(-self.body["size"] // self.body["piece"])

    @property
    def held(self) -> float:
        return min(self.pieces, sum(tree.pieces for tree in self.trees.values()))


def members_of(tree: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    found, left = [], [tree]
    while left:
        entry = left.pop()
        found.append((entry["n"], entry.get("b") or {}))
        left += entry.get("c", ())
    return found


def ack(number: int, results: list[str]) -> bytes:
    """`results`: `"name":answer`."""
    body = f'{{"type":"ack","id":{number},"results":{{{",".join(results)}}}}}'.encode()
    return len(body).to_bytes(4, "big") + body


class Agents:
    def __init__(self, mbit: float, size: int) -> None:
        self.bps, self.size = mbit * 1e6, size
        self.groups: dict[str, Group] = {}
        self.counts: dict[str, int] = {}
        self.bytes_out = self.longest = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (message := await framing.read(reader)) is not None:
                op = message["op"]
                self.counts[op] = self.counts.get(op, 0) + 1
                if op == "status":
                    self.send(writer, self.statuses(message))
                    continue
                asked = (message.get("all") or {}).get("status")
                if (answer := self.entry(message)) is not None:
                    self.send(writer, self.statuses(message) if asked else answer)
                    continue
                results = {name: self.own(message, name, part, writer) for name, part in members_of(message["tree"])}
                self.answer(writer, {"type": "ack", "id": message["id"], "results": results})
        except (OSError, framing.FramingError) as error:
            print(f"agents: {error}", file=sys.stderr)
        finally:
            writer.close()

    def answer(self, writer: asyncio.StreamWriter, message: dict[str, Any]) -> None:
        self.send(writer, framing.encode(message))

    def send(self, writer: asyncio.StreamWriter, frame: bytes) -> None:
        self.bytes_out += len(frame)
        self.longest = max(self.longest, len(frame))
        if not writer.is_closing():
            writer.write(frame)

    def own(
        self, message: dict[str, Any], name: str, part: dict[str, Any], writer: asyncio.StreamWriter
    ) -> dict[str, Any]:
        op, body = message["op"], message.get("all") or {}
        if op == "stat":
            return {"ok": True, "size": self.size, "mtime_ns": 1, "inode": 1} if "path" in part else {"ok": True}
        group = self.groups.get(message["group"])
        if op == "open":
            if group is None:
                group = self.groups[message["group"]] = Group(message["group"], body, body["source"], writer)
            group.writer, group.heard = writer, time.monotonic()
            group.members.setdefault(name, Member(part.get("role", "relay")))
            for tree in body["trees"]:
                group.trees.setdefault(tree["id"], Tree(min(self.bps, tree["rate_max_bps"])))
            return {"ok": True}
        member = group.members.get(name) if group else None
        if group is None or member is None:
            return {"ok": False, "code": "no_group", "error": f"{name} has no group {message['group']}"}
        group.heard = time.monotonic()
        if op in ("assign", "cut", "digest"):
            if body["n"] > member.had + 1:
                return {"ok": False, "code": "gap", "error": f"had {member.had}", "n": member.had}
            if op == "assign" and body["n"] == member.had + 1 and name == group.source:
                for tree, first, piece, count in body["extents"]:
                    group.trees[tree].extents.append([first, piece, count, 0])
            member.had = max(member.had, body["n"])
            if body.get("status"):
                return self.status(group, member)
        elif op == "rates" and name == group.source:
            for tree, bps in body["rates"].items():
                if int(tree) in group.trees:
                    group.trees[int(tree)].bound = min(self.bps, bps or self.bps)
        elif op == "reroute":
            for tree in part.get("routes", {}):
                event = {"event": "resumed", "tree": int(tree), "t_ns": time.time_ns()}
                self.answer(writer, {"type": "event", "group": group.id, "n": name, **event})
        elif op == "close":
            del group.members[name]
            if not group.members:
                del self.groups[group.id]
        return {"ok": True}

    def entry(self, message: dict[str, Any]) -> bytes | None:
        """The answer of all to the next entry of the log, when all take it."""
        group, n = self.groups.get(message["group"]), (message.get("all") or {}).get("n", 0)
        if group is None or message["op"] not in ("assign", "cut", "digest"):
            return None
        members = [group.members.get(name) for name, _ in members_of(message["tree"])]
        if not all(member is not None and member.had == n - 1 for member in members):
            return None
        group.heard = time.monotonic()
        names = []
        for name, _ in members_of(message["tree"]):
            group.members[name].had = n
            names.append(f'"{name}":{{"ok":true}}')
            if message["op"] == "assign" and name == group.source:
                for tree, first, piece, count in message["all"]["extents"]:
                    group.trees[tree].extents.append([first, piece, count, 0])
        return ack(message["id"], names)

    def statuses(self, message: dict[str, Any]) -> bytes:
        """The answer of all: receivers of a group differ in what they have acknowledged only, and a process that makes
        thousands a second writes each of them once."""
        group, parts, made = self.groups.get(message["group"]), [], dict[tuple[str, int], str]()
        if group is not None:
            group.heard = time.monotonic()
        for name, _ in members_of(message["tree"]):
            member = group.members.get(name) if group else None
            if group is None or member is None:
                text = json.dumps({"ok": False, "code": "no_group", "error": f"{name} has no group"})
            elif (member.role, member.had) in made:
                text = made[member.role, member.had]
            else:
                text = made[member.role, member.had] = json.dumps(self.status(group, member))
            parts.append(f'"{name}":{text}')
        return ack(message["id"], parts)

    def status(self, group: Group, member: Member) -> dict[str, Any]:
        if member.role == "source":
            trees = {
                str(number): {
                    "rate_bps": int(tree.bound),
                    "new_packets": int(tree.pieces),
                    "dup_packets": 0,
                    "interests": int(tree.pieces),
                    "merged": 0,
                    "duplicates": 0,
                    "seq": int(tree.sent),
                    "numbers": int(tree.pieces),
                    "queued": 0,
                }
                for number, tree in group.trees.items()
            }
            return {"ok": True, "role": "source", "state": "running", "n": member.had, "trees": trees}
        size, piece = group.body["size"], group.body["piece"]
        trees = {
            str(number): {
                "data": int(tree.pieces),
                "duplicates": 0,
                "interests": int(tree.pieces),
                "retransmitted": 0,
                "srtt_us": 300,
                "credits": 32,
                "seq": int(tree.sent),
                "bytes": int(tree.pieces) * piece,
            }
            for number, tree in group.trees.items()
        }
        blocks = -(-group.pieces // group.body["per_block"])
        return {
            "ok": True,
            "role": "receiver",
            "n": member.had,
            "state": "done" if group.done else "running",
            "bytes": min(size, int(group.held) * piece),
            "pieces": int(group.held),
            "blocks_ok": int(blocks * group.held / group.pieces),
            "blocks_resumed": 0,
            "bad_blocks": 0,
            "t_first_ns": group.first_ns,
            "t_done_ns": time.time_ns() if group.done else 0,
            "trees": trees,
        }

    # ---- time ----
    async def run(self) -> None:
        last = time.monotonic()
        while True:
            await asyncio.sleep(TICK_S)
            now = time.monotonic()
            elapsed, last = now - last, now
            for group in tuple(self.groups.values()):
                if now - group.heard > group.body["lease_ms"] / 1000:
                    print(f"agents: the lease of {group.id} has ended", file=sys.stderr)
                    del self.groups[group.id]
                elif not group.done:
                    self.advance(group, elapsed)

    def emit(self, group: Group, name: str, **event: Any) -> None:
        self.answer(group.writer, {"type": "event", "group": group.id, "n": name, "t_ns": time.time_ns(), **event})

    def advance(self, group: Group, elapsed: float) -> None:
        piece = group.body["piece"]
        for number, tree in group.trees.items():
            most = tree.bound * elapsed / 8 / piece
            while tree.extents and most > 0:
                extent = tree.extents[0]
                first, _, count, told = extent
                tree.sent = max(tree.sent, first)
                step = min(most, first + count - tree.sent)
                tree.sent, tree.pieces, most = tree.sent + step, tree.pieces + step, most - step
                if not group.first_ns:
                    group.first_ns = time.time_ns()
                    for name in group.members:
                        self.emit(group, name, event="first")
                half, whole = first + (count + 1) // 2, first + count
                if told == 0 and tree.sent >= half:
                    self.emit(group, group.source, event="progress", tree=number, seq=half)
                    extent[3] = 1
                if tree.sent < whole:
                    break
                self.emit(group, group.source, event="progress", tree=number, seq=whole)
                tree.extents.pop(0)
        per_block = group.body["per_block"]
        blocks = -(-group.pieces // per_block)
        ahead = min(blocks, int(group.held) // per_block + 1)
        if ahead > group.hashed:
            rows = [[block, f"{block:064x}"] for block in range(group.hashed, ahead)]
            group.hashed = ahead
            self.emit(group, group.source, event="digests", blocks=rows)
        if group.held >= group.pieces:
            group.done = True
            for name, member in group.members.items():
                if member.role == "receiver":
                    self.emit(group, name, event="done", bytes=group.body["size"], blocks_ok=blocks)


async def register(signalling: str, addr: str, hosts: list[str]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = signalling.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    for at, name in enumerate(hosts):
        writer.write(
            framing.encode(
                {"type": "register", "node": name, "kind": "host", "addr": addr, "pid": 1, "instance": f"{at:032x}",
                 "version": "0", "ports": [], "dest_roots": ["/srv"], "source_roots": ["/srv"]}
            )
        )  # fmt: skip
        answer = await framing.read(reader)
        if answer is None or answer["type"] != "registered":
            raise SystemExit(f"agents: {answer}")
    return reader, writer


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("signalling")
    parser.add_argument("topology")
    parser.add_argument("--mbit", type=float, default=1000.0)
    parser.add_argument("--size", type=int, default=64 << 30)
    args = parser.parse_args()
    os.nice(10)  # agents are on other machines: what they take here is not to be what the services wait for
    graph = topologies.parse(args.topology)
    hosts = [name for name, data in graph.nodes(data=True) if data["kind"] == "host"]
    agents = Agents(args.mbit, args.size)
    server = await asyncio.start_server(agents.serve, "127.0.0.1", 0, backlog=4096)
    addr = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    reader, writer = await register(args.signalling, addr, hosts)

    async def beat() -> None:
        while True:
            writer.write(framing.encode({"type": "heartbeat"}))
            await asyncio.sleep(1.0)

    async def listen() -> None:
        while await framing.read(reader) is not None:
            pass

    tasks = [asyncio.create_task(work) for work in (agents.run(), beat(), listen())]
    print("ready", flush=True)
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    number = 0
    while line := (await lines.readline()).decode().split():
        if line[0] == "link":
            u, v, state = line[1:]
            number += 1
            t_ns = time.time_ns()
            message = {"type": "link", "node": u, "port": int(graph.edges[u, v]["ports"][u]), "up": state == "up"}
            writer.write(framing.encode({**message, "n": number, "t_ns": t_ns}))
            print(t_ns, flush=True)
        else:
            figures = {"groups": len(agents.groups), "requests": agents.counts, "longest": agents.longest}
            figures["failed"] = [task.exception() is not None for task in tasks if task.done()]
            print(json.dumps({**figures, "bytes_out": agents.bytes_out}), flush=True)
    for task in tasks:
        task.cancel()


if __name__ == "__main__":
    asyncio.run(main())
