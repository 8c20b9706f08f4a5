"""A collective fetch in simulated time: an object of a URL for fifteen hosts, of which eight fetch, and what happens to
fetchers. `PYTHONPATH=tests python -m clockwork.fetchers 1073741824 pause 3 7`: the bytes, what befalls them, for how
many seconds, and how many of the eight. Prints what became of the group as JSON.

What befalls them: `pause`, `kill`, `starve` (nothing is carried while they are silent), `refuse` (their origin does,
from the first question on), `deny` (later, while they fetch), `change` (they say that it is another object now),
`crawl` (what they ask for from then on comes CRAWLS times as slowly), `leave` (they are taken out of the group), `lead`
(the same, and of the eight the first ones, where requests begin)."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

from services_kit.plain import PlainClient

from datacast.fabric_manager.api import FINAL_STATES

from .agents import Agent, Message, Role
from .cluster import Cluster, installed
from .network import Network
from .plane import ones
from .virtual import Process, world
from .watch import Listening

HOSTS, FETCHERS = 15, 8
LINK_BPS, FETCH_BPS, CRAWLS = 500_000_000, 50_000_000, 100_000
HARM_AT_S, END_S = 1.0, 60.0
AT_ONCE = 4
WRONG = {"refuse": "origin_refused", "deny": "origin_refused", "change": "changed"}
BUSY_S = 4.0
STARVED_S = 2.5
"""So long nothing is carried, and fetchers fetch, before they fall silent."""


@dataclass
class Wanted:
    """What a fetcher is ordered to fetch."""

    blocks: list[int] = field(default_factory=list)
    under_way: set[int] = field(default_factory=set)
    task: asyncio.Task[None] | None = None


class Fetcher(Agent):
    """An agent that fetches, as host_agent/fetching.c."""

    size = 0
    asked: Counter[int]
    """How often each block was asked of the origin, by all."""
    by: Counter[str]
    vain: Counter[str]
    """How often one was ordered to fetch that cannot."""
    wrong: dict[str, str]
    """What those answer who are to fetch and cannot: a code, by host."""
    slow: set[str]
    left: set[str]
    """Taken out of the group; those that are opened again all the same."""
    opened: set[str]
    busy_to = 0.0

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.wanted: dict[str, Wanted] = {}
        self.fetches: set[str] = set()

    def _stat(self, part: Message) -> Message:
        if "urls" in part:
            if code := self.wrong.get(self.name):
                return {"ok": False, "code": code, "error": f"403 for {self.name}"}
            return {"ok": True, "objects": [[self.size, "etag"] for _ in part["urls"]]}
        return super()._stat(part)

    def _open(self, group: str, part: Message, body: Message, writer: asyncio.StreamWriter) -> Message:
        self.opened |= {self.name} & self.left
        if group not in self.roles and self.plane.loop.now < self.busy_to:
            return {"ok": False, "code": "busy", "error": "the file is being written out"}
        (self.fetches.add if part.get("roots") or part.get("fetches") else self.fetches.discard)(group)
        return super()._open(group, part, body, writer)

    def _own(self, message: Message, part: Message | None, writer: asyncio.StreamWriter) -> Message:
        role = self.roles.get(message["group"])
        if message["op"] != "fetch" or role is None or part is None:
            return super()._own(message, part, writer)
        role.heard = self.plane.loop.now
        wanted = self.wanted.setdefault(role.group, Wanted())
        if role.group not in self.fetches:
            return {"ok": False, "code": "bad_request", "error": "this host does not fetch for the group"}
        if code := self.wrong.get(self.name):
            wanted.blocks.clear()
            self.vain[self.name] += 1
            return {"ok": False, "code": code, "error": f"403 for {self.name}"}
        if "leave" in part:
            left = {b for first, n in part["leave"] for b in range(first, first + n)} & set(wanted.blocks)
            wanted.blocks = [block for block in wanted.blocks if block not in left]
            return {"ok": True, "left": sorted(left)}
        for first, count in part["blocks"]:
            known = {*wanted.blocks, *wanted.under_way}
            wanted.blocks += [block for block in range(first, first + count) if block not in known]
        if wanted.task is None or wanted.task.done():
            wanted.task = asyncio.create_task(self._fetch(role, wanted))
        return {"ok": True}

    async def _fetch(self, role: Role, wanted: Wanted) -> None:
        _, piece, per = role.cut
        while wanted.blocks and self.roles.get(role.group) is role:
            some, wanted.blocks = wanted.blocks[:AT_ONCE], wanted.blocks[AT_ONCE:]
            new = [block for block in some if block not in role.blocks]
            wanted.under_way = set(new)
            self.asked.update(new)
            self.by[self.name] += len(new)
            share = FETCH_BPS / (CRAWLS if self.name in self.slow else 1)
            await asyncio.sleep(len(new) * per * piece * 8 / share)
            if self.roles.get(role.group) is not role:
                return
            for block in new:
                role.held |= ones(min(per, role.pieces - block * per), block * per)
            role.digests.update(new)
            wanted.under_way = set()
            self.tell_digests(role, some)
            self._verify(role)

    def _repeat(self, role: Role) -> None:
        if role.sending:
            self.tell_digests(role, sorted(role.blocks))
        super()._repeat(role)


@dataclass
class Outcome:
    state: str
    error: dict[str, str] | None
    blocks: int
    asked: int
    """Of the origin, in blocks."""
    again: int
    """Blocks that were asked for more than once."""
    by: dict[str, int]
    by_before: dict[str, int]
    """When they were all back."""
    vain: dict[str, int]
    """Orders to fetch that were refused."""
    took_s: float
    told_twice: int
    """Bytes, in the group's report."""
    there: list[str]
    """Who has it."""
    opened: list[str]
    """Who was opened again though it had been taken out."""
    gone: int
    """How often a root was given up."""
    back: int
    violations: list[str]


class Gone(logging.Handler):
    """Told to people."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.count = self.back = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += "sends no more" in record.getMessage()
        self.back += "is back, and fetches again" in record.getMessage()


async def until_gone(agent: Agent | None, group: str) -> None:
    while agent is not None and group in agent.roles:
        await asyncio.sleep(0.01)


async def _group(cluster: Cluster, what: str, for_s: float, many: int, gone: Gone) -> Outcome:
    names = list(cluster.hosts)
    fetchers = names[:FETCHERS]
    wrong = dict.fromkeys(fetchers[FETCHERS - many :], WRONG[what]) if what in WRONG else {}
    Fetcher.wrong, Fetcher.slow = wrong if what == "refuse" else {}, set()
    Fetcher.left, Fetcher.opened = set(), set()
    await asyncio.sleep(1.0)
    spec = {"url": "https://origin/object", "receivers": names, "fetchers": fetchers, "dest_path": "/srv/f"}
    async with PlainClient(cluster.urls) as client:
        began = cluster.loop.now
        group = (await client.create_group(spec, by="people", key="fetch"))["id"]
        await asyncio.sleep(HARM_AT_S)
        cluster.plane.share = 0.0 if what == "starve" else 1.0
        if what == "starve":
            await asyncio.sleep(STARVED_S)
        Fetcher.wrong = wrong
        Fetcher.slow = set(fetchers[FETCHERS - many :]) if what == "crawl" else set()
        leaving = {"leave": fetchers[FETCHERS - many :], "lead": fetchers[:many]}.get(what, [])
        for name in leaving:
            cluster.watch.dropping.add(group)
            await client.remove_receiver(group, name)
            await until_gone(cluster.agents[name].agent, group)
            Fetcher.left.add(name)
        spared = bool(wrong or Fetcher.slow or leaving)
        slots = [cluster.agents[name] for name in fetchers[FETCHERS - many :] if not spared]
        Fetcher.busy_to = cluster.loop.now + for_s + BUSY_S if what == "busy" else 0.0
        await asyncio.gather(*(slot.kill(for_s) if what in ("kill", "busy") else slot.pause(for_s) for slot in slots))
        cluster.plane.share = 1.0
        before = dict(Fetcher.by)
        while (told := await client.group(group))["state"] not in FINAL_STATES and cluster.loop.now < began + END_S:
            await asyncio.sleep(0.25)
    blocks = max(Fetcher.asked, default=-1) + 1
    return Outcome(
        told["state"], told["error"], blocks, Fetcher.asked.total(), sum(n > 1 for n in Fetcher.asked.values()),
        dict(Fetcher.by), before, dict(Fetcher.vain), cluster.loop.now - began,
        (told["report"] or {}).get("refetched_bytes") or 0,
        [name for name, receiver in told["receivers"].items() if receiver["state"] == "done"], sorted(Fetcher.opened),
        gone.count, gone.back, cluster.watch.violations,
    )  # fmt: skip


def fetch(size: int, what: str, for_s: float, many: int) -> Outcome:
    with world(1) as (loop, rng):
        network = Network(loop, rng, False)
        Fetcher.size, Fetcher.asked, Fetcher.by, Fetcher.vain = size, Counter(), Counter(), Counter()
        cluster = Cluster(
            loop, network, spec=f"bcube:{HOSTS},0", managers=1, workers=1, rate_bps=LINK_BPS, mtu=9000, agent=Fetcher
        )
        gone = Gone()
        for handler in (gone, Listening(cluster.watch, "-v" in sys.argv)):
            logging.getLogger("datacast.master").addHandler(handler)

        async def scenario() -> Outcome:
            cluster.start()
            try:
                return await loop.launch(Process("people", "people"), _group(cluster, what, for_s, many, gone))
            finally:
                await cluster.stop()

        with installed(cluster):
            return loop.run_until_complete(scenario())


def main(words: list[str]) -> None:
    size, what, for_s, many = words[:4]
    print(json.dumps(asdict(fetch(int(size), what, float(for_s), int(many)))))


if __name__ == "__main__":
    main(sys.argv[1:])
