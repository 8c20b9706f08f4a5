"""Groups that share links, posted together, in simulated time, beside the fluid in which each begins when it did.

It shows what the services lose until all are told their shares, while one ends and the others get what it had, and at
the end of each. Links are not played: until sources are told they send more than links carry, and a group may end
before its fluid.
`PYTHONPATH=tests python -m clockwork.sharing 40 1 2`: forty groups to five of sixteen hosts, with two seeds."""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

from services_kit.plain import PlainClient

from datacast.fabric_manager.api import FINAL_STATES
from datacast.simulation.fluid import flow_of, fluid

from .cluster import Cluster, installed
from .network import Network
from .virtual import Process, world

SPEC = "bcube:4,1"
RATE_BPS = 25_000_000
SIZE = 3 << 20
RECEIVERS = 5


@dataclass
class Sharing:
    """Ratios of the time from the first request to a group's last receiver. `begun`: over the fluid in which each
    begins when it did; `at_once`: over that in which none waits for its turn."""

    done: int
    begun_max: float
    begun_p50: float
    at_once_max: float
    at_once_p50: float
    ended_s: float
    at_once_ended_s: float
    """Both on the average."""
    violations: list[str]


async def _groups(cluster: Cluster, count: int, seed: int) -> tuple[int, list[dict[str, Any]]]:
    names, draw = list(cluster.hosts), random.Random(seed)
    cluster.sizes["/srv/f"] = SIZE
    await asyncio.sleep(1.0)  # all are registered
    began = time.time_ns()
    async with PlainClient(cluster.urls) as client:
        groups = []
        for number in range(count):
            source, *receivers = draw.sample(names, 1 + RECEIVERS)
            spec = {"source": source, "source_path": "/srv/f", "receivers": receivers}
            groups.append((await client.create_group(spec, by="sharing", key=str(number)))["id"])
        records = []
        for group in groups:
            while (told := await client.group(group))["state"] not in FINAL_STATES:
                await asyncio.sleep(0.2)
            records.append(told)
    return began, records


def sharing(count: int, seed: int) -> Sharing:
    with world(seed) as (loop, rng):
        network = Network(loop, rng, False)
        cluster = Cluster(loop, network, spec=SPEC, managers=1, workers=2, rate_bps=RATE_BPS)

        async def scenario() -> tuple[int, list[dict[str, Any]]]:
            cluster.start()
            try:
                return await loop.launch(Process("people", "people"), _groups(cluster, count, seed))
            finally:
                await cluster.stop()

        with installed(cluster):
            began, records = loop.run_until_complete(scenario())
    capacity = {arc: float(RATE_BPS) for u, v in cluster.plane.graph.edges for arc in ((u, v), (v, u))}
    done = [record for record in records if record["state"] == "done"]
    begun, at_once = ({record["id"]: flow_of(record) for record in done} for _ in range(2))
    took = {r["id"]: (max(m["t_done_ns"] for m in r["receivers"].values()) - began) / 1e9 for r in done}
    for record in done:
        order_s = record["report"]["start_ms"]["order"] / 1e3
        begun[record["id"]].begins = max(0.0, (record["created_ns"] - began) / 1e9 + order_s)
    fluid(begun, capacity)
    fluid(at_once, capacity)
    beside, over = ([took[name] / (flow.ends or 1.0) for name, flow in of.items()] for of in (begun, at_once))
    return Sharing(
        len(done), max(beside), statistics.median(beside), max(over), statistics.median(over),
        statistics.mean(took.values()), statistics.mean(flow.ends or 0.0 for flow in at_once.values()),
        cluster.watch.violations,
    )  # fmt: skip


def main(words: list[str]) -> None:
    for seed in map(int, words[1:]):
        print(json.dumps(asdict(sharing(int(words[0]), seed))))


if __name__ == "__main__":
    main(sys.argv[1:])
