"""Sites with real controllers that speak HTTPS with each other, and real signalling to their hosts. The fabric between
a site's hosts is played: what one of them has fetched from its controller, over HTTPS as well, all of them have.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import made_records
import numpy as np
import routes_once
import yaml
from authority import Authority

from datacast.controller.app import make_app
from datacast.controller.sites import agents as agents_module
from datacast.controller.sites import coordinator as coordinator_module
from datacast.controller.sites import exchanges, gateway, own, parents, peers
from datacast.controller.sites.agents import Agents
from datacast.controller.sites.coordinator import Coordinator
from datacast.controller.sites.directory import Directory
from datacast.controller.sites.gateway import Gateway
from datacast.controller.sites.peers import Peers
from datacast.fabric_manager.api import GroupSpec
from datacast.fabric_manager.api.records import GroupRecord
from datacast.fabric_manager.api.topology import LoadedTopology
from datacast.master.objects import Objects
from datacast.origins.exchange import packed, runs_of, touched
from datacast.origins.ranges import piece_bytes
from datacast.services import acceptor, framing, tls
from datacast.services.problems import Problem
from datacast.services.ranges import blocks, spans, union
from datacast.services.service import HttpServer, listen
from datacast.services.tls import Identity

routes_once.install()

FINAL = ("done", "partial", "failed", "cancelled")


class Host:
    """An agent as far as a controller speaks with it."""

    def __init__(self, name: str) -> None:
        self.name, self.files = name, dict[str, bytes]()
        """By absolute path what may be sent, by relative one what was received."""
        self.folders: set[str] = set()
        """Those of them that are the streams of directories."""
        self.parts: dict[str, bytes] = {}
        self.rows: dict[str, list[tuple[int, int]]] = {}
        """By group: the file, and the bytes of it, first and count, that have been verified; the rest are holes."""
        self.mark, self.reads, self.address = 1, list[dict[str, Any]](), ""
        self.lies: Callable[[dict[str, Any], bytes], tuple[dict[str, Any], bytes]] | None = None
        """Of an answer: what is said in its place."""
        self.writers: set[asyncio.StreamWriter] = set()
        self.gate: asyncio.Event | None = None
        """Answers wait for it."""
        self.lost = False
        """For good: as a receiver it fails."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.add(writer)
        with contextlib.suppress(OSError, EOFError):
            while (asked := await framing.read(reader)) is not None:
                self.reads.append(asked)
                if self.gate is not None:
                    await self.gate.wait()
                told, data = self._answer(asked)
                if self.lies is not None:
                    told, data = self.lies(told, data)
                writer.write(framing.encode(told) + data)
                await writer.drain()
        self.writers.discard(writer)
        writer.close()

    def _answer(self, asked: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        name = asked.get("path") or asked.get("dest")
        data = self.files.get(name) if name else self.parts.get(asked["group"])
        if data is None:
            return {"type": "error", "id": asked["id"], "code": "not_found", "error": "nowhere"}, b""
        part = data[asked["off"] : asked["off"] + asked["len"]]
        if not name:
            rows, at = self.rows[asked["group"]], asked["off"]
            part = next((part[: first + n - at] for first, n in rows if first <= at < first + n), b"")
        about = {"size": len(data), "mtime_ns": self.mark, "inode": 7}
        about |= {"bundle": 3} if name in self.folders else {}
        return {"type": "bytes", "id": asked["id"], "n": len(part), **about}, part


class Fabric:
    """What a controller asks its fabric manager."""

    def __init__(self, hosts: Sequence[str]) -> None:
        self.hosts = {name: Host(name) for name in hosts}
        self.own_url = ""
        self.agent: ssl.SSLContext | None = None
        self.groups: dict[str, dict[str, Any]] = {}
        self.specs: dict[str, dict[str, Any]] = {}
        self.keyed: dict[str, str] = {}
        self.kept: dict[str, str] = {}
        self.block = 50_000
        """Bytes: ranges are widened to so many, and those are asked for at once."""
        self.offers: dict[str, list[tuple[int, int]]] = {}
        self.there: dict[str, np.ndarray] = {}
        self.spoils = b""
        """What takes the place of the first bytes of everything that is fetched here."""
        self.refuses: Problem | None = None
        """What is answered in place of the next groups."""
        self.resumed: list[str] = []
        self.patience = 0
        """A group fails when it has looked so often and nothing has come; 0: never."""
        self.hold = asyncio.Event()
        """Cleared: hosts fetch nothing."""
        self.hold.set()
        self._runs: dict[str, asyncio.Task[None]] = {}
        """What carries each group, a resumed one its last."""

    async def topology(self) -> LoadedTopology:
        nodes = [{"name": n, "registered": bool(h.address), "addr": h.address} for n, h in self.hosts.items()]
        return made_records.topology(spec="star", nodes=nodes)

    async def site_groups(self) -> dict[str, str]:
        return dict(self.kept)

    async def put_site_group(self, group: str, text: str) -> None:
        self.kept[group] = text

    async def delete_site_group(self, group: str) -> None:
        if self.kept.pop(group, None) is None:
            raise Problem(404, "group_not_found", f"there is no group {group!r} of several sites", what=group)

    async def create_group(
        self, asked: GroupSpec, accepted_ns: int | None = None, by: str = "", key: str | None = None
    ) -> GroupRecord:
        spec = asdict(asked)
        if self.refuses is not None:
            raise self.refuses
        if key is not None and key in self.keyed:
            return self._told(self.keyed[key])
        names = [n for n in self.hosts if n != spec["source"]] if spec["receivers"] == "all" else spec["receivers"]
        if unknown := [name for name in names if name not in self.hosts]:
            raise Problem(422, "unknown_host", f"the topology has no host {unknown[0]!r}", what=unknown[0])
        group = f"g-{len(self.groups)}"
        row = {"state": "running", "fraction": 0.0, "sha256_ok": None, "error": None}
        self.specs[group] = spec
        self.groups[group] = {
            "id": group, "state": "running", "fraction": 0.0, "rate_bps": 0, "error": None, "finished_ns": None,
            "source": spec["source"] or names[0], "other_sources": [], "receivers": {name: dict(row) for name in names},
        }  # fmt: skip
        if key is not None:
            self.keyed[key] = group
        self._run(group)
        return self._told(group)

    def _run(self, group: str) -> None:
        task = self._runs[group] = asyncio.create_task(self._carry(group))
        task.add_done_callback(partial(self._broke, group))

    def _broke(self, group: str, task: asyncio.Task[None]) -> None:
        """An error of these lines themselves: the group would run for ever."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fail(group, "internal", repr(error))

    def _told(self, group: str) -> GroupRecord:
        return made_records.group(**self.groups[group])

    async def group(self, group: str) -> GroupRecord:
        if group not in self.groups:
            raise Problem(404, "group_not_found", f"there is no group {group!r}", what=group)
        return self._told(group)

    async def cancel_group(self, group: str) -> GroupRecord:
        await self.group(group)
        if self.groups[group]["state"] not in FINAL:
            self.groups[group]["state"] = "cancelled"
        return self._told(group)

    async def forget_group(self, group: str) -> GroupRecord:
        told = await self.group(group)
        del self.groups[group]
        return told

    async def resume_group(self, group: str) -> GroupRecord:
        names = self.groups[group]["receivers"]
        if all(self.hosts[name].lost for name in names):
            raise Problem(409, "no_agent", f"host {next(iter(names))} has no agent", what=group)
        self.resumed.append(group)
        self.groups[group] |= {"state": "running", "error": None}
        self._runs[group].cancel()  # what still closes its connections shall not take this for its own run
        self._run(group)
        return self._told(group)

    async def offer(self, group: str, pieces: list[tuple[int, int]]) -> None:
        self.offers[group] = pieces

    async def fetched(self, group: str) -> str:
        return packed(self.there[group]) if group in self.there else ""

    def fail(self, group: str, code: str, message: str) -> None:
        self.groups[group] |= {"state": "failed", "error": {"code": code, "message": message}}

    # ---- what the fabric does ----
    async def _carry(self, group: str) -> None:
        spec, record, folder = self.specs[group], self.groups[group], False
        shards: dict[str, list[str]] = spec["shards"]
        if spec["url"] is None:
            data = self.hosts[spec["source"]].files[spec["source_path"]]
            folder = spec["source_path"] in self.hosts[spec["source"]].folders
        elif spec["url"].startswith("site:"):
            data = await self._fetch(group, "https:" + spec["url"].removeprefix("site:"))
            data = self.spoils + data[len(self.spoils) :]
            folder = Objects(GroupSpec(url=spec["url"])).folder
        else:
            data = b"of a URL"
        is_, expected = hashlib.sha256(data).hexdigest(), spec["sha256"]
        if record["state"] == "running" and expected not in (None, is_):
            why = f"the file's SHA-256 is {is_}, expected was {expected}: the source has another file"
            for row in record["receivers"].values():
                row |= {"state": "failed", "error": {"code": "digest", "message": why}}
            self.fail(group, "receivers_failed", f"all receivers failed: {why}")
        for name, row in record["receivers"].items():
            if record["state"] == "running" and self.hosts[name].lost:
                row |= {"state": "failed", "error": {"code": "unreachable", "message": f"{name} does not answer"}}
            elif record["state"] == "running":
                self.hosts[name].files[spec["dest_path"]] = self._own(shards.get(name), data)
                self.hosts[name].parts.pop(group, None)
                if folder:
                    self.hosts[name].folders.add(spec["dest_path"])
                row |= {"state": "done", "fraction": 1.0}
        if record["state"] == "running":
            states = {row["state"] for row in record["receivers"].values()}
            state = "done" if states == {"done"} else "partial" if "done" in states else "failed"
            error = None if state == "done" else {"code": "unreachable", "message": "hosts do not answer"}
            record |= {"state": state, "fraction": 1.0, "error": error, "finished_ns": time.time_ns()}

    async def _fetch(self, group: str, url: str) -> bytes:
        record, data = self.groups[group], bytearray()
        assert self.agent
        async with httpx.AsyncClient(verify=self.agent, timeout=60.0) as http:
            idle = 0
            while (answer := await _range(http, url, 0, 0)) is None or answer.status_code not in (206, 416):
                idle += 5
                if record["state"] != "running" or self._gives_up(group, idle):
                    return b""
                await asyncio.sleep(0.05)
            size = int(answer.headers["content-range"].rpartition("/")[2])
            piece = piece_bytes(size) if size else 1
            shards: dict[str, list[str]] = self.specs[group]["shards"]
            unit = self.block if shards else piece  # asked for at once
            own = {name: _blocks(shards.get(name, ["0-"]), size, unit) for name in record["receivers"]}
            wanted = np.logical_or.reduce([*own.values()])
            bytes_ = [row for name in own for row in spans(shards.get(name, ["0-"]), size, 1)]
            offered = ~touched(union(bytes_), size, piece)
            got = np.zeros(len(wanted), bool)
            there = self.there[group] = np.zeros(len(offered), bool)
            data = bytearray(size)
            while not (got | ~wanted).all() and record["state"] == "running":
                await self.hold.wait()
                for first, count in self.offers.get(group, ()):
                    offered[first : first + count] = True
                for number in np.flatnonzero(wanted & ~got):
                    first, last = int(number) * unit, min(size, (int(number) + 1) * unit) - 1
                    if not offered[first // piece : last // piece + 1].all():
                        continue
                    if (answer := await _range(http, url, first, last)) is None:
                        continue
                    if answer.status_code == 206 and len(answer.content) == last + 1 - first:
                        data[first : last + 1] = answer.content
                        got[number], idle = True, 0
                    elif answer.status_code in (404, 412, 502):
                        self.fail(group, answer.json()["code"], answer.json()["detail"])
                        return b""
                missing = wanted & ~got
                for n in range(len(there)):
                    there[n] = not missing[n * piece // unit : -(-min(size, (n + 1) * piece) // unit)].any()
                for name, row in record["receivers"].items():
                    host = self.hosts[name]
                    host.parts[group] = bytes(data)
                    host.rows[group] = [(r.first * unit, r.count * unit) for r in runs_of(own[name] & got)]
                    row["fraction"] = float(got[own[name]].mean()) if own[name].any() else 1.0
                record["fraction"] = float(got[wanted].mean())
                idle += 1
                if self._gives_up(group, idle):
                    return b""
                await asyncio.sleep(0.01)
        return bytes(data)

    def _gives_up(self, group: str, idle: int) -> bool:
        """`idle`: looks since something has come."""
        names = self.groups[group]["receivers"]
        if all(self.hosts[name].lost for name in names):
            self.fail(group, "unreachable", "every fetcher is gone")
            return True
        if self.patience and idle > self.patience:
            self.fail(group, "origin_unreachable", "its origin does not answer")
            return True
        return False

    def _own(self, texts: Sequence[str] | None, data: bytes) -> bytes:
        """What a receiver has that wants these ranges: holes elsewhere."""
        if texts is None:
            return data
        found = bytearray(len(data))
        for first, n in blocks(texts, len(data), self.block):
            found[first * self.block : (first + n) * self.block] = data[first * self.block : (first + n) * self.block]
        return bytes(found)

    def stop(self) -> None:
        for task in self._runs.values():
            task.cancel()

    def lose(self) -> None:
        """All that it had written down."""
        self.stop()
        for all_of in (self.groups, self.specs, self.keyed, self.kept, self.offers, self.there, self._runs):
            all_of.clear()


def _blocks(texts: Sequence[str], size: int, unit: int) -> np.ndarray:
    """Which blocks hold these ranges."""
    return touched(((first * unit, n * unit) for first, n in blocks(texts, size, unit)), size, unit)


async def _range(http: httpx.AsyncClient, url: str, first: int, last: int) -> httpx.Response | None:
    with contextlib.suppress(httpx.HTTPError):  # its controller is away: it is asked again
        return await http.get(url, headers={"range": f"bytes={first}-{last}"})
    return None


class Faulty:
    """A site's port that answers other sites' requests for bytes wrongly: the first so many, by `how`."""

    def __init__(self, app: Any) -> None:
        self.app, self.how, self.left = app, "", 0
        self.asked: set[str] = set()
        """What has come for other sites and for hosts: objects, orders, progress, held."""
        self.ranges: list[str] = []
        """Paths of objects that are being answered."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"].startswith("/site/objects/"):
            self.ranges.append(scope["path"])
            try:
                await self._answer(scope, receive, send)
            finally:
                self.ranges.remove(scope["path"])
        else:
            await self._answer(scope, receive, send)

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"].startswith("/site/"):
            self.asked |= set(scope["path"].split("/")) & {"objects", "orders", "progress", "held"}
        if scope["type"] != "http" or not scope["path"].startswith("/site/objects/") or not self.left:
            await self.app(scope, receive, send)
            return
        self.left -= 1
        if self.how.isdigit():
            headers = [(b"content-length", b"0"), (b"retry-after", b"1"), (b"location", b"https://127.0.0.1:1/")]
            await send({"type": "http.response.start", "status": int(self.how), "headers": headers})
            await send({"type": "http.response.body", "body": b""})
            return
        if self.how == "silent":
            await asyncio.sleep(3600.0)
        await self.app(scope, receive, partial(self._wrong, send))

    async def _wrong(self, send: Any, message: Any) -> None:
        if message["type"] == "http.response.start":
            headers = dict(message["headers"])
            if self.how == "other range":
                headers[b"content-range"] = b"bytes 1-2/3"
            elif self.how == "other object":
                headers[b"etag"] = b'"else"'
            elif self.how == "longer":
                headers[b"content-length"] = b"%d" % (int(headers[b"content-length"]) + 1)
            message = {**message, "headers": list(headers.items())}
        elif self.how == "longer":
            message = {**message, "body": message["body"] + b"x" * (not message.get("more_body"))}
        elif self.how in ("cut off", "stands still") and len(message["body"]) > 1000:
            await send({**message, "body": message["body"][:1000], "more_body": True})
            if self.how == "stands still":
                await asyncio.sleep(3600.0)
            raise ConnectionAbortedError("cut off")
        await send(message)


class Site:
    """One that is up. `http`: asks its controller as people do."""

    def __init__(self, name: str, folder: Path, hosts: Sequence[str]) -> None:
        self.name, self.folder, self.authority = name, folder, Authority(folder / name)
        self.fabric = Fabric(hosts)
        self.sock = listen("127.0.0.1:0")
        self.url = f"https://127.0.0.1:{self.sock.getsockname()[1]}"
        self.file = folder / f"{name}.yaml"
        self.coordinator: Coordinator
        self.port: Faulty
        self.http: httpx.AsyncClient
        self.refusing: asyncio.Server | None = None
        """While it is away. Its port stays its own, and who waits there unheard waits for a minute (PATIENT)."""
        self.stack = AsyncExitStack()
        """Of its controller."""

    def knows(self, sites: Mapping[str, tuple[Authority, str | None]]) -> None:
        rows = {n: {"ca": str(a.ca), **({"url": url} if url else {})} for n, (a, url) in sites.items()}
        self.file.write_text(yaml.safe_dump({"name": self.name, "url": self.url, "sites": rows}, sort_keys=False))

    def others(self) -> dict[str, Any]:
        """The sites in its file."""
        return dict(yaml.safe_load(self.file.read_text())["sites"])

    def _has(self, others: dict[str, Any]) -> None:
        known = yaml.safe_load(self.file.read_text())
        self.file.write_text(yaml.safe_dump({**known, "sites": others}, sort_keys=False))

    def takes_out(self, name: str) -> Any:
        """`datacast sites remove`. What stood there of it; None: it was not there."""
        others = self.others()
        if (row := others.pop(name, None)) is not None:
            self._has(others)
        return row

    def takes_back(self, name: str, row: Any) -> None:
        self._has({**self.others(), name: row})

    async def start_hosts(self, stack: AsyncExitStack) -> None:
        for name, host in self.fabric.hosts.items():
            context = self.authority.context(f"agent/{name}", server=True)
            server = await asyncio.start_server(host.serve, "127.0.0.1", 0, ssl=context)
            stack.callback(server.close)
            host.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self.fabric.agent = ssl.create_default_context(cafile=str(self.authority.ca))
        self.fabric.agent.check_hostname = False
        self.fabric.agent.load_cert_chain(*self.authority.issue("agent/fetcher"))
        stack.callback(self.fabric.stop)

    async def start(self) -> None:
        self._refuse_no_more()
        cert, key = self.authority.issue("controller/main")
        ca = str(self.authority.ca)
        known = Peers(Directory(self.file, ca), Identity(ca, cert, key, "controller"))
        context = known.server(cert, key)
        client: Any = self.fabric
        agents = Agents(client, self.authority.security("controller/main"))
        self.coordinator = Coordinator(client, known, Gateway(client, agents, known))
        self.coordinator.start()
        self.port = Faulty(make_app(client, sites=self.coordinator))
        server = HttpServer(self.port, self.sock.dup(), context)
        await server.start()
        verify = ssl.create_default_context(cafile=ca)
        verify.check_hostname = False
        self.http = httpx.AsyncClient(base_url=self.url, verify=verify, timeout=60.0)
        self.stack.callback(agents.close)
        self.stack.push_async_callback(self.coordinator.stop)
        self.stack.push_async_callback(server.stop)
        self.stack.push_async_callback(self.http.aclose)

    async def stop(self) -> None:
        await self.stack.aclose()
        if self.refusing is None:
            self.refusing = await asyncio.start_server(lambda _, writer: writer.close(), sock=self.sock.dup())

    def _refuse_no_more(self) -> None:
        if self.refusing is not None:
            self.refusing.close()
            self.refusing = None

    def close(self) -> None:
        """Its port is anybody's."""
        self._refuse_no_more()
        self.sock.close()

    # ---- what people do ----
    def give(self, data: bytes) -> None:
        """To its first host, which may send it."""
        next(iter(self.fabric.hosts.values())).files["/srv/f"] = data

    async def order(self, to: list[str], headers: dict[str, str] | None = None, **more: Any) -> httpx.Response:
        spec = {"source": next(iter(self.fabric.hosts)), "source_path": "/srv/f", "receivers": to, **more}
        return await self.http.post("/groups", json=spec, headers=headers)

    async def made(self, to: list[str], **more: Any) -> str:
        answer = await self.order(to, **more)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    async def now(self, group: str) -> dict[str, Any]:
        found: dict[str, Any] = (await self.http.get(f"/groups/{group}")).json()
        return found

    async def end(self, group: str) -> dict[str, Any]:
        while (found := await self.now(group))["state"] not in FINAL:
            await asyncio.sleep(0.02)
        return found

    def has(self, host: str, data: bytes, path: str = "f") -> bool:
        return self.fabric.hosts[host].files.get(path) == data


@asynccontextmanager
async def mesh(
    folder: Path,
    hosts: Mapping[str, Sequence[str]],
    asks: Mapping[str, Sequence[str]],
    called: Mapping[str, str] | None = None,
) -> AsyncIterator[dict[str, Site]]:
    """`hosts` of each site; `asks`: the sites whose URL it has. Who is asked knows who asks. `called`: sites that go by
    another name."""
    sites = {name: Site(name, folder, names) for name, names in hosts.items()}
    for name, other in (called or {}).items():
        sites[name].name = other
    async with AsyncExitStack() as stack:
        for module, constant, seconds in QUICK + PATIENT:
            stack.enter_context(patch.object(module, constant, seconds))
        for name, site in sites.items():
            known = {n: sites[n].url for n in asks.get(name, ())}
            known |= {n: None for n in sites if name in asks.get(n, ()) and n not in known}
            site.knows({sites[n].name: (sites[n].authority, url) for n, url in known.items()})
            stack.callback(site.close)
            await site.start_hosts(stack)
        for site in sites.values():
            await site.start()
            stack.push_async_callback(site.stop)
        for name, site in sites.items():
            asked_by = [sites[n].name for n in sites if name in asks.get(n, ())]
            there = site.coordinator.peers.all
            await until(lambda there=there, names=asked_by: all(there[n].takes_orders for n in names))
        yield sites


TWO = {"ams": ["a0", "a1"], "sfo": ["s0", "s1"]}


@asynccontextmanager
async def two(folder: Path, data: bytes | None = None) -> AsyncIterator[tuple[Site, Site]]:
    """ams and sfo, which asks ams. `data`: what a host of ams may send."""
    async with mesh(folder, TWO, {"sfo": ["ams"]}) as sites:
        if data is not None:
            sites["ams"].give(data)
        yield sites["ams"], sites["sfo"]


QUICK = (
    (coordinator_module, "TICK_S", 0.02), (parents, "AGAIN_S", 0.05), (parents, "TELL_S", 0.2),
    (own, "RESUME_S", 0.1), (exchanges, "AGAIN_S", 0.02), (exchanges, "OFFER_S", 0.02),
    (exchanges, "NEWS_S", 0.05), (gateway, "HOLDERS_S", 0.05), (gateway, "WAIT_S", 0.3),
    (agents_module, "LOOK_S", 0.05), (peers, "ORDERS_WAIT_S", 1.0), (peers, "HELD_WAIT_S", 0.3),
)  # fmt: skip
"""What is looked at from time to time is looked at more often."""
PATIENT = (
    (agents_module, "ANSWER_S", 60.0), (tls, "HANDSHAKE_S", 60.0), (acceptor, "HANDSHAKE_S", 60.0),
    (peers, "CONNECT_S", 60.0), (peers, "HEAD_S", 60.0),
)  # fmt: skip
"""Sites and hosts are one process: without a processor all of them are slow, and nobody is away. A site whose question
finds no connection in time is: what its lines bring is then thrown away, and comes again."""


async def until(true: Callable[[], object]) -> None:
    while not true():
        await asyncio.sleep(0.01)
