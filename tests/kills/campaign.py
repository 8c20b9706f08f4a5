"""The campaign: transfers that are always under way, and kills drawn by a seed, one after another."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import random
import re
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import httpx
import msgspec
from services_kit.plain import PlainClient

from datacast.fabric_manager.api import FINAL_STATES
from datacast.lab.content import sha256_of
from datacast.lab.errors import LabError
from datacast.services.problems import Problem

from .cluster import MANAGERS, MEMBERS, Cluster, Say

RECEIVERS_MAX = 5
AGAIN_S = 0.1
"""Between a process's end and its next start."""
LOOK_S = 0.05
"""Logs say when a take-over was over (`_look_at_logs`): more looks would only be more for the leader to answer."""
MIN_WORKERS = 2
PATIENCE_S = 60.0
"""A take-over that takes longer has failed: some take a second, and a busy machine makes them longer."""
HEALTH_S = 5.0
"""Who has ended refuses at once. With half a second no handshake of TLS ended for a minute where others took the
processors, and campaigns gave up with a leader and all its workers there."""
ANSWER_S = 0.5
"""So long an answer is waited for before all that have given theirs are asked once more."""
AGAIN_SHARE = 0.005
"""Of all pieces so many may come when their block is verified: they were asked for before, over another tree."""
EPOCH = re.compile(r"^(\d\d:\d\d:\d\d\.\d\d\d) agent \S+ info: group (\S+): epoch (\d+) has begun", re.MULTILINE)
THERE = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) \S+ INFO worker (\S+) is there", re.MULTILINE)
KEPT = re.compile(r"group (\S+): (?:keeps (\d+) blocks that it has verified|goes on from (\d+) of)")
DAY_MS = 86_400_000
UNOWNED = ("queued", *FINAL_STATES)
LAST_S = 60.0
"""For the transfers under way when the kills are over."""
KILLS = {
    "worker killed": 5,
    "worker told to end": 2,
    "leader killed": 4,
    "leader told to end": 3,
    "follower killed": 1,
    "etcd member killed": 3,
    "controller killed": 2,
    "worker stopped": 1,
    "leader stopped": 1,
    "etcd member stopped": 1,
}
"""How often each in a long run, in parts. What is stopped ends no connection and answers nobody, as on a machine that
is gone; it goes on once it has a successor, and is to be believed by nobody."""
SIGNALS = {"killed": signal.SIGKILL, "stopped": signal.SIGSTOP}
STOPPED_S = 8.0
"""At least. Longer than a lease."""


@dataclass
class TakeOver:
    kind: str
    seconds: float
    at: float
    at_ns: int
    alone: bool = False
    """A leader, when those ended before it had not started again: nobody followed."""
    moved: dict[str, int] = field(default_factory=dict)
    """Groups that have another master after it, and its epoch."""
    workers: frozenset[str] = frozenset()
    """A leader's, that had groups."""
    since_s: float = 0.0
    """A leader: when it led for the last time, seconds since 1970."""


@dataclass
class Transfer:
    key: str
    spec: dict[str, Any]
    group: str | None = None
    record: dict[str, Any] | None = None


class Campaign:
    """`await run()`, then look at `faults` (what must not be) and `takeovers`."""

    def __init__(
        self,
        lab: Cluster,
        seed: int,
        kills: Sequence[str],
        transfers: int,
        size: int,
        gap_s: tuple[float, float],
        say: Say,
    ) -> None:
        """`kills`: one after another, each of `KILLS`. `gap_s`: between two, at least and at most."""
        self.lab, self.kills, self.count, self.size, self.gap_s, self.say = lab, kills, transfers, size, gap_s, say
        self.draw = random.Random(seed)
        self.transfers: list[Transfer] = []
        self.takeovers: list[TakeOver] = []
        self.faults: list[str] = []
        self.receivers = min(RECEIVERS_MAX, len(lab.plan.hosts) - 1)
        self.over = self.alone = False
        self.workers = frozenset[str]()
        self.ends = self.again = self.resumed = self.kept = self.pieces = 0
        self.began = time.monotonic()
        path = lab.work / "content"
        content = self.draw.randbytes(size)
        path.write_bytes(content)
        path.chmod(0o644)
        self.path, self.digest = path, hashlib.sha256(content).hexdigest()
        asks = lab.credentials.security("controller/main")
        self.client = PlainClient(lab.fabric_url, 2.0, asks)
        self.health = {url: PlainClient(url, HEALTH_S, asks) for url in lab.fabric_urls}
        self._asked: dict[int, asyncio.Task[dict[str, Any] | None]] = {}
        """Fabric managers, by number: the last question how they are."""
        self._stopped: dict[int, asyncio.Task[None]] = {}
        """By process."""
        self._groups: dict[str, dict[str, Any]] = {}
        self.unheard: dict[str, str] = {}
        """Why fabric managers did not tell how they are, by URL."""
        self._settled: str | None = None
        """The last group before which all have ended: those are not asked for again."""

    def fault(self, text: str) -> None:
        self.faults.append(f"{time.monotonic() - self.began:.2f} s: {text}")
        self.say(f"FAULT {self.faults[-1]}")

    async def run(self) -> None:
        callers = [asyncio.create_task(self._caller(number)) for number in range(self.count)]
        keeper = asyncio.create_task(self._keep())
        for task in (*callers, keeper):
            task.add_done_callback(self._broken)
        try:
            await self._until(lambda: self._running() >= min(self.count, 3), "transfers run")
            for number, kind in enumerate(self.kills):
                await asyncio.sleep(self.draw.uniform(*self.gap_s))
                await self._one(number, kind)
            self.over = True
            async with asyncio.timeout(LAST_S):
                await asyncio.gather(*callers)
        except TimeoutError:
            left = [one.group or one.key for one in self.transfers if one.record is None]
            self.fault(f"not ended {LAST_S:g} s after the last kill: {', '.join(left)}")
            for group in (one.group for one in self.transfers if one.group and one.record is None):
                with contextlib.suppress(Problem):
                    self.say(json.dumps(await self.client.group(group)))
        finally:
            for task in (*callers, keeper):
                task.cancel()
            others = [*self._asked.values(), *self._stopped.values()]
            for other in others:
                other.cancel()
            await asyncio.gather(*callers, keeper, *others, return_exceptions=True)
        with contextlib.suppress(LabError):
            self.lab.supervisor.check()
        self._look_at_history(await self._history())
        self._look_at_logs()
        for client in (self.client, *self.health.values()):
            await client.close()

    def _broken(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()):
            self.fault(f"the campaign itself: {error!r}")

    # ---- callers ----
    async def _caller(self, number: int) -> None:
        """One transfer after another, over REST; what is not answered is asked again with the same key."""
        made = 0
        headers = {"authorization": f"Bearer {self.lab.credentials.token}"}
        async with httpx.AsyncClient(base_url=self.lab.rest, headers=headers, timeout=5.0, trust_env=False) as http:
            while not self.over:
                made += 1
                source, *receivers = self.draw.sample(list(self.lab.plan.hosts), 1 + self.receivers)
                key = f"kills-{number}-{made}"
                spec = {"source": source, "receivers": receivers, "source_path": str(self.path), "dest_path": key}
                one = Transfer(key, spec)
                self.transfers.append(one)
                while one.group is None:
                    with contextlib.suppress(httpx.HTTPError, ValueError):
                        answer = await http.post("/groups", json=spec, headers={"idempotency-key": key})
                        if answer.status_code in (201, 202, 200):
                            one.group = answer.json()["id"]
                        elif answer.status_code < 500:
                            self.fault(
                                f"{key}: POST /groups was answered with {answer.status_code} {answer.text[:200]}"
                            )
                            return
                    if one.group is None:
                        await asyncio.sleep(0.2)
                while one.record is None:
                    await asyncio.sleep(0.25)
                    known = self._groups.get(one.group)
                    if known is not None and known["state"] in FINAL_STATES:
                        with contextlib.suppress(Problem):
                            one.record = await self.client.group(one.group)
                await self._ended(one)

    async def _ended(self, one: Transfer) -> None:
        record = one.record
        assert record
        if record["state"] != "done":
            self.fault(f"{one.group} ended as {record['state']}: {record['error']}")
            return
        if payload := record["report"].get("payload"):  # a last master that found all done has made no plan
            self.pieces = -(-self.size // payload)
        for host in one.spec["receivers"]:
            path = self.lab.host_folder(host) / one.key
            if await asyncio.to_thread(sha256_of, path) != self.digest:
                self.fault(f"{one.group}: {host} has other bytes")
            path.unlink()

    # ---- what is seen ----
    async def _look(self) -> bool:
        """Ask the leader for all groups. False: nobody leads."""
        try:
            rows = await self.client.groups(after=self._settled)
        except Problem:
            return False
        self._groups.update((row["id"], row) for row in rows)
        for row in rows:
            if row["state"] not in FINAL_STATES:
                break
            self._settled = row["id"]
        return True

    def _running(self) -> int:
        return sum(row["state"] == "running" for row in self._groups.values())

    async def _keep(self) -> None:
        """What has ended is started again; what is known of groups is kept current."""
        seen: dict[str, float] = {}
        while True:
            await asyncio.sleep(0.1)
            await self._look()
            now = time.monotonic()
            for name in self.lab.ended():
                self.lab.process(name).expected = True  # one that was deposed ends by itself
                if now - seen.setdefault(name, now) >= AGAIN_S:
                    del seen[name]
                    self.lab.start(name)

    async def _until(self, ready: Callable[[], bool | Awaitable[bool]], what: str) -> float:
        """Seconds until it is so."""
        began = time.monotonic()
        while True:
            answer = ready()
            if answer is True or (not isinstance(answer, bool) and await answer):
                return time.monotonic() - began
            if time.monotonic() - began > PATIENCE_S:
                self.fault(f"{what}: not within {PATIENCE_S:g} s")
                return PATIENCE_S
            await asyncio.sleep(LOOK_S)

    async def _health(self, url: str) -> dict[str, Any] | None:
        """None: it does not answer, or follows."""
        try:
            told = await self.health[url].request("GET", "/healthz")
        except (Problem, OSError) as error:
            self.unheard[url] = str(error)
            return None
        self.unheard.pop(url, None)
        return told if "workers" in told else None

    async def _followed(self, leader: int) -> bool:
        """Does another fabric manager know who leads?"""
        for url in self.lab.fabric_urls:
            if url == self.lab.fabric_urls[leader]:
                continue
            try:
                await self.health[url].request("GET", "/healthz")
                return True
            except Problem as problem:  # it sends whoever asks to the leader
                if "it follows another" in problem.message:
                    return True
            except OSError:
                pass
        return False

    async def _leader(self) -> tuple[int, dict[str, Any]] | None:
        """Whoever says first that it leads. All are asked at once: one that ends, or begins, takes a connection and is
        silent for seconds, which no other is to wait for, nor the time that is measured here."""
        for number, url in enumerate(self.lab.fabric_urls):
            if number not in self._asked or self._asked[number].done():
                self._asked[number] = asyncio.create_task(self._health(url))
        waiting, until = set(self._asked.values()), time.monotonic() + ANSWER_S
        while waiting and (left := until - time.monotonic()) > 0:
            _, waiting = await asyncio.wait(waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            for number, asked in self._asked.items():
                if asked.done() and (told := asked.result()):
                    return number, told
        return None

    # ---- kills ----
    async def _one(self, number: int, kind: str) -> None:
        found = await self._led()
        # Those that have a master: to get the first one is no move.
        before = {n: r["epoch"] for n, r in self._groups.items() if r["epoch"] and r["state"] not in FINAL_STATES}
        at, at_ns = time.monotonic() - self.began, time.time_ns()
        self.alone, self.workers = False, frozenset[str]()
        seconds = await self._kill(kind, *found)
        since_s = time.time() - seconds
        await self._look()
        moved = {
            name: row["epoch"]
            for name, epoch in before.items()
            if (row := self._groups.get(name)) and row["epoch"] != epoch
        }
        self.takeovers.append(TakeOver(kind, seconds, at, at_ns, self.alone, moved, self.workers, since_s))
        alone = ", nobody followed" if self.alone else ""
        self.say(f"{number:3} {at:7.2f} s  {kind:20} {seconds:6.3f} s  {len(moved)} of {len(before)} moved{alone}")

    async def _led(self) -> tuple[int, dict[str, Any]]:
        """The leader, once it has workers and an owner for every group: what is measured is one kill's."""
        found: tuple[int, dict[str, Any]] | None = None
        lacks = ""

        async def led() -> bool:
            nonlocal found, lacks
            found = await self._leader()
            workers = len(found[1]["workers"]) if found else 0
            if found is None or workers < MIN_WORKERS or not await self._look():
                lacks = "no fabric manager leads" if found is None else f"{workers} workers"
                return False
            rows = self._groups.items()
            waiting = [name for name, row in rows if not row["worker"] and row["state"] not in UNOWNED]
            lacks = f"no worker for {', '.join(waiting)}"
            return not waiting

        if await self._until(led, "a leader with workers, and workers for all groups, before a kill") == PATIENCE_S:
            self.say(f"last seen: {lacks}; {self.unheard}")
        assert found
        return found

    async def _kill(self, kind: str, leader: int, told: dict[str, Any]) -> float:
        what, how = kind.split(" ", 1)
        number = SIGNALS.get(how.rpartition(" ")[2], signal.SIGTERM)
        if what == "etcd":
            self._end(f"etcd-{self.draw.randrange(MEMBERS)}", number)
            return await self._until(self._written, "the store takes writes")
        if what == "controller":
            self._end("controller", number)
            await asyncio.sleep(AGAIN_S)
            return 0.0
        if what == "follower":
            self._end(f"fabric-manager-{(leader + 1) % MANAGERS}", number)
            return 0.0
        if what == "leader":
            self.workers = workers = frozenset(worker["name"] for worker in told["workers"] if worker["groups"])
            self.alone = not await self._followed(leader)
            before, led = self.lab.process(f"fabric-manager-{leader}"), time.monotonic()
            self._end(f"fabric-manager-{leader}", number)
            left = set(workers)

            async def taken_over() -> bool:
                nonlocal led, left
                other = await self._leader()
                if other is None:
                    return False
                if other[0] == leader and before.running:  # it leads on until another follows
                    led = time.monotonic()
                    return False
                left = {name for name in workers - {w["name"] for w in other[1]["workers"]} if not self._all_told(name)}
                return not left

            if await self._until(taken_over, "another leads, with the workers of the one before") == PATIENCE_S:
                self.say(f"not with the leader: {', '.join(sorted(left))}")
            return time.monotonic() - led
        busy = [one for one in told["workers"] if one["groups"]]
        worker = self.draw.choice(busy or told["workers"])
        self._send(worker["pid"], number)
        mine = {name: row for name, row in self._groups.items() if row["worker"] == worker["name"]}

        async def moved() -> bool:
            """Each is another's."""
            if not await self._look():
                return False
            for name, row in mine.items():
                now = self._groups.get(name)
                if now is None or now["state"] in FINAL_STATES:
                    continue
                if now["worker"] in (None, worker["name"]) or now["epoch"] == row["epoch"]:
                    return False
            return True

        return await self._until(moved, f"the groups of {worker['name']} are others'")

    def _end(self, name: str, number: signal.Signals) -> None:
        process = self.lab.process(name)
        process.expected = True
        self._send(process.popen.pid, number)

    def _send(self, pid: int, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        if number == signal.SIGSTOP:
            self._stopped[pid] = asyncio.create_task(self._go_on(pid))

    async def _go_on(self, pid: int) -> None:
        try:
            await asyncio.sleep(STOPPED_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def _all_told(self, worker: str) -> bool:
        """This worker has no group any more: one that has none ends with the process that started it."""
        return not any(row["worker"] == worker and row["state"] not in FINAL_STATES for row in self._groups.values())

    async def _written(self) -> bool:
        try:
            await self.client.put_set("kills", [next(iter(self.lab.plan.hosts))])
        except Problem:
            return False
        return True

    # ---- afterwards ----
    async def _history(self) -> dict[str, list[dict[str, Any]]]:
        """Every version of every group's record that was ever written: etcd keeps them."""
        from datacast.fabric_manager.keys import GROUPS
        from datacast.fabric_manager.record import load, told
        from datacast.services.store.etcd import EtcdStore

        store = EtcdStore(
            self.lab.store.removeprefix("etcd://").split(","), self.lab.credentials.security("fabric-manager/main")
        )
        versions: dict[str, list[dict[str, Any]]] = {}
        try:
            last = {entry.key: entry.revision for entry in await store.list(GROUPS)}
            async with asyncio.timeout(30):
                async for change in store.watch(GROUPS, since=1):
                    if change.value is not None:
                        versions.setdefault(change.key, []).append(msgspec.to_builtins(told(load(change.value), {})))
                    if last.get(change.key) == change.revision:
                        del last[change.key]
                    if not last:
                        break
        finally:
            await store.close()
        return versions

    def _look_at_history(self, versions: dict[str, list[dict[str, Any]]]) -> None:
        for key, records in versions.items():
            ends = [record for record in records if record["state"] in FINAL_STATES]
            if len(ends) != 1 or records[-1] is not ends[0]:
                self.fault(f"{key} ended {len(ends)} times: {[record['state'] for record in records]}")
            epochs = [record["epoch"] for record in records]
            if epochs != sorted(epochs):
                self.fault(f"{key}: an epoch fell: {epochs}")
        made = {one.group for one in self.transfers if one.group}
        names = {key.rpartition("/")[2] for key in versions}
        if made != names:
            self.fault(f"{len(names)} groups were made for {len(made)} requests")
        for one in self.takeovers:
            if one.kind == "leader told to end" and one.moved:
                self.fault(f"a planned restart at {one.at:.2f} s gave {', '.join(one.moved)} to other masters")

    def _look_at_logs(self) -> None:
        """Agents tell when another master speaks, how often they had a group, and what came again that they had;
        fabric managers, when workers are there. What this process saw itself is late where the machine is busy."""
        begun: dict[tuple[str, int], int] = {}
        for host in self.lab.plan.hosts:
            text = (self.lab.supervisor.logs / f"agent-{host}.log").read_text()
            for day_s, group, epoch in EPOCH.findall(text):
                at = _of_day(day_s)
                key = (group, int(epoch))
                begun[key] = min(at, begun.get(key, at))
            for again in re.findall(r"is whole and verified \(\d+ bytes, (\d+) pieces", text):
                self.ends += 1
                self.again += int(again)
            for group, count in Counter(re.findall(r"group (\S+): opened as receiver", text)).items():
                if count > 1:
                    self.resumed += 1
                if f"group {group}: closed as receiver, running: an earlier" in text:
                    self.fault(f"{group}: {host} was to forget it")
            self._look_at_kept(host, text)
        there = self._workers_there()
        for one in self.takeovers:
            if one.kind.startswith("worker"):
                at = one.at_ns // 1_000_000 % DAY_MS
                heard = [begun[key] - at for key in one.moved.items() if key in begun]
                one.seconds = max(heard, default=0) / 1000
            elif one.workers:
                came = [[at - one.since_s for at in there.get(name, ()) if at >= one.since_s] for name in one.workers]
                one.seconds = min(one.seconds, max((min(times) for times in came if times), default=one.seconds))
        if self.ends and self.again > self.ends * self.pieces * AGAIN_SHARE:
            self.fault(f"{self.again} pieces of {self.ends * self.pieces} came again")

    def _workers_there(self) -> dict[str, list[float]]:
        """By worker, when fabric managers wrote that it was there, seconds since 1970."""
        there: dict[str, list[float]] = {}
        for manager in range(MANAGERS):
            text = (self.lab.supervisor.logs / f"fabric-manager-{manager}.log").read_text()
            for at, worker in THERE.findall(text):
                there.setdefault(worker, []).append(datetime.strptime(at, "%Y-%m-%d %H:%M:%S,%f").timestamp())
        return there

    def _look_at_kept(self, host: str, text: str) -> None:
        """A receiver whose part was closed and is opened again goes on with every block that it had verified."""
        kept: dict[str, int] = {}
        for group, left, had in KEPT.findall(text):
            if left:
                kept[group] = int(left)
            elif int(had) < kept.get(group, 0):
                self.fault(f"{group}: {host} had verified {kept[group]} blocks, and goes on from {had}")
            self.kept += not left

    def figures(self) -> dict[str, Any]:
        """For docs/results."""
        timed = [one for one in self.takeovers if one.kind.split(" ")[0] in ("worker", "leader")]
        timed = [one for one in timed if not one.kind.endswith("stopped")]  # these cost a lease as well
        times = sorted(one.seconds for one in timed if not one.alone)
        kinds = {kind: [one.seconds for one in self.takeovers if one.kind == kind] for kind in KILLS}
        return {
            "kills": len(self.takeovers),
            "transfers": len(self.transfers),
            "done": sum(one.record is not None and one.record["state"] == "done" for one in self.transfers),
            "receivers": self.ends,
            "pieces_again": self.again,
            "came_back": self.resumed,
            "with_blocks": self.kept,
            "masters": sum(one.record["epoch"] for one in self.transfers if one.record),
            "faults": len(self.faults),
            "takeover_s_p50": round(times[len(times) // 2], 3) if times else None,
            "takeover_s_p99": round(times[min(len(times) - 1, int(0.99 * len(times)))], 3) if times else None,
            "nobody_followed_s": [round(one.seconds, 3) for one in timed if one.alone],
            "worst_s": {kind: round(max(seconds), 3) for kind, seconds in kinds.items() if seconds},
        }

    def told(self) -> str:
        return json.dumps(self.figures())


def _of_day(text: str) -> int:
    """Milliseconds since midnight, UTC."""
    hours, minutes, seconds = text.split(":")
    return (int(hours) * 60 + int(minutes)) * 60_000 + round(float(seconds) * 1000)
