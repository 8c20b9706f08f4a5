"""A collective fetch in simulated time: an object of a URL for fifteen hosts, of which eight fetch, and what happens to
fetchers. `PYTHONPATH=tests python -m clockwork.fetchers 1073741824 pause 3 7`: the bytes, what befalls them, for how
many seconds, and how many of the eight. Prints what became of the group as JSON.

What befalls them: `pause`, `kill`, `starve` (nothing is carried while they are silent), `refuse` (their origin does,
from the first question on), `deny` (later, while they fetch), `change` (they say that it is another object now),
`crawl` (what they ask for from then on comes CRAWLS times as slowly), `leave` (they are taken out of the group), `lead`
(the same, and of the eight the first ones, where requests begin), `join` (one fetches alone, another joins)."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from dataclasses import asdict, dataclass
from functools import partial

from services_kit.plain import PlainClient

from datacast.fabric_manager.api import FINAL_STATES

from .agents import Agent
from .cluster import Cluster, installed
from .network import Network
from .origin import Fetcher, Origin
from .virtual import Process, world
from .watch import Listening

HOSTS, FETCHERS = 15, 8
URL = "https://origin/object"
LINK_BPS = 500_000_000
HARM_AT_S, END_S = 1.0, 60.0
WRONG = {"refuse": "origin_refused", "deny": "origin_refused", "change": "changed"}
BUSY_S = 4.0
STARVED_S = 2.5
"""So long nothing is carried, and fetchers fetch, before they fall silent."""


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


async def _group(cluster: Cluster, origin: Origin, what: str, for_s: float, many: int, gone: Gone) -> Outcome:
    names, alone = list(cluster.hosts), what == "join"
    fetchers = names[: 1 if alone else FETCHERS]
    wrong = dict.fromkeys(fetchers[FETCHERS - many :], WRONG[what]) if what in WRONG else {}
    origin.wrong = wrong if what == "refuse" else {}
    await asyncio.sleep(1.0)
    spec = {"url": URL, "receivers": fetchers if alone else names, "fetchers": fetchers, "dest_path": "/srv/f"}
    async with PlainClient(cluster.urls) as client:
        began = cluster.loop.now
        group = (await client.create_group(spec, by="people", key="fetch"))["id"]
        await asyncio.sleep(HARM_AT_S)
        if alone:
            await client.add_receiver(group, names[1])
        cluster.plane.share = 0.0 if what == "starve" else 1.0
        if what == "starve":
            await asyncio.sleep(STARVED_S)
        origin.wrong = wrong
        origin.slow = set(fetchers[FETCHERS - many :]) if what == "crawl" else set()
        leaving = {"leave": fetchers[FETCHERS - many :], "lead": fetchers[:many]}.get(what, [])
        for name in leaving:
            cluster.watch.dropping.add(group)
            await client.remove_receiver(group, name)
            await until_gone(cluster.agents[name].agent, group)
            origin.left.add(name)
        spared = bool(wrong or origin.slow or leaving or alone)
        slots = [cluster.agents[name] for name in fetchers[FETCHERS - many :] if not spared]
        origin.busy_to = cluster.loop.now + for_s + BUSY_S if what == "busy" else 0.0
        await asyncio.gather(*(slot.kill(for_s) if what in ("kill", "busy") else slot.pause(for_s) for slot in slots))
        cluster.plane.share = 1.0
        before = dict(origin.by)
        while (told := await client.group(group))["state"] not in FINAL_STATES and cluster.loop.now < began + END_S:
            await asyncio.sleep(0.25)
    blocks = max((block for _, block in origin.asked), default=-1) + 1
    return Outcome(
        told["state"], told["error"], blocks, origin.asked.total(), sum(n > 1 for n in origin.asked.values()),
        dict(origin.by), before, dict(origin.vain), cluster.loop.now - began,
        (told["report"] or {}).get("refetched_bytes") or 0,
        [name for name, receiver in told["receivers"].items() if receiver["state"] == "done"], sorted(origin.opened),
        gone.count, gone.back, cluster.watch.violations,
    )  # fmt: skip


def fetch(size: int, what: str, for_s: float, many: int) -> Outcome:
    with world(1) as (loop, rng):
        network = Network(loop, rng, False)
        origin = Origin({URL: size})
        cluster = Cluster(
            loop, network, spec=f"bcube:{HOSTS},0", managers=1, workers=1, rate_bps=LINK_BPS, mtu=9000,
            agent=partial(Fetcher, origin),
        )  # fmt: skip
        gone = Gone()
        for handler in (gone, Listening(cluster.watch, "-v" in sys.argv)):
            logging.getLogger("datacast.master").addHandler(handler)

        async def scenario() -> Outcome:
            cluster.start()
            try:
                return await loop.launch(Process("people", "people"), _group(cluster, origin, what, for_s, many, gone))
            finally:
                await cluster.stop()

        with installed(cluster):
            return loop.run_until_complete(scenario())


def main(words: list[str]) -> None:
    size, what, for_s, many = words[:4]
    print(json.dumps(asdict(fetch(int(size), what, float(for_s), int(many)))))


if __name__ == "__main__":
    main(sys.argv[1:])
