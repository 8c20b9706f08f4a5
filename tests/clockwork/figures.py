"""How soon a group goes on after a link has failed, in simulated time: what the control plane waits for and how often
it goes to and fro, without what a busy machine adds. `PYTHONPATH=tests python -m clockwork.figures bcube:4,1 7`."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

import networkx as nx
from services_kit.plain import PlainClient

from datacast.fabric_manager.api import FINAL_STATES

from .cluster import Cluster, installed
from .network import Network
from .virtual import Process, world

RATE_BPS = 100_000_000
SIZE = 50_000_000
FAILS_AFTER_S = 0.5
RECEIVERS = 6


@dataclass
class Figures:
    """Milliseconds after the link failed, and what became of the trees."""

    link: str
    state: str
    trees: int
    left: int
    """Ways without a common link from the source to every receiver when the link is down: networkx's answer."""
    changed: int
    lost: int
    detected_ms: float
    signalled_ms: float
    resumed_ms: float
    all_resumed_ms: float
    finish_s: float
    ideal_s: float
    violations: list[str]


async def _group(cluster: Cluster, number: int) -> Figures:
    """A group of which the link that `number` chooses among those of its trees fails."""
    names = list(cluster.hosts)
    cluster.sizes["/srv/f"] = SIZE
    spec = {"source": names[0], "source_path": "/srv/f", "receivers": names[1 :: max(1, len(names) // RECEIVERS)]}
    await asyncio.sleep(1.0)  # all are registered
    async with PlainClient(cluster.urls) as client:
        group = (await client.create_group(spec, by="figures", key="figures"))["id"]
        while (await client.group(group))["state"] != "running":
            await asyncio.sleep(0.02)
        await asyncio.sleep(FAILS_AFTER_S)
        links = sorted(map(sorted, _links(cluster, group)))
        u, v = links[number % len(links)]
        failed_ns = time.time_ns()  # the machines' clocks are one here
        cluster.set_link(u, v, False)
        while (told := await client.group(group))["state"] not in FINAL_STATES:
            await asyncio.sleep(0.1)
    report = told["report"]
    (first,) = [r for r in report["reactions"] if any(up is False for *_, up in r["links"])]

    def after(key: str) -> float:
        return (first[key] - failed_ns) / 1e6

    graph = nx.Graph(cluster.plane.graph.edges)
    graph.remove_edge(u, v)
    left = min(nx.edge_connectivity(graph, names[0], name) for name in spec["receivers"])
    return Figures(
        f"{u}-{v}", told["state"], len(told["trees"]), left, len(first.get("changed", ())), len(first.get("lost", ())),
        after("received_ns"), after("signalled_ns"), after("resumed_ns"), after("all_resumed_ns"),
        report["finish_s"], report["ideal_s"], cluster.watch.violations,
    )  # fmt: skip


def _links(cluster: Cluster, group: str) -> set[frozenset[str]]:
    """What the group's receivers' routes lead over now."""
    found: set[frozenset[str]] = set()
    for slot in cluster.agents.values():
        role: Any = slot.agent.roles.get(group) if slot.agent else None
        for route in role.routes.values() if role is not None and role.kind == "receiver" else ():
            way = cluster.plane.way(slot.host.name, route)
            found.update(way.links if way else ())
    return found


def figures(spec: str, number: int) -> Figures:
    with world(number) as (loop, rng):
        network = Network(loop, rng, False)
        cluster = Cluster(loop, network, spec=spec, managers=1, workers=1, rate_bps=RATE_BPS)

        async def scenario() -> Figures:
            cluster.start()
            people = Process("people", "people")
            try:
                return await loop.launch(people, _group(cluster, number))
            finally:
                await cluster.stop()

        with installed(cluster):
            return loop.run_until_complete(scenario())


def main(words: list[str]) -> None:
    for number in map(int, words[1:]):
        print(json.dumps(asdict(figures(words[0], number))))


if __name__ == "__main__":
    main(sys.argv[1:])
